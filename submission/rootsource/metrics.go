package rootsource

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The ways in which reading a source can go.
const (
	outcomeOK         = "ok"         // it was read, and was not the same as before
	outcomeUnchanged  = "unchanged"  // it is as it was
	outcomeUnreadable = "unreadable" // no such file, no answer in time, an error as an answer
	outcomeUnusable   = "unusable"   // too large, or no list of roots
)

// metrics of a Loader. The label source is one of the configured sources.
type metrics struct {
	reloads *prometheus.CounterVec // source, outcome
	success *prometheus.GaugeVec   // source
	roots   *prometheus.GaugeVec   // source
	skipped *prometheus.GaugeVec   // source
	took    *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	labels := []string{"source"}
	m := &metrics{
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "daybook_roots_reload_total",
			Help: "Times that a source of accepted roots was read, by outcome: ok, unchanged, unreadable, unusable.",
		}, []string{"source", "outcome"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "daybook_roots_last_success_timestamp_seconds",
			Help: "When a source of accepted roots was last read well, changed or not; 0 if never in this process.",
		}, labels),
		roots: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "daybook_roots_listed",
			Help: "Roots that a source listed when it was last read well.",
		}, labels),
		skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "daybook_roots_skipped",
			Help: "Certificates of a source that could not be roots when it was last read well.",
		}, labels),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "daybook_roots_reload_duration_seconds",
			Help:    "Time to read a source of accepted roots.",
			Buckets: []float64{.001, .01, .1, .5, 1, 2, 5, 10, 20, 30, 60},
		}, labels),
	}
	for _, c := range []prometheus.Collector{m.reloads, m.success, m.roots, m.skipped, m.took} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// announce makes the series of a source, so that none of them is absent until
// its first event.
func (m *metrics) announce(s Source) {
	for _, outcome := range []string{outcomeOK, outcomeUnchanged, outcomeUnreadable, outcomeUnusable} {
		m.reloads.WithLabelValues(s.String(), outcome)
	}
	m.success.WithLabelValues(s.String())
	m.roots.WithLabelValues(s.String())
	m.skipped.WithLabelValues(s.String())
	m.took.WithLabelValues(s.String())
}

func (m *metrics) done(r *reading, outcome string, start time.Time) {
	source := r.source.String()
	m.reloads.WithLabelValues(source, outcome).Inc()
	m.took.WithLabelValues(source).Observe(time.Since(start).Seconds())
	if r.err == nil {
		m.success.WithLabelValues(source).SetToCurrentTime()
		m.roots.WithLabelValues(source).Set(float64(len(r.roots)))
	}
}
