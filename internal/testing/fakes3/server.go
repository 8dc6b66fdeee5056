package fakes3

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	sdkcredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"coldtap/rangeio"
)

// Bucket is there from the start.
const Bucket = "tier"

// HostBase is the name below which the server understands buckets as host names, "tier.s3.test". Who uses it brings the
// dialer that leads there.
const HostBase = "s3.test"

// Server is the fake. Its methods may be called concurrently.
type Server struct {
	http    *httptest.Server
	objects *s3mem.Backend
	inner   http.Handler
	gone    chan struct{}

	mu struct {
		sync.Mutex
		log    []*Request
		rules  []*rule
		random *rand.Rand
		conns  map[net.Conn]struct{}
		dials  int
	}
}

// Options of a server. The zero value is fine.
type Options struct {
	Seed    uint64   // of Rule.Share
	Buckets []string // beside Bucket
}

// Start runs a server until Close, for load generators; tests use New.
func Start(o Options) *Server {
	s := &Server{objects: s3mem.New(), gone: make(chan struct{})}
	s.mu.random = rand.New(rand.NewPCG(o.Seed, 1))
	s.mu.conns = map[net.Conn]struct{}{}
	for _, b := range append([]string{Bucket}, o.Buckets...) {
		if err := s.objects.CreateBucket(b); err != nil {
			panic("fakes3: " + err.Error()) // the same bucket twice
		}
	}
	s.inner = gofakes3.New(s.objects, gofakes3.WithTimeSkewLimit(0), gofakes3.WithoutVersioning()).Server()
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.mu.conns[c] = struct{}{}
			s.mu.dials++
		case http.StateClosed, http.StateHijacked:
			delete(s.mu.conns, c)
		}
	}
	s.http.Start()
	return s
}

// New runs a server for the length of a test.
func New(t testing.TB) *Server {
	s := Start(Options{})
	t.Cleanup(s.Close)
	return s
}

// Close ends hanging answers and the server.
func (s *Server) Close() {
	close(s.gone)
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the endpoint.
func (s *Server) URL() string { return s.http.URL }

// Config reaches the server's Bucket.
func (s *Server) Config() rangeio.S3Config {
	return rangeio.S3Config{
		Bucket: Bucket, Region: "us-east-1", Endpoint: s.URL(), PathStyle: true, Connections: 16,
		Credentials: sdkcredentials.NewStaticCredentialsProvider("key", "secret", ""),
	}
}

// Backend opens the store on this server, closed with the test. change may alter the configuration.
func (s *Server) Backend(t testing.TB, change ...func(*rangeio.S3Config)) rangeio.Backend {
	t.Helper()
	cfg := s.Config()
	for _, f := range change {
		f(&cfg)
	}
	b, err := rangeio.OpenS3(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Inject adds a rule. hits tells how many requests have met its fault; remove takes it out.
func (s *Server) Inject(r Rule) (hits func() int, remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &rule{Rule: r}
	s.mu.rules = append(s.mu.rules, added)
	hits = func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return added.hits
	}
	remove = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.rules = slices.DeleteFunc(s.mu.rules, func(x *rule) bool { return x == added })
	}
	return hits, remove
}

// Requests is the log, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := make([]Request, len(s.mu.log))
	for i, r := range s.mu.log {
		log[i] = *r
	}
	return log
}

// Count says how many requests all of ms match.
func (s *Server) Count(ms ...Match) int {
	n := 0
	for _, r := range s.Requests() {
		if All(ms...)(r) {
			n++
		}
	}
	return n
}

// GETs counts reads of objects.
func (s *Server) GETs(ms ...Match) int { return s.Count(append(ms, Op(Get))...) }

// Sent adds up the body bytes of the answers that all of ms match.
func (s *Server) Sent(ms ...Match) int64 {
	var n int64
	for _, r := range s.Requests() {
		if All(ms...)(r) {
			n += r.Bytes
		}
	}
	return n
}

// Reset empties the log.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log = nil
}

// Connections says how many are open now, and how many were opened in all.
func (s *Server) Connections() (open, dialed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns), s.mu.dials
}

// Object gives what is stored under a key of Bucket, nil when nothing is: to be damaged and put back, or served later
// as a stale version.
func (s *Server) Object(key string) *Object {
	o, err := s.objects.GetObject(Bucket, key, nil)
	if err != nil {
		return nil
	}
	defer o.Contents.Close()
	content, err := io.ReadAll(o.Contents)
	if err != nil {
		return nil
	}
	return &Object{Content: content, ETag: gofakes3.FormatETag(o.Hash)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = inPathStyle(r)
	entry, fault := s.admit(parse(r))
	out := &bodyWriter{ResponseWriter: w, r: r, fault: fault, gone: s.gone}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		entry.Status, entry.Bytes = out.status, out.sent
	}()
	s.answer(out, r, fault)
}

// inPathStyle moves a bucket in the host name to the path.
func inPathStyle(r *http.Request) *http.Request {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	bucket, ok := strings.CutSuffix(host, "."+HostBase)
	if !ok {
		return r
	}
	c := r.Clone(r.Context())
	c.URL.Path = "/" + bucket + r.URL.Path
	c.URL.RawPath = ""
	return c
}

func (s *Server) answer(out *bodyWriter, r *http.Request, fault Fault) {
	if fault.Block != nil {
		select {
		case <-fault.Block:
		case <-r.Context().Done():
		case <-s.gone:
		}
	}
	wait(r, s.gone, fault.Delay)
	if fault.After {
		s.inner.ServeHTTP(httptest.NewRecorder(), r)
	}
	if fault.Eat > 0 {
		io.CopyN(io.Discard, r.Body, fault.Eat)
	}
	switch {
	case fault.Handler != nil:
		fault.Handler(out, r)
	case fault.Drop:
		breakConnection(out.ResponseWriter, fault.Reset)
	case fault.Status != 0:
		out.status = fault.Status
		refuse(out.ResponseWriter, r, fault.Status, fault.Code)
	case fault.RefuseChecksums && carriesChecksum(r.Header):
		out.status = http.StatusBadRequest
		refuse(out.ResponseWriter, r, out.status, "InvalidRequest")
	case fault.Serve != nil:
		serveObject(out, withoutIfMatch(r), fault.Serve)
	default:
		s.inner.ServeHTTP(out, r)
	}
}

// withoutIfMatch leaves the condition to bodyWriter, which knows Deaf.
func withoutIfMatch(r *http.Request) *http.Request {
	c := r.Clone(r.Context())
	c.Header.Del("If-Match")
	return c
}

// admit logs a request and finds its fault.
func (s *Server) admit(req Request) (entry *Request, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry = &req
	s.mu.log = append(s.mu.log, entry)
	for _, r := range s.mu.rules {
		if r.Match != nil && !r.Match(req) {
			continue
		}
		r.seen++
		if r.seen <= r.Skip || (r.Times > 0 && r.seen > r.Skip+r.Times) || (r.Share > 0 && s.mu.random.Float64() >= r.Share) {
			continue
		}
		r.hits++
		fault = r.Fault
		break
	}
	return entry, fault
}
