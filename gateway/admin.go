package gateway

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewAdmin makes the admin plane: /metrics, /healthy (the process runs), /ready (503 with the reason while ready gives
// an error; else what status says besides, such as how old the metadata is) and /debug/pprof/. It belongs on a port of its
// own that only operators reach. status may be nil.
func NewAdmin(metrics prometheus.Gatherer, ready func() error, status func() string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthy", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "healthy\n")
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		body := "ready\n"
		if status != nil {
			if s := status(); s != "" {
				body = "ready: " + s + "\n"
			}
		}
		io.WriteString(w, body)
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
