// Package memory has a store, a lock and a cache in memory, for tests and
// simulation. They are deterministic: no goroutines, no I/O, no clock, so they
// also work inside a testing/synctest bubble. Bytes are copied on their way in
// and out.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// Store is a [storage.Store]. A Put is atomic as a whole: of all its objects
// readers see all or none, and after an error none.
type Store struct {
	mu      sync.RWMutex
	objects map[string][]byte // never modified in place
	// durable holds what objects that were shown and not synced would be after a
	// power cut; nil is absent. orphaned is the same for those of a process that
	// has ended: no Sync of another one covers them.
	durable, orphaned map[string][]byte
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{objects: make(map[string][]byte), durable: make(map[string][]byte), orphaned: make(map[string][]byte)}
}

// Put implements [storage.Store].
func (s *Store) Put(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, objects, s.settle)
}

// Show implements [storage.Store].
func (s *Store) Show(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, objects, func(name string) {
		old, ok := s.durable[name]
		if !ok {
			old, ok = s.orphaned[name]
		}
		if !ok {
			old = s.objects[name]
		}
		delete(s.orphaned, name)
		s.durable[name] = old
	})
}

// settle makes a name durable as it is. The caller holds mu.
func (s *Store) settle(name string) {
	delete(s.durable, name)
	delete(s.orphaned, name)
}

// Restart says that another process goes on with the store.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.durable {
		if _, ok := s.orphaned[name]; !ok {
			s.orphaned[name] = old
		}
	}
	clear(s.durable)
}

// Sync implements [storage.Store].
func (s *Store) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.durable)
	return nil
}

// PowerLoss undoes Shows that were not synced, each as lost says, which is asked
// in the order of the names.
func (s *Store) PowerLoss(lost func(name string) bool) {
	s.Restart()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.orphaned)) {
		if !lost(name) {
			continue
		}
		if old := s.orphaned[name]; old != nil {
			s.objects[name] = old
		} else {
			delete(s.objects, name)
		}
	}
	clear(s.orphaned)
}

// write stores objects. Before each it calls note, with mu held.
func (s *Store) write(ctx context.Context, objects []storage.Object, note func(name string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	added := make(map[string][]byte, len(objects))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		kind := storage.KindOf(o.Name)
		if kind == storage.Invalid {
			return fmt.Errorf("%w: %q", storage.ErrInvalidName, o.Name)
		}
		old, ok := added[o.Name]
		if !ok {
			old, ok = s.objects[o.Name]
		}
		if ok && kind.Immutable() {
			if !bytes.Equal(old, o.Data) {
				return fmt.Errorf("%w: %s", storage.ErrChanged, o.Name)
			}
		}
		added[o.Name] = append([]byte{}, o.Data...)
	}
	for name := range added {
		note(name)
	}
	maps.Copy(s.objects, added)
	return nil
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if storage.KindOf(name) == storage.Invalid {
		return nil, fmt.Errorf("%w: %q", storage.ErrInvalidName, name)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	data, ok := s.objects[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrNotFound)
	}
	return append([]byte{}, data...), nil
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, names ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if storage.KindOf(name) == storage.Invalid {
			return fmt.Errorf("%w: %q", storage.ErrInvalidName, name)
		}
	}
	for _, name := range names {
		delete(s.objects, name)
		s.settle(name)
	}
	return nil
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, folder string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if folder != "staging/" && folder != "issuer/" {
		return nil, fmt.Errorf("%w: folder %q", storage.ErrInvalidName, folder)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for name := range s.objects {
		if strings.HasPrefix(name, folder) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// All returns a copy of everything in the store, by name. It is the view of
// an oracle, or of a backup.
func (s *Store) All() map[string][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string][]byte, len(s.objects))
	for name, data := range s.objects {
		all[name] = bytes.Clone(data)
	}
	return all
}

// Set stores an object under any name and without any check, or removes it if
// data is nil: it is the bad disk, or the operator with a text editor.
func (s *Store) Set(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data == nil {
		delete(s.objects, name)
		return
	}
	s.objects[name] = bytes.Clone(data)
}

// Lock is a [storage.Lock].
type Lock struct {
	mu        sync.Mutex
	registers map[[32]byte][]byte // never modified in place
}

// NewLock returns a lock without registers.
func NewLock() *Lock { return &Lock{registers: make(map[[32]byte][]byte)} }

// Fetch implements [storage.Lock].
func (l *Lock) Fetch(ctx context.Context, logID [32]byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	body, ok := l.registers[logID]
	if !ok {
		return nil, fmt.Errorf("register of log ID %x: %w", logID, storage.ErrNotFound)
	}
	return append([]byte{}, body...), nil
}

// Create implements [storage.Lock].
func (l *Lock) Create(ctx context.Context, logID [32]byte, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.registers[logID]; ok {
		return fmt.Errorf("register of log ID %x: %w", logID, storage.ErrExists)
	}
	l.registers[logID] = bytes.Clone(body)
	return nil
}

// Swap implements [storage.Lock].
func (l *Lock) Swap(ctx context.Context, logID [32]byte, old, new []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	body, ok := l.registers[logID]
	switch {
	case !ok:
		return fmt.Errorf("register of log ID %x: %w", logID, storage.ErrNotFound)
	case !bytes.Equal(body, old):
		return fmt.Errorf("register of log ID %x: %w", logID, storage.ErrConflict)
	}
	l.registers[logID] = bytes.Clone(new)
	return nil
}

// Set writes a register without any check, or removes it if body is nil: it
// is the restored backup.
func (l *Lock) Set(logID [32]byte, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if body == nil {
		delete(l.registers, logID)
		return
	}
	l.registers[logID] = bytes.Clone(body)
}

// Cache is a [storage.Cache]. It counts what it is asked for. Each put record
// is a frame of its pretended WAL.
type Cache struct {
	mu      sync.Mutex
	records map[tlog.Key]tlog.Position
	frames  int // put since the last WAL checkpoint
	calls   Calls
}

// Calls counts the calls of a cache.
type Calls struct{ Gets, Puts, Checkpoints int }

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{records: make(map[tlog.Key]tlog.Position)} }

// Get implements [storage.Cache].
func (c *Cache) Get(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Gets++
	if err := ctx.Err(); err != nil {
		return tlog.Position{}, false, err
	}
	p, ok = c.records[key]
	return p, ok, nil
}

// Put implements [storage.Cache].
func (c *Cache) Put(ctx context.Context, records []storage.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Puts++
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range records {
		if _, ok := c.records[r.Key]; !ok {
			c.records[r.Key] = r.Position
		}
	}
	c.frames += len(records)
	return nil
}

// Checkpoint implements [storage.Cache].
func (c *Cache) Checkpoint(ctx context.Context) (storage.WAL, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Checkpoints++
	if err := ctx.Err(); err != nil {
		return storage.WAL{}, err
	}
	w := storage.WAL{Frames: c.frames, Checkpointed: c.frames}
	c.frames = 0
	return w, nil
}

// Calls returns how often the cache has been called.
func (c *Cache) Calls() Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// All returns a copy of all records.
func (c *Cache) All() map[tlog.Key]tlog.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.records)
}

// Forget removes everything, as losing the cache file does.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.records)
}
