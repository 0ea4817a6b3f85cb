package sequencer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSequencerWaitsForTwoInsertions is the promise of the turnstile: with 500
// submitters queued, each holding the lock for a long time, the sequencer gets
// it after the one inside and the one admitted through the gate.
func TestSequencerWaitsForTwoInsertions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const submitters, hold = 500, 10 * time.Millisecond
		ts := newTurnstile()
		var mu sync.Mutex
		var entered []time.Time
		var wg sync.WaitGroup
		for range submitters {
			wg.Go(func() {
				if err := ts.enter(t.Context(), party{}, time.Hour); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				entered = append(entered, time.Now())
				mu.Unlock()
				time.Sleep(hold)
				ts.leave(hold)
			})
		}
		synctest.Wait()
		// One is inside, one has passed the gate, 498 wait at it.
		for turn := range 20 {
			mu.Lock()
			before := len(entered)
			mu.Unlock()
			start := time.Now()
			ts.enterFirst()
			mu.Lock()
			inserted := len(entered) - before
			mu.Unlock()
			// The one inside had entered before.
			if inserted > 1 {
				t.Errorf("turn %d: %d submitters entered while the sequencer waited", turn, inserted)
			}
			if waited := time.Since(start); waited > 2*hold {
				t.Errorf("turn %d: the sequencer waited %v for holds of %v", turn, waited, hold)
			}
			ts.leaveFirst()
			time.Sleep(3 * hold) // let others in between
		}
		wg.Wait()
		if len(entered) != submitters {
			t.Errorf("%d of %d submitters got in", len(entered), submitters)
		}
	})
}

// TestSubmittersEnterInOrder: the gate is fair.
func TestSubmittersEnterInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := enterInOrder(t, make([]party, 50))
		if len(order) != 50 || !slices.IsSorted(order) {
			t.Errorf("50 submitters entered in the order %v", order)
		}
	})
}

// TestTurnstileWaitIsBounded covers both waits, at the gate and at the lock.
func TestTurnstileWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTurnstile()
		ts.enterFirst()
		results := make([]error, 4)
		var wg sync.WaitGroup
		canceled, cancel := context.WithCancelCause(t.Context())
		for i := range results {
			wg.Go(func() {
				ctx := t.Context()
				if i%2 == 1 {
					ctx = canceled
				}
				start := time.Now()
				results[i] = ts.enter(ctx, party{}, time.Second)
				if i%2 == 0 && time.Since(start) != time.Second {
					t.Errorf("waiter %d gave up after %v", i, time.Since(start))
				}
			})
			synctest.Wait()
		}
		gone := errors.New("client gone")
		cancel(gone)
		wg.Wait()
		for i, err := range results {
			if want := map[int]error{0: ErrBusy, 1: gone}[i%2]; !errors.Is(err, want) {
				t.Errorf("waiter %d: %v, want %v", i, err, want)
			}
		}
		ts.leaveFirst()
		// Those who gave up left nothing behind.
		if err := ts.enter(t.Context(), party{}, time.Second); err != nil {
			t.Fatal(err)
		}
		ts.leave(0)
		checkIdle(t, ts)
	})
}

// TestTurnstileExcludes hammers it for the race detector.
func TestTurnstileExcludes(t *testing.T) {
	ts := newTurnstile()
	var inside, total int
	var wg sync.WaitGroup
	enter := func(privileged bool) {
		if privileged {
			ts.enterFirst()
		} else if err := ts.enter(t.Context(), party{}, time.Minute); err != nil {
			t.Error(err)
			return
		}
		inside++
		if inside != 1 {
			t.Error("two parties inside")
		}
		total++
		inside--
		if privileged {
			ts.leaveFirst()
		} else {
			ts.leave(0)
		}
	}
	for range 8 {
		wg.Go(func() {
			for range 500 {
				enter(false)
			}
		})
	}
	wg.Go(func() {
		for range 500 {
			enter(true)
		}
	})
	wg.Wait()
	if total != 9*500 {
		t.Errorf("%d entries", total)
	}
}

func BenchmarkTurnstile(b *testing.B) {
	ts := newTurnstile()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := ts.enter(context.Background(), party{}, time.Minute); err != nil {
				b.Error(err)
			}
			ts.leave(0)
		}
	})
}
