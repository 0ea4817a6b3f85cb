package readpath

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/storage"
)

type metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "daybook_read_requests_total",
			Help: "Requests to the monitoring prefix, by kind of object (invalid: no name of a public object) and class of status.",
		}, []string{"kind", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "daybook_read_sent_bytes_total",
			Help: "Bytes of bodies sent from the monitoring prefix, by kind of object.",
		}, []string{"kind"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "daybook_read_duration_seconds",
			Help:    "Time from a read request to the end of its answer, by kind of object.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"kind"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "daybook_read_in_flight",
			Help: "Read requests being answered.",
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.bytes, m.duration, m.inFlight} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("registering read metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(kind storage.Kind, rec *recorder, start time.Time) {
	m.requests.WithLabelValues(kind.String(), strconv.Itoa(rec.status/100)+"xx").Inc()
	m.bytes.WithLabelValues(kind.String()).Add(float64(rec.sent))
	m.duration.WithLabelValues(kind.String()).Observe(time.Since(start).Seconds())
}

// recorder notes the status and the length of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	sent   int64
	// whole is the length of an encoded body, which net/http does not state
	// by itself.
	whole int64
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	if status == http.StatusOK && r.whole > 0 {
		r.Header().Set("Content-Length", strconv.FormatInt(r.whole, 10))
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	r.sent += int64(n)
	return n, err
}

// ReadFrom lets net/http send a file without copying it.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(r.ResponseWriter, src)
	r.sent += n
	return n, err
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
