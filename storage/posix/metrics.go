package posix

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
)

// metrics of a store. They are kept also when nobody gathers them.
type metrics struct {
	registerer prometheus.Registerer // may be nil
	operations *prometheus.HistogramVec
	fsyncs     prometheus.Counter
	syncErrors prometheus.Counter
	synced     atomic.Int64 // the same number, to be read
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		registerer: r,
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "daybook_storage_operation_seconds",
			Help: "Duration of operations on the storage directory, by operation and kind of object (mixed if an operation is on several).",
			// From a read out of the page cache to a disk that hangs.
			Buckets: []float64{.00002, .0001, .0005, .001, .002, .004, .008, .016, .032, .064, .125, .25, .5, 1, 2, 5, 10, 30},
		}, []string{"op", "kind"}),
		fsyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "daybook_storage_fsyncs_total",
			Help: "fsync calls on files and directories of the storage directory.",
		}),
		syncErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "daybook_storage_fsync_errors_total",
			Help: "fsync calls there that failed, of which the first ends all writing.",
		}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.operations, m.fsyncs, m.syncErrors}
}

func (m *metrics) register() error {
	if m.registerer == nil {
		return nil
	}
	for _, c := range m.collectors() {
		if err := m.registerer.Register(c); err != nil {
			m.registerer = nil // not ours to unregister
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) unregister() {
	if m.registerer == nil {
		return
	}
	for _, c := range m.collectors() {
		m.registerer.Unregister(c)
	}
}

// counting wraps a file layer to count its fsyncs.
func (m *metrics) counting(fsys durable.FS) durable.FS {
	return durable.Hook(fsys, durable.Hooks{After: func(c durable.Call, err error) {
		if c.Op == durable.OpSync || c.Op == durable.OpSyncDir {
			m.fsyncs.Inc()
			m.synced.Add(1)
			// A folder that is not there yet need not be synced.
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				m.syncErrors.Inc()
			}
		}
	}})
}

// Fsyncs returns how often the store has called fsync, on files and
// directories, since it was opened.
func (s *Store) Fsyncs() int64 { return s.metrics.synced.Load() }

// observe starts the clock of an operation; the returned function stops it.
func (m *metrics) observe(op, kind string) (stop func()) {
	start := time.Now()
	return func() { m.operations.WithLabelValues(op, kind).Observe(time.Since(start).Seconds()) }
}

// kindOf is the label of an operation on n names.
func kindOf(n int, name func(i int) string) string {
	if n == 0 {
		return "none"
	}
	kind := storage.KindOf(name(0))
	for i := 1; i < n; i++ {
		if storage.KindOf(name(i)) != kind {
			return "mixed"
		}
	}
	return kind.String()
}
