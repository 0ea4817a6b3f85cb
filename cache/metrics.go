package cache

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels of daybook_cache_operation_seconds and daybook_cache_errors_total.
const (
	opGet           = "get"
	opPut           = "put"
	opWALCheckpoint = "wal_checkpoint"
)

// metrics of one DB. They exist whether or not a registerer was given.
type metrics struct {
	get, put, walCheckpoint    prometheus.Observer
	getErr, putErr, walErr     prometheus.Counter
	hit, miss                  prometheus.Counter
	records                    prometheus.Counter
	walBusy                    prometheus.Counter
	walFrames, walCheckpointed prometheus.Gauge

	registerer prometheus.Registerer
	registered []prometheus.Collector
}

// operationBuckets go from a Get that finds its pages in memory to one that
// waits for a failing disk.
var operationBuckets = []float64{5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
	1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10}

// newMetrics makes and registers the metrics of a DB whose database is at path.
func newMetrics(r prometheus.Registerer, path string, inForce []pragma, fs string) (*metrics, error) {
	m := &metrics{registerer: r}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "daybook_cache_operation_seconds",
		Help:    "Time of dedup cache operations, waiting for the connection included.",
		Buckets: operationBuckets,
	}, []string{"op"})
	m.get, m.put, m.walCheckpoint = seconds.WithLabelValues(opGet), seconds.WithLabelValues(opPut), seconds.WithLabelValues(opWALCheckpoint)
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_cache_errors_total",
		Help: "Dedup cache operations that failed, cancelled ones excluded.",
	}, []string{"op"})
	m.getErr, m.putErr, m.walErr = failures.WithLabelValues(opGet), failures.WithLabelValues(opPut), failures.WithLabelValues(opWALCheckpoint)
	gets := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "daybook_cache_gets_total",
		Help: "Dedup cache reads by result.",
	}, []string{"result"})
	m.hit, m.miss = gets.WithLabelValues("hit"), gets.WithLabelValues("miss")
	m.records = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "daybook_cache_records_total",
		Help: "Records handed to the dedup cache and committed.",
	})
	m.walBusy = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "daybook_cache_wal_busy_total",
		Help: "WAL checkpoints that a reader kept from finishing.",
	})
	m.walFrames = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "daybook_cache_wal_frames",
		Help: "Frames in the WAL at the last WAL checkpoint.",
	})
	m.walCheckpointed = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "daybook_cache_wal_checkpointed_frames",
		Help: "Of daybook_cache_wal_frames, those written back to the database.",
	})
	setting := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "daybook_cache_pragma",
		Help: "Numeric SQLite settings in force on the dedup cache, as read back.",
	}, []string{"pragma"})
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "daybook_cache_info",
		Help: "1; its labels are the other settings in force on the dedup cache.",
	}, []string{"filesystem", "journal_mode"})
	journal := ""
	for _, p := range inForce {
		if v, err := strconv.ParseFloat(p.value, 64); err == nil {
			setting.WithLabelValues(p.name).Set(v)
		} else if p.name == "journal_mode" {
			journal = p.value
		}
	}
	info.WithLabelValues(fs, journal).Set(1)
	return m, m.register(seconds, failures, gets, m.records, m.walBusy, m.walFrames, m.walCheckpointed, setting, info,
		sizeGauge("daybook_cache_size_bytes", "Size of the dedup cache's database file.", path),
		sizeGauge("daybook_cache_wal_bytes", "Size of the dedup cache's WAL file. It is reused, so it should not grow.", path+"-wal"))
}

// sizeGauge is the size of a file when asked; 0 if it cannot be told.
func sizeGauge(name, help, path string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
		fi, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return float64(fi.Size())
	})
}

func (m *metrics) register(collectors ...prometheus.Collector) error {
	if m.registerer == nil {
		return nil
	}
	for _, c := range collectors {
		if err := m.registerer.Register(c); err != nil {
			m.unregister()
			return err
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
	m.registered = nil
}

// observe notes how long an operation took, and that it failed, if so. Being
// cancelled, or used after Close, is not the cache's failure.
func observe(start time.Time, seconds prometheus.Observer, failures prometheus.Counter, err error) {
	seconds.Observe(time.Since(start).Seconds())
	if err != nil && !isCancelled(err) && !errors.Is(err, ErrClosed) {
		failures.Inc()
	}
}
