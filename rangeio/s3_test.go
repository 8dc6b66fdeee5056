package rangeio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// TestS3Acceptance runs with a prefix that needs escaping; the other tests here, and those against versitygw, do
// without one.
func TestS3Acceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return fakes3.New(t).Backend(t, func(c *rangeio.S3Config) { c.Prefix = "x+y z/%2F-" })
	})
}

func put(t *testing.T, b rangeio.Backend, key string, content []byte) rangeio.Info {
	t.Helper()
	info, err := b.Put(t.Context(), key, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// quick is a client that does not wait long between attempts.
func quick(b rangeio.Backend) *rangeio.Client {
	return rangeio.NewClient(b, rangeio.Config{MaxBackoff: time.Millisecond})
}

func TestS3KeysReachTheStoreByteForByte(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Prefix = "x+y z/%2F" })
	const key = "a.b_c-1/0 1%20+.log"
	put(t, b, key, []byte("x"))
	if o := s.Object("x+y z/%2F" + key); o == nil || string(o.Content) != "x" {
		t.Errorf("stored under other names: %+v", s.Requests())
	}
	if err := b.List(t.Context(), "a.b", func(o rangeio.Object) error {
		if o.Key != key {
			t.Errorf("listed as %q", o.Key)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestS3BucketInHostName(t *testing.T) {
	for _, bucket := range []string{"plain-bucket", "my.bucket"} {
		for _, pathStyle := range []bool{true, false} {
			s := fakes3.Start(fakes3.Options{Buckets: []string{bucket}})
			defer s.Close()
			address := strings.TrimPrefix(s.URL(), "http://")
			var hosts []string
			cfg := s.Config()
			cfg.Bucket, cfg.PathStyle, cfg.Endpoint, cfg.Prefix = bucket, pathStyle, "http://"+fakes3.HostBase+":8333", "x+y z/%2F"
			b, err := rangeio.OpenS3Tuned(t.Context(), cfg, rangeio.S3Tuning{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				hosts = append(hosts, addr)
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			put(t, b, "a.b_c-1/o", []byte("x"))
			if _, err := b.Stat(t.Context(), "a.b_c-1/o"); err != nil {
				t.Errorf("%s, path style %v: %v", bucket, pathStyle, err)
			}
			if n := s.Count(fakes3.Key("x+y z/%2Fa.b_c-1/o"), func(r fakes3.Request) bool { return r.Bucket == bucket }); n != 2 {
				t.Errorf("%s, path style %v: requests %+v", bucket, pathStyle, s.Requests())
			}
			if want := !pathStyle && !strings.Contains(bucket, "."); strings.HasPrefix(hosts[len(hosts)-1], bucket) != want && bucket != "my.bucket" {
				t.Errorf("%s, path style %v: dialled %q", bucket, pathStyle, hosts)
			}
		}
	}
}

// TestS3ErrorKinds: not found, forbidden and no bucket are three different things, in every operation, and so is
// everything else.
func TestS3ErrorKinds(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		kind   rangeio.Kind
		head   rangeio.Kind // a HEAD's answer has no code; 0 = same
	}{
		{404, "NoSuchKey", rangeio.NotFound, 0},
		{404, "NoSuchBucket", rangeio.NoBucket, rangeio.NotFound},
		{403, "AccessDenied", rangeio.Forbidden, 0},
		{403, "SignatureDoesNotMatch", rangeio.BadCredentials, rangeio.Forbidden},
		{403, "InvalidAccessKeyId", rangeio.BadCredentials, rangeio.Forbidden},
		{404, "XAdminUserNotFound", rangeio.BadCredentials, rangeio.NotFound},
		{400, "ExpiredToken", rangeio.BadCredentials, rangeio.BadAnswer},
		{403, "InvalidObjectState", rangeio.Archived, rangeio.Forbidden},
		{400, "AuthorizationHeaderMalformed", rangeio.NoBucket, rangeio.BadAnswer},
		{401, "Unauthorized", rangeio.BadCredentials, 0},
		{403, "QuotaExceeded", rangeio.Full, rangeio.Forbidden},
		{507, "XMinioStorageFull", rangeio.Full, 0},
		{503, "SlowDown", rangeio.Throttled, 0},
		{429, "TooManyRequests", rangeio.Throttled, 0},
		{400, "RequestTimeout", rangeio.Unavailable, rangeio.BadAnswer},
		{403, "RequestTimeTooSkewed", rangeio.Unavailable, rangeio.Forbidden},
		{500, "InternalError", rangeio.Unavailable, 0},
		{502, "BadGateway", rangeio.Unavailable, 0},
		{412, "PreconditionFailed", rangeio.Changed, 0},
		{416, "InvalidRange", rangeio.BadRange, 0},
		{301, "PermanentRedirect", rangeio.NoBucket, 0},
		{400, "KeyTooLongError", rangeio.BadKey, rangeio.BadAnswer},
		{400, "InvalidArgument", rangeio.BadAnswer, 0},
		{501, "NotImplemented", rangeio.BadAnswer, 0},
	} {
		t.Run(c.code, func(t *testing.T) {
			s := fakes3.New(t)
			b := s.Backend(t)
			s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get, fakes3.Head, fakes3.Put, fakes3.List), Fault: fakes3.Fault{Status: c.status, Code: c.code}})
			head := c.head
			if head == 0 {
				head = c.kind
			}
			_, _, err := b.Open(t.Context(), "o", 0, 10, "")
			rangeiotest.IsKind(t, err, c.kind)
			_, err = b.Stat(t.Context(), "o")
			rangeiotest.IsKind(t, err, head)
			rangeiotest.IsKind(t, b.List(t.Context(), "", nil), c.kind)
			if c.kind != rangeio.Throttled && c.kind != rangeio.Unavailable { // the SDK waits between its attempts at writing
				_, err = b.Put(t.Context(), "o", strings.NewReader("x"))
				rangeiotest.IsKind(t, err, c.kind)
			}
		})
	}
}

func TestS3WrongBucketIsNotAMissingObject(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Bucket = "elsewhere" })
	_, err := b.Stat(t.Context(), "o")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	_, _, err = b.Open(t.Context(), "o", 0, 1, "")
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	_, err = b.Put(t.Context(), "o", strings.NewReader("x"))
	rangeiotest.IsKind(t, err, rangeio.NoBucket)
	rangeiotest.IsKind(t, b.Delete(t.Context(), "o"), rangeio.NoBucket)
	rangeiotest.IsKind(t, b.List(t.Context(), "", nil), rangeio.NoBucket)
}

