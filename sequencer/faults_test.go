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
)

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
