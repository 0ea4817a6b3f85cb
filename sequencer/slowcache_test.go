package sequencer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/storage"
)

// tallyOf is what became of the submissions of one priority.
type tallyOf struct{ accepted, busy, full, evicted int }

func (c tallyOf) sent() int      { return c.accepted + c.busy + c.full + c.evicted }
func (c tallyOf) share() float64 { return float64(c.accepted) / float64(c.sent()) }

// slowFlood offers entries to a log until it is told to stop.
type slowFlood struct {
	t    *testing.T
	log  *Log
	next atomic.Int64

	wg     sync.WaitGroup
	mu     sync.Mutex
	counts [2]tallyOf
	worst  [2]time.Duration // from submission to an SCT
}

// offer submits so many entries of a priority a second, evenly, for a time. They are
// of many submitters.
func (f *slowFlood) offer(p Priority, rate int, d time.Duration) {
	for range int(d.Seconds() * float64(rate)) {
		s := newEntry(f.t, int(f.next.Add(1)), p)
		f.wg.Go(func() {
			start := time.Now()
			_, err := f.log.Add(f.t.Context(), s)
			f.mu.Lock()
			defer f.mu.Unlock()
			c := &f.counts[p]
			switch {
			case err == nil:
				c.accepted++
				f.worst[p] = max(f.worst[p], time.Since(start))
			case errors.Is(err, ErrBusy):
				c.busy++
			case errors.Is(err, ErrFull):
				c.full++
			case errors.Is(err, ErrEvicted):
				c.evicted++
			default:
				f.t.Error(err)
			}
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
}

// take waits until all have an answer, and returns the counts so far and the longest
// times to an SCT, both of which start anew.
func (f *slowFlood) take() (counts [2]tallyOf, worst [2]time.Duration) {
	f.wg.Wait()
	counts, worst = f.counts, f.worst
	f.counts, f.worst = [2]tallyOf{}, [2]time.Duration{}
	return counts, worst
}

// TestSlowCache: however slow the gets and however many submitters queue, the
// sequencer waits for two of them at most, so that rounds keep their cadence as far as
// two gets at the start and two at the end of a round leave room; what is shed is low priority
// first; and with the first fast get it is over.
func TestSlowCache(t *testing.T) {
	for _, c := range []struct {
		get           time.Duration
		high, low     int // offered a second; high alone is less than the cache can get, both are more
		leastHigh     float64
		skippedAtMost int // ticks, of 100
	}{
		{5 * time.Millisecond, 60, 300, 1, 0},
		{49 * time.Millisecond, 8, 40, 1, 0},     // four gets just fit the interval
		{50 * time.Millisecond, 8, 40, 1, 50},    // they end with it, and chance decides
		{500 * time.Millisecond, 1, 10, 0.9, 90}, // they take ten times as long, so that nine of ten ticks come meanwhile
	} {
		t.Run(fmt.Sprint(c.get), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				slow := &slowCache{Cache: p.cache}
				var rounds records
				l := rounds.open(t, p, 150, slow)
				stop := run(t, l)
				slow.set(c.get, 0, 0, storage.WAL{})
				f := &slowFlood{t: t, log: l}
				const period = 20 * time.Second
				var both sync.WaitGroup
				both.Go(func() { f.offer(High, c.high, period) })
				both.Go(func() { f.offer(Low, c.low, period) })
				both.Wait()
				slowest := time.Now()
				counts, worst := f.take()
				high, low := counts[High], counts[Low]
				t.Logf("high %+v, low %+v, slowest SCTs %v", high, low, worst)
				if high.share() < c.leastHigh {
					t.Errorf("%.3f of the high ones were accepted, want %v: %+v", high.share(), c.leastHigh, high)
				}
				if low.share() >= high.share() || low.busy == 0 {
					t.Errorf("low ones are not shed first: %+v beside %+v", low, high)
				}

				// The cache is fast again.
				slow.set(0, 0, 0, storage.WAL{})
				time.Sleep(c.get)
				f.offer(High, 100, time.Second)
				f.offer(Low, 300, time.Second)
				counts, worst = f.take()
				for p, c := range counts {
					if c.accepted != c.sent() || c.sent() < 100 {
						t.Errorf("%v after the cache is fast again: %+v", Priority(p), c)
					}
					if w := worst[p]; w > l.c.Interval+10*time.Millisecond {
						t.Errorf("%v after the cache is fast again: an SCT took %v", Priority(p), w)
					}
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				checkCadence(t, rounds.take(), slowest, c.get, c.skippedAtMost)
			})
		})
	}
}

// checkCadence holds the rounds to their waits: two gets to close the pool, and two
// to settle it. What is more is a skipped tick, while the cache is slow.
func checkCadence(t *testing.T, records []RoundRecord, end time.Time, get time.Duration, skippedAtMost int) {
	t.Helper()
	ticks, skipped, busiest := 0, 0, time.Duration(0)
	for _, r := range records {
		busiest = max(busiest, r.LockWait)
		if r.LockWait > 2*get {
			t.Errorf("the sequencer waited %v to close the pool; two gets take %v", r.LockWait, 2*get)
		}
		if settle := r.Steps[StepRemember] - r.Put - r.WALCheckpoint; settle > 2*get {
			t.Errorf("the sequencer waited %v to settle; two gets take %v", settle, 2*get)
		}
		if r.Took > 4*get+10*time.Millisecond {
			t.Errorf("a round took %v; four gets take %v", r.Took, 4*get)
		}
		switch {
		case r.Started.Before(end):
			ticks, skipped = ticks+1+r.Skipped, skipped+r.Skipped
		case r.Skipped > 0 && r.Started.After(end.Add(get)):
			t.Errorf("%d ticks were skipped after the cache was fast again", r.Skipped)
		}
	}
	t.Logf("longest wait %v, %d of %d ticks skipped", busiest, skipped, ticks)
	if busiest == 0 {
		t.Error("the sequencer never waited: the gets do not get in its way")
	}
	if 100*skipped > skippedAtMost*ticks {
		t.Errorf("%d of %d ticks were skipped, want at most %d%%", skipped, ticks, skippedAtMost)
	}
}
