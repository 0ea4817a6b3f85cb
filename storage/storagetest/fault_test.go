package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// TestFaultyWithoutFaults runs the suites through wrappers that only record.
func TestFaultyWithoutFaults(t *testing.T) {
	p := NewPlan()
	TestStore(t, func(testing.TB) storage.Store { return NewFaultyStore(memory.NewStore(), p) })
	TestLock(t, func(testing.TB) storage.Lock { return NewFaultyLock(memory.NewLock(), p) })
	TestCache(t, func(testing.TB) storage.Cache { return NewFaultyCache(memory.NewCache(), p) })
	seen := make(map[Op]bool)
	for _, e := range p.Events() {
		seen[e.Op] = true
	}
	for _, op := range []Op{StorePut, StoreGet, StoreDelete, StoreList, LockFetch, LockCreate, LockSwap, CacheGet, CachePut, CacheCheckpoint} {
		if !seen[op] {
			t.Errorf("operation %s was not recorded", op)
		}
	}
}

// stored names what a store holds, in order.
func stored(s *memory.Store) string {
	return strings.Join(slices.Sorted(maps.Keys(s.All())), " ")
}

func TestStoreFaults(t *testing.T) {
	objects := []storage.Object{object("tile/data/000", nil), object("tile/0/000", nil), object("tile/0/001", nil), object("checkpoint", nil)}
	const all = "checkpoint tile/0/000 tile/0/001 tile/data/000"
	for _, c := range []struct {
		fault  Fault
		err    error
		stored string
	}{
		{Fault{Op: StorePut, Nth: 1, Effect: Lost}, ErrInjected, ""},
		{Fault{Op: StorePut, Kind: storage.HashTile, Nth: 2, Effect: Lost}, ErrInjected, "tile/0/000 tile/data/000"},
		{Fault{Op: StorePut, Kind: storage.Checkpoint, Nth: 1, Effect: Lost}, ErrInjected, "tile/0/000 tile/0/001 tile/data/000"},
		{Fault{Op: StorePut, Kind: storage.Checkpoint, Nth: 1, Effect: KeptThenError}, ErrInjected, all},
		{Fault{Op: StorePut, Kind: storage.Checkpoint, Nth: 1, Effect: Lost, Err: storage.ErrChanged}, storage.ErrChanged, "tile/0/000 tile/0/001 tile/data/000"},
		{Fault{Op: StorePut, Kind: storage.Checkpoint, Nth: 1, Effect: Kept}, nil, all},
		{Fault{Op: StorePut, Kind: storage.Checkpoint, Nth: 2, Effect: Lost}, nil, all},
		{Fault{Op: StorePut, Kind: storage.Staging, Nth: 1, Effect: Lost}, nil, all},
		{Fault{Op: StoreDelete, Nth: 1, Effect: Lost}, nil, all},
	} {
		s, p := memory.NewStore(), NewPlan(c.fault)
		err := NewFaultyStore(s, p).Put(t.Context(), objects...)
		if !errors.Is(err, c.err) {
			t.Errorf("%v: put returned %v, want %v", c.fault, err, c.err)
		}
		if got := stored(s); got != c.stored {
			t.Errorf("%v: store holds %q, want %q", c.fault, got, c.stored)
		}
		hit := c.err != nil || c.fault.Effect == Kept
		if unused := len(p.Unused()) > 0; unused == hit {
			t.Errorf("%v: unused is %v", c.fault, unused)
		}
	}
}

func TestStoreFaultsCountAcrossCalls(t *testing.T) {
	s := memory.NewStore()
	p := NewPlan(Fault{Op: StorePut, Kind: storage.HashTile, Nth: 3, Effect: Lost}, Fault{Op: StoreGet, Effect: KeptThenError})
	f := NewFaultyStore(s, p)
	var errs []bool
	for i := range 5 {
		errs = append(errs, f.Put(t.Context(), object(fmt.Sprintf("tile/0/%03d", i), nil), object("checkpoint", nil)) != nil)
	}
	if want := []bool{false, false, true, false, false}; !slices.Equal(errs, want) {
		t.Errorf("puts failed: %v, want %v", errs, want)
	}
	for range 3 {
		if b, err := f.Get(t.Context(), "checkpoint"); !errors.Is(err, ErrInjected) || b != nil {
			t.Errorf("get with a fault for every time: %q, %v", b, err)
		}
	}
	// The lost tile took the checkpoint of its Put with it.
	want := Event{Op: StorePut, Kind: storage.HashTile, Nth: 3, Hit: true}
	i := slices.Index(p.Events(), want)
	if i < 0 || p.Events()[i+1].Kind != storage.HashTile {
		t.Errorf("events are %v, want %v followed by another hash tile", p.Events(), want)
	}
}

