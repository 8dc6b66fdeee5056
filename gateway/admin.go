package gateway

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"coldtap/gateway/engine"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig is what the admin plane needs.
type AdminConfig struct {
	Metrics prometheus.Gatherer
	Ready   func() error  // an error: /ready is 503 and says it
	Status  func() string // what /ready says besides, such as how old the metadata is; may be nil
	Health  func() string // what /healthy says besides: trouble that a restart does not end; may be nil
	Hosts   []string      // as Config.Hosts

	Logger     *slog.Logger          // default: discards
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
}

const (
	// adminHeaderTimeout bounds how long a request's header, and then its body, may take.
	adminHeaderTimeout = 5 * time.Second
	// adminIdleTimeout is how long a connection may idle between requests. Prometheus asks each 15 s to 60 s and comes
	// back on a new connection after longer pauses.
	adminIdleTimeout = 90 * time.Second
	// adminStallTimeout is how long a client may take nothing of an answer before its connection is closed. An answer as
	// a whole has no time limit: a profile may take minutes.
	adminStallTimeout = 30 * time.Second
	// maxAdminConnections is how many connections the admin plane has at a time. More are closed at once, or they could
	// take the file descriptors of the data plane.
	maxAdminConnections = 128
)

// Admin is the admin plane: /metrics, /healthy (the process runs), /ready and /debug/pprof/. It belongs on a port of
// its own that only operators reach. Methods may be called concurrently.
type Admin struct {
	http    http.Server
	log     *slog.Logger
	failed  prometheus.Counter
	guard   siteGuard
	handler http.Handler
}

// NewAdmin makes an admin plane. It serves once Serve is called.
func NewAdmin(cfg AdminConfig) *Admin {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	log := cfg.Logger.With("plane", "admin")
	return &Admin{
		http: http.Server{
			ReadHeaderTimeout: adminHeaderTimeout,
			IdleTimeout:       adminIdleTimeout,
			MaxHeaderBytes:    headerLimit,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		log:     log,
		failed:  engine.AcceptErrors(cfg.Registerer, "admin"),
		guard:   newSiteGuard(cfg.Hosts),
		handler: adminRoutes(cfg),
	}
}

func adminRoutes(cfg AdminConfig) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthy", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, stateLine("healthy", cfg.Health))
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := cfg.Ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, stateLine("ready", cfg.Status))
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// stateLine is a state, with details where there are some; say may be nil.
func stateLine(state string, say func() string) string {
	if say != nil {
		if s := say(); s != "" {
			return state + ": " + s + "\n"
		}
	}
	return state + "\n"
}

// Serve answers on one listener until Shutdown; then it returns nil.
func (a *Admin) Serve(ln net.Listener) error {
	loopback := engine.OnLoopback(ln)
	a.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.serve(w, r, loopback)
	})
	err := a.http.Serve(&adminListener{Listener: engine.RetryAccept(ln, a.log, a.failed)})
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}

func (a *Admin) serve(w http.ResponseWriter, r *http.Request, loopback bool) {
	host, from := []byte(r.Host), r.Header
	p := a.guard.refuse(siteRequest{
		loopback: loopback, http10: !r.ProtoAtLeast(1, 1), hosts: [2][]byte{host, host},
		origin: []byte(from.Get("Origin")), site: []byte(from.Get("Sec-Fetch-Site")),
		mode: []byte(from.Get("Sec-Fetch-Mode")), dest: []byte(from.Get("Sec-Fetch-Dest")),
	})
	if p != nil {
		w.Header().Set("Content-Type", formats[formatJSON].mediaType)
		w.WriteHeader(p.status())
		w.Write(p.appendBody(nil, ""))
		return
	}
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(adminHeaderTimeout))
	}
	a.handler.ServeHTTP(w, r)
}

// Shutdown ends the listener, lets running answers finish until ctx ends, and cuts what still runs then: a profile of
// minutes is not waited for, and that is no error.
func (a *Admin) Shutdown(ctx context.Context) error {
	if a.http.Shutdown(ctx) == nil {
		return nil
	}
	a.log.Info("requests that still ran at the end were cut")
	return a.http.Close()
}

// adminListener accepts maxAdminConnections at a time, which are closed when their client takes nothing for
// adminStallTimeout.
type adminListener struct {
	net.Listener
	open atomic.Int64
}

func (l *adminListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxAdminConnections {
			return &adminConn{Conn: conn, listener: l}, nil
		}
		l.open.Add(-1)
		conn.Close()
	}
}

type adminConn struct {
	net.Conn
	listener *adminListener
	closed   atomic.Bool
}

// Write takes a few KiB at a time from net/http, so that the deadline is one for progress.
func (c *adminConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(adminStallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *adminConn) Close() error {
	if !c.closed.Swap(true) {
		c.listener.open.Add(-1)
	}
	return c.Conn.Close()
}
