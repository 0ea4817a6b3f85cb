package rounds

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/sequencer"
)

// Options of a Recorder. The zero value keeps records in memory.
type Options struct {
	Log      string        // name of the log
	Interval time.Duration // between its rounds
	PoolSize int           // 0 is no limit

	// Path is the file of the records, "" for none. There are two: an older one
	// with ".1" at the end of its name. MaxSize bounds both together, in bytes;
	// it is at least MinFileSize.
	Path    string
	MaxSize int64

	// Files to watch: the WAL of the dedup cache and of the lock. Optional.
	WALFile, LockWALFile string
	// Fsyncs returns how often the storage has called fsync so far. Optional.
	Fsyncs func() int64

	Logger  *slog.Logger          // optional
	Metrics prometheus.Registerer // optional; the metrics stay until Close
}

// Recorder keeps the records of one log. Record is for the log's Run alone; all
// other methods are safe for concurrent use.
type Recorder struct {
	o       Options
	sampler *sampler
	memory  *memory
	disk    *disk // nil if there is none

	capacity atomic.Pointer[Capacity]

	registered []prometheus.Collector
	stop       chan struct{}
	running    sync.WaitGroup // ended by stop and by the end of the disk's queue
	once       sync.Once
}

// judgeEvery is how often the capacity is looked at, and sayEvery how often the
// log is told that it does not fit.
const (
	judgeEvery = 10 * time.Second
	sayEvery   = time.Hour
)

// NewRecorder returns a recorder. A file that cannot be written is no error: it
// is tried again later.
func NewRecorder(o Options) (*Recorder, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Path != "" && o.MaxSize < MinFileSize {
		return nil, fmt.Errorf("the file of round records may have %d bytes; it needs %d", o.MaxSize, MinFileSize)
	}
	r := &Recorder{o: o, sampler: newSampler(o.WALFile, o.LockWALFile, o.Fsyncs), memory: newMemory(o.Interval), stop: make(chan struct{})}
	r.capacity.Store(new(Capacity))
	collectors := []prometheus.Collector{capacityCollector{r}}
	if o.Path != "" {
		r.disk = newDisk(o.Path, o.MaxSize, o.Logger)
		collectors = append(collectors, r.disk.failed, r.disk.lost)
	}
	if err := r.register(collectors); err != nil {
		return nil, err
	}
	r.running.Go(r.judge)
	if r.disk != nil {
		r.running.Go(r.disk.run)
	}
	return r, nil
}

func (r *Recorder) register(collectors []prometheus.Collector) error {
	if r.o.Metrics == nil {
		return nil
	}
	for _, c := range collectors {
		if err := r.o.Metrics.Register(c); err != nil {
			r.unregister()
			return fmt.Errorf("registering metrics of round records: %w", err)
		}
		r.registered = append(r.registered, c)
	}
	return nil
}

func (r *Recorder) unregister() {
	for _, c := range r.registered {
		r.o.Metrics.Unregister(c)
	}
	r.registered = nil
}

// Record takes the record of a round. It does not wait for the disk.
func (r *Recorder) Record(rr sequencer.RoundRecord) {
	rec := FromSequencer(r.o.Log, &rr)
	r.sampler.sample(&rec)
	r.memory.add(rec)
	if r.disk != nil {
		r.disk.add(rec)
	}
}

// Log returns the name of the log.
func (r *Recorder) Log() string { return r.o.Log }

// Recent returns the records in memory of rounds that began at since or later,
// the oldest first: of the last hour at most.
func (r *Recorder) Recent(since time.Time) []Record {
	if hour := time.Now().Add(-memoryAge); since.Before(hour) {
		since = hour
	}
	return r.memory.since(since)
}

// Capacity returns what the rounds of the last hour say about a full pool. It
// is at most some ten seconds old.
func (r *Recorder) Capacity() Capacity { return *r.capacity.Load() }

// judge keeps the capacity up to date, and speaks up when it does not fit.
func (r *Recorder) judge() {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			c := Judge(r.memory.points(now.Add(-memoryAge)), r.o.PoolSize, r.o.Interval)
			r.capacity.Store(&c)
			if c.Known && !c.Fits && (said.IsZero() || now.Sub(said) >= sayEvery) {
				said = now
				r.o.Logger.Warn("a full pool does not fit the interval: submitters will wait, and ticks will be skipped", c.attrs()...)
			}
		}
	}
}

// Close writes what is queued and ends the recorder's goroutines. Record must
// not be called any more. Closing again does nothing.
func (r *Recorder) Close() error {
	r.once.Do(func() {
		close(r.stop)
		if r.disk != nil {
			close(r.disk.queue)
		}
		r.running.Wait()
		r.unregister()
	})
	return nil
}
