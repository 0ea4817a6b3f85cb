//go:build faultpoints

package sequencer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/internal/faultpoint"
	"github.com/daybook-ct/daybook/storage"
)

// faultPoints puts fault points before and after each step of a round and each
// write of recovery, for crash tests. opened is called when recovery is done.
func (c *Config) faultPoints() (opened func()) {
	if c.hook == nil {
		c.hook = func(s Step, after bool) error { return faultpoint.At(s.String(), after) }
	}
	var running atomic.Bool
	c.Store = faultStore{c.Store, &running}
	c.Cache = faultCache{c.Cache, &running}
	return func() { running.Store(true) }
}

// during runs f, a write of recovery, between its fault points. Rounds have
// theirs around the steps.
func during(running *atomic.Bool, place string, f func() error) error {
	if running.Load() {
		return f()
	}
	if err := faultpoint.At(place, false); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return faultpoint.At(place, true)
}

type faultStore struct {
	storage.Store
	running *atomic.Bool
}

func (s faultStore) Put(ctx context.Context, objects ...storage.Object) error {
	place := faultpoint.RecoverApply
	if len(objects) == 1 && objects[0].Name == "checkpoint" {
		place = faultpoint.RecoverPublish
	}
	return during(s.running, place, func() error { return s.Store.Put(ctx, objects...) })
}

func (s faultStore) Delete(ctx context.Context, names ...string) error {
	return during(s.running, faultpoint.RecoverDiscard, func() error { return s.Store.Delete(ctx, names...) })
}

type faultCache struct {
	storage.Cache
	running *atomic.Bool
}

func (c faultCache) Put(ctx context.Context, records []storage.Record) error {
	return during(c.running, faultpoint.RecoverRemember, func() error { return c.Cache.Put(ctx, records) })
}

// wallClock is what rounds take the time from.
func wallClock() time.Time { return faultpoint.Now() }
