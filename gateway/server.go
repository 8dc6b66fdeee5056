package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"coldtap/fetch"
	"coldtap/gateway/engine"
	"coldtap/internal/budget"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// Config is what the data plane needs. Zero durations and sizes take the defaults given.
type Config struct {
	Service *fetch.Service
	// MaxResponseBytes is the largest max_bytes that a request for a JSON or v2 answer may give; default 256 MiB. What is
	// sent while it is read (raw, ndjson, events) is not bounded by it.
	MaxResponseBytes int64
	// LookAhead is how many bytes of raw batches may be pinned before the status line to learn the answer's length;
	// default 8 MiB, two chunks of the usual size.
	LookAhead int64
	// Decode bounds the memory of JSON answers and ndjson buffers; default a budget of its own of 256 MiB.
	Decode *budget.Budget
	// StallTimeout is how long a client may take nothing before it is cut; default 30 s. One that took something in
	// the meantime is cut between one and two of it.
	StallTimeout time.Duration
	// ReadTimeout is how long a request's header may take from its first byte, or from the connection's start;
	// default 10 s. IdleTimeout is how long a connection may idle between requests; default 60 s.
	ReadTimeout, IdleTimeout time.Duration
	// Hosts are the names that a listener on a loopback address answers to, besides localhost and IP literals.
	Hosts []string
	// GetPrice is what the store charges for 1,000 GETs, TransferPrice what it charges for a GiB read from it, in
	// whatever currency; plans (explain) estimate costs by them. Both 0: not known.
	GetPrice, TransferPrice float64
	// Concurrency is the most connections served at a time; default DefaultConcurrency. Above it they get 503 and are
	// closed.
	Concurrency int

	Logger     *slog.Logger          // default: discards
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

// DefaultConcurrency is the default of Config.Concurrency.
const DefaultConcurrency = 16 << 10

const (
	// headerLimit is the most that request line and header fields may take together; above it 431.
	headerLimit = 16 << 10
	// requestBodyLimit bounds the bodies of GETs, which are never read, and of methods that are refused.
	requestBodyLimit = 4 << 10
	// minJSONShare keeps JSON useful with a small decode budget.
	minJSONShare = 1 << 20
)

// Server is the data plane. All methods may be called concurrently.
type Server struct {
	engine    *engine.Server
	service   service
	log       *slog.Logger
	metrics   *metrics
	decode    *budget.Budget
	guard     siteGuard
	prices    prices
	lookAhead int64
	jsonShare int // bytes at which a JSON answer stops, once its first batch is whole: an eighth of the budget
	maxBytes  atomic.Int64

	connections int
}

// New makes a data plane. It serves once Serve is called.
func New(cfg Config) *Server {
	return newServer(cfg, fetchService{cfg.Service})
}

func newServer(cfg Config, service service) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Decode == nil {
		cfg.Decode = budget.NewWithReserve(256<<20, 8<<20)
	}
	s := &Server{
		service:     service,
		log:         cfg.Logger,
		metrics:     newMetrics(cfg.Registerer),
		decode:      cfg.Decode,
		guard:       newSiteGuard(cfg.Hosts),
		prices:      prices{cfg.GetPrice, cfg.TransferPrice},
		lookAhead:   orDefault(cfg.LookAhead, 8<<20),
		jsonShare:   int(min(max(cfg.Decode.Size()/8, minJSONShare), cfg.Decode.Size())),
		connections: orDefault(cfg.Concurrency, DefaultConcurrency),
	}
	s.engine = engine.New(engine.Config{
		Handle:      s.handle,
		Malformed:   s.malformed,
		Expect:      s.expect,
		Busy:        s.busy,
		Decode:      s.decode,
		ReadTimeout: orDefault(cfg.ReadTimeout, 10*time.Second),
		IdleTimeout: orDefault(cfg.IdleTimeout, 60*time.Second),
		// As SetLimits has it from now on.
		StallTimeout: orDefault(cfg.StallTimeout, defaultStallTimeout),
		Connections:  s.connections,
		HeaderLimit:  headerLimit,
		BodyLimit:    requestBodyLimit,
		Logger:       s.log,
		Registerer:   cfg.Registerer,
	})
	s.SetLimits(cfg.MaxResponseBytes, cfg.StallTimeout)
	return s
}

