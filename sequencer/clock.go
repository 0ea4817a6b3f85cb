package sequencer

import (
	"context"
	"fmt"
	"time"
)

const (
	// clockStep is the largest step forward that a round takes from its clock.
	// Time daemons make smaller ones; what is signed for a time that is further
	// off would be refused by clients until then, and would halt the log for as
	// long once the clock is right again.
	clockStep = 10 * time.Second

	// clockSettle is for how long a clock that has stepped further must run on
	// evenly to be taken for right, if nobody sets it or restarts the log: a
	// virtual machine that was paused is put right by such a step.
	clockSettle = time.Hour

	// maxSample bounds how long the reading of a sample may take, and so how
	// wrong it may be. A process that was stopped in the middle reads again.
	maxSample = 100 * time.Millisecond
)

// sample is one reading of both clocks.
type sample struct {
	wall time.Time // without its monotonic part
	// run is a clock that nobody sets: time since some moment, with what the
	// machine was suspended.
	run time.Duration
}

// clock tells a wall clock that was set from one that runs. It belongs to the
// goroutine in Run.
type clock struct {
	wall  func() time.Time
	start time.Time // what sample.run counts from

	accepted sample // the last one that a round took
	// Of a clock that has stepped too far: when it was first seen there, and
	// how far it is ahead.
	since sample
	ahead time.Duration // 0 while the clock is taken
}

func newClock(wall func() time.Time) *clock {
	c := &clock{wall: wall, start: time.Now()}
	c.accepted = c.sample()
	return c
}

// trusted is a time that a round took, and when that was by the monotonic clock.
type trusted struct{ wall, taken time.Time }

func (c *clock) trusted() *trusted { return &trusted{c.accepted.wall, time.Now()} }

// now returns the time, whatever the wall clock was set to since.
func (t *trusted) now() time.Time { return t.wall.Add(time.Since(t.taken)) }

// sample reads both clocks at one time, or nearly.
func (c *clock) sample() (s sample) {
	const tries = 10 // a process that is stopped ten times in a row has other problems
	for range tries {
		begin := time.Since(c.start)
		slept := suspended()
		s = sample{wall: c.wall().Round(0), run: begin + slept}
		if time.Since(c.start)-begin <= maxSample {
			break
		}
	}
	return s
}

// judge reports by how much the clock is ahead of where it would be if nobody
// had set it since the last round that took it; 0 means that this round may.
// settled means that it has stepped, and has now run on evenly for so long that
// it is taken.
func (c *clock) judge() (ahead time.Duration, settled bool) {
	now := c.sample()
	ahead = now.wall.Sub(c.accepted.wall) - (now.run - c.accepted.run)
	switch {
	case ahead <= clockStep:
		// Backward steps are waited for, see waitForClock.
		c.accepted, c.ahead = now, 0
		return 0, false
	case c.ahead == 0 || (ahead-c.ahead).Abs() > clockStep: // it was set, or set again
		c.since, c.ahead = now, ahead
	case now.run-c.since.run >= clockSettle:
		c.accepted, c.ahead = now, 0
		return 0, true
	}
	return ahead, false
}

// checkClock refuses the round, and entries at intake, while the clock cannot
// be trusted.
func (l *Log) checkClock(ctx context.Context) error {
	before := l.clock.ahead
	ahead, settled := l.clock.judge()
	l.metrics.clockAhead.Set(ahead.Seconds())
	if ahead > 0 {
		err := fmt.Errorf("%w: it is %v ahead of the time that has passed since the last round: set it right; "+
			"if it is right, restart the log, or wait %v", ErrClock, ahead.Round(time.Second), clockSettle)
		l.stepped.Store(&err)
		if before == 0 {
			l.log.ErrorContext(ctx, "the clock has jumped forward: nothing is signed and entries are refused", "cause", err)
		}
		return refusal{err}
	}
	l.stepped.Store(nil)
	l.trusted.Store(l.clock.trusted())
	switch {
	case settled:
		l.log.ErrorContext(ctx, "the clock has jumped forward and kept its time since: it is taken for right", "ahead", before.Round(time.Second), "after", clockSettle)
	case before > 0:
		l.log.InfoContext(ctx, "the clock is right again: rounds go on")
	}
	return nil
}
