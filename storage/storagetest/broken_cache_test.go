package storagetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// cache is a good cache whose methods can be replaced by bad ones.
type cache struct {
	*memory.Cache
	get        func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error)
	put        func(ctx context.Context, records []storage.Record) error
	checkpoint func(ctx context.Context) (storage.WAL, error)
}

func (c *cache) Get(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
	if c.get != nil {
		return c.get(ctx, key)
	}
	return c.Cache.Get(ctx, key)
}

func (c *cache) Put(ctx context.Context, records []storage.Record) error {
	if c.put != nil {
		return c.put(ctx, records)
	}
	return c.Cache.Put(ctx, records)
}

func (c *cache) Checkpoint(ctx context.Context) (storage.WAL, error) {
	if c.checkpoint != nil {
		return c.checkpoint(ctx)
	}
	return c.Cache.Checkpoint(ctx)
}

// change makes a cache that alters records on their way in.
func change(f func(r *storage.Record)) func(c *cache) {
	return func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			changed := slices.Clone(records)
			for i := range changed {
				f(&changed[i])
			}
			return c.Cache.Put(ctx, changed)
		}
	}
}

var brokenCaches = []struct {
	defect, found string
	damage        func(c *cache)
}{
	{"invents positions", "Miss", func(c *cache) {
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			p, _, err := c.Cache.Get(ctx, key)
			return p, err == nil, err
		}
	}},
	{"reports a miss as a failure", "Miss", func(c *cache) {
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			p, ok, err := c.Cache.Get(ctx, key)
			if err == nil && !ok {
				err = errors.New("no row")
			}
			return p, ok, err
		}
	}},
	{"forgets", "PutGet", func(c *cache) {
		c.put = func(ctx context.Context, _ []storage.Record) error { return ctx.Err() }
	}},
	{"has 32-bit indexes", "PutGet", change(func(r *storage.Record) { r.Position.Index = int64(uint32(r.Position.Index)) })},
	{"loses the timestamp", "PutGet", change(func(r *storage.Record) { r.Position.Timestamp &^= 1 << 40 })},
	{"mixes up index and timestamp", "PutGet", change(func(r *storage.Record) {
		r.Position.Index, r.Position.Timestamp = r.Position.Timestamp, r.Position.Index
	})},
	{"has no room for the zero key", "PutGet", func(c *cache) {
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			p, ok, err := c.Cache.Get(ctx, key)
			return p, ok && key != tlog.Key{}, err
		}
	}},
	{"cuts keys", "AllKeyBytesCount", func(c *cache) {
		cut := func(k tlog.Key) tlog.Key { clear(k[16:]); return k }
		change(func(r *storage.Record) { r.Key = cut(r.Key) })(c)
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			return c.Cache.Get(ctx, cut(key))
		}
	}},
	{"keys on text that ends with a NUL", "AllKeyBytesCount", func(c *cache) {
		cut := func(k tlog.Key) tlog.Key {
			if i := slices.Index(k[:], 0); i >= 0 {
				clear(k[i:])
			}
			return k
		}
		change(func(r *storage.Record) { r.Key = cut(r.Key) })(c)
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			return c.Cache.Get(ctx, cut(key))
		}
	}},
	{"keeps the last position", "FirstPositionWins", func(c *cache) {
		kept := make(map[tlog.Key]tlog.Position)
		c.put = func(ctx context.Context, records []storage.Record) error {
			for _, r := range records {
				kept[r.Key] = r.Position
			}
			return ctx.Err()
		}
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			p, ok := kept[key]
			return p, ok, ctx.Err()
		}
	}},
	{"stops at a key it has", "FirstPositionWins", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			for i, r := range records {
				if _, ok := c.All()[r.Key]; ok {
					return c.Cache.Put(ctx, records[:i])
				}
			}
			return c.Cache.Put(ctx, records)
		}
	}},
	{"fails on a key twice in one Put", "FirstPositionWins", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			seen := make(map[tlog.Key]bool)
			for _, r := range records {
				if seen[r.Key] {
					return errors.New("UNIQUE constraint failed")
				}
				seen[r.Key] = true
			}
			return c.Cache.Put(ctx, records)
		}
	}},
	{"fails on an empty Put", "Empty", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			if len(records) == 0 {
				return errors.New("no rows to insert")
			}
			return c.Cache.Put(ctx, records)
		}
	}},
	{"puts one batch of many", "Many", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			return c.Cache.Put(ctx, records[:min(len(records), 1000)])
		}
	}},
	{"sorts the caller's records", "Copies", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			slices.SortFunc(records, func(a, b storage.Record) int { return slices.Compare(a.Key[:], b.Key[:]) })
			return c.Cache.Put(ctx, records)
		}
	}},
	{"puts later what it was given", "Copies", func(c *cache) {
		var pending []storage.Record
		c.put = func(ctx context.Context, records []storage.Record) error { pending = records; return ctx.Err() }
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			if err := c.Cache.Put(ctx, pending); err != nil {
				return tlog.Position{}, false, err
			}
			return c.Cache.Get(ctx, key)
		}
	}},
	{"reads a failure as a miss", "Cancelled", func(c *cache) {
		c.get = func(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
			p, ok, err := c.Cache.Get(ctx, key)
			if err != nil {
				return tlog.Position{}, false, nil
			}
			return p, ok, nil
		}
	}},
	{"keeps half a transaction", "Cancelled", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			if ctx.Err() != nil {
				_ = c.Cache.Put(context.WithoutCancel(ctx), records[:len(records)/2])
			}
			return c.Cache.Put(ctx, records)
		}
	}},
	{"stays interrupted", "Cancelled", func(c *cache) {
		interrupted := false
		c.put = func(ctx context.Context, records []storage.Record) error {
			if interrupted = interrupted || ctx.Err() != nil; interrupted {
				return context.Canceled
			}
			return c.Cache.Put(ctx, records)
		}
	}},
	{"has a reader that never ends", "Checkpoint", func(c *cache) {
		c.checkpoint = func(ctx context.Context) (storage.WAL, error) {
			w, err := c.Cache.Checkpoint(ctx)
			w.Busy = true
			return w, err
		}
	}},
	{"writes part of the WAL back", "Checkpoint", func(c *cache) {
		c.checkpoint = func(ctx context.Context) (storage.WAL, error) {
			w, err := c.Cache.Checkpoint(ctx)
			w.Checkpointed /= 2
			return w, err
		}
	}},
	{"runs WAL checkpoints by itself", "Checkpoint", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			if err := c.Cache.Put(ctx, records); err != nil {
				return err
			}
			_, err := c.Cache.Checkpoint(ctx)
			return err
		}
	}},
	{"misses what was put a while ago", "GetWhilePutting", func(c *cache) {
		c.put = func(ctx context.Context, records []storage.Record) error {
			if len(c.All()) > 500 {
				c.Forget() // as a bounded map does
			}
			return c.Cache.Put(ctx, records[:len(records)/2])
		}
	}},
}