func TestS3WebPageIsNotAMissingObject(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	s.Inject(fakes3.Rule{Fault: fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(404)
		io.WriteString(w, "<html><body><br>404 page not found")
	}}})
	_, _, err := b.Open(t.Context(), "o", 0, 1, "")
	rangeiotest.IsKind(t, err, rangeio.BadAnswer)
}

func TestS3DeleteAnsweredWith404(t *testing.T) {
	s := fakes3.New(t)
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Delete), Fault: fakes3.Fault{Status: 404, Code: "NoSuchKey"}})
	b := s.Backend(t)
	for range 2 {
		if err := b.Delete(t.Context(), "o"); err != nil {
			t.Error(err)
		}
	}
}

func TestS3HeadThrottledWithoutBody(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	put(t, b, "o", []byte("x"))
	hits, _ := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Head), Times: 2, Fault: fakes3.Fault{Status: 503}})
	info, err := quick(b).Stat(t.Context(), "o")
	if err != nil || info.Size != 1 || hits() != 2 {
		t.Errorf("%+v, %v after %d refusals", info, err, hits())
	}
}

func TestS3LyingAnswers(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	content := rangeiotest.Bytes(1, 10_000)
	put(t, b, "o", content)
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) { h.Set(name, value) }
	}
	for _, c := range []struct {
		name  string
		fault fakes3.Fault
	}{
		{"range moved by one", fakes3.Fault{Header: set("Content-Range", "bytes 101-200/10000")}},
		{"range too long", fakes3.Fault{Header: set("Content-Range", "bytes 100-300/10000")}},
		{"range too short", fakes3.Fault{Header: set("Content-Range", "bytes 100-150/10000")}},
		{"range without total", fakes3.Fault{Header: set("Content-Range", "bytes 100-199/*")}},
		{"range of nonsense", fakes3.Fault{Header: set("Content-Range", "lines 1-2/3")}},
		{"total that wraps", fakes3.Fault{Header: set("Content-Range", "bytes 100-199/21000000000000000000")}},
		{"total negative", fakes3.Fault{Header: set("Content-Range", "bytes 100-199/-5")}},
		{"length of another range", fakes3.Fault{Header: set("Content-Length", "50")}},
		{"ranges unknown", fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) { w.Write(content) }}},
		{"length that wraps", fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-199/10000\r\nContent-Length: 21000000000000000000\r\n\r\nxxx")
			conn.Close()
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: c.fault})
			defer remove()
			body, info, err := b.Open(t.Context(), "o", 100, 100, "")
			if err == nil {
				body.Close()
				t.Fatalf("believed: %+v", info)
			}
			rangeiotest.IsKind(t, err, rangeio.BadAnswer)
			s.Reset()
			_, _, err = quick(b).ReadRange(t.Context(), "o", make([]byte, 100), 100, "", -1)
			rangeiotest.IsKind(t, err, rangeio.BadAnswer)
			if n := s.GETs(); n != 2 {
				t.Errorf("%d GETs, nonsense is worth one retry", n)
			}
		})
	}
	// A part with an empty header is not taken for the whole object.
	_, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Header: set("Content-Range", "")}})
	if body, info, err := b.Open(t.Context(), "o", 0, 100, ""); err == nil {
		body.Close()
		t.Errorf("believed: %+v", info)
	} else {
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	}
	remove()
	// A store that knows no ranges still serves an object from its start.
	_, remove = s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content)
	}}})
	defer remove()
	got := make([]byte, 100)
	if _, _, err := quick(b).ReadRange(t.Context(), "o", got, 0, "", 10_000); err != nil || !bytes.Equal(got, content[:100]) {
		t.Errorf("%v", err)
	}
}

