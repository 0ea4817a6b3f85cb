package sequencer

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// setClock is a wall clock that tests set.
type setClock struct {
	wrong  atomic.Int64
	sunset time.Time // of the log
}

func (c *setClock) now() time.Time       { return time.Now().Add(time.Duration(c.wrong.Load())) }
func (c *setClock) set(by time.Duration) { c.wrong.Store(int64(by)) }

// open opens a log with this clock.
func (c *setClock) open(t *testing.T, p *probe, interval time.Duration) *Log {
	t.Helper()
	p.open(t, 10) // creates it
	config := p.config(t, 10)
	config.wall, config.Interval, config.Sunset = c.now, interval, c.sunset
	l, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestClockJumpsForward: a clock that jumps forward is not signed for. Entries are
// refused at intake, and all goes on once it is right; no timestamp is from the
// future, so nothing halts.
func TestClockJumpsForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c setClock
		p := newProbe()
		l := c.open(t, p, 200*time.Millisecond)
		stop := run(t, l)
		promises := []promise{mustAdd(t, l, newEntry(t, 1, High))}
		waiting, err := l.Submit(t.Context(), newEntry(t, 2, High))
		if err != nil {
			t.Fatal(err)
		}
		c.set(time.Hour)
		if _, err := waiting.Wait(t.Context()); !errors.Is(err, ErrRound) {
			t.Errorf("an entry admitted before got %v", err)
		}
		published := l.Status().Published
		for range 100 {
			time.Sleep(l.c.Interval)
			if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrClock) {
				t.Fatalf("an entry got %v", err)
			}
			if err := l.Preflight(netip.Prefix{}, High); !errors.Is(err, ErrClock) {
				t.Fatalf("preflight got %v", err)
			}
		}
		if s := l.Status(); s.Published != published || !errors.Is(s.Blocked, ErrClock) || s.Halted != nil {
			t.Errorf("status %+v", s)
		}
		c.set(time.Second) // right but for a second
		time.Sleep(2 * l.c.Interval)
		if s := l.Status(); s.Blocked != nil {
			t.Errorf("with the right time: %v", s.Blocked)
		}
		promises = append(promises, mustAdd(t, l, newEntry(t, 2, High)))
		c.set(0)
		promises = append(promises, mustAdd(t, l, newEntry(t, 3, High)))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o := p.publicLog(t)
		if err := o.keeps(promises); err != nil {
			t.Error(err)
		}
		if ahead := o.head.Timestamp - time.Now().UnixMilli(); ahead > 1000 {
			t.Errorf("the checkpoint is %d ms ahead", ahead)
		}
	})
}

// TestClockSteps: what a time daemon does is taken, however often it does it,
// and so is the passing of time.
func TestClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c setClock
		p := newProbe()
		l := c.open(t, p, 2*time.Second)
		stop := run(t, l)
		for i := range 50 {
			c.set(time.Duration(i) * 9 * time.Second)
			mustAdd(t, l, newEntry(t, i, High))
			if i%10 == 0 {
				time.Sleep(time.Minute)
			}
		}
		c.set(49*9*time.Second - 5*time.Second) // back a little: waited for
		mustAdd(t, l, newEntry(t, 50, High))
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s := l.Status(); s.Blocked != nil {
			t.Errorf("status %+v", s)
		}
	})
}

