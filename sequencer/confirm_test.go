package sequencer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// wrongCache is a dedup cache whose hits are changed.
type wrongCache struct {
	storage.Cache
	change func(*tlog.Position)
}

func (c wrongCache) Get(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
	p, ok, err := c.Cache.Get(ctx, key)
	if ok {
		c.change(&p)
	}
	return p, ok, err
}

// TestInvariantS8WrongHit: what the cache says is promised only if the tree has
// that leaf.
func TestInvariantS8WrongHit(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*tlog.Position)
		ok     bool
	}{
		{"right", func(*tlog.Position) {}, true},
		{"next index", func(p *tlog.Position) { p.Index++ }, false},
		{"index in another tile", func(p *tlog.Position) { p.Index ^= 256 }, false},
		{"timestamp", func(p *tlog.Position) { p.Timestamp ^= 1 }, false},
		{"beyond the tree", func(p *tlog.Position) { p.Index += 1 << 20 }, false},
		{"the end of the tree", func(p *tlog.Position) { p.Index = 300 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				l := p.open(t, 0)
				stop := run(t, l)
				promises := addAll(t, l, 0, 300)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				p.cache = wrongCache{p.cache, c.change}
				l = p.open(t, 0)
				stop = run(t, l)
				// One in a full tile, one in the last.
				for _, i := range []int{0, 299} {
					position, err := l.Add(t.Context(), newEntry(t, i, High))
					switch {
					case c.ok && (err != nil || position != promises[i].position):
						t.Errorf("entry %d: %+v, %v", i, position, err)
					case !c.ok && !errors.Is(err, errContradicted):
						t.Errorf("entry %d: %+v, %v", i, position, err)
					}
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if o := p.publicLog(t); len(o.leaves) != 300 {
					t.Errorf("the log has %d entries: a wrong hit was taken for a miss", len(o.leaves))
				}
			})
		})
	}
}

// TestUnconfirmedHit: a hit that cannot be confirmed is an error, no promise and
// no miss.
func TestUnconfirmedHit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		l := p.open(t, 0)
		stop := run(t, l)
		addAll(t, l, 0, 10)
		errRead := errors.New("input/output error")
		p.setFault(func(op, _ string) error {
			if op == "get" {
				return errRead
			}
			return nil
		})
		if _, err := l.Add(t.Context(), newEntry(t, 3, High)); !errors.Is(err, errRead) {
			t.Errorf("an unreadable tile: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p.setFault(func(op, _ string) error {
			if op == "get" {
				cancel()
				return ctx.Err()
			}
			return nil
		})
		if _, err := l.Add(ctx, newEntry(t, 3, High)); !errors.Is(err, context.Canceled) {
			t.Errorf("a submitter who went away: %v", err)
		}
		p.setFault(nil)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
