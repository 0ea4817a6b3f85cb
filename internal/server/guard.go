package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/posix"
)

// guardInterval is the time between two looks at the free space. The floor must
// have room for the rounds of such a time.
const guardInterval = time.Second

// supply is how much room a file system has, from a log's point of view.
type supply int

const (
	ample supply = iota
	scant        // below the warning
	spent        // below the floor: no entries are taken
)

// floors are the bounds of a guard. 0 is no bound.
type floors struct {
	bytes, warnBytes int64
	inodes           int64 // the warning comes at twice as many
}

// judge returns the supply of a file system whose supply was before. What was
// low must rise a tenth above the bound, so that a log at the bound does not
// open and close with each file that somebody makes.
func (f floors) judge(before supply, free posix.Free) supply {
	below := func(have, bound int64, was bool) bool {
		if was {
			bound += bound / 10
		}
		return bound > 0 && have < bound
	}
	inodes := f.inodes
	if free.TotalInodes == 0 { // they are made as they are needed
		inodes = 0
	}
	switch {
	case below(free.Bytes, f.bytes, before == spent), below(free.Inodes, inodes, before == spent):
		return spent
	case below(free.Bytes, f.warnBytes, before >= scant), below(free.Inodes, 2*inodes, before >= scant):
		return scant
	}
	return ample
}

// guard watches the file systems that a log writes to, and stops intake before
// one of them is full: a round that cannot be written is worse than entries
// that are refused. Only check uses what changes.
type guard struct {
	floors  floors
	volumes []volume
	log     *slog.Logger
	block   func(reason error)
	unblock func()
	free    func(dir string) (posix.Free, error)
	blocked bool

	bytes, inodes, low *prometheus.GaugeVec // by what
	failures           prometheus.Counter
}

// volume is one file system, with what of the log is on it.
type volume struct {
	what    []string // storage, cache, lock
	dir     string
	supply  supply
	unknown bool // it could not be asked the last time
}

func (v *volume) names() string { return strings.Join(v.what, ", ") }

// newGuard returns the guard of a log, nil if it is to have none.
func newGuard(o LogOptions, log *slog.Logger, l *sequencer.Log, metrics prometheus.Registerer) (*guard, error) {
	f := floors{o.MinFree, o.WarnFree, o.MinFreeInodes}
	if f == (floors{}) {
		return nil, nil
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"what"})
	}
	g := &guard{floors: f, log: log, block: l.Block, unblock: l.Unblock, free: posix.FreeSpace,
		volumes: volumes([]string{"storage", "cache", "lock"}, []string{o.StorageDirectory, directoryOf(o.CachePath), directoryOf(o.LockPath)}),
		bytes:   gauge("daybook_storage_free_bytes", "Free space on the file system of the log's storage, cache or lock."),
		inodes:  gauge("daybook_storage_free_inodes", "Free inodes there; 0 where the file system makes them as they are needed."),
		low: gauge("daybook_storage_low", "Whether that is low: 0 no, 1 below warn_free (or twice min_free_inodes), "+
			"2 below min_free or min_free_inodes, so that no entries are taken."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_storage_free_failures_total",
			Help: "Times that a file system could not be asked for its free space."}),
	}
	for _, c := range []prometheus.Collector{g.bytes, g.inodes, g.low, g.failures} {
		if err := metrics.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return g, nil
}

// directoryOf returns the directory that a file is in, behind symbolic links.
func directoryOf(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return filepath.Dir(path)
}

// volumes puts together what is on one file system, which is told once.
func volumes(what, dirs []string) []volume {
	var list []volume
	byDevice := map[uint64]int{}
	for i, dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				device := uint64(st.Dev)
				if at, ok := byDevice[device]; ok {
					list[at].what = append(list[at].what, what[i])
					continue
				}
				byDevice[device] = len(list)
			}
		}
		list = append(list, volume{what: []string{what[i]}, dir: dir})
	}
	return list
}

// check looks at all file systems once, and blocks or unblocks the log.
func (g *guard) check() {
	var reasons []string
	for i := range g.volumes {
		v := &g.volumes[i]
		g.look(v)
		if v.supply == spent {
			reasons = append(reasons, v.names()+" ("+v.dir+")")
		}
	}
	switch {
	case len(reasons) > 0 && !g.blocked:
		g.blocked = true
		g.block(fmt.Errorf("%w: too little is free for %s", sequencer.ErrStorage, strings.Join(reasons, "; ")))
	case len(reasons) == 0 && g.blocked:
		g.blocked = false
		g.unblock()
	}
}

// look asks one file system. If it cannot be asked, what was known of it holds.
func (g *guard) look(v *volume) {
	free, err := g.free(v.dir)
	if err != nil {
		g.failures.Inc()
		if !v.unknown {
			g.log.Error("the free space is not known; what was known of it holds", "what", v.names(), "directory", v.dir, "cause", err)
		}
		v.unknown = true
		return
	}
	v.unknown = false
	before := v.supply
	v.supply = g.floors.judge(before, free)
	for _, what := range v.what {
		g.bytes.WithLabelValues(what).Set(float64(free.Bytes))
		g.inodes.WithLabelValues(what).Set(float64(free.Inodes))
		g.low.WithLabelValues(what).Set(float64(v.supply))
	}
	if v.supply == before {
		return
	}
	attrs := []any{"what", v.names(), "directory", v.dir, "free_bytes", free.Bytes, "free_inodes", free.Inodes,
		"min_free", g.floors.bytes, "warn_free", g.floors.warnBytes, "min_free_inodes", g.floors.inodes}
	switch v.supply {
	case spent:
		g.log.Error("storage is low: entries are refused until space is free again; checkpoints go on", attrs...)
	case scant:
		if before == spent {
			g.log.Warn("storage is enough to take entries again, but still short", attrs...)
		} else {
			g.log.Warn("storage runs short: free some space, or entries will be refused", attrs...)
		}
	case ample:
		g.log.Info("storage is ample again", attrs...)
	}
}

// watch checks all logs each second until ctx is done.
func watch(ctx context.Context, guards []*guard) {
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, g := range guards {
			g.check()
		}
	}
}

// runKeepers starts what looks after the storage of the logs.
func (s *Server) runKeepers(ctx context.Context) {
	var guards []*guard
	for _, l := range s.logs {
		if l.guard != nil {
			guards = append(guards, l.guard)
		}
		if l.scrub != nil {
			s.running.Go(func() error { l.scrub.Run(ctx); return nil })
		}
	}
	if len(guards) > 0 {
		s.running.Go(func() error { watch(ctx, guards); return nil })
	}
}
