package witness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// known tells whether chain n was promised. w.mu is held.
func (w *Witness) known(n uint64) bool { _, ok := w.promised[n]; return ok }

// pick chooses what to submit next: a new chain, or, one time in ten, one that
// was promised before.
func (w *Witness) pick() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next > 0 && w.rand.IntN(10) == 0 {
		if n := w.rand.Uint64N(w.next); w.known(n) {
			return n
		}
	}
	w.next++
	return w.next - 1
}

// Next returns a chain that was not submitted yet, and passes over those before
// from.
func (w *Witness) Next(from uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = max(w.next, from) + 1
	return w.next - 1
}

// Sample returns promised chains, at most so many.
func (w *Witness) Sample(most int) []uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sample(most)
}

// sample draws promised chains. w.mu is held.
func (w *Witness) sample(draws int) (list []uint64) {
	for range draws {
		if n := w.rand.Uint64N(max(w.next, 1)); w.known(n) {
			list = append(list, n)
		}
	}
	return list
}

// Load submits over several connections until ctx is done. A chain that is not
// answered with an SCT is submitted again.
func (w *Witness) Load(ctx context.Context, addr string, connections int) {
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			for n, next := uint64(0), true; ctx.Err() == nil; {
				if next {
					n = w.pick()
				}
				if _, next = w.Submit(ctx, addr, n); !next {
					select {
					case <-time.After(w.o.Pause):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	clients.Wait()
}

// All submits chains, many at a time. failed is told about those that are not
// answered with an SCT.
func (w *Witness) All(ctx context.Context, addr string, chains []uint64, failed func(n uint64, status int)) {
	var clients sync.WaitGroup
	work := make(chan uint64)
	for range w.o.AtOnce {
		clients.Go(func() {
			for n := range work {
				if status, ok := w.Submit(ctx, addr, n); !ok {
					failed(n, status)
				}
			}
		})
	}
	for _, n := range chains {
		work <- n
	}
	close(work)
	clients.Wait()
}

// Resubmit submits some chains again, which must be answered: those never
// answered, the last ones promised, and a sample of the others.
func (w *Witness) Resubmit(ctx context.Context, addr string, sample int) {
	w.mu.Lock()
	again := slices.Collect(maps.Keys(w.open))
	for n := w.next; n > 0 && n+uint64(sample) > w.next; n-- {
		if w.known(n - 1) {
			again = append(again, n-1)
		}
	}
	again = append(again, w.sample(sample)...)
	w.mu.Unlock()
	slices.Sort(again)
	w.All(ctx, addr, slices.Compact(again), func(n uint64, status int) {
		w.Fault(fmt.Errorf("resubmission of chain %d: status %d", n, status))
	})
}
