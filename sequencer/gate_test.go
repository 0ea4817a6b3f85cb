package sequencer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/storage"
)

// checkIdle reports whatever a turnstile still has when nobody is there.
func checkIdle(t *testing.T, ts *turnstile) {
	t.Helper()
	g := &ts.gate
	if len(ts.lock) != 0 || g.held {
		t.Errorf("the lock has %d, the gate is held: %v", len(ts.lock), g.held)
	}
	for p, l := range g.lines {
		if l.waiting != 0 || !l.since.IsZero() || len(l.queues) != 0 || l.turns.Len() != 0 {
			t.Errorf("priority %v: %d are waiting since %v in %d queues and %d turns", Priority(p), l.waiting, l.since, len(l.queues), l.turns.Len())
		}
	}
}

// enterInOrder lets parties come to a turnstile while the sequencer is inside, and
// returns the order in which they enter once it leaves.
func enterInOrder(t *testing.T, parties []party) (entered []int) {
	t.Helper()
	ts := newTurnstile()
	ts.enterFirst()
	var wg sync.WaitGroup
	for i, p := range parties {
		wg.Go(func() {
			if err := ts.enter(t.Context(), p, time.Hour); err != nil {
				t.Error(err)
				return
			}
			entered = append(entered, i) // guarded by the turnstile itself
			ts.leave(0)
		})
		synctest.Wait()
	}
	ts.leaveFirst()
	wg.Wait()
	checkIdle(t, ts)
	return entered
}

// TestGateOrder: high priority goes first, and within a priority submitters take turns. The
// first to come has passed the gate already.
func TestGateOrder(t *testing.T) {
	high := func(submitter int) party { return party{High, network(submitter)} }
	low := func(submitter int) party { return party{Low, network(submitter)} }
	for _, c := range []struct {
		name    string
		parties []party
		want    []int
	}{
		{"high before low", []party{low(1), low(1), low(2), high(1), high(1)}, []int{0, 3, 4, 1, 2}},
		{"submitters in turn", []party{high(1), high(1), high(1), high(1), high(2), high(2), high(3)}, []int{0, 1, 4, 6, 2, 5, 3}},
		{"in turn within low", []party{high(1), low(1), low(1), low(1), low(2), high(3)}, []int{0, 5, 1, 4, 2, 3}},
		{"one submitter", []party{high(1), high(1), high(1)}, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := enterInOrder(t, c.parties); !slices.Equal(got, c.want) {
					t.Errorf("entered as %v, want %v", got, c.want)
				}
			})
		})
	}
}

// crowd sends parties through a turnstile.
type crowd struct {
	t    *testing.T
	ts   *turnstile
	stay time.Duration

	wg      sync.WaitGroup
	mu      sync.Mutex
	entered map[party][]time.Duration // how long each has waited
	refused map[party]int             // at once
	lost    map[party]int             // their patience
}

func newCrowd(t *testing.T, stay time.Duration) *crowd {
	return &crowd{t: t, ts: newTurnstile(), stay: stay, entered: map[party][]time.Duration{}, refused: map[party]int{}, lost: map[party]int{}}
}

// stays sets how long those who enter from now on stay.
func (c *crowd) stays(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stay = d
}

func (c *crowd) comes(p party) {
	c.wg.Go(func() {
		start := time.Now()
		err := c.ts.enter(c.t.Context(), p, map[Priority]time.Duration{High: highPatience, Low: lowPatience}[p.priority])
		took := time.Since(start)
		c.mu.Lock()
		switch {
		case err == nil:
			c.entered[p] = append(c.entered[p], took)
		case !errors.Is(err, ErrBusy):
			c.t.Error(err)
		case took == 0:
			c.refused[p]++
		default:
			c.lost[p]++
		}
		stay := c.stay
		c.mu.Unlock()
		if err == nil {
			time.Sleep(stay)
			c.ts.leave(stay)
		}
	})
}

// offer lets a party come so many times a second.
func (c *crowd) offer(p party, rate int, d time.Duration) {
	for range int(d.Seconds() * float64(rate)) {
		c.comes(p)
		time.Sleep(time.Second / time.Duration(rate))
	}
}