func TestS3IgnoredIfMatchIsNoticed(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	put(t, b, "o", rangeiotest.Bytes(1, 1000))
	old := s.Object("o")
	info := put(t, b, "o", rangeiotest.Bytes(2, 1000))
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Serve: old, Deaf: true}})
	_, cost, err := quick(b).ReadRange(t.Context(), "o", make([]byte, 10), 0, info.ETag, 1000)
	rangeiotest.IsKind(t, err, rangeio.Changed)
	if cost.Requests != 1 {
		t.Errorf("%d requests, a changed object stays changed", cost.Requests)
	}
}

func TestS3DripFedBodies(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	content := rangeiotest.Bytes(1, 20_000)
	put(t, b, "o", content)
	for _, piece := range []int{1, 7, 1460} {
		_, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Piece: piece}})
		got := make([]byte, 9_000)
		_, cost, err := quick(b).ReadRange(t.Context(), "o", got, 777, "", int64(len(content)))
		remove()
		if err != nil || !bytes.Equal(got, content[777:9777]) || cost.Requests != 1 || cost.Bytes != 9000 {
			t.Errorf("pieces of %d: %+v, %v", piece, cost, err)
		}
	}
}

// TestS3ResetInTheMiddle: a 4 MiB read whose connection is reset twice succeeds, at the price of the lost bytes only.
func TestS3ResetInTheMiddle(t *testing.T) {
	for _, reset := range []bool{true, false} {
		s := fakes3.New(t)
		b := s.Backend(t)
		content := rangeiotest.Bytes(1, 6<<20)
		put(t, b, "o", content)
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Times: 2, Fault: fakes3.Fault{CutAfter: 64 << 10, Reset: reset}})
		s.Reset()
		got := make([]byte, 4<<20)
		_, cost, err := quick(b).ReadRange(t.Context(), "o", got, 1<<20, "", -1)
		if err != nil || !bytes.Equal(got, content[1<<20:5<<20]) {
			t.Fatalf("reset %v: %v", reset, err)
		}
		if sent := s.Sent(fakes3.Op(fakes3.Get)); sent >= 2*int64(len(got)) || cost.Bytes != int64(len(got)) || cost.Requests != 3 {
			t.Errorf("reset %v: %d bytes sent, cost %+v", reset, sent, cost)
		}
		for i, r := range s.Requests() {
			if (i > 0) != (r.IfMatch != "") {
				t.Errorf("request %d: %+v; what continues a body is bound to its version", i, r)
			}
		}
		if !reset {
			if r := s.Requests()[1].Range; r != fmt.Sprintf("bytes=%d-%d", 1<<20+64<<10, 5<<20-1) {
				t.Errorf("resumed with %s", r)
			}
		}
	}
}