const defaultStallTimeout = 30 * time.Second

// SetLimits changes Config.MaxResponseBytes and Config.StallTimeout for requests and writes to come; zero values take
// the defaults.
func (s *Server) SetLimits(maxResponseBytes int64, stallTimeout time.Duration) {
	s.maxBytes.Store(orDefault(maxResponseBytes, 256<<20))
	s.engine.SetStallTimeout(orDefault(stallTimeout, defaultStallTimeout))
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Serve answers on a listener until Shutdown; then it returns nil. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error { return s.engine.Serve(ln) }

// Ready says why the data plane should get no requests now: it is draining, or the metadata is not ready.
func (s *Server) Ready() error {
	if s.engine.Draining() {
		return errors.New("draining")
	}
	return s.service.Ready()
}

// Shutdown drains: readiness turns first, no connection is accepted any more, idle ones are closed, running answers
// finish until ctx ends, and what still runs then is cut. It gives an error when something had to be cut. A second call
// waits for the first and gives its result.
func (s *Server) Shutdown(ctx context.Context) error { return s.engine.Shutdown(ctx) }

// CutLongestStalled makes a client's answer let go of chunks that others wait for: answers that hold some and wait for
// more go out as they are, and if there are none, the client that has been blocked in a write the longest is cut.
// false: no answer has held any for long. It is meant for cache.Config.Pressure, which asks again while loads wait.
func (s *Server) CutLongestStalled() bool { return s.engine.Relieve(engine.Chunks) }

// expect answers Expect: 100-continue: no body is ever wanted.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	p := newProblem(codeExpectation, "no request takes a body")
	s.refuse(ctx, p, ctx.Request.Header.Peek("X-Request-Id"))
	return p.status()
}

// malformed answers what fasthttp could not parse. The connection is closed after it.
func (s *Server) malformed(ctx *fasthttp.RequestCtx, err error) {
	p := newProblem(codeBadParameter, "the request is malformed")
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	switch {
	case errors.As(err, &small):
		p = newProblem(codeHeaderSize, "request line and header fields are larger than %d bytes", headerLimit)
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = newProblem(codeBodyTooLarge, "the request's body is larger than %d bytes", requestBodyLimit)
	case errors.As(err, &netErr) && netErr.Timeout():
		p = newProblem(codeRequestTime, "the request did not arrive in time")
	}
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(p.status())
	s.refuse(ctx, p, nil)
}

// refuse answers a request that never becomes an exchange.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, p *problem, requestID []byte) {
	h := &ctx.Response.Header
	h.SetContentType(formats[formatJSON].mediaType)
	h.SetBytesV("X-Request-Id", appendRequestID(nil, requestID))
	ctx.Response.SetBodyRaw(p.appendBody(nil, ""))
	s.metrics.observe(routeOther, p.status(), 0, 0)
}

// busy is the answer above the bound of connections.
func (s *Server) busy(head bool) []byte {
	p := newProblem(codeBusy, "all %d connections are in use; try again", s.connections)
	p.retryAfter = time.Second
	body := p.appendBody(nil, "")
	answer := fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: %s\r\nRetry-After: %d\r\n"+
		"X-Request-Id: %s\r\nContent-Length: %d\r\n\r\n",
		formats[formatJSON].mediaType, p.retrySeconds(), appendRequestID(nil, nil), len(body))
	if head {
		body = nil
	}
	s.metrics.observe(routeOther, p.status(), 0, int64(len(body)))
	return append(answer, body...)
}