func TestSuiteFindsBrokenCaches(t *testing.T) {
	covered := make(map[string]bool)
	for _, b := range brokenCaches {
		covered[b.found] = true
		t.Run(b.defect, func(t *testing.T) {
			i := slices.IndexFunc(cacheCases, func(c cacheCase) bool { return c.name == b.found })
			if i < 0 {
				t.Fatalf("there is no case %s", b.found)
			}
			failures := record(t, func(tb testing.TB) {
				c := &cache{Cache: memory.NewCache()}
				b.damage(c)
				cacheCases[i].run(tb, c)
			})
			if len(failures) == 0 {
				t.Errorf("case %s passes a cache that %s", b.found, b.defect)
			}
		})
	}
	for _, c := range cacheCases {
		if !covered[c.name] {
			t.Errorf("no broken cache shows that case %s can fail", c.name)
		}
		if failures := record(t, func(tb testing.TB) { c.run(tb, &cache{Cache: memory.NewCache()}) }); len(failures) > 0 {
			t.Errorf("case %s fails a good cache: %q", c.name, failures)
		}
	}
	failures := record(t, func(tb testing.TB) {
		testCacheReopen(tb, func(testing.TB) func() storage.Cache {
			return func() storage.Cache { return memory.NewCache() }
		})
	})
	if len(failures) == 0 {
		t.Error("suite passes a cache that forgets everything when it is closed")
	}
}
