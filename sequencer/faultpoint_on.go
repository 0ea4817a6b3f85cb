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
//
// A step that comes after a bundle was staged, so of a round with entries, is
// also a place of its own: "new.commit" besides "commit".
func (c *Config) faultPoints() (opened func()) {
	var running, staged atomic.Bool
	if c.hook == nil {
		c.hook = func(s Step, after bool) error {
			if s == StepClose && !after {
				staged.Store(false)
			}
			if err := faultpoint.At(s.String(), after); err != nil || !staged.Load() {
				return err
			}
			return faultpoint.At("new."+s.String(), after)
		}
	}
	c.Store = faultStore{c.Store, &running, &staged}
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
	running, staged *atomic.Bool
}

func (s faultStore) Put(ctx context.Context, objects ...storage.Object) error {
	if storage.KindOf(objects[0].Name) == storage.Staging {
		s.staged.Store(true)
	}
	return s.Store.Put(ctx, objects...)
}

func (s faultStore) Show(ctx context.Context, objects ...storage.Object) error {
	place := faultpoint.RecoverApply
	if len(objects) == 1 && objects[0].Name == "checkpoint" {
		place = faultpoint.RecoverPublish
	}
	return during(s.running, place, func() error { return s.Store.Show(ctx, objects...) })
}

func (s faultStore) Sync(ctx context.Context) error {
	return during(s.running, faultpoint.RecoverSync, func() error { return s.Store.Sync(ctx) })
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
