package obs

import (
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminOptions are what the operator's listener shows.
type AdminOptions struct {
	Build    Build
	Registry *prometheus.Registry
	Logs     func() []LogState // asked at each request of /health; safe for concurrent use
}

// NewAdmin returns the handler of the operator's listener: /metrics, /health
// and /debug/pprof/. It has no access control.
func NewAdmin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}))
	mux.Handle("GET /health", healthHandler(o.Logs))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, o.Build.String()+"\n\n/health\n/metrics\n/debug/pprof/\n")
	})
	return mux
}
