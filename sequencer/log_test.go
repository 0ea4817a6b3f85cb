package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// TestInvariantS1S2S3S5 watches a log through its storage: what is published
// was swapped before (S1); what is swapped is staged before (S2); who gets an
// answer finds it published (S3); timestamps grow, also while idle (S5).
func TestInvariantS1S2S3S5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		signer := newTestSigner(t)
		verifier := signer.Verifier()
		var swapped []byte
		var published atomic.Pointer[[]byte]
		var last checkpoint.TreeHead
		p.onSwap = func(note []byte) {
			swapped = note
			head, err := verifier.Verify(note)
			if err != nil {
				t.Fatal(err)
			}
			if head.Timestamp <= last.Timestamp {
				t.Errorf("S5: timestamp %d follows %d", head.Timestamp, last.Timestamp)
			}
			if head.Tree.N > last.Tree.N {
				b, err := p.store.Get(t.Context(), bundleName(head.Tree))
				if err != nil {
					t.Fatalf("S2: no bundle for the tree of %d entries: %v", head.Tree.N, err)
				}
				if _, _, err := decodeBundle(b, func(name string) ([]byte, error) { return p.store.Get(t.Context(), name) }); err != nil {
					t.Errorf("S2: %v", err)
				}
			}
			last = head
		}
		l := p.open(t, 0)
		p.onPut = func(o storage.Object) {
			if o.Name == "checkpoint" {
				if !bytes.Equal(o.Data, swapped) {
					t.Error("S1: a checkpoint is published that is not the one swapped last")
				}
				inLock, err := p.lock.Fetch(t.Context(), signer.LogID())
				if err != nil || !bytes.Equal(inLock, o.Data) {
					t.Error("S1: a checkpoint is published that the lock does not hold")
				}
				time.Sleep(time.Millisecond) // an answer before publication would be seen
				published.Store(&o.Data)
			}
		}
		stop := run(t, l)
		var promises []promise
		for batch := range 5 {
			batch := addAll(t, l, batch*100, batch*100+100, func(pr promise) {
				note := published.Load()
				if note == nil {
					t.Errorf("S3: index %d was promised before anything was published", pr.position.Index)
					return
				}
				head, err := verifier.Verify(*note)
				if err != nil || pr.position.Index >= head.Tree.N {
					t.Errorf("S3: index %d was promised at a published size of %d", pr.position.Index, head.Tree.N)
				}
				if pr.position.Timestamp > head.Timestamp {
					t.Errorf("S5: timestamp %d was promised under a checkpoint of %d", pr.position.Timestamp, head.Timestamp)
				}
			})
			promises = append(promises, batch...)
			time.Sleep(3 * l.c.Interval)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o := p.publicLog(t)
		if err := o.keeps(promises); err != nil {
			t.Error(err)
		}
		if len(o.leaves) != 500 {
			t.Errorf("%d leaves of 500", len(o.leaves))
		}
		if names, _ := p.store.List(t.Context(), "staging/"); len(names) > 0 {
			t.Errorf("bundles are left: %v", names)
		}
	})
}

