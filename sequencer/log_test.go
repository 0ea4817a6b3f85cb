package sequencer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
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

const testOrigin = "log.example/2027h1"

func newTestSigner(t testing.TB) *checkpoint.Signer {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.NewSigner(testOrigin, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// probe sees every call on store, lock and cache before it is carried out, and
// may fail it. It outlives the logs that are opened on it.
type probe struct {
	store storage.Store
	lock  storage.Lock
	cache storage.Cache

	mu     sync.Mutex
	gets   int // of the cache
	puts   []string
	fault  func(op, name string) error // called with mu held
	onSwap func(new []byte)
	onPut  func(o storage.Object)
}

func newProbe() *probe {
	return &probe{store: memory.NewStore(), lock: memory.NewLock(), cache: memory.NewCache()}
}

func (p *probe) see(op, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op == "put" {
		p.puts = append(p.puts, name)
	}
	if op == "cache get" {
		p.gets++
	}
	if p.fault != nil {
		return p.fault(op, name)
	}
	return nil
}

func (p *probe) setFault(f func(op, name string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *probe) takePuts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	puts := p.puts
	p.puts = nil
	return puts
}

type probeStore struct{ *probe }

func (p probeStore) Put(ctx context.Context, objects ...storage.Object) error {
	for _, o := range objects {
		if err := p.see("put", o.Name); err != nil {
			return err
		}
		if p.onPut != nil {
			p.onPut(o)
		}
	}
	return p.store.Put(ctx, objects...)
}
func (p probeStore) Get(ctx context.Context, name string) ([]byte, error) {
	if err := p.see("get", name); err != nil {
		return nil, err
	}
	return p.store.Get(ctx, name)
}
func (p probeStore) Delete(ctx context.Context, names ...string) error {
	for _, n := range names {
		if err := p.see("delete", n); err != nil {
			return err
		}
	}
	return p.store.Delete(ctx, names...)
}
func (p probeStore) List(ctx context.Context, folder string) ([]string, error) {
	return p.store.List(ctx, folder)
}

type probeLock struct{ *probe }

func (p probeLock) Fetch(ctx context.Context, id [32]byte) ([]byte, error) {
	return p.lock.Fetch(ctx, id)
}
func (p probeLock) Create(ctx context.Context, id [32]byte, body []byte) error {
	return p.lock.Create(ctx, id, body)
}
func (p probeLock) Swap(ctx context.Context, id [32]byte, old, new []byte) error {
	if err := p.see("swap", ""); err != nil {
		return err
	}
	if p.onSwap != nil {
		p.onSwap(new)
	}
	return p.lock.Swap(ctx, id, old, new)
}

type probeCache struct{ *probe }

func (p probeCache) Get(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
	if err := p.see("cache get", ""); err != nil {
		return tlog.Position{}, false, err
	}
	return p.cache.Get(ctx, key)
}
func (p probeCache) Put(ctx context.Context, records []storage.Record) error {
	if err := p.see("cache put", ""); err != nil {
		return err
	}
	return p.cache.Put(ctx, records)
}
func (p probeCache) Checkpoint(ctx context.Context) (storage.WAL, error) {
	if err := p.see("wal checkpoint", ""); err != nil {
		return storage.WAL{}, err
	}
	return p.cache.Checkpoint(ctx)
}

func (p *probe) config(t testing.TB, poolSize int) Config {
	return Config{Interval: 200 * time.Millisecond, PoolSize: poolSize, Signer: newTestSigner(t),
		Store: probeStore{p}, Lock: probeLock{p}, Cache: probeCache{p}, Logger: slog.New(slog.DiscardHandler)}
}

// open opens the log, creating it first if need be.
func (p *probe) open(t testing.TB, poolSize int) *Log {
	t.Helper()
	c := p.config(t, poolSize)
	if err := Create(t.Context(), c); err != nil && !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs the log until stop is called, which returns what Run returned.
func run(t testing.TB, l *Log) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func (p *probe) publicLog(t testing.TB) *oracle {
	t.Helper()
	o, err := readPublicLog(context.WithoutCancel(t.Context()), p.store, newTestSigner(t).Verifier())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var testIssuer = []byte("the issuer of all test entries")

// newEntry returns a submission of entry number n, with an issuer.
func newEntry(t testing.TB, n int, pr Priority) Submission {
	t.Helper()
	e, err := tlog.NewX509Entry(fmt.Appendf(nil, "certificate number %d", n), []tlog.Fingerprint{sha256.Sum256(testIssuer)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Submission{Entry: e, Issuers: [][]byte{testIssuer}, Priority: pr, Submitter: network(n % 7)}
}

func mustAdd(t testing.TB, l *Log, s Submission) promise {
	t.Helper()
	position, err := l.Add(t.Context(), s)
	if err != nil {
		t.Errorf("adding %x: %v", s.Entry.Key(), err)
	}
	return promise{s.Entry.Key(), position}
}

// addAll adds entries from..to-1 at the same time, and calls answered, if given,
// as soon as each has its answer.
func addAll(t testing.TB, l *Log, from, to int, answered ...func(promise)) []promise {
	t.Helper()
	promises := make([]promise, to-from)
	var wg sync.WaitGroup
	for i := range promises {
		s := newEntry(t, from+i, High)
		wg.Go(func() {
			promises[i] = mustAdd(t, l, s)
			for _, f := range answered {
				f(promises[i])
			}
		})
	}
	wg.Wait()
	return promises
}

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
				if _, err := decodeBundle(b, func(name string) ([]byte, error) { return p.store.Get(t.Context(), name) }); err != nil {
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
				head, err := verifier.Verify(*published.Load())
				if err != nil || pr.position.Index >= head.Tree.N {
					t.Errorf("S3: index %d was promised at a published size of %d", pr.position.Index, head.Tree.N)
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
		time.Sleep(5 * l.c.Interval)
		if got := mustAdd(t, l, newEntry(t, 7, High)); got != promises[7] {
			t.Errorf("memory answers %v, want %v", got, promises[7])
		}
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
	l.turnstile.leave()
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

// TestStageFails: a round that could not be staged refuses its entries and
// leaves no trace; the next one takes them (E04).
func TestStageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		p.setFault(func(op, name string) error {
			if op == "put" && storage.KindOf(name) == storage.Staging {
				return errors.New("no space left on device")
			}
			return nil
		})
		stop := run(t, l)
		s := newEntry(t, 1, High)
		if _, err := l.Add(t.Context(), s); !errors.Is(err, ErrRound) {
			t.Errorf("the entry of a failed round got %v", err)
		}
		p.setFault(nil)
		pr := mustAdd(t, l, s)
		if pr.position.Index != 0 {
			t.Errorf("index %d", pr.position.Index)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
			t.Error(err)
		}
	})
}

// TestHalts: what must stop a log stops it, answers those who wait, and changes
// nothing public (S4).
func TestHalts(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name  string
		fault func(op, name string) error
		want  string
	}{
		{"conflict", func(op, _ string) error {
			if op == "swap" {
				return storage.ErrConflict
			}
			return nil
		}, "another process"},
		{"register gone", func(op, _ string) error {
			if op == "swap" {
				return storage.ErrNotFound
			}
			return nil
		}, "another process"},
		{"unknown outcome", func(op, _ string) error {
			if op == "swap" {
				return boom
			}
			return nil
		}, "unknown"},
		{"fsync error", func(op, name string) error {
			if op == "put" && storage.KindOf(name) == storage.Staging {
				return fmt.Errorf("%w: fsync", storage.ErrNotDurable)
			}
			return nil
		}, "durable"},
		{"apply keeps failing", func(op, name string) error {
			if op == "put" && storage.KindOf(name) == storage.HashTile {
				return boom
			}
			return nil
		}, "apply: boom"},
		{"immutable object changed", func(op, name string) error {
			if op == "put" && storage.KindOf(name) == storage.HashTile {
				return storage.ErrChanged
			}
			return nil
		}, "different content"},
		{"publish keeps failing", func(op, name string) error {
			if op == "put" && name == "checkpoint" {
				return boom
			}
			return nil
		}, "publish: boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				l := p.open(t, 10)
				before, _ := p.store.Get(t.Context(), "checkpoint")
				p.setFault(c.fault)
				s := newEntry(t, 1, High)
				ticket, err := l.Submit(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				stop := run(t, l)
				if _, err := ticket.Wait(t.Context()); !errors.Is(err, ErrHalted) {
					t.Errorf("who waited got %v", err)
				}
				if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrHalted) {
					t.Errorf("a halted log answers %v", err)
				}
				if err := stop(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Run returned %v, want mention of %q", err, c.want)
				}
				if l.Status().Halted == nil {
					t.Error("status does not say halted")
				}
				after, _ := p.store.Get(t.Context(), "checkpoint")
				if !bytes.Equal(before, after) {
					t.Error("a halted round published a checkpoint")
				}
				// A restart with sound storage goes on.
				p.setFault(nil)
				l = p.open(t, 10)
				stop = run(t, l)
				pr := mustAdd(t, l, s)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				o := p.publicLog(t)
				if err := o.keeps([]promise{pr}); err != nil || len(o.leaves) != 1 {
					t.Errorf("after the restart: %v, %d leaves", err, len(o.leaves))
				}
			})
		})
	}
}

// TestPassingFaultPastCommit: apply and publish wait out what passes.
func TestPassingFaultPastCommit(t *testing.T) {
	for _, kind := range []storage.Kind{storage.HashTile, storage.Checkpoint} {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe()
			l := p.open(t, 10)
			failures := 3
			p.setFault(func(op, name string) error {
				if op == "put" && storage.KindOf(name) == kind && failures > 0 {
					failures--
					return errors.New("passing")
				}
				return nil
			})
			stop := run(t, l)
			pr := mustAdd(t, l, newEntry(t, 1, High))
			if err := stop(); err != nil || failures != 0 {
				t.Fatalf("%v, %d failures left", err, failures)
			}
			if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTwoLogsOnOneLock: whoever loses the compare-and-swap halts; there is never
// a fork (F16).
func TestTwoLogsOnOneLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		a, b := p.open(t, 10), p.open(t, 10)
		stopA := run(t, a)
		time.Sleep(a.c.Interval / 2)
		stopB := run(t, b)
		pr := mustAdd(t, a, newEntry(t, 1, High))
		time.Sleep(a.c.Interval)
		if err := stopB(); err == nil || !strings.Contains(err.Error(), "another process has written this log's lock") {
			t.Errorf("the second log: %v", err)
		}
		if err := stopA(); err != nil {
			t.Errorf("the first log: %v", err)
		}
		if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleRoundsWriteOnlyTheCheckpoint (F09, D12).
func TestIdleRoundsWriteOnlyTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		stop := run(t, l)
		mustAdd(t, l, newEntry(t, 1, High))
		time.Sleep(l.c.Interval)
		p.takePuts()
		for range 300 {
			time.Sleep(l.c.Interval)
			if age := time.Since(l.Status().Published); age > 2*l.c.Interval {
				t.Fatalf("an idle log's checkpoint is %v old", age)
			}
		}
		puts := p.takePuts()
		if len(puts) < 299 {
			t.Errorf("%d checkpoints in 300 intervals", len(puts))
		}
		for _, name := range puts {
			if name != "checkpoint" {
				t.Errorf("an idle round wrote %s", name)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestDrain: at shutdown those admitted are served, later ones are told.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		stop := run(t, l)
		ticket, err := l.Submit(t.Context(), newEntry(t, 1, High))
		if err != nil {
			t.Fatal(err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		position, err := ticket.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.publicLog(t).keeps([]promise{{newEntry(t, 1, High).Entry.Key(), position}}); err != nil {
			t.Error(err)
		}
		if _, err := l.Submit(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrClosed) {
			t.Errorf("after the drain: %v", err)
		}
		if s := l.Status(); !s.Draining || s.Halted != nil || s.Tree.N != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestSunset: a read-only log refuses, and keeps its checkpoint fresh.
func TestSunset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		p.open(t, 10)
		c := p.config(t, 10)
		c.Sunset = time.Now().Add(time.Minute)
		l, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		mustAdd(t, l, newEntry(t, 1, High))
		time.Sleep(time.Minute)
		if _, err := l.Add(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrSunset) {
			t.Errorf("after sunset: %v", err)
		}
		if age := time.Since(l.Status().Published); age > 2*c.Interval {
			t.Errorf("the checkpoint is %v old", age)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestCacheErrorIsNoMiss: while the cache fails, nobody gets an SCT over a guess
// (E02).
func TestCacheErrorIsNoMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		stop := run(t, l)
		pr := mustAdd(t, l, newEntry(t, 1, High))
		time.Sleep(l.c.Interval)
		p.setFault(func(op, _ string) error {
			if op == "cache get" {
				return errors.New("database disk image is malformed")
			}
			return nil
		})
		for n := 1; n <= 2; n++ {
			if _, err := l.Add(t.Context(), newEntry(t, n, High)); err == nil {
				t.Errorf("entry %d got an answer from a failing cache", n)
			}
		}
		p.setFault(nil)
		if again := mustAdd(t, l, newEntry(t, 1, High)); again != pr {
			t.Errorf("got %v, want %v as before", again, pr)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestDuplicateLimit: low-priority duplicates of one network are limited, others
// and fresh entries are not.
func TestDuplicateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		p.open(t, 10)
		c := p.config(t, 10)
		c.DuplicateRate = 1
		l, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		s := newEntry(t, 1, Low)
		pr := mustAdd(t, l, s)
		time.Sleep(l.c.Interval)
		limited := 0
		for range 20 {
			switch position, err := l.Add(t.Context(), s); {
			case errors.Is(err, ErrLimited):
				limited++
			case err != nil || position != pr.position:
				t.Errorf("%v, %v", position, err)
			}
		}
		if limited != 10 {
			t.Errorf("%d of 20 duplicates were limited, want 10", limited)
		}
		other := s
		other.Submitter = network(99)
		if got, err := l.Add(t.Context(), other); err != nil || got != pr.position {
			t.Errorf("another network: %v, %v", got, err)
		}
		high := s
		high.Priority = High
		if got, err := l.Add(t.Context(), high); err != nil || got != pr.position {
			t.Errorf("high priority: %v, %v", got, err)
		}
		time.Sleep(time.Second)
		if got, err := l.Add(t.Context(), s); err != nil || got != pr.position {
			t.Errorf("a second later: %v, %v", got, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