func TestStoreDeleteAndListFaults(t *testing.T) {
	s := memory.NewStore()
	put(t, s, object(stagingName(1), nil), object(stagingName(2), nil), object(issuerName("a"), nil))
	f := NewFaultyStore(s, NewPlan(
		Fault{Op: StoreDelete, Kind: storage.Staging, Nth: 2, Effect: Lost},
		Fault{Op: StoreList, Kind: storage.Staging, Nth: 1, Effect: Lost}))
	wantErr(t, "deleting", f.Delete(t.Context(), stagingName(1), stagingName(2)), ErrInjected)
	lacks(t, s, stagingName(1))
	holds(t, s, stagingName(2), nil)
	if _, err := f.List(t.Context(), "issuer/"); err != nil {
		t.Errorf("listing issuers: %v", err)
	}
	names, err := f.List(t.Context(), "staging/")
	wantErr(t, "listing bundles", err, ErrInjected)
	if names != nil {
		t.Errorf("listing failed, but returned %q", names)
	}
}

func TestLockFaults(t *testing.T) {
	for _, c := range []struct {
		effect Effect
		err    error
		after  string
	}{{Lost, ErrInjected, "a"}, {KeptThenError, ErrInjected, "b"}, {Kept, nil, "b"}, {Slow, nil, "b"}} {
		l := memory.NewLock()
		f := NewFaultyLock(l, NewPlan(Fault{Op: LockSwap, Nth: 2, Effect: c.effect}))
		create(t, f, logID(1), []byte("0"))
		swap(t, f, logID(1), []byte("0"), []byte("a"))
		if err := f.Swap(t.Context(), logID(1), []byte("a"), []byte("b")); !errors.Is(err, c.err) {
			t.Errorf("%v: swap returned %v, want %v", c.effect, err, c.err)
		}
		register(t, f, logID(1), []byte(c.after))
	}
	f := NewFaultyLock(memory.NewLock(), NewPlan(Fault{Op: LockFetch, Nth: 1}, Fault{Op: LockCreate, Nth: 1}))
	wantErr(t, "creating", f.Create(t.Context(), logID(1), nil), ErrInjected)
	_, err := f.Fetch(t.Context(), logID(1))
	wantErr(t, "fetching", err, ErrInjected)
	absent(t, f, logID(1))
}

func TestCacheFaults(t *testing.T) {
	c := memory.NewCache()
	f := NewFaultyCache(c, NewPlan(
		Fault{Op: CachePut, Nth: 1, Effect: Lost}, Fault{Op: CachePut, Nth: 2, Effect: KeptThenError},
		Fault{Op: CacheGet, Nth: 2, Effect: Lost}, Fault{Op: CacheCheckpoint, Nth: 1, Effect: Lost}))
	a := rec("a", 1, 2)
	wantErr(t, "first put", f.Put(t.Context(), []storage.Record{a}), ErrInjected)
	miss(t, f, a.Key)
	wantErr(t, "second put", f.Put(t.Context(), []storage.Record{a}), ErrInjected)
	if p, ok, err := f.Get(t.Context(), a.Key); !errors.Is(err, ErrInjected) || ok || p != (tlog.Position{}) {
		t.Errorf("second get: %v, %v, %v", p, ok, err)
	}
	hit(t, f, a)
	if _, err := f.Checkpoint(t.Context()); !errors.Is(err, ErrInjected) {
		t.Errorf("WAL checkpoint: %v", err)
	}
	if w, err := f.Checkpoint(t.Context()); err != nil || w.Frames != 1 {
		t.Errorf("second WAL checkpoint: %+v, %v", w, err)
	}
}

// TestSlow checks the delay on the clock of a bubble.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		f := NewFaultyStore(s, NewPlan(
			Fault{Op: StorePut, Kind: storage.Checkpoint, Effect: Slow, Delay: time.Minute},
			Fault{Op: StorePut, Kind: storage.HashTile, Nth: 1, Effect: KeptThenError, Delay: time.Second}))
		start := time.Now()
		err := f.Put(t.Context(), object("tile/0/000", nil), object("checkpoint", []byte("c")))
		wantErr(t, "slow put", err, ErrInjected)
		if took := time.Since(start); took != time.Minute+time.Second {
			t.Errorf("slow put took %v", took)
		}
		holds(t, s, "checkpoint", []byte("c"))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		wantErr(t, "slow put with a deadline", f.Put(ctx, object("checkpoint", []byte("d"))), context.DeadlineExceeded)
		if took := time.Since(start); took != time.Second {
			t.Errorf("slow put with a deadline took %v", took)
		}
		holds(t, s, "checkpoint", []byte("c"))
	})
}

