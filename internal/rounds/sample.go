package rounds

import (
	"math"
	"os"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// sampler adds to records what the process and its files are like at the end
// of a round. It takes some ten microseconds.
type sampler struct {
	wal, lockWAL fileWatch
	fsyncs       func() int64 // nil if it is not known

	lastFsyncs int64
	lastCycles uint64
	lastUsage  usage

	runtime       [4]metrics.Sample
	pauses, sched histogramWatch
}

// newSampler starts a sampler: the first record covers the time from now on.
func newSampler(walFile, lockWALFile string, fsyncs func() int64) *sampler {
	s := &sampler{wal: fileWatch{path: walFile}, lockWAL: fileWatch{path: lockWALFile}, fsyncs: fsyncs}
	for i, name := range []string{"/gc/cycles/total:gc-cycles", "/memory/classes/heap/objects:bytes",
		"/sched/pauses/total/gc:seconds", "/sched/latencies:seconds"} {
		s.runtime[i].Name = name
	}
	s.sample(new(Record))
	return s
}

func (s *sampler) sample(r *Record) {
	r.WAL.File = s.wal.look()
	r.LockWAL = s.lockWAL.look()
	if s.fsyncs != nil {
		now := s.fsyncs()
		r.Fsyncs, s.lastFsyncs = now-s.lastFsyncs, now
	}
	s.readRuntime(r)
	now := readUsage()
	r.CPU, r.DiskReads, s.lastUsage = Duration(now.cpu-s.lastUsage.cpu), now.diskReads-s.lastUsage.diskReads, now
}

// readRuntime fills in what the Go runtime knows. A metric that this runtime
// does not have stays 0.
func (s *sampler) readRuntime(r *Record) {
	metrics.Read(s.runtime[:])
	if v := s.runtime[0].Value; v.Kind() == metrics.KindUint64 {
		r.GC.Cycles, s.lastCycles = int64(v.Uint64()-s.lastCycles), v.Uint64()
	}
	if v := s.runtime[1].Value; v.Kind() == metrics.KindUint64 {
		r.GC.Heap = int64(v.Uint64())
	}
	r.GC.Pause, _ = s.pauses.next(s.runtime[2].Value)
	_, r.SchedMax = s.sched.next(s.runtime[3].Value)
}

// histogramWatch follows a histogram of the runtime, which counts from the start of
// the process.
type histogramWatch struct{ last []uint64 }

// next returns the sum and the maximum of what came since the call before, both
// as exact as the buckets are.
func (w *histogramWatch) next(v metrics.Value) (sum, most Duration) {
	if v.Kind() != metrics.KindFloat64Histogram {
		return 0, 0
	}
	h := v.Float64Histogram()
	var seconds float64
	if len(w.last) == len(h.Counts) {
		for i, n := range h.Counts {
			if d := n - w.last[i]; d > 0 {
				m := middle(h.Buckets[i], h.Buckets[i+1])
				seconds += float64(d) * m
				most = Duration(m * float64(time.Second))
			}
		}
	}
	w.last = append(w.last[:0], h.Counts...)
	return Duration(seconds * float64(time.Second)), most
}

// middle is what a value in a bucket counts for. The outer buckets are open.
func middle(low, high float64) float64 {
	switch {
	case math.IsInf(low, -1):
		return max(0, high)
	case math.IsInf(high, 1):
		return low
	}
	return (low + high) / 2
}

// fileWatch follows one file.
type fileWatch struct {
	path string // "" is none
	last os.FileInfo
}

// look returns the file as it is, and what happened to it since the last look.
// A file that is not there, or cannot be looked at, is empty.
func (w *fileWatch) look() (f File) {
	if w.path == "" {
		return f
	}
	info, err := os.Stat(w.path)
	if err != nil {
		w.last = nil
		return f
	}
	f.Bytes = info.Size()
	switch {
	case f.Bytes == 0:
		// Whoever writes next has to make it anew, which may be many rounds later.
	case w.last == nil || !os.SameFile(info, w.last) || info.Size() < w.last.Size() || w.last.Size() == 0:
		f.New, f.Grew = true, info.Size()
	default:
		f.Grew = info.Size() - w.last.Size()
	}
	w.last = info
	return f
}

// usage is what the process has used since it began.
type usage struct {
	cpu       time.Duration
	diskReads int64
}

func readUsage() usage {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return usage{} // the system call knows no errors but of its arguments
	}
	return usage{cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano()), diskReads: int64(u.Inblock)}
}
