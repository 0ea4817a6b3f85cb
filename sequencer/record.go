package sequencer

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/storage"
)

// RoundOutcome says how a round ended.
type RoundOutcome string

// The outcomes of a round.
const (
	RoundOK      RoundOutcome = "ok"
	RoundRefused RoundOutcome = "refused" // it committed nothing; its entries were refused
	RoundHalted  RoundOutcome = "halted"  // the log has halted
)

// StepDurations holds how long each step took, by [Step]; 0 for one that was
// not reached.
type StepDurations [stepCount]time.Duration

// RoundRecord is what one round did and what it cost. Counts and maxima of the
// intake cover the time since the record before.
type RoundRecord struct {
	Started time.Time
	Late    time.Duration // from the tick to Started
	Took    time.Duration
	Skipped int // ticks that came while it ran
	Outcome RoundOutcome
	Cause   error // why Outcome is not RoundOK

	Interval time.Duration
	PoolSize int   // 0 is no limit
	Entries  int   // of the round
	Size     int64 // of the tree when the round ended

	High, Low IntakeCounts

	Steps         StepDurations
	Put           time.Duration // the cache put of StepRemember
	WALCheckpoint time.Duration // the WAL checkpoint of StepRemember
	WAL           storage.WAL   // its outcome

	LockWait time.Duration // of StepClose, for the turnstile
	HoldMax  time.Duration // the longest stay of a submitter inside the turnstile, which is a cache get
	WaitMax  time.Duration // the longest wait of a submitter for it
}

// IntakeCounts says what intake did with the entries of one priority. An
// evicted entry was admitted before.
type IntakeCounts struct {
	Admitted, Joined, Duplicate, Evicted int64

	Full    int64 // refused for lack of room
	Limited int64 // refused, as the submitter is over its limit
	Busy    int64 // refused after too long a wait
	Other   int64 // refused for any other reason, cancelled ones included
}

// Refused is the number of entries that were turned away at once.
func (c IntakeCounts) Refused() int64 { return c.Full + c.Limited + c.Busy + c.Other }

// tally gathers what happens at intake between two rounds. It is safe for
// concurrent use.
type tally struct {
	classes    [2]classTally // by Priority
	hold, wait maximum
}

type classTally struct {
	admitted, joined, duplicate, evicted, full, limited, busy, other atomic.Int64
}

func (t *tally) add(o outcome, p Priority) {
	c := &t.classes[p]
	switch o {
	case outcomeAdmitted:
		c.admitted.Add(1)
	case outcomeJoined:
		c.joined.Add(1)
	case outcomeDuplicate:
		c.duplicate.Add(1)
	case outcomeEvicted:
		c.evicted.Add(1)
	case outcomeFull, outcomeFullEarly:
		c.full.Add(1)
	case outcomeLimited:
		c.limited.Add(1)
	case outcomeBusy, outcomeBusyEarly:
		c.busy.Add(1)
	default:
		c.other.Add(1)
	}
}

// take returns the counts of a class and starts them anew.
func (c *classTally) take() IntakeCounts {
	return IntakeCounts{Admitted: c.admitted.Swap(0), Joined: c.joined.Swap(0), Duplicate: c.duplicate.Swap(0), Evicted: c.evicted.Swap(0),
		Full: c.full.Swap(0), Limited: c.limited.Swap(0), Busy: c.busy.Swap(0), Other: c.other.Swap(0)}
}

// maximum keeps the largest of a number of durations in seconds.
type maximum struct{ bits atomic.Uint64 }

func (m *maximum) add(seconds float64) {
	// Floats that are not negative are ordered like their bits.
	for b := math.Float64bits(max(seconds, 0)); ; {
		old := m.bits.Load()
		if b <= old || m.bits.CompareAndSwap(old, b) {
			return
		}
	}
}

func (m *maximum) take() time.Duration {
	return time.Duration(math.Float64frombits(m.bits.Swap(0)) * float64(time.Second))
}

// maxObserver passes observations on and keeps their maximum.
type maxObserver struct {
	prometheus.Observer
	max *maximum
}

func (o maxObserver) Observe(seconds float64) {
	o.max.add(seconds)
	o.Observer.Observe(seconds)
}

// finish accounts for a round that ended with err, and answers its entries if
// it was refused. What it returns is fatal.
func (l *Log) finish(ctx context.Context, r *round, err error) error {
	rec := RoundRecord{Started: r.started, Took: time.Since(r.started), Outcome: RoundOK, Interval: l.c.Interval, PoolSize: l.c.PoolSize,
		Entries: len(r.tickets), Size: l.edge.Tree().N, Steps: r.steps, Put: r.putTook, WALCheckpoint: r.walTook, WAL: r.wal, LockWait: r.waited}
	var refused refusal
	switch {
	case errors.As(err, &refused):
		rec.Outcome, rec.Cause, err = RoundRefused, refused.err, nil
		if l.refusals++; l.refusals%refusalsPerLine == 1 {
			l.log.ErrorContext(ctx, "round failed before it committed anything; its entries were refused",
				"entries", len(r.tickets), "rounds", l.refusals, "cause", refused.err)
		}
		l.refuse(r)
	case err != nil:
		rec.Outcome, rec.Cause = RoundHalted, err
	default:
		if l.refusals > 0 {
			l.log.InfoContext(ctx, "rounds commit again", "refused_rounds", l.refusals)
			l.refusals = 0
		}
		l.logRound(ctx, &rec)
	}
	l.metrics.rounds.WithLabelValues(string(rec.Outcome)).Inc()
	l.last = rec
	return err
}

// report hands on the record of the last round, which was due at a tick and
// made so many others be skipped.
func (l *Log) report(due time.Time, skipped int) {
	if l.c.Record == nil {
		return
	}
	t := &l.metrics.tally
	rec := l.last
	rec.Late, rec.Skipped = max(0, rec.Started.Sub(due)), skipped
	rec.High, rec.Low = t.classes[High].take(), t.classes[Low].take()
	rec.HoldMax, rec.WaitMax = t.hold.take(), t.wait.take()
	l.c.Record(rec)
}

// logRound writes the line in the log and the metrics of a round that went
// well.
func (l *Log) logRound(ctx context.Context, rec *RoundRecord) {
	l.metrics.round.Observe(rec.Took.Seconds())
	l.metrics.roundSize.Observe(float64(rec.Entries))
	level, msg := slog.LevelDebug, "round"
	if rec.Took > l.c.Interval {
		l.metrics.slowRounds.Inc()
		level, msg = slog.LevelWarn, "round took longer than the interval"
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	steps := make([]any, 0, stepCount)
	for s, d := range rec.Steps {
		steps = append(steps, slog.Duration(Step(s).String(), d))
	}
	l.log.LogAttrs(ctx, level, msg, slog.Int("entries", rec.Entries), slog.Int64("size", rec.Size), slog.Duration("took", rec.Took),
		slog.Duration("lock_wait", rec.LockWait), slog.Int("wal_frames", rec.WAL.Frames), slog.Bool("wal_busy", rec.WAL.Busy),
		slog.Group("steps", steps...))
}
