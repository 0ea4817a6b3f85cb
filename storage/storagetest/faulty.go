package storagetest

import (
	"context"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// FaultyStore is a store whose operations fail by a [Plan].
type FaultyStore struct {
	store storage.Store
	plan  *Plan
}

// NewFaultyStore wraps a store.
func NewFaultyStore(s storage.Store, p *Plan) *FaultyStore { return &FaultyStore{s, p} }

// Put implements [storage.Store].
func (s *FaultyStore) Put(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, s.store.Put, objects)
}

// Show implements [storage.Store]. To the plan it is a put.
func (s *FaultyStore) Show(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, s.store.Show, objects)
}

// Sync implements [storage.Store].
func (s *FaultyStore) Sync(ctx context.Context) error {
	v, err := s.plan.judge(ctx, StoreSync, storage.Invalid)
	if err != nil {
		return err
	}
	if v.keep > 0 {
		err = s.store.Sync(ctx)
	}
	return s.plan.finish(v, err)
}

func (s *FaultyStore) write(ctx context.Context, write func(context.Context, ...storage.Object) error, objects []storage.Object) error {
	kinds := make([]storage.Kind, len(objects))
	for i, o := range objects {
		kinds[i] = storage.KindOf(o.Name)
	}
	v, err := s.plan.judge(ctx, StorePut, kinds...)
	if err != nil {
		return err
	}
	if v.keep > 0 || len(objects) == 0 {
		err = write(ctx, objects[:v.keep]...)
	}
	return s.plan.finish(v, err)
}

// Get implements [storage.Store].
func (s *FaultyStore) Get(ctx context.Context, name string) ([]byte, error) {
	v, err := s.plan.judge(ctx, StoreGet, storage.KindOf(name))
	if err != nil {
		return nil, err
	}
	var data []byte
	if v.keep > 0 {
		data, err = s.store.Get(ctx, name)
	}
	if err := s.plan.finish(v, err); err != nil {
		return nil, err
	}
	return data, nil
}

// Delete implements [storage.Store].
func (s *FaultyStore) Delete(ctx context.Context, names ...string) error {
	kinds := make([]storage.Kind, len(names))
	for i, name := range names {
		kinds[i] = storage.KindOf(name)
	}
	v, err := s.plan.judge(ctx, StoreDelete, kinds...)
	if err != nil {
		return err
	}
	if v.keep > 0 || len(names) == 0 {
		err = s.store.Delete(ctx, names[:v.keep]...)
	}
	return s.plan.finish(v, err)
}

// List implements [storage.Store].
func (s *FaultyStore) List(ctx context.Context, folder string) ([]string, error) {
	kind := storage.Invalid
	switch folder {
	case "issuer/":
		kind = storage.Issuer
	case "staging/":
		kind = storage.Staging
	}
	v, err := s.plan.judge(ctx, StoreList, kind)
	if err != nil {
		return nil, err
	}
	var names []string
	if v.keep > 0 {
		names, err = s.store.List(ctx, folder)
	}
	if err := s.plan.finish(v, err); err != nil {
		return nil, err
	}
	return names, nil
}

// FaultyLock is a lock whose operations fail by a [Plan].
type FaultyLock struct {
	lock storage.Lock
	plan *Plan
}

// NewFaultyLock wraps a lock.
func NewFaultyLock(l storage.Lock, p *Plan) *FaultyLock { return &FaultyLock{l, p} }

// Fetch implements [storage.Lock].
func (l *FaultyLock) Fetch(ctx context.Context, logID [32]byte) ([]byte, error) {
	v, err := l.plan.judge(ctx, LockFetch, storage.Invalid)
	if err != nil {
		return nil, err
	}
	var body []byte
	if v.keep > 0 {
		body, err = l.lock.Fetch(ctx, logID)
	}
	if err := l.plan.finish(v, err); err != nil {
		return nil, err
	}
	return body, nil
}

// Create implements [storage.Lock].
func (l *FaultyLock) Create(ctx context.Context, logID [32]byte, body []byte) error {
	v, err := l.plan.judge(ctx, LockCreate, storage.Invalid)
	if err != nil {
		return err
	}
	if v.keep > 0 {
		err = l.lock.Create(ctx, logID, body)
	}
	return l.plan.finish(v, err)
}

// Swap implements [storage.Lock].
func (l *FaultyLock) Swap(ctx context.Context, logID [32]byte, old, new []byte) error {
	v, err := l.plan.judge(ctx, LockSwap, storage.Invalid)
	if err != nil {
		return err
	}
	if v.keep > 0 {
		err = l.lock.Swap(ctx, logID, old, new)
	}
	return l.plan.finish(v, err)
}

// FaultyCache is a cache whose operations fail by a [Plan].
type FaultyCache struct {
	cache storage.Cache
	plan  *Plan
}

// NewFaultyCache wraps a cache.
func NewFaultyCache(c storage.Cache, p *Plan) *FaultyCache { return &FaultyCache{c, p} }

// Get implements [storage.Cache].
func (c *FaultyCache) Get(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error) {
	v, err := c.plan.judge(ctx, CacheGet, storage.Invalid)
	if err != nil {
		return tlog.Position{}, false, err
	}
	if v.keep > 0 {
		p, ok, err = c.cache.Get(ctx, key)
	}
	if err := c.plan.finish(v, err); err != nil {
		return tlog.Position{}, false, err
	}
	return p, ok, nil
}

// Put implements [storage.Cache].
func (c *FaultyCache) Put(ctx context.Context, records []storage.Record) error {
	v, err := c.plan.judge(ctx, CachePut, storage.Invalid)
	if err != nil {
		return err
	}
	if v.keep > 0 {
		err = c.cache.Put(ctx, records)
	}
	return c.plan.finish(v, err)
}

// Checkpoint implements [storage.Cache].
func (c *FaultyCache) Checkpoint(ctx context.Context) (w storage.WAL, err error) {
	v, err := c.plan.judge(ctx, CacheCheckpoint, storage.Invalid)
	if err != nil {
		return storage.WAL{}, err
	}
	if v.keep > 0 {
		w, err = c.cache.Checkpoint(ctx)
	}
	if err := c.plan.finish(v, err); err != nil {
		return storage.WAL{}, err
	}
	return w, nil
}
