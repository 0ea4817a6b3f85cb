package obs

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says which program runs.
type Build struct {
	Version  string // of the module, "(devel)" if it was not built as a release
	Revision string // commit, "" if not known
	Modified bool   // built from a tree with changes on top of Revision
	Time     string // of the commit, RFC 3339, "" if not known
	Go       string // version of Go
	Platform string // like linux/amd64
}

// ReadBuild returns what the running binary says about itself.
func ReadBuild() Build {
	b := Build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// String returns the build in one line.
func (b Build) String() string {
	s := "daybook " + b.Version
	if b.Revision != "" {
		s += " (commit " + b.Revision
		if b.Time != "" {
			s += " of " + b.Time
		}
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return fmt.Sprintf("%s, %s, %s", s, b.Go, b.Platform)
}

// NewRegistry returns a registry with the metrics of the process, of the Go
// runtime, and daybook_build_info.
func NewRegistry(b Build) (*prometheus.Registry, error) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "daybook_build_info",
		Help: "Always 1; the labels say which program runs.",
		ConstLabels: prometheus.Labels{
			"version": b.Version, "revision": b.Revision, "modified": fmt.Sprint(b.Modified), "go": b.Go, "platform": b.Platform,
		},
	})
	info.Set(1)
	r := prometheus.NewRegistry()
	return r, errors.Join(
		r.Register(info),
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}