// TestGateRefusesAtOnce: what a slow lock cannot take is refused when it comes, not after a
// wait, so that those who get in have not waited long; and as many get in as the lock can take.
func TestGateRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2*time.Millisecond)
		modest := make([]party, 20)
		c.wg.Go(func() { c.offer(party{High, network(100)}, 2000, 10*time.Second) })
		for i := range modest {
			modest[i] = party{High, network(i)}
			c.wg.Go(func() { c.offer(modest[i], 5, 10*time.Second) })
		}
		c.wg.Go(func() { c.offer(party{Low, network(200)}, 200, 10*time.Second) })
		time.Sleep(time.Second) // in which the queue came to its length
		c.mu.Lock()
		clear(c.entered)
		clear(c.refused)
		clear(c.lost)
		c.mu.Unlock()
		c.wg.Wait()

		total := 0
		for p, waits := range c.entered {
			total += len(waits)
			slices.Sort(waits)
			// The modest ones, who come later, go before most of the one flooder's.
			if p99 := waits[len(waits)*99/100]; p99 > maxQueue*3/2 {
				t.Errorf("%v: waited %v (p99)", p, p99)
			}
		}
		if total < 4490 { // of 500 a second
			t.Errorf("%d got in, in nine seconds", total)
		}
		for _, p := range modest {
			if c.refused[p] != 0 || len(c.entered[p]) < 45 {
				t.Errorf("%v: %d refused, %d got in", p, c.refused[p], len(c.entered[p]))
			}
		}
		if c.refused[party{High, network(100)}] == 0 || c.refused[party{Low, network(200)}] == 0 {
			t.Errorf("refused: %v", c.refused)
		}
		for p, n := range c.lost {
			// A low one can be overtaken.
			if p.priority == High || n > c.refused[p]/5 {
				t.Errorf("%v: %d were refused after a wait, %d at once", p, n, c.refused[p])
			}
		}
		checkIdle(t, c.ts)
	})
}

// TestGateTakesBursts: as long as the lock is fast, all who come at once get in, also during
// a stay that is long, and after a time in which all were.
func TestGateTakesBursts(t *testing.T) {
	for _, b := range []struct {
		name        string
		stay        time.Duration // of those before
		before      int
		under       time.Duration // since the last of them entered
		first, then int           // who come at once, and a fifth of a second later
		want        int           // of all
	}{
		{"fast", 0, 1, 0, 3000, 3000, 6001},
		{"a stay of 100 ms", 100 * time.Millisecond, 1, 50 * time.Millisecond, 3000, 3000, 6001},
		// Low ones lose their patience.
		{"a stay of 600 ms", 600 * time.Millisecond, 1, 300 * time.Millisecond, 3000, 3000, 4501},
		{"after a slow hour", 5 * time.Millisecond, 1000, 5 * time.Millisecond, 3000, 3000, 7000},
	} {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, b.stay)
				for i := range b.before {
					if i > 0 {
						time.Sleep(b.stay)
					}
					c.comes(party{High, network(0)})
					synctest.Wait()
				}
				time.Sleep(b.under)
				c.stays(20 * time.Microsecond)
				for _, n := range []int{b.first, b.then} {
					for i := range n {
						c.comes(party{Priority(i % 2), network(i % 7)})
					}
					time.Sleep(200 * time.Millisecond)
				}
				c.wg.Wait()
				entered := 0
				for _, waits := range c.entered {
					entered += len(waits)
				}
				if entered != b.want {
					t.Errorf("%d of %d got in, want %d", entered, b.before+b.first+b.then, b.want)
				}
				checkIdle(t, c.ts)
			})
		})
	}
}

// TestGateForgivesOneStay: one long stay among short ones makes no queue too long, even one
// that stands already.
func TestGateForgivesOneStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const short = 100 * time.Microsecond
		c := newCrowd(t, short)
		c.offer(party{High, network(0)}, 5000, time.Second)
		c.wg.Wait()
		c.ts.enterFirst()
		for range 1500 {
			c.comes(party{High, network(1)})
		}
		time.Sleep(maxQueue)
		c.stays(100 * time.Millisecond)
		c.ts.leaveFirst()
		synctest.Wait()
		c.stays(short)
		time.Sleep(110 * time.Millisecond)
		for range 100 {
			c.comes(party{High, network(1)})
		}
		c.wg.Wait()
		if n := len(c.entered[party{High, network(1)}]); n != 1600 {
			t.Errorf("%d of 1,600 got in", n)
		}
		checkIdle(t, c.ts)
	})
}

// TestGateCountsStaysAlone: a queue that stands for another reason than long stays refuses
// nobody. Here the sequencer comes after each submitter; on a busy machine it is that each has
// to be scheduled first.
func TestGateCountsStaysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 20*time.Microsecond)
		ctx, stop := context.WithCancel(t.Context())
		c.ts.enterFirst()
		var sequencer sync.WaitGroup
		sequencer.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(time.Millisecond)
				c.ts.leaveFirst()
				c.ts.enterFirst()
			}
			c.ts.leaveFirst()
		})
		const first, later = 700, 100
		for i := range first {
			c.comes(party{High, network(i % 7)})
		}
		time.Sleep(maxQueue * 3 / 4)
		for i := range later {
			c.comes(party{High, network(i % 7)})
		}
		c.wg.Wait()
		stop()
		sequencer.Wait()
		for p, n := range c.refused {
			t.Errorf("%v: %d were refused", p, n)
		}
		entered := 0
		for _, waits := range c.entered {
			entered += len(waits)
		}
		if entered != first+later {
			t.Errorf("%d got in, want all %d", entered, first+later)
		}
		checkIdle(t, c.ts)
	})
}

