package sequencer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// Config is what a log is made of. All fields but those marked optional are
// required.
type Config struct {
	// Interval between rounds.
	Interval time.Duration
	// PoolSize is how many entries a round takes; 0 is no limit.
	PoolSize int
	// DuplicateRate is how many low-priority duplicates per second one
	// submitter gets answers for; 0 is no limit. Up to ten seconds' worth may
	// come at once.
	DuplicateRate float64
	// DuplicateExempt are networks to whose submitters DuplicateRate does not
	// apply. Fairness has no exemptions. Optional.
	DuplicateExempt []netip.Prefix
	// RememberEvery is how long the keys of published rounds may wait for their
	// cache put, so that the rounds of that time share one; 0 is a put with every
	// round. Until then memory answers for them (S6), and the staging bundles
	// of those rounds stay, from which a new process learns them. A drain leaves
	// nothing waiting. Optional.
	RememberEvery time.Duration
	// Sunset is when the log became or becomes read-only; zero is never.
	// Optional.
	Sunset time.Time

	// Public fetches the checkpoint that the monitoring prefix shows to the
	// public. A log refuses to open if that is not from its own history. An
	// error means that it could not be fetched; after some tries that is only
	// logged, and daybook_public_checkpoint_compared stays 0. Optional.
	Public func(context.Context) ([]byte, error)
	// Room returns nil if the store has room for so many more bytes and files.
	// It is asked before a round is staged, and must not be slow. Optional.
	Room func(bytes, files int64) error
	// Names returns the JSON of the names-tiles extension for an entry, as
	// [tlog.NewX509Entry] takes it. It is asked only when a log without names
	// tiles is taken over. Optional: without it those lines have no names.
	Names func(*tlog.Entry) []byte

	Signer *checkpoint.Signer
	Store  storage.Store
	Lock   storage.Lock
	Cache  storage.Cache

	Logger  *slog.Logger          // optional
	Metrics prometheus.Registerer // optional
	// Record is told about each round, by the goroutine in Run, before the next
	// one can begin: it must not block. Optional.
	Record func(RoundRecord)

	wall func() time.Time // what rounds take the time from: wallClock but in tests

	// hook, in tests, is called before and after each step of a round. An
	// error from it is the step's error; the step is not run if it comes before.
	hook func(s Step, after bool) error
}

