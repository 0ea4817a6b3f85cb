// Package tune measures what a host does to a log: fsync, signatures, the dedup
// cache, whole rounds. From that follows how many entries a round can take.
//
// Everything is written to temporary directories of its own, which are removed
// in the end. The files of a log are not touched; of its cache the size is
// looked at.
package tune

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
)

// Options say where and for which log to measure. All fields but those marked
// optional are required.
type Options struct {
	// The directories that the log's files stand in, or others on the same
	// file systems. They must exist.
	StorageDir, LockDir, CacheDir string
	// CacheFile is the log's dedup cache, from whose size the size of the caches
	// to measure follows. It need not exist. Optional.
	CacheFile string
	PageCache int64 // bytes for each connection of the cache
	Interval  time.Duration
	PoolSize  int // 0 is no limit

	// Time is about how long it takes all in all; 0 is DefaultTime.
	Time time.Duration
	// Progress is told how far a phase is, often. Optional.
	Progress func(phase string, percent int, more string)
}

// DefaultTime is how long a measurement takes if nothing else is asked for. The
// percentiles of rounds need some hundred of them.
const DefaultTime = 45 * time.Second

// The parts of the time that the phases get, in percent.
const (
	shareDisk   = 8
	shareCPU    = 8
	shareCache  = 36
	shareRounds = 48
)

// Timing sums up how long an operation took. JSON has seconds.
type Timing struct {
	Count int             `json:"count"`
	P50   rounds.Duration `json:"p50_seconds"`
	P99   rounds.Duration `json:"p99_seconds"`
	Max   rounds.Duration `json:"max_seconds"`
}

func timing(d []time.Duration) Timing {
	if len(d) == 0 {
		return Timing{}
	}
	d = slices.Sorted(slices.Values(d))
	at := func(percent int) rounds.Duration { return rounds.Duration(d[max(0, (len(d)*percent+99)/100-1)]) }
	return Timing{Count: len(d), P50: at(50), P99: at(99), Max: at(100)}
}

// Result is what was measured, and what follows.
type Result struct {
	Cores    int             `json:"cores"`
	Interval rounds.Duration `json:"interval_seconds"`
	PoolSize int             `json:"pool_size"`

	Disks  []Disk  `json:"disks"`
	CPU    CPU     `json:"cpu"`
	Caches []Cache `json:"caches"`
	Rounds Rounds  `json:"rounds"`
	Advice Advice  `json:"advice"`
}

// Run measures. It returns early, with an error, when ctx is done. Temporary
// directories are removed in any case; if that fails, the error says so.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if o.Interval <= 0 || o.PoolSize < 0 || o.PageCache <= 0 || o.StorageDir == "" || o.LockDir == "" || o.CacheDir == "" {
		return nil, errors.New("tune: directories, page cache and interval are required")
	}
	if o.Time == 0 {
		o.Time = DefaultTime
	}
	if o.Progress == nil {
		o.Progress = func(string, int, string) {}
	}
	p, err := makePlaces(&o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.remove()) }()
	m, err := newMaterial()
	if err != nil {
		return nil, err
	}
	t := &tuner{o: o, places: p, material: m}
	r := &Result{Cores: runtime.GOMAXPROCS(0), Interval: rounds.Duration(o.Interval), PoolSize: o.PoolSize}
	if r.Disks, err = t.disks(ctx); err != nil {
		return nil, fmt.Errorf("measuring the disk: %w", err)
	}
	if r.CPU, err = t.cpu(ctx); err != nil {
		return nil, fmt.Errorf("measuring signatures and requests: %w", err)
	}
	if r.Caches, err = t.caches(ctx); err != nil {
		return nil, fmt.Errorf("measuring the dedup cache: %w", err)
	}
	if r.Rounds, err = t.rounds(ctx); err != nil {
		return nil, fmt.Errorf("measuring rounds: %w", err)
	}
	r.Advice = advise(r)
	return r, nil
}

type tuner struct {
	o        Options
	places   *places
	material *material
	cache    string // the file of the cache at its present size, for the rounds
}

// phase is a stretch of time in which something is measured over and over.
type phase struct {
	t     *tuner
	name  string
	began time.Time
	time  time.Duration
}

// phase starts a phase, which gets so many percent of the time.
func (t *tuner) phase(name string, percent float64) *phase {
	return &phase{t: t, name: name, began: time.Now(), time: time.Duration(percent / 100 * float64(t.o.Time))}
}

// left returns whether there is time left, and shows how much has passed. An
// error is that of ctx.
func (p *phase) left(ctx context.Context, more string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	passed := time.Since(p.began)
	p.t.o.Progress(p.name, int(100*min(passed, p.time)/max(1, p.time)), more)
	return passed < p.time, nil
}

// measure repeats f for the time of the phase, at least three times.
func (p *phase) measure(ctx context.Context, f func() error) (Timing, error) {
	var took []time.Duration
	for {
		more, err := p.left(ctx, "")
		if err != nil || !more && len(took) >= 3 {
			return timing(took), err
		}
		start := time.Now()
		if err := f(); err != nil {
			return Timing{}, err
		}
		took = append(took, time.Since(start))
	}
}
