package sequencer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// openPatient opens a log whose rounds share cache puts.
func (p *probe) openPatient(t testing.TB, every time.Duration) *Log {
	t.Helper()
	c := p.config(t, 0)
	c.RememberEvery = every
	if err := Create(t.Context(), c); err != nil && !errors.Is(err, storage.ErrExists) {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// count returns a function that tells how often an operation was seen since it
// was last asked, and does not fail any.
func (p *probe) count(op string) func() int {
	n := 0
	p.setFault(func(o, _ string) error {
		if o == op {
			n++
		}
		return nil
	})
	return func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		defer func() { n = 0 }()
		return n
	}
}

func (p *probe) staged(t testing.TB) int {
	t.Helper()
	names, err := p.store.List(t.Context(), "staging/")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func (p *probe) cached() map[tlog.Key]tlog.Position { return p.cache.(*memory.Cache).All() }

// TestRoundsShareAPut: within RememberEvery keys go to the cache together;
// until then memory answers for them (S6), without a cache get, and their
// bundles stay. A drain leaves nothing behind.
func TestRoundsShareAPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, time.Second)
		puts := p.count("cache put")
		stop := run(t, l)
		time.Sleep(l.c.Interval / 2) // to between two rounds
		var promises []promise
		for i := range 15 { // three seconds
			promises = append(promises, addAll(t, l, i, i+1)...)
			synctest.Wait() // for the rest of the round, which has given its promise
			p.mu.Lock()
			gets := p.gets
			p.mu.Unlock()
			_, cached := p.cached()[promises[i].key]
			if got := mustAdd(t, l, newEntry(t, i, High)); got != promises[i] {
				t.Errorf("entry %d is answered with %v, want %v", i, got, promises[i])
			}
			p.mu.Lock()
			if asked := p.gets > gets; asked != cached {
				t.Errorf("entry %d is in the cache: %v; the cache was asked: %v", i, cached, asked)
			}
			p.mu.Unlock()
			if want := len(promises) - len(p.cached()); p.staged(t) != want {
				t.Errorf("%d bundles are staged while %d rounds wait for their put", p.staged(t), want)
			}
		}
		if n := puts(); n < 2 || n > 3 {
			t.Errorf("%d puts in three seconds of rounds, with one a second", n)
		}
		addAll(t, l, 20, 21)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(p.cached()); n != 16 || p.staged(t) != 0 || len(l.unremembered) != 0 || len(l.toRemember) != 0 {
			t.Errorf("after the drain the cache has %d of 16 keys, %d bundles are staged, memory has %d", n, p.staged(t), len(l.unremembered))
		}
	})
}

// TestManyKeysDoNotWait: a put is due when it is large enough.
func TestManyKeysDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, time.Hour)
		run(t, l)
		addAll(t, l, 0, rememberBatch-1)
		synctest.Wait()
		if n := len(p.cached()); n != 0 {
			t.Errorf("%d keys did not wait", n)
		}
		addAll(t, l, rememberBatch, rememberBatch+1)
		synctest.Wait()
		if n := len(p.cached()); n != rememberBatch {
			t.Errorf("%d keys are in the cache, want all %d", n, rememberBatch)
		}
	})
}

