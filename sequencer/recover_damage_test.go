package sequencer

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// crashed returns the probe of a log of ten entries whose last round, of five,
// crashed there, and the name of its bundle.
func crashed(t *testing.T, step Step, after bool) (p *probe, bundle string) {
	t.Helper()
	p = newProbe()
	l := p.open(t, 0)
	var armed atomic.Bool
	l.c.hook = func(s Step, a bool) error {
		if armed.Load() && s == step && a == after {
			return errCrash
		}
		return nil
	}
	stop := run(t, l)
	addAll(t, l, 0, 5)
	for i := range 5 {
		if _, err := l.Submit(t.Context(), newEntry(t, 5+i, High)); err != nil {
			t.Fatal(err)
		}
	}
	armed.Store(true)
	if err := stop(); !errors.Is(err, errCrash) {
		t.Fatalf("the round returned %v", err)
	}
	names, err := p.store.List(t.Context(), "staging/")
	if err != nil || len(names) != 1 {
		t.Fatalf("bundles %v, %v", names, err)
	}
	return p, names[0]
}

// TestRecoveryPublishesAgain: a published checkpoint may not be durable yet, if
// the process ended in the middle of publishing it, so recovery writes it before
// it drops the bundle.
func TestRecoveryPublishesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, bundle := crashed(t, StepPublish, true)
		p.takePuts()
		p.setFault(func(op, name string) error {
			if op == "delete" && name == bundle && !slices.Contains(p.puts, "checkpoint") {
				t.Error("the bundle is dropped before the checkpoint is written again")
			}
			return nil
		})
		p.open(t, 0)
	})
}

// TestDamagedBundle: as long as its tree is not published, a bundle is needed
// and trusted for everything; then only its keys are.
func TestDamagedBundle(t *testing.T) {
	for _, c := range []struct {
		name   string
		step   Step
		opens  bool
		damage func(t *testing.T, p *probe, bundle string)
	}{
		{"flipped, unpublished", StepApply, false, flipBundle},
		{"flipped, published", StepResolve, true, flipBundle},
		{"base gone, published", StepResolve, true, func(t *testing.T, p *probe, bundle string) {
			base := tlog.Tile{L: tlog.DataLevel, N: 0, W: 5}.Path()
			if _, err := p.store.Get(t.Context(), base); err != nil {
				t.Fatal(err)
			}
			if err := p.store.Delete(t.Context(), base); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, bundle := crashed(t, c.step, false)
				c.damage(t, p, bundle)
				l, err := Open(t.Context(), p.config(t, 0))
				if !c.opens {
					if !errors.Is(err, errBundle) {
						t.Errorf("opened with %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if names, _ := p.store.List(t.Context(), "staging/"); len(names) > 0 {
					t.Errorf("bundles are left: %v", names)
				}
				stop := run(t, l)
				promises := addAll(t, l, 0, 15)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if err := p.publicLog(t).keeps(promises); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func flipBundle(t *testing.T, p *probe, bundle string) {
	t.Helper()
	b, err := p.store.Get(t.Context(), bundle)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := errors.Join(p.store.Delete(t.Context(), bundle), p.store.Put(t.Context(), storage.Object{Name: bundle, Data: b})); err != nil {
		t.Fatal(err)
	}
}