func TestS3ObjectReplacedDuringARead(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	put(t, b, "o", rangeiotest.Bytes(1, 1<<20))
	resumed, replaced := make(chan struct{}), make(chan struct{})
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Times: 1, Fault: fakes3.Fault{CutAfter: 64 << 10}})
	s.Inject(fakes3.Rule{Times: 1, Match: func(r fakes3.Request) bool {
		if r.Op == fakes3.Get {
			close(resumed)
		}
		return r.Op == fakes3.Get
	}, Fault: fakes3.Fault{Block: replaced}})
	go func() {
		defer close(replaced)
		<-resumed
		if _, err := b.Put(context.Background(), "o", bytes.NewReader(rangeiotest.Bytes(2, 1<<19))); err != nil {
			t.Error(err)
		}
	}()
	_, _, err := quick(b).ReadRange(t.Context(), "o", make([]byte, 1<<20), 0, "", -1)
	rangeiotest.IsKind(t, err, rangeio.Changed)
}

// TestS3SlowDown: during an outage reads fail after a bounded number of attempts; after it, all succeed without
// anything to reset.
func TestS3SlowDown(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	content := rangeiotest.Bytes(1, 100_000)
	put(t, b, "o", content)
	c := quick(b)
	_, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Status: 503, Code: "SlowDown"}})
	s.Reset()
	read := func() chan error {
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() {
				_, cost, err := c.ReadRange(t.Context(), "o", make([]byte, 1000), 0, "", -1)
				if err != nil && (cost.Requests != 3 || cost.Throttled != 3) {
					t.Errorf("cost %+v", cost)
				}
				errs <- err
			}()
		}
		return errs
	}
	// More rounds than the SDK's quota of retry tokens would last.
	for range 5 {
		errs := read()
		for range cap(errs) {
			rangeiotest.IsKind(t, <-errs, rangeio.Throttled)
		}
	}
	if n := s.GETs(); n != 5*64*3 {
		t.Errorf("%d GETs", n)
	}
	remove()
	errs := read()
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// expiring gives credentials that the store will call expired, then good ones.
type expiring struct{ calls int }

func (e *expiring) Retrieve(context.Context) (aws.Credentials, error) {
	e.calls++
	return aws.Credentials{AccessKeyID: fmt.Sprint("key", e.calls), SecretAccessKey: "secret", CanExpire: true, Expires: time.Now().Add(time.Hour)}, nil
}

func TestS3ExpiredTokenIsRenewedOnce(t *testing.T) {
	s := fakes3.New(t)
	source := &expiring{}
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Credentials = source })
	put(t, b, "o", []byte("content"))
	hits, remove := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Times: 1, Fault: fakes3.Fault{Status: 400, Code: "ExpiredToken"}})
	got := make([]byte, 7)
	c := rangeio.NewClient(b, rangeio.Config{Attempts: 1})
	if _, _, err := c.ReadRange(t.Context(), "o", got, 0, "", -1); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	if hits() != 1 || source.calls != 2 {
		t.Errorf("%d answers of expiry, %d retrievals", hits(), source.calls)
	}
	remove()
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Status: 400, Code: "ExpiredToken"}})
	_, _, err := c.ReadRange(t.Context(), "o", got, 0, "", -1)
	rangeiotest.IsKind(t, err, rangeio.BadCredentials)
}

type noCredentials struct{ err error }

func (n noCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, n.err
}

func TestS3WithoutCredentials(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Credentials = noCredentials{errors.New("the chain is empty")} })
	_, err := quick(b).Stat(t.Context(), "o")
	rangeiotest.IsKind(t, err, rangeio.BadCredentials)
	if !strings.Contains(err.Error(), "the chain is empty") || len(s.Requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(s.Requests()))
	}
}

