package submission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// durationBuckets fit what lies between a refusal and a lost patience: 5 ms to
// 5 s, closest where an SCT should come, within one or two intervals.
var durationBuckets = []float64{.005, .01, .025, .05, .1, .15, .2, .25, .3, .4, .5, .75, 1, 1.5, 2, 3, 5}

// validationBuckets reach from a refusal by name to a chain of RSA-8192.
var validationBuckets = []float64{.00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .025, .05, .1, .25}

// metrics of one handler. The label endpoint is one of the endpoint names or
// "other", and outcome one of the table of answers or "ok", so that no client
// decides how many series there are.
type metrics struct {
	requests   *prometheus.CounterVec   // endpoint, outcome
	durations  *prometheus.HistogramVec // endpoint
	inFlight   prometheus.Gauge
	validation prometheus.Histogram
	slotWait   prometheus.Histogram
	issuerHit  prometheus.Counter
	issuerMiss prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, roots *Roots) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "daybook_submission_requests_total",
			Help: "Submission requests by endpoint and outcome.",
		}, []string{"endpoint", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "daybook_submission_request_duration_seconds",
			Help:    "Time from the request's headers to the end of its answer, by endpoint.",
			Buckets: durationBuckets,
		}, []string{"endpoint"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "daybook_submission_in_flight_requests",
			Help: "Submission requests being handled.",
		}),
		validation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "daybook_submission_validation_duration_seconds",
			Help:    "Time to decode a request, validate its chain and build the entry, without waiting.",
			Buckets: validationBuckets,
		}),
		slotWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "daybook_submission_validation_wait_seconds",
			Help:    "Time that a request waited for its turn to be validated.",
			Buckets: append([]float64{.0001, .001}, durationBuckets...),
		}),
	}
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_submission_issuer_lookups_total",
		Help: "Certificates above the leaf in submitted chains, by whether they were remembered (hit) or had to be parsed (miss).",
	}, []string{"result"})
	accepted := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "daybook_submission_accepted_roots",
		Help: "Root certificates that the log accepts.",
	}, func() float64 { return float64(roots.Len()) })
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.inFlight, m.validation, m.slotWait, lookups, accepted} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.issuerHit, m.issuerMiss = lookups.WithLabelValues("hit"), lookups.WithLabelValues("miss")
	// A series that is absent until its first event hides that event from
	// rate(), so all submission outcomes start at zero.
	for _, e := range endpoints {
		m.durations.WithLabelValues(e.name)
		m.requests.WithLabelValues(e.name, outcomeOK)
		if e.method == "POST" {
			for _, a := range answers {
				m.requests.WithLabelValues(e.name, a.label)
			}
		}
	}
	return m, nil
}

func (m *metrics) lookup(hit bool) {
	if hit {
		m.issuerHit.Inc()
	} else {
		m.issuerMiss.Inc()
	}
}

func (m *metrics) done(endpoint, outcome string, start time.Time) {
	m.requests.WithLabelValues(endpoint, outcome).Inc()
	m.durations.WithLabelValues(endpoint).Observe(time.Since(start).Seconds())
}
