package sequencer

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/storage"
)

// TestAppliedAfterCommit: a round that loses the lock has written a bundle and
// nothing else. Its tiles would be in the way of the winner's for good (S7).
func TestAppliedAfterCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); err != nil {
			t.Fatal(err)
		}
		p.takePuts()
		p.setFault(func(op, _ string) error {
			if op == "swap" {
				return storage.ErrConflict
			}
			return nil
		})
		if err := run(t, l)(); !errors.Is(err, storage.ErrConflict) {
			t.Fatalf("the round returned %v", err)
		}
		puts := p.takePuts()
		if len(puts) != 1 || storage.KindOf(puts[0]) != storage.Staging {
			t.Errorf("the round wrote %v", puts)
		}
	})
}

// TestNoSecondTry: what an fsync has lost, and what is there with other bytes,
// is not tried again: a second fsync would succeed, and mean nothing.
func TestNoSecondTry(t *testing.T) {
	for _, cause := range []error{storage.ErrNotDurable, storage.ErrChanged, storage.ErrInvalidName} {
		for _, kind := range []storage.Kind{storage.HashTile, storage.Checkpoint} {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				l := p.open(t, 10)
				if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); err != nil {
					t.Fatal(err)
				}
				tries := 0
				p.setFault(func(op, name string) error {
					if op == "put" && storage.KindOf(name) == kind {
						if tries++; tries == 1 {
							return fmt.Errorf("for the test: %w", cause)
						}
					}
					return nil
				})
				if err := run(t, l)(); !errors.Is(err, cause) || tries != 1 {
					t.Errorf("%v of %v: %d tries, %v", cause, kind, tries, err)
				}
			})
		}
	}
}

// TestNoRoom: a round that the storage has no room for commits nothing, with
// entries or without, for as long as it takes; then the log goes on.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		p.open(t, 10)
		var full atomic.Bool
		asked := make(map[bool]int64) // bytes, by whether there was an entry
		c := p.config(t, 10)
		var l *Log
		c.Room = func(bytes, files int64) error {
			if files <= 0 {
				t.Errorf("asked for %d files", files)
			}
			asked[l.inFlight != nil && len(l.inFlight.byKey) > 0] = bytes
			if full.Load() {
				return errors.New("no space left on device")
			}
			return nil
		}
		l, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, l)
		promises := []promise{mustAdd(t, l, newEntry(t, 1, High))}
		time.Sleep(l.c.Interval / 2)
		full.Store(true)
		p.takePuts()
		published := l.Status().Published
		if _, err := l.Add(t.Context(), newEntry(t, 2, High)); !errors.Is(err, ErrRound) {
			t.Errorf("an entry got %v", err)
		}
		time.Sleep(time.Hour)
		if s := l.Status(); s.Published != published || s.Halted != nil {
			t.Errorf("status %+v", s)
		}
		if puts := p.takePuts(); len(puts) > 0 {
			t.Errorf("rounds without room wrote %v", puts)
		}
		full.Store(false)
		time.Sleep(2 * l.c.Interval)
		if !l.Status().Published.After(published) {
			t.Error("with room again, no checkpoint is published")
		}
		promises = append(promises, mustAdd(t, l, newEntry(t, 2, High)))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if err := p.publicLog(t).keeps(promises); err != nil {
			t.Error(err)
		}
		if asked[false] <= 0 || asked[true] <= asked[false] {
			t.Errorf("asked for %d bytes without an entry, %d with one", asked[false], asked[true])
		}
	})
}

// TestDiscardFails: bundles whose removal failed are removed by a later round.
func TestDiscardFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		p.setFault(func(op, _ string) error {
			if op == "delete" {
				return errors.New("device or resource busy")
			}
			return nil
		})
		stop := run(t, l)
		mustAdd(t, l, newEntry(t, 1, High))
		mustAdd(t, l, newEntry(t, 2, High))
		time.Sleep(l.c.Interval / 2) // to between two rounds
		if names, _ := p.store.List(t.Context(), "staging/"); len(names) != 2 {
			t.Errorf("bundles %v, want two that could not be removed", names)
		}
		p.setFault(nil)
		time.Sleep(l.c.Interval)
		if names, _ := p.store.List(t.Context(), "staging/"); len(names) != 0 {
			t.Errorf("bundles are left: %v", names)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLeftoversAreBounded: bundles that can never be removed do not fill the memory.
func TestLeftoversAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		p.setFault(func(op, _ string) error {
			if op == "delete" {
				return errors.New("operation not permitted")
			}
			return nil
		})
		stop := run(t, l)
		for i := range maxLeftover + 50 {
			mustAdd(t, l, newEntry(t, i, High))
		}
		synctest.Wait()
		if n := len(l.leftover); n > maxLeftover+1 || n < maxLeftover {
			t.Errorf("%d bundles are kept in mind", n)
		}
		if n := p.staged(t); n != maxLeftover+50 {
			t.Errorf("%d bundles are staged", n)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		p.setFault(nil)
		p.open(t, 10)
		if n := p.staged(t); n != 0 {
			t.Errorf("%d bundles are left after a start", n)
		}
	})
}

// TestStageFailsAfterWriting: a bundle that is there although staging it failed
// is removed by a later round.
func TestStageFailsAfterWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 10)
		p.setFault(func(op, name string) error {
			if op == "put" && strings.HasPrefix(name, "staging/") {
				return errors.Join(errors.New("input/output error"), p.store.Put(t.Context(), storage.Object{Name: name, Data: []byte("torn")}))
			}
			return nil
		})
		stop := run(t, l)
		if _, err := l.Add(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrRound) {
			t.Fatalf("the entry got %v", err)
		}
		p.setFault(nil)
		if names, _ := p.store.List(t.Context(), "staging/"); len(names) != 1 {
			t.Fatalf("bundles %v, want one", names)
		}
		time.Sleep(2 * l.c.Interval)
		if names, _ := p.store.List(t.Context(), "staging/"); len(names) != 0 {
			t.Errorf("bundles are left: %v", names)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