func TestS3Config(t *testing.T) {
	good := fakes3.New(t).Config()
	for _, change := range []func(*rangeio.S3Config){
		func(c *rangeio.S3Config) { c.Bucket = "" },
		func(c *rangeio.S3Config) { c.Endpoint = "localhost:7070" },
		func(c *rangeio.S3Config) { c.Endpoint = "ftp://host" },
		func(c *rangeio.S3Config) { c.Checksums = "sometimes" },
	} {
		c := good
		change(&c)
		if _, err := rangeio.OpenS3(t.Context(), c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

// TestS3DeadAddress: pooled connections lead to an address that takes requests and never answers, while the name has
// moved on. Without dropping the pool, each retry would take the next dead connection.
func TestS3DeadAddress(t *testing.T) {
	s := fakes3.New(t)
	dead := make(chan struct{})
	defer close(dead)
	first, cfg := true, s.Config()
	cfg.Endpoint = "http://" + fakes3.HostBase
	b, err := rangeio.OpenS3Tuned(t.Context(), cfg, rangeio.S3Tuning{
		Header: 100 * time.Millisecond,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(s.URL(), "http://"))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put(t, b, "o", rangeiotest.Bytes(1, 1000))
	// Fill the pool.
	var bodies []io.ReadCloser
	for range 12 {
		body, _, err := b.Open(t.Context(), "o", 0, 1000, "")
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	for _, body := range bodies {
		io.Copy(io.Discard, body)
		body.Close()
	}
	_, before := s.Connections()
	// From now on the old connections are dead: the first request hangs, and would do so on every one of them.
	s.Inject(fakes3.Rule{Match: func(fakes3.Request) bool { ok := first; first = false; return ok }, Fault: fakes3.Fault{Block: dead}})
	if _, _, err := quick(b).ReadRange(t.Context(), "o", make([]byte, 1000), 0, "", -1); err != nil {
		t.Fatal(err)
	}
	if _, after := s.Connections(); after == before {
		t.Error("the retry used an old connection")
	}
}

func TestS3UnreadBodiesAreCutOff(t *testing.T) {
	const size = 24 << 20 // more than the kernel's buffers take
	s := fakes3.Start(fakes3.Options{})
	b := s.Backend(t)
	put(t, b, "o", rangeiotest.Bytes(1, size))
	ctx, cancel := context.WithCancel(t.Context())
	body, _, err := b.Open(ctx, "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	body.Close()
	s.Close() // waits for the answer to end, and its bytes to be counted
	if sent := s.Sent(fakes3.Op(fakes3.Get)); sent < 1000 || sent > 2*size/3 {
		t.Errorf("%d bytes were sent of a body of which 1,000 were wanted", sent)
	}
}

// TestS3FailingReadsLeakNothing: hundreds of reads that fail in every way leave no connection behind.
func TestS3FailingReadsLeakNothing(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	content := rangeiotest.Bytes(1, 300_000)
	put(t, b, "o", content)
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Share: .3, Fault: fakes3.Fault{CutAfter: 1000}})
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Share: .3, Fault: fakes3.Fault{Header: func(h http.Header) { h.Del("Content-Range") }}})
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Share: .3, Fault: fakes3.Fault{Status: 503}})
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Share: .3, Fault: fakes3.Fault{Drop: true}})
	c := quick(b)
	fine := 0
	for i := range 400 {
		got := make([]byte, 5000)
		off := int64(i * 700)
		_, _, err := c.ReadRange(t.Context(), "o", got, off, "", int64(len(content)+i%2)) // every second one expects another size
		if err == nil {
			fine++
			if !bytes.Equal(got, content[off:off+5000]) {
				t.Fatal("wrong bytes")
			}
		}
	}
	if open, _ := s.Connections(); open > 4 {
		t.Errorf("%d connections are open after serial reads", open)
	}
	if fine == 0 {
		t.Error("nothing succeeded")
	}
}

func TestS3ListLiesAreNoticed(t *testing.T) {
	page := func(entries, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s%s</ListBucketResult>`, entries, more)
		}
	}
	const entry = "<Contents><Key>%s</Key><Size>%s</Size></Contents>"
	for name, h := range map[string]http.HandlerFunc{
		"order":            page(fmt.Sprintf(entry+entry, "p/b", "1", "p/a", "1"), ""),
		"foreign prefix":   page(fmt.Sprintf(entry, "q/b", "1"), ""),
		"negative size":    page(fmt.Sprintf(entry, "p/b", "-1"), ""),
		"no token":         page("", "<IsTruncated>true</IsTruncated>"),
		"token that stays": page("", "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"),
	} {
		s := fakes3.New(t)
		b := s.Backend(t)
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.List), Fault: fakes3.Fault{Handler: h}})
		err := b.List(t.Context(), "p/", func(rangeio.Object) error { return nil })
		if err == nil {
			t.Errorf("%s: believed", name)
			continue
		}
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	}
}

func TestS3ListGoesOnAfterAFailure(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	var want []string
	for i := range 1100 {
		want = append(want, fmt.Sprintf("k%04d", i))
		put(t, b, want[i], nil)
	}
	hits, _ := s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.List), Skip: 1, Times: 1, Fault: fakes3.Fault{Status: 500}})
	var got []string
	if err := quick(b).List(t.Context(), "k", func(o rangeio.Object) error { got = append(got, o.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) || hits() != 1 {
		t.Errorf("%d of %d keys", len(got), len(want))
	}
}