// TestInvariantS5Clock: a clock that stands a little behind the last checkpoint is
// waited for, one that stands far behind is refused.
func TestInvariantS5Clock(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		ok    bool
	}{{5 * time.Second, true}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe()
			signer := newTestSigner(t)
			ahead := time.Now().Add(c.ahead).UnixMilli()
			note, err := signer.SignTreeHead(tlog.Tree{Hash: tlog.EmptyRoot}, ahead)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.lock.Create(t.Context(), signer.LogID(), note); err != nil {
				t.Fatal(err)
			}
			l, err := Open(t.Context(), p.config(t, 0))
			if !c.ok {
				if err == nil || !strings.Contains(err.Error(), "clock") {
					t.Errorf("a clock one hour behind: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, l)
			if got := mustAdd(t, l, newEntry(t, 1, High)); got.position.Timestamp <= ahead {
				t.Errorf("timestamp %d is not after the last checkpoint's %d", got.position.Timestamp, ahead)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInvariantS6 resubmits an entry before and after every step of the round
// that takes it, with a healthy and with a failing cache: something always
// answers for its key, so it is logged once.
func TestInvariantS6(t *testing.T) {
	for _, cacheFails := range []bool{false, true} {
		t.Run(fmt.Sprintf("cacheFails=%v", cacheFails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				l := p.open(t, 10)
				s := newEntry(t, 1, High)
				first, err := l.Submit(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				var again []*Ticket
				l.c.hook = func(Step, bool) error {
					ticket, err := l.Submit(t.Context(), s)
					if errors.Is(err, ErrClosed) {
						return nil // the last round
					} else if err != nil {
						t.Error(err)
						return nil
					}
					again = append(again, ticket)
					return nil
				}
				if cacheFails {
					p.setFault(func(op, _ string) error {
						if op == "cache put" {
							return errors.New("disk full")
						}
						return nil
					})
				}
				stop := run(t, l)
				time.Sleep(10 * l.c.Interval)
				p.setFault(nil)
				time.Sleep(10 * l.c.Interval)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				want, err := first.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i, ticket := range again {
					if got, err := ticket.Wait(t.Context()); err != nil || got != want {
						t.Fatalf("resubmission %d: %v, %v; want %v", i, got, err, want)
					}
				}
				if n := len(p.publicLog(t).leaves); n != 1 {
					t.Errorf("S6: one entry became %d leaves", n)
				}
				if len(l.unremembered) != 0 {
					t.Error("keys are still kept in memory although the cache works again")
				}
				if got, ok, err := p.cache.Get(t.Context(), s.Entry.Key()); err != nil || !ok || got != want {
					t.Errorf("the cache holds %v, %v, %v; want %v", got, ok, err, want)
				}
			})
		})
	}
}

// TestCacheBacklog: while the cache fails, keys gather in memory and answer; once it
// works again they go to it over several rounds, each of bounded size (S6, S8).
func TestCacheBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 0)
		p.setFault(func(op, _ string) error {
			if op == "cache put" {
				return errors.New("disk full")
			}
			return nil
		})
		stop := run(t, l)
		const entries = 3*backlogPerRound + 10
		promises := addAll(t, l, 0, entries)
		if got := mustAdd(t, l, newEntry(t, 7, High)); got != promises[7] {
			t.Errorf("memory answers %v, want %v", got, promises[7])
		}
		time.Sleep(5*l.c.Interval + l.c.Interval/2) // to between two rounds
		p.setFault(nil)
		time.Sleep(l.c.Interval)
		if n := len(p.cache.(*memory.Cache).All()); n == 0 || n > backlogPerRound {
			t.Errorf("one round put %d keys", n)
		}
		time.Sleep(5 * l.c.Interval)
		if n := len(p.cache.(*memory.Cache).All()); n != entries {
			t.Errorf("%d of %d keys are in the cache", n, entries)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(l.unremembered) != 0 {
			t.Errorf("%d keys are still in memory", len(l.unremembered))
		}
	})
}

// TestFullPoolCostsNoCacheGet is the first lesson of the incident: what is
// refused for lack of room must not read the cache.
func TestFullPoolCostsNoCacheGet(t *testing.T) {
	p := newProbe()
	l := p.open(t, 10)
	for i := range 10 {
		if _, err := l.Submit(t.Context(), newEntry(t, i*7, High)); err != nil {
			t.Fatal(err)
		}
	}
	if p.gets != 10 {
		t.Errorf("%d cache gets for 10 admissions", p.gets)
	}
	for i := 10; i < 1000; i++ {
		if _, err := l.Submit(t.Context(), newEntry(t, i*7, Priority(i%2))); !errors.Is(err, ErrFull) {
			t.Fatalf("a full pool answers %v", err)
		}
	}
	if p.gets != 10 {
		t.Errorf("%d cache gets for refusals, want 0", p.gets-10)
	}
	// What is in the pool is answered from memory even when it is full.
	if _, err := l.Submit(t.Context(), newEntry(t, 0, High)); err != nil || p.gets != 10 {
		t.Errorf("joining an entry in a full pool: %v, %d cache gets", err, p.gets-10)
	}
}

// TestPreflight agrees with Submit about a full pool, and answers while the
// turnstile is held.
func TestPreflight(t *testing.T) {
	p := newProbe()
	l := p.open(t, 10)
	if err := l.Preflight(network(1), Low); err != nil {
		t.Errorf("an empty pool: %v", err)
	}
	for i := range 10 {
		s := newEntry(t, i, Priority(i%2))
		s.Submitter = network(1)
		if _, err := l.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	l.turnstile.enterFirst()
	for _, c := range []struct {
		submitter int
		priority  Priority
		want      error
	}{
		{1, High, nil},    // displaces a low one
		{1, Low, ErrFull}, // holds most of the low ones itself
		{2, Low, nil},     // holds less
		{2, High, nil},
	} {
		if err := l.Preflight(network(c.submitter), c.priority); !errors.Is(err, c.want) {
			t.Errorf("%v: %v", c, err)
		}
	}
	l.turnstile.leaveFirst()
	for i := 10; i < 15; i++ {
		s := newEntry(t, i, High)
		s.Submitter = network(1)
		if _, err := l.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Preflight(network(1), High); !errors.Is(err, ErrFull) {
		t.Errorf("full of its own high ones: %v", err)
	}
	if err := l.Preflight(network(2), High); err != nil {
		t.Errorf("full of another's: %v", err)
	}
	_ = l.halt(errors.New("boom"))
	if err := l.Preflight(network(2), High); !errors.Is(err, ErrHalted) {
		t.Errorf("halted: %v", err)
	}
}

// TestEvicted: an evicted entry gets its answer at once, and a fresh chance later
// (reports F25).
func TestEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 1)
		low := newEntry(t, 1, Low)
		ticket, err := l.Submit(t.Context(), low)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := ticket.Wait(t.Context()); !errors.Is(err, ErrEvicted) || time.Since(start) != 0 {
			t.Errorf("evicted: %v after %v", err, time.Since(start))
		}
		stop := run(t, l)
		if _, err := l.Add(t.Context(), low); !errors.Is(err, ErrFull) {
			t.Errorf("resubmitted to a full pool: %v", err)
		}
		time.Sleep(l.c.Interval + time.Millisecond)
		pr := mustAdd(t, l, low)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
			t.Error(err)
		}
	})
}

// TestOneWaiterGivesUp: the cancellation of one submitter is not another's (E05).
func TestOneWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		stop := run(t, l)
		s := newEntry(t, 1, High)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.Add(ctx, s); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who gave up got %v", err)
			}
		})
		synctest.Wait()
		got := make([]promise, 9)
		for i := range got {
			wg.Go(func() { got[i] = mustAdd(t, l, s) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o := p.publicLog(t)
		if len(o.leaves) != 1 {
			t.Errorf("%d leaves", len(o.leaves))
		}
		if err := o.keeps(got); err != nil {
			t.Error(err)
		}
	})
}
