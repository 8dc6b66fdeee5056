package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// pools are the connections of a store that is spoken to over HTTP. Reads and writes have their own: their patience
// differs, and an upload must not take the readers' connections.
type pools struct{ reads, writes *http.Transport }

func newPools(connections int) pools {
	if connections <= 0 {
		connections = defaultConnections
	}
	return pools{
		reads:  newTransport(readTuning(connections)),
		writes: newTransport(writeTuning(max(connections/2, 2*uploadParallel))),
	}
}

func (p pools) closeIdle() {
	p.reads.CloseIdleConnections()
	p.writes.CloseIdleConnections()
}

// call runs one request; classify gives the kind of its error, and what is shown of it. Where connections are
// suspected, all that are pooled go: they probably lead to the same dead address.
func (p pools) call(ctx context.Context, op, key string, f func() error, classify func(context.Context, error) (Kind, error)) *Error {
	err := f()
	if err == nil {
		return nil
	}
	if suspectsConnections(ctx, err) {
		p.closeIdle() // without them the next attempt resolves and dials anew
	}
	e := &Error{Op: op, Key: key}
	e.Kind, e.Err = classify(ctx, err)
	return e
}

// httpClient follows no redirects, since credentials are for one host, and bounds every answer that is read whole.
func httpClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     boundedBodies{RoundTripper: rt},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// checkEndpoint refuses what is no http or https URL. It never quotes a query, which may hold a secret.
func checkEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil, (u.Scheme != "http" && u.Scheme != "https"), u.Host == "":
		return nil, errors.New("endpoint is not an http or https URL")
	case u.RawQuery != "", u.Fragment != "", u.User != nil:
		return nil, errors.New("endpoint has more than a host and a path")
	}
	return u, nil
}

// objectName gives the object's full key for an operation's key.
func objectName(prefix, op, key string) (string, *Error) {
	full := prefix + key
	err := checkKey(key)
	if err == nil {
		err = checkKey(full)
	}
	if err != nil {
		return "", &Error{Kind: BadKey, Op: op, Key: key, Err: err}
	}
	return full, nil
}

// checkRange says whether [off, off+n) can be asked for at all; n = -1 is the whole object.
func checkRange(key string, off, n int64) *Error {
	if n >= 0 && (off < 0 || n == 0 || off > off+n-1) {
		return &Error{Kind: BadRange, Op: opGet, Key: key, Err: fmt.Errorf("%d bytes at %d", n, off)}
	}
	return nil
}

// rangeAnswer is what the headers of an answer to a GET claim.
type rangeAnswer struct {
	contentRange  *string // nil = the whole object, which an empty header does not promise
	contentLength int64   // -1 = not said
}

// check compares the claims with the question. It gives the size of the whole object and the number of body bytes to
// expect.
func (a rangeAnswer) check(off, n int64) (size, length int64, err error) {
	if a.contentRange == nil {
		switch {
		case a.contentLength < 0:
			return 0, 0, errors.New("answer without a length")
		case n < 0:
			return a.contentLength, a.contentLength, nil
		case off == 0: // a store that knows no ranges still serves an object from its start
			return a.contentLength, min(n, a.contentLength), nil
		}
		return 0, 0, fmt.Errorf("asked for %d bytes at %d, got the whole object", n, off)
	}
	r, err := parseContentRange(*a.contentRange)
	if err != nil {
		return 0, 0, err
	}
	first, last := off, r.total-1
	if n < 0 {
		first = 0
	} else if n <= r.total-off {
		last = off + n - 1
	}
	if r.first != first || r.last != last {
		return 0, 0, fmt.Errorf("asked for bytes %d-%d, got %d-%d of %d", first, last, r.first, r.last, r.total)
	}
	length = last - first + 1
	if a.contentLength >= 0 && a.contentLength != length {
		return 0, 0, fmt.Errorf("content-length %d for a range of %d bytes", a.contentLength, length)
	}
	return r.total, length, nil
}

// rangeBody is an answer's body, limited to the range.
type rangeBody struct {
	io.Reader
	body io.Closer
	pool *http.Transport
	ctx  context.Context
}

func newRangeBody(ctx context.Context, body io.ReadCloser, length int64, pool *http.Transport) io.ReadCloser {
	return &rangeBody{Reader: io.LimitReader(body, length), body: body, pool: pool, ctx: ctx}
}

func (b *rangeBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF && suspectsConnections(b.ctx, err) {
		b.pool.CloseIdleConnections()
	}
	return n, err
}

func (b *rangeBody) Close() error { return b.body.Close() }

// maxRefusal bounds what is kept of a store's own words; the rest of an error page is of no use.
const maxRefusal = 300

// refusal is an answer with an error status. It stands in for the vendors' own error values, whose texts hold whole
// answers, and URLs whose query may be a credential.
type refusal struct {
	status        int
	code, message string // the store's; either may be ""
}

func (r refusal) Error() string {
	s := fmt.Sprint("status ", r.status)
	if r.code != "" {
		s += " " + r.code
	}
	if m := strings.TrimSpace(r.message); m != "" {
		s += fmt.Sprintf(": %.*s", maxRefusal, m)
	}
	return s
}

// withoutURL takes an error of net/http out of the wrapping that quotes the request's URL.
func withoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// statusKind classifies by the HTTP status alone.
func statusKind(status int) Kind {
	switch {
	case status == http.StatusNotFound:
		return NotFound
	case status == http.StatusUnauthorized:
		return BadCredentials
	case status == http.StatusForbidden:
		return Forbidden
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return Changed
	case status == http.StatusRequestedRangeNotSatisfiable:
		return BadRange
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return Throttled
	case status == http.StatusInsufficientStorage:
		return Full
	case status == http.StatusNotImplemented:
		return BadAnswer
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		return Unavailable
	}
	return BadAnswer
}

// listOrder holds the entries of a listing against what was asked: below the prefix, in byte order, no negative sizes.
type listOrder struct {
	prefix, last string // prefix of the full names asked for; last name seen
}

func (l *listOrder) check(name string, size int64) error {
	if !strings.HasPrefix(name, l.prefix) || size < 0 {
		return fmt.Errorf("entry %.80q of %d bytes below prefix %q", name, size, l.prefix)
	}
	if name <= l.last && l.last != "" {
		return fmt.Errorf("entry %.80q after %.80q", name, l.last)
	}
	l.last = name
	return nil
}