// TestGateStall: while somebody inside does not leave, the queue is as long as patience lets it
// be, and when it is over, newcomers get in.
func TestGateStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, time.Minute)
		c.comes(party{High, network(0)})
		synctest.Wait()
		c.stays(0)
		longest := 0
		for i := range 30_000 {
			c.offer(party{Priority(i % 2), network(i % 7)}, 500, 2*time.Millisecond)
			g := &c.ts.gate
			g.mu.Lock()
			longest = max(longest, g.lines[High].waiting+g.lines[Low].waiting)
			g.mu.Unlock()
		}
		if want := 250 + 63; longest > want { // a second and a quarter of one, of 250 each a second
			t.Errorf("%d waited, want %d at most", longest, want)
		}
		c.wg.Wait()
		before := len(c.entered[party{High, network(1)}])
		c.offer(party{High, network(1)}, 500, time.Second)
		c.wg.Wait()
		if got := len(c.entered[party{High, network(1)}]) - before; got != 500 {
			t.Errorf("%d of 500 got in after the stall", got)
		}
		checkIdle(t, c.ts)
	})
}

// TestGateLeavesNothing: whoever gives up, whenever, leaves nothing behind, and keeps nobody
// from coming in.
func TestGateLeavesNothing(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			ts := newTurnstile()
			var wg sync.WaitGroup
			inside := 0
			visit := func(enter func() error, leave func(time.Duration), stay time.Duration) {
				if err := enter(); err != nil {
					if !errors.Is(err, ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if inside++; inside != 1 {
					t.Error("two parties inside")
				}
				time.Sleep(stay)
				inside--
				leave(stay)
			}
			// All times are multiples of one unit, so that ends of patience, of contexts and
			// of stays fall together.
			unit := func(n int) time.Duration { return time.Duration(rnd.IntN(n)) * 10 * time.Millisecond }
			for range 100 {
				p := party{Priority(rnd.IntN(2)), network(rnd.IntN(3))}
				comes, bound, gone, stay := unit(30), unit(20), unit(20), unit(4)
				wg.Go(func() {
					time.Sleep(comes)
					ctx, cancel := context.WithTimeout(t.Context(), gone)
					defer cancel()
					visit(func() error { return ts.enter(ctx, p, bound) }, ts.leave, stay)
				})
			}
			wg.Go(func() {
				for range 10 {
					time.Sleep(30 * time.Millisecond)
					visit(func() error { ts.enterFirst(); return nil }, func(time.Duration) { ts.leaveFirst() }, 10*time.Millisecond)
				}
			})
			wg.Wait()
			checkIdle(t, ts)
			if err := ts.enter(t.Context(), party{}, 0); err != nil {
				t.Fatal(err)
			}
			ts.leave(0)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestPreflightCrowded: while a slow cache keeps a queue at the gate, who would have to wait
// too long hears so before anything is done for him, and others do not.
func TestPreflightCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		slow := &slowCache{Cache: p.cache}
		registry := prometheus.NewRegistry()
		p.open(t, 0)
		c := p.config(t, 0)
		c.Cache, c.Metrics = slow, registry
		l, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		slow.set(5*time.Millisecond, 0, 0, storage.WAL{})
		const flooder = 1000
		var flood sync.WaitGroup
		flood.Go(func() {
			for i := range 2000 { // twice as many as the cache can take
				s := newEntry(t, i, High)
				s.Submitter = network(flooder)
				flood.Go(func() {
					if _, err := l.Add(t.Context(), s); err != nil && !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
				})
				time.Sleep(2500 * time.Microsecond)
			}
		})
		time.Sleep(2 * time.Second)
		refused, lowRefused := 0, 0
		for range 100 {
			if err := l.Preflight(network(flooder), High); errors.Is(err, ErrBusy) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
			if err := l.Preflight(network(1), Low); errors.Is(err, ErrBusy) {
				lowRefused++
			} else if err != nil {
				t.Error(err)
			}
			if err := l.Preflight(network(1), High); err != nil {
				t.Errorf("a modest submitter is refused: %v", err)
			}
			time.Sleep(7 * time.Millisecond)
		}
		if refused < 20 {
			t.Errorf("the flooder was refused %d of 100 times", refused)
		}
		if lowRefused < 20 { // who is modest, but behind all of the flooder's high ones
			t.Errorf("a low one was refused %d of 100 times", lowRefused)
		}
		if n := counts(t, registry, "daybook_intake_total")["busy_early,high"]; n != float64(refused) {
			t.Errorf("%v are counted, %d were refused", n, refused)
		}
		flood.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := l.Preflight(network(flooder), Low); err != nil {
			t.Errorf("after the flood: %v", err)
		}
	})
}