// TestRestartRemembers: a process that ends before the put leaves the keys in
// bundles, and the next one puts them in the cache, so that nothing is logged
// twice; what a failed round had staged is no source of them (S8).
func TestRestartRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, time.Hour)
		stop := run(t, l)
		promises := addAll(t, l, 0, 250)
		p.setFault(func(op, name string) error { // once, and it is there all the same
			if op == "put" && strings.HasPrefix(name, "staging/") {
				return errors.New("timeout")
			}
			return nil
		})
		if _, err := l.Add(t.Context(), newEntry(t, 999, High)); !errors.Is(err, ErrRound) {
			t.Fatalf("the entry of a failed round got %v", err)
		}
		p.setFault(nil)
		for i := 250; i < 270; i += 5 { // over the end of a tile
			promises = append(promises, addAll(t, l, i, i+5)...)
		}
		synctest.Wait()
		if len(p.cached()) != 0 || p.staged(t) != 5 {
			t.Fatalf("the cache has %d keys, %d bundles are staged", len(p.cached()), p.staged(t))
		}
		// A bundle of a round that failed, of a size that the tree has had.
		edge, _, err := tlog.NewEdge().Append([]tlog.Leaf{{Entry: newEntry(t, 999, High).Entry, Position: tlog.Position{Timestamp: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		_, growth, err := edge.Append([]tlog.Leaf{{Entry: newEntry(t, 998, High).Entry, Position: tlog.Position{Index: 1, Timestamp: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range growth.Objects {
			growth.Objects[i].Base, growth.Objects[i].Prefix = "", 0
		}
		lost := storage.Object{Name: bundleName(growth.Tree), Data: encodeBundle(edge.Tree(), growth.Objects)}
		if err := p.store.Put(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		p.setFault(func(string, string) error { return storage.ErrNotDurable }) // the process ends here
		_ = stop()
		p.setFault(nil)

		l = p.openPatient(t, time.Hour)
		if n := p.staged(t); n != 0 {
			t.Errorf("%d bundles are left", n)
		}
		if n := len(p.cached()); n != len(promises) {
			t.Errorf("the cache has %d keys, want %d", n, len(promises))
		}
		run(t, l)
		for _, i := range []int{0, 249, 250, 256, 269} {
			if got := mustAdd(t, l, newEntry(t, i, High)); got != promises[i] {
				t.Errorf("entry %d has %v now, promised was %v", i, got, promises[i])
			}
		}
	})
}

// TestRestartWithDamagedBundle: a damaged bundle of an older round costs that
// round's keys alone.
func TestRestartWithDamagedBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, time.Hour)
		stop := run(t, l)
		for i := range 3 {
			addAll(t, l, i, i+1)
		}
		synctest.Wait()
		names, err := p.store.List(t.Context(), "staging/")
		if err != nil || len(names) != 3 {
			t.Fatalf("bundles %v, %v", names, err)
		}
		b, err := p.store.Get(t.Context(), names[1])
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		if err := errors.Join(p.store.Delete(t.Context(), names[1]), p.store.Put(t.Context(), storage.Object{Name: names[1], Data: b})); err != nil {
			t.Fatal(err)
		}
		p.setFault(func(string, string) error { return storage.ErrNotDurable })
		_ = stop()
		p.setFault(nil)
		p.openPatient(t, time.Hour)
		if n, left := len(p.cached()), p.staged(t); n < 2 || left != 0 {
			t.Errorf("the cache has %d keys, %d bundles are left", n, left)
		}
	})
}

// TestSyncFails: an fsync error halts the log, although all have their SCTs (S2);
// recovery applies the bundles again. Any other error is tried again.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, 0)
		failure := errors.New("interrupted")
		fail := func(op, _ string) error {
			if op == "sync" {
				return failure
			}
			return nil
		}
		p.setFault(fail)
		stop := run(t, l)
		promises := addAll(t, l, 0, 3)
		synctest.Wait()
		if n := p.staged(t); n != 1 {
			t.Errorf("%d bundles are staged after a sync that failed, want 1", n)
		}
		p.setFault(nil)
		promises = append(promises, addAll(t, l, 3, 6)...)
		synctest.Wait()
		if n := p.staged(t); n != 0 {
			t.Errorf("%d bundles are staged after a sync", n)
		}
		failure = fmt.Errorf("%w: fsync", storage.ErrNotDurable)
		p.setFault(fail)
		promises = append(promises, addAll(t, l, 6, 9)...)
		if err := stop(); !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("after an fsync error Run ended with %v", err)
		}
		p.setFault(nil)
		p.store.(*memory.Store).PowerLoss(func(string) bool { return true })
		p.openPatient(t, 0)
		if err := p.publicLog(t).keeps(promises); err != nil {
			t.Error(err)
		}
	})
}

// TestBundlesAreBounded: while the cache fails, not more than maxBundles stay.
func TestBundlesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.openPatient(t, time.Second)
		p.setFault(func(op, _ string) error {
			if op == "cache put" {
				return errors.New("disk full")
			}
			return nil
		})
		stop := run(t, l)
		for i := range maxBundles + 20 {
			addAll(t, l, i, i+1)
		}
		synctest.Wait()
		if n := p.staged(t); n != maxBundles {
			t.Errorf("%d bundles are staged, want %d", n, maxBundles)
		}
		p.setFault(nil)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(p.cached()); n != maxBundles+20 || p.staged(t) != 0 {
			t.Errorf("after the drain the cache has %d keys, %d bundles are left", n, p.staged(t))
		}
	})
}