// TestClockSettles: a clock that keeps its new time for an hour is taken, as that
// of a machine that was paused; one that goes on jumping is not.
func TestClockSettles(t *testing.T) {
	for _, steady := range []bool{true, false} {
		t.Run(fmt.Sprintf("steady=%v", steady), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c setClock
				p := newProbe()
				l := c.open(t, p, 2*time.Second)
				stop := run(t, l)
				mustAdd(t, l, newEntry(t, 1, High))
				c.set(40 * time.Second)
				time.Sleep(clockSettle - time.Second)
				if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrClock) {
					t.Errorf("before an hour has passed: %v", err)
				}
				if !steady {
					c.set(time.Minute)
					time.Sleep(clockSettle - time.Second)
					if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrClock) {
						t.Errorf("an hour after the first jump: %v", err)
					}
				}
				time.Sleep(10 * time.Second)
				mustAdd(t, l, newEntry(t, 2, High))
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClockRestart: a restart confirms the clock.
func TestClockRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c setClock
		p := newProbe()
		l := c.open(t, p, 200*time.Millisecond)
		stop := run(t, l)
		mustAdd(t, l, newEntry(t, 1, High))
		c.set(time.Hour)
		time.Sleep(2 * l.c.Interval)
		if err := stop(); err != nil { // refuses its last round, and ends in order
			t.Fatal(err)
		}
		l = c.open(t, p, 200*time.Millisecond)
		stop = run(t, l)
		if pr := mustAdd(t, l, newEntry(t, 2, High)); pr.position.Timestamp < time.Now().Add(59*time.Minute).UnixMilli() {
			t.Errorf("timestamp %v", time.UnixMilli(pr.position.Timestamp))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestClockSample: a process that is stopped between the readings of the two clocks
// does not take the pause for a jump.
func TestClockSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops := 3
		c := newClock(func() time.Time {
			now := time.Now()
			if stops > 0 {
				stops--
				time.Sleep(30 * time.Second)
			}
			return now
		})
		for range 2 {
			stops = 3
			if ahead, _ := c.judge(); ahead != 0 {
				t.Errorf("a pause looks like a jump of %v", ahead)
			}
		}
	})
	// The machine's own clocks agree, and are read as what they are.
	c := newClock(wallClock)
	if ahead, settled := c.judge(); ahead != 0 || settled {
		t.Errorf("the machine's clock is %v ahead", ahead)
	}
	if d := suspended(); d < -time.Second {
		t.Errorf("suspended for %v", d)
	}
}

// TestClockTold: the operator is told once, not five times a second.
func TestClockTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c setClock
		p := newProbe()
		l := c.open(t, p, 200*time.Millisecond)
		var out strings.Builder // read when the log has stopped
		l.log = slog.New(slog.NewTextHandler(&out, nil))
		stop := run(t, l)
		c.set(time.Hour)
		time.Sleep(50 * l.c.Interval)
		c.set(0)
		time.Sleep(2 * l.c.Interval)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "level=ERROR"); n < 1 || n > 3 {
			t.Errorf("%d errors in the log:\n%s", n, out.String())
		}
		if !strings.Contains(out.String(), "the clock is right again") {
			t.Errorf("not told that all is well:\n%s", out.String())
		}
	})
}

// TestSunsetByTrustedClock: what is final for clients is not decided by a clock that has
// jumped; a log that was to be read-only by then is, once the time has come.
func TestSunsetByTrustedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := setClock{sunset: time.Now().Add(time.Minute)}
		p := newProbe()
		l := c.open(t, p, 200*time.Millisecond)
		stop := run(t, l)
		mustAdd(t, l, newEntry(t, 1, High))
		c.set(time.Hour)
		// What the clock says is not believed before the round that finds it out, either.
		if err := l.Preflight(netip.Prefix{}, High); err != nil {
			t.Errorf("preflight got %v", err)
		}
		time.Sleep(2 * l.c.Interval)
		if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrClock) {
			t.Errorf("an entry got %v", err)
		}
		c.set(0)
		time.Sleep(2 * l.c.Interval)
		mustAdd(t, l, newEntry(t, 2, High))
		time.Sleep(time.Until(c.sunset) - time.Millisecond)
		if err := l.Preflight(netip.Prefix{}, High); err != nil {
			t.Errorf("just before the sunset: preflight got %v", err)
		}
		time.Sleep(time.Millisecond)
		if _, err := l.Submit(t.Context(), newEntry(t, 3, High)); !errors.Is(err, ErrSunset) {
			t.Errorf("after the sunset: an entry got %v", err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
