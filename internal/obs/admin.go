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
	Logs     func() []LogState // asked at each request of /health and /ready; safe for concurrent use
	// Pages are further pages, which the first page lists.
	Pages []Page
	// Notes are lines for the first page: what the operator should know before
	// anything else. Optional; asked at each request, and safe for concurrent use.
	Notes func() []string
}

// Page is a page of the operator's listener. Its path begins with a slash.
type Page struct {
	Path    string
	Handler http.Handler
}

// NewAdmin returns the handler of the operator's listener: /metrics, /health,
// /ready, /debug/pprof/ and the further pages. It has no access control.
func NewAdmin(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{Registry: o.Registry}))
	mux.Handle("GET /health", healthHandler(o.Logs, false))
	mux.Handle("GET /ready", healthHandler(o.Logs, true))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, p := range o.Pages {
		mux.Handle("GET "+p.Path, p.Handler)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, o.first()) // a client that is gone needs no answer
	})
	return mux
}

// first is the text of the first page.
func (o *AdminOptions) first() string {
	s := o.Build.String() + "\n\n"
	if o.Notes != nil {
		for _, line := range o.Notes() {
			s += line + "\n"
		}
		s += "\n"
	}
	s += "/health\n/ready\n/metrics\n"
	for _, p := range o.Pages {
		s += p.Path + "\n"
	}
	return s + "/debug/pprof/\n"
}