func TestKill(t *testing.T) {
	for _, c := range []struct {
		effect Effect
		after  string
	}{{Lost, "a"}, {Kept, "b"}, {KeptThenError, "b"}} {
		s, l, ca := memory.NewStore(), memory.NewLock(), memory.NewCache()
		p := NewPlan()
		p.Add(Fault{Op: LockSwap, Nth: 1, Effect: c.effect, Then: p.Kill})
		fs, fl, fc := NewFaultyStore(s, p), NewFaultyLock(l, p), NewFaultyCache(ca, p)
		create(t, fl, logID(1), []byte("a"))
		wantErr(t, "swap at which the process dies", fl.Swap(t.Context(), logID(1), []byte("a"), []byte("b")), ErrKilled)
		wantErr(t, "put after death", fs.Put(t.Context(), object("checkpoint", nil)), ErrKilled)
		_, err := fs.Get(t.Context(), "checkpoint")
		wantErr(t, "get after death", err, ErrKilled)
		_, err = fs.List(t.Context(), "staging/")
		wantErr(t, "list after death", err, ErrKilled)
		wantErr(t, "delete after death", fs.Delete(t.Context(), "checkpoint"), ErrKilled)
		_, err = fl.Fetch(t.Context(), logID(1))
		wantErr(t, "fetch after death", err, ErrKilled)
		wantErr(t, "create after death", fl.Create(t.Context(), logID(2), nil), ErrKilled)
		wantErr(t, "cache put after death", fc.Put(t.Context(), nil), ErrKilled)
		_, _, err = fc.Get(t.Context(), tlog.Key{})
		wantErr(t, "cache get after death", err, ErrKilled)
		_, err = fc.Checkpoint(t.Context())
		wantErr(t, "WAL checkpoint after death", err, ErrKilled)
		if got := stored(s); got != "" {
			t.Errorf("the dead process wrote %s", got)
		}
		register(t, l, logID(1), []byte(c.after))
	}
}

// TestKillWhileSlow: what waits when the process dies is never done.
func TestKillWhileSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		p := NewPlan(Fault{Op: StorePut, Effect: Slow, Delay: time.Hour})
		result := make(chan error)
		go func() { result <- NewFaultyStore(s, p).Put(t.Context(), object("checkpoint", nil)) }()
		time.Sleep(time.Minute)
		p.Kill()
		wantErr(t, "slow put", <-result, ErrKilled)
		if got := stored(s); got != "" {
			t.Errorf("the dead process wrote %s", got)
		}
	})
}

// TestPlanReplays enumerates a history, then hits each of its operations.
func TestPlanReplays(t *testing.T) {
	history := func(p *Plan) (err error) {
		s, l := NewFaultyStore(memory.NewStore(), p), NewFaultyLock(memory.NewLock(), p)
		err = errors.Join(err, l.Create(t.Context(), logID(1), nil))
		for i := range 3 {
			err = errors.Join(err, s.Put(t.Context(), object(fmt.Sprintf("tile/0/%03d", i), nil), object("checkpoint", nil)))
			_, e := s.Get(t.Context(), "checkpoint")
			err = errors.Join(err, e)
		}
		return err
	}
	plan := NewPlan()
	noErr(t, "history without faults", history(plan))
	if got := len(plan.Events()); got != 10 {
		t.Fatalf("history has %d events, want 10: %v", got, plan.Events())
	}
	for i, e := range plan.Events() {
		p := NewPlan(Fault{Op: e.Op, Kind: e.Kind, Nth: e.Nth, Effect: KeptThenError})
		wantErr(t, fmt.Sprint(e), history(p), ErrInjected)
		if len(p.Unused()) != 0 || !p.Events()[i].Hit {
			t.Errorf("fault for event %d %v hit another: %v", i, e, p.Events())
		}
	}
}

func TestFaultString(t *testing.T) {
	for want, f := range map[string]Fault{
		"put hash_tile #2 lost":       {Op: StorePut, Kind: storage.HashTile, Nth: 2},
		"swap * #1 kept-then-error":   {Op: LockSwap, Nth: 1, Effect: KeptThenError},
		"cache_get * #0 slow":         {Op: CacheGet, Effect: Slow},
		"get checkpoint #1 kept":      {Op: StoreGet, Kind: storage.Checkpoint, Nth: 1, Effect: Kept},
		"get checkpoint #1 Effect(9)": {Op: StoreGet, Kind: storage.Checkpoint, Nth: 1, Effect: 9},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
