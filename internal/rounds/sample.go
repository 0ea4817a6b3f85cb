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
	runtime    [3]metrics.Sample
	lastCycles uint64
	lastPauses []uint64 // counts of the histogram's buckets
	lastUsage  usage
}

// The samples of package runtime/metrics, in the order of sampler.runtime.
const (
	gcCycles = "/gc/cycles/total:gc-cycles"
	gcPauses = "/sched/pauses/total/gc:seconds"
	heapSize = "/memory/classes/heap/objects:bytes"
)

// newSampler starts a sampler: the first record covers the time from now on.
func newSampler(walFile, lockWALFile string, fsyncs func() int64) *sampler {
	s := &sampler{wal: fileWatch{path: walFile}, lockWAL: fileWatch{path: lockWALFile}, fsyncs: fsyncs}
	for i, name := range []string{gcCycles, gcPauses, heapSize} {
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
	metrics.Read(s.runtime[:])
	r.GC = s.gc()
	now := readUsage()
	r.CPU, r.DiskReads, s.lastUsage = Duration(now.cpu-s.lastUsage.cpu), now.diskReads-s.lastUsage.diskReads, now
}

func (s *sampler) gc() (g GC) {
	if v := s.runtime[0].Value; v.Kind() == metrics.KindUint64 {
		g.Cycles, s.lastCycles = int64(v.Uint64()-s.lastCycles), v.Uint64()
	}
	if v := s.runtime[1].Value; v.Kind() == metrics.KindFloat64Histogram {
		h := v.Float64Histogram()
		var seconds float64
		if len(s.lastPauses) == len(h.Counts) {
			for i, n := range h.Counts {
				seconds += float64(n-s.lastPauses[i]) * middle(h.Buckets[i], h.Buckets[i+1])
			}
		}
		s.lastPauses = append(s.lastPauses[:0], h.Counts...)
		g.Pause = Duration(seconds * float64(time.Second))
	}
	if v := s.runtime[2].Value; v.Kind() == metrics.KindUint64 {
		g.Heap = int64(v.Uint64())
	}
	return g
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
	case w.last == nil || !os.SameFile(info, w.last) || info.Size() < w.last.Size():
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