func (c *Config) validate() error {
	switch {
	case c.Interval <= 0:
		return errors.New("interval must be positive")
	case c.PoolSize < 0:
		return errors.New("pool size must not be negative")
	case c.Signer == nil || c.Store == nil || c.Lock == nil || c.Cache == nil:
		return errors.New("signer, store, lock and cache are required")
	}
	if c.Names == nil {
		c.Names = func(*tlog.Entry) []byte { return nil }
	}
	if c.wall == nil {
		c.wall = wallClock
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return nil
}

// Log is one log: the only writer of its lock and store. Submit, Add and Status
// may be called by any number of goroutines; Run by one, once.
type Log struct {
	c       Config
	log     *slog.Logger
	metrics *metrics

	turnstile *turnstile
	limiter   *limiter // guarded by turnstile
	exempt    exemptions

	// pool takes admissions; inFlight is the closed pool of the round under
	// way, until its tickets are resolved; unremembered holds the keys of published
	// rounds until they are in the cache. Together with the cache they
	// answer for every key that was ever admitted and not refused (S6). All
	// are guarded by turnstile. The open pool changes only with poolMu held as
	// well, so that Preflight can look at it while the turnstile is busy; poolMu
	// is never held while anything can block.
	poolMu       sync.Mutex
	pool         *pool
	inFlight     *pool
	unremembered map[tlog.Key]tlog.Position
	closed       error // why intake is closed: ErrClosed or ErrHalted

	// The following belong to the goroutine in Run.

	edge *tlog.Edge
	// head is the checkpoint in the lock, byte for byte.
	head      []byte
	timestamp int64                         // of head
	clock     *clock                        // see checkClock
	stored    map[tlog.Fingerprint]struct{} // issuers known to be in the store
	leftover  []string                      // bundles of rounds that failed, or whose discard failed
	// toRemember holds the same keys as unremembered, in the order of the tree.
	toRemember []storage.Record
	waiting    time.Time // since when the first of them waits, by the monotonic clock
	bundles    []bundle  // of published rounds, oldest first, until their keys are in the cache
	// putFailures counts the cache puts that failed in a row.
	putFailures int
	refusals    int         // rounds refused in a row
	last        RoundRecord // of the last round, for report

	status  atomic.Pointer[Status]
	halted  atomic.Pointer[error]
	block   atomic.Pointer[error]   // see Block
	trusted atomic.Pointer[trusted] // the time, as the last round knew it
	// stepped is why entries are refused while the clock cannot be trusted.
	stepped atomic.Pointer[error]
}

// Status is a snapshot of a log for health checks.
type Status struct {
	Tree      tlog.Tree
	Published time.Time // timestamp of the last published checkpoint
	Draining  bool
	Halted    error // why the log has stopped; nil while it runs
	Blocked   error // why it refuses entries for now; see Log.Block, ErrClock
}

// Status returns the state as of the last round.
func (l *Log) Status() Status {
	s := *l.status.Load()
	if err := l.halted.Load(); err != nil {
		s.Halted = *err
	}
	s.Blocked = l.blocked()
	return s
}

func (l *Log) setStatus(f func(*Status)) {
	s := *l.status.Load()
	f(&s)
	l.status.Store(&s)
}

// Run runs a round at each tick until ctx is done. It then drains: new entries
// are refused with ErrClosed, one last round takes those admitted, and Run
// returns nil. If the log has to halt, Run returns the reason.
//
// A tick that comes while a round is still running is skipped and counted.
func (l *Log) Run(ctx context.Context) error {
	next := time.Now().Add(l.c.Interval)
	timer := time.NewTimer(l.c.Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.drain(ctx)
		case <-timer.C:
		}
		if err := l.round(ctx); err != nil {
			l.report(next, 0)
			return l.halt(err)
		}
		due, skipped := next, time.Duration(0)
		next = next.Add(l.c.Interval)
		if late := time.Since(next); late >= 0 {
			skipped = late/l.c.Interval + 1
			l.metrics.skipped.Add(float64(skipped))
			next = next.Add(skipped * l.c.Interval)
		}
		l.report(due, int(skipped))
		timer.Reset(time.Until(next))
	}
}

func (l *Log) drain(ctx context.Context) error {
	l.turnstile.enterFirst()
	l.closed = ErrClosed
	l.turnstile.leaveFirst()
	l.setStatus(func(s *Status) { s.Draining = true })
	l.log.InfoContext(ctx, "draining: refusing new entries, running the last round")
	now := time.Now()
	err := l.round(ctx)
	l.report(now, 0)
	if err != nil {
		return l.halt(err)
	}
	l.log.InfoContext(ctx, "drained", "size", l.edge.Tree().N)
	return nil
}

// halt stops the log for good (S4) and answers everybody who still waits.
func (l *Log) halt(cause error) error {
	err := fmt.Errorf("log %s has halted: %w", l.c.Signer.Origin(), cause)
	l.halted.Store(&err)
	l.metrics.halted.Set(1)
	l.log.Error("log has halted: it signs and admits nothing more; find the cause, then restart, which runs recovery",
		"cause", cause)
	l.turnstile.enterFirst()
	l.closed = ErrHalted
	pending := l.pool.tickets()
	if l.inFlight != nil {
		pending = append(pending, l.inFlight.tickets()...)
	}
	l.openPool()
	l.inFlight = nil
	l.turnstile.leaveFirst()
	for _, t := range pending {
		t.fail(ErrHalted)
	}
	return err
}
