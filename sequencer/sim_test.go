package sequencer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/storage/storagetest"
	"github.com/daybook-ct/daybook/tlog"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation with this seed only, and show the log's lines")
	simSeeds = flag.Uint64("sim.seeds", 200, "how many seeds the simulation runs")
)

// TestSimulation lets a log live through several lives with submitters, slow and
// failing storage, crashes and restarts, all drawn from a seed. After each life
// the whole public log is verified: every SCT that was promised, by any life,
// stands in it, and no two checkpoints ever published conflict.
//
// `make sim SEED=n` replays one seed; `make sim SEEDS=10000` runs many.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		newSimulation(t, *simSeed, os.Stderr).run(t)
		return
	}
	total := simTotals{}
	for seed := uint64(1); seed <= *simSeeds; seed++ {
		s := newSimulation(t, seed, nil)
		ok := t.Run(fmt.Sprintf("seed=%d", seed), s.run)
		if !ok {
			t.Fatalf("replay with: make sim SEED=%d", seed)
		}
		total.add(s.totals)
	}
	t.Logf("%d seeds: %+v", *simSeeds, total)
	// A simulation in which nothing happens proves nothing.
	if total.promises == 0 || total.crashes == 0 || total.powerCuts == 0 || total.halts == 0 || total.faults == 0 || total.refused == 0 || total.duplicates == 0 {
		t.Errorf("the simulation did not meet all it should: %+v", total)
	}
}

type simTotals struct {
	lives, crashes, powerCuts, halts, drains, failedOpens, faults int
	promises, duplicates, refused, evicted, canceled              int
	leaves, checkpoints                                           int64
}

func (a *simTotals) add(b simTotals) {
	a.lives += b.lives
	a.crashes += b.crashes
	a.powerCuts += b.powerCuts
	a.halts += b.halts
	a.drains += b.drains
	a.failedOpens += b.failedOpens
	a.faults += b.faults
	a.promises += b.promises
	a.duplicates += b.duplicates
	a.refused += b.refused
	a.evicted += b.evicted
	a.canceled += b.canceled
	a.leaves += b.leaves
	a.checkpoints += b.checkpoints
}

// simulation is the world that outlives crashes, and the model of what was
// promised in it.
type simulation struct {
	seed   uint64
	rnd    *rand.Rand // used by the main goroutine only
	out    *os.File
	signer *checkpoint.Signer

	store *headKeeper
	lock  *memory.Lock
	cache *memory.Cache
	// mayDouble is set once a fault that may cost the cache a key has been
	// planned; from then on an entry may be logged twice (S8).
	mayDouble bool
	// torn is set from a power cut until a process has recovered from it.
	torn bool

	mu       sync.Mutex // guards what follows
	promises []promise
	next     int // number of the next new entry
	totals   simTotals
}

// headKeeper is the store; it keeps every checkpoint that was ever published.
type headKeeper struct {
	*memory.Store
	verifier *checkpoint.Verifier
	mu       sync.Mutex
	heads    []checkpoint.TreeHead
}

func (s *headKeeper) Show(ctx context.Context, objects ...storage.Object) error {
	s.keep(objects)
	return s.Store.Show(ctx, objects...)
}

func (s *headKeeper) Put(ctx context.Context, objects ...storage.Object) error {
	s.keep(objects)
	return s.Store.Put(ctx, objects...)
}

func (s *headKeeper) keep(objects []storage.Object) {
	for _, o := range objects {
		if o.Name != "checkpoint" {
			continue
		}
		head, err := s.verifier.Verify(o.Data)
		if err != nil {
			panic(fmt.Sprintf("a checkpoint is published that does not verify: %v", err))
		}
		s.mu.Lock()
		s.heads = append(s.heads, head)
		s.mu.Unlock()
	}
}

func newSimulation(t *testing.T, seed uint64, out *os.File) *simulation {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys.MLDSA = nil // most of the time would go there
	signer, err := checkpoint.NewSigner(testOrigin, keys)
	if err != nil {
		t.Fatal(err)
	}
	return &simulation{seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), out: out, signer: signer,
		store: &headKeeper{Store: memory.NewStore(), verifier: signer.Verifier()}, lock: memory.NewLock(), cache: memory.NewCache()}
}

