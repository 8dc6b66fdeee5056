package rangeio

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Bounds of answers that a vendor's library reads whole. The bytes of an object are not among them: what Open gives is
// cut at the range that was asked for.
const (
	// maxAnswer bounds an answer that succeeded. A page of 1,000 names of 1,024 bytes fits, each escaped sixfold, and with
	// Azure's metadata.
	maxAnswer = 16 << 20
	// maxErrorPage bounds an answer with an error status. The rest of it is not read.
	maxErrorPage = 64 << 10
	// answerTime is for the body of an answer that succeeded: S3 sends blanks while it joins the parts of an upload.
	answerTime = 2 * time.Minute
	// errorPageTime is for the body of an error.
	errorPageTime = 10 * time.Second
)

// errLongAnswer is what reading an answer beyond its bound ends with.
var errLongAnswer = errors.New("the answer does not end")

// payloadKey marks the context of a request for an object's bytes.
type payloadKey struct{}

// withPayload says that the caller itself limits what it reads of the answer, if that succeeds.
func withPayload(ctx context.Context) context.Context {
	return context.WithValue(ctx, payloadKey{}, true)
}

// boundedBodies bounds, in bytes and in time, every body that is not marked as payload.
type boundedBodies struct {
	http.RoundTripper
	all bool // there is no payload; a library that asks for credentials passes the mark of the request that they are for
}

// tokenClient speaks to services that give credentials.
func tokenClient() *http.Client {
	return &http.Client{Transport: boundedBodies{http.DefaultTransport, true}}
}

func (t boundedBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	if err != nil || res.Body == nil || res.Body == http.NoBody {
		return res, err
	}
	switch {
	case res.StatusCode >= 300:
		res.Body = newBoundedBody(res.Body, maxErrorPage, io.EOF, errorPageTime)
	case t.all || req.Context().Value(payloadKey{}) == nil:
		res.Body = newBoundedBody(res.Body, maxAnswer, errLongAnswer, answerTime)
	}
	return res, nil
}

// boundedBody ends a body after so many bytes with an error of its own, and cuts it off when its time is over.
type boundedBody struct {
	body  io.ReadCloser
	left  int64
	end   error
	timer *time.Timer
}

func newBoundedBody(body io.ReadCloser, bytes int64, end error, limit time.Duration) *boundedBody {
	return &boundedBody{body: body, left: bytes, end: end, timer: time.AfterFunc(limit, func() { body.Close() })}
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.end
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	b.timer.Stop()
	return b.body.Close()
}

// boundedDial gives connections that bring at most maxAnswer bytes: to services that give credentials, whose answers
// are a few KiB and are read whole.
func boundedDial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &shortConn{Conn: conn, left: maxAnswer}, nil
	}
}

type shortConn struct {
	net.Conn
	left int64
}

func (c *shortConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