func (s *simulation) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Create(t.Context(), s.config(storagetest.NewPlan(), 0)); err != nil {
			t.Fatal(err)
		}
		for range 2 + s.rnd.IntN(4) {
			s.life(t, true)
			s.verify(t)
		}
		before := len(s.promises)
		s.life(t, false)
		// A drain leaves nothing that a power cut could undo.
		s.store.PowerLoss(func(name string) bool {
			t.Errorf("S2: %s was not durable when its log had ended", name)
			return true
		})
		o := s.verify(t)
		if len(s.promises) == before {
			t.Error("a life without faults promised nothing")
		}
		s.totals.leaves, s.totals.checkpoints = o.head.Tree.N, int64(len(s.store.heads))
	})
}

func (s *simulation) config(plan *storagetest.Plan, poolSize int) Config {
	logger := slog.New(slog.DiscardHandler)
	if s.out != nil {
		logger = slog.New(slog.NewTextHandler(s.out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	// Lives differ in this, and not by a draw, so that old seeds keep their meaning.
	every := time.Duration((s.seed+uint64(s.totals.lives))%3) * time.Second / 2
	return Config{Interval: 200 * time.Millisecond, PoolSize: poolSize, Signer: s.signer, Logger: logger, DuplicateRate: 5, RememberEvery: every,
		Store: storagetest.NewFaultyStore(s.store, plan), Lock: storagetest.NewFaultyLock(s.lock, plan), Cache: storagetest.NewFaultyCache(s.cache, plan)}
}

// faultPlan draws up to four faults.
func (s *simulation) faultPlan() *storagetest.Plan {
	plan := storagetest.NewPlan()
	ops := []storagetest.Op{storagetest.StorePut, storagetest.StoreSync, storagetest.StoreGet, storagetest.StoreDelete, storagetest.StoreList,
		storagetest.LockFetch, storagetest.LockSwap, storagetest.CacheGet, storagetest.CachePut, storagetest.CacheCheckpoint}
	kinds := []storage.Kind{storage.Invalid, storage.Checkpoint, storage.HashTile, storage.DataTile, storage.Issuer, storage.Staging}
	for range s.rnd.IntN(5) {
		f := storagetest.Fault{Op: ops[s.rnd.IntN(len(ops))], Nth: 1 + s.rnd.IntN(12),
			Effect: []storagetest.Effect{storagetest.Lost, storagetest.Slow, storagetest.KeptThenError}[s.rnd.IntN(3)],
			Delay:  time.Duration(s.rnd.IntN(700)) * time.Millisecond}
		if f.Op == storagetest.StorePut || f.Op == storagetest.StoreGet {
			f.Kind = kinds[s.rnd.IntN(len(kinds))]
		}
		if f.Op == storagetest.StorePut && s.rnd.IntN(8) == 0 {
			f.Err = storage.ErrNotDurable
		}
		if s.rnd.IntN(4) == 0 { // the process dies in the operation
			f.Then = plan.Kill
		}
		if f.Op == storagetest.CachePut {
			s.mayDouble = true
		}
		plan.Add(f)
		s.totals.faults++
	}
	return plan
}

// life opens the log, lets submitters at it, and ends in a drain, a crash or a halt.
func (s *simulation) life(t *testing.T, faults bool) {
	s.totals.lives++
	plan, poolSize := storagetest.NewPlan(), 0
	if faults {
		plan = s.faultPlan()
		poolSize = []int{0, 3, 10, 50}[s.rnd.IntN(4)]
		if s.rnd.IntN(10) == 0 {
			s.cache.Forget()
			s.mayDouble = true
		}
	}
	if s.store.Restart(); s.rnd.IntN(2) == 0 {
		s.store.PowerLoss(func(string) bool { s.torn = true; return s.rnd.IntN(3) > 0 })
	}
	l, err := Open(t.Context(), s.config(plan, poolSize))
	if err != nil {
		if !faults {
			t.Fatalf("a log without faults does not open: %v", err)
		}
		s.totals.failedOpens++
		return
	}
	if s.torn {
		s.totals.powerCuts++
		s.torn = false
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()

	var submitters sync.WaitGroup
	for i := range 1 + s.rnd.IntN(6) {
		rnd := rand.New(rand.NewPCG(s.seed, uint64(s.totals.lives)<<8|uint64(i)))
		submitters.Go(func() { s.submitter(t, ctx, l, rnd, i) })
	}
	time.Sleep(time.Duration(200+s.rnd.IntN(4000)) * time.Millisecond)
	if faults && s.rnd.IntN(2) == 0 {
		plan.Kill()
		s.totals.crashes++
		time.Sleep(l.c.Interval)
	}
	cancel()
	err = <-ran
	submitters.Wait()
	switch {
	case err == nil:
		s.totals.drains++
	case !faults:
		t.Fatalf("a log without faults halts: %v", err)
	default:
		s.totals.halts++
	}
}

// submitter submits until ctx is done, and notes what it was promised.
func (s *simulation) submitter(t *testing.T, ctx context.Context, l *Log, rnd *rand.Rand, id int) {
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	for ctx.Err() == nil {
		for range 1 + rnd.IntN(1+rnd.IntN(30)) {
			sub, again := s.pick(t, rnd)
			sub.Submitter = network(id)
			patience := 5 * time.Second
			if rnd.IntN(5) == 0 {
				patience = time.Duration(rnd.IntN(300)) * time.Millisecond
			}
			inFlight.Go(func() {
				waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
				defer cancel()
				position, err := l.Add(waiting, sub)
				s.note(t, sub.Entry.Key(), position, again, err)
			})
		}
		time.Sleep(time.Duration(rnd.IntN(400)) * time.Millisecond)
	}
}

// pick returns a new entry or, a third of the time, one that was submitted before.
func (s *simulation) pick(t *testing.T, rnd *rand.Rand) (sub Submission, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next
	if again = n > 0 && rnd.IntN(3) == 0; again {
		n = rnd.IntN(s.next)
	} else {
		s.next++
	}
	return newEntry(t, n, Priority(rnd.IntN(2))), again
}

func (s *simulation) note(t *testing.T, key tlog.Key, position tlog.Position, again bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.promises = append(s.promises, promise{key, position})
		s.totals.promises++
		if again {
			s.totals.duplicates++
		}
	case errors.Is(err, ErrEvicted):
		s.totals.evicted++
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		s.totals.canceled++
	case errors.Is(err, ErrFull), errors.Is(err, ErrRound), errors.Is(err, ErrBusy), errors.Is(err, ErrLimited),
		errors.Is(err, ErrClosed), errors.Is(err, ErrHalted), errors.Is(err, storagetest.ErrInjected), errors.Is(err, storagetest.ErrKilled):
		s.totals.refused++
	default:
		t.Errorf("a submitter got an error that it cannot understand: %v", err)
	}
}

// verify checks the whole public log against the model.
func (s *simulation) verify(t *testing.T) *oracle {
	t.Helper()
	if s.torn {
		return nil // until a process has recovered there is nothing to be seen
	}
	o, err := readPublicLog(t.Context(), s.store, s.signer.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	if err := o.keeps(s.promises); err != nil {
		t.Fatal(err)
	}
	if !s.mayDouble && len(o.byKey) != len(o.leaves) {
		t.Fatalf("%d entries became %d leaves although the cache lost nothing", len(o.byKey), len(o.leaves))
	}
	seen := map[checkpoint.TreeHead]bool{}
	last := int64(0)
	for _, head := range s.store.heads {
		if head.Timestamp < last {
			t.Fatalf("S5: a checkpoint of %d was published after one of %d", head.Timestamp, last)
		}
		last = head.Timestamp
		unique := checkpoint.TreeHead{Tree: head.Tree}
		if seen[unique] {
			continue
		}
		seen[unique] = true
		if err := o.extends(head); err != nil {
			t.Fatal(err)
		}
	}
	return o
}
