package storagetest

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
)

// store is a good store whose methods can be replaced by bad ones.
type store struct {
	*memory.Store
	put  func(ctx context.Context, objects ...storage.Object) error
	get  func(ctx context.Context, name string) ([]byte, error)
	del  func(ctx context.Context, names ...string) error
	list func(ctx context.Context, folder string) ([]string, error)
}

func (s *store) Put(ctx context.Context, objects ...storage.Object) error {
	if s.put != nil {
		return s.put(ctx, objects...)
	}
	return s.Store.Put(ctx, objects...)
}

func (s *store) Get(ctx context.Context, name string) ([]byte, error) {
	if s.get != nil {
		return s.get(ctx, name)
	}
	return s.Store.Get(ctx, name)
}

func (s *store) Delete(ctx context.Context, names ...string) error {
	if s.del != nil {
		return s.del(ctx, names...)
	}
	return s.Store.Delete(ctx, names...)
}

func (s *store) List(ctx context.Context, folder string) ([]string, error) {
	if s.list != nil {
		return s.list(ctx, folder)
	}
	return s.Store.List(ctx, folder)
}

// putEach returns a Put that calls f for each object after the usual checks.
func (s *store) putEach(f func(ctx context.Context, o storage.Object) error) func(context.Context, ...storage.Object) error {
	return func(ctx context.Context, objects ...storage.Object) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, o := range objects {
			if storage.KindOf(o.Name) == storage.Invalid {
				return storage.ErrInvalidName
			}
		}
		for _, o := range objects {
			if err := f(ctx, o); err != nil {
				return err
			}
		}
		return nil
	}
}

// brokenStores are stores with one defect each, and the case that must find
// it. Other cases may find it, too.
var brokenStores = []struct {
	defect, found string
	damage        func(s *store)
}{
	{"loses objects", "PutGet", func(s *store) {
		s.put = func(ctx context.Context, _ ...storage.Object) error { return ctx.Err() }
	}},
	{"loses the last of many", "Many", func(s *store) {
		s.put = func(ctx context.Context, o ...storage.Object) error { return s.Store.Put(ctx, o[:max(1, len(o)-1)]...) }
	}},
	{"overwrites immutable objects", "ChangedImmutable", func(s *store) {
		s.put = s.putEach(func(_ context.Context, o storage.Object) error {
			s.Set(o.Name, append([]byte{}, o.Data...))
			return nil
		})
	}},
	{"overwrites immutable objects of the same Put", "ChangedInOnePut", func(s *store) {
		s.put = func(ctx context.Context, objects ...storage.Object) error {
			last := make(map[string]storage.Object)
			for _, o := range objects {
				last[o.Name] = o
			}
			for _, o := range last {
				if err := s.Store.Put(ctx, o); err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	}},
	{"overwrites immutable objects and complains", "ChangedImmutable", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			err := s.Store.Put(ctx, o)
			s.Set(o.Name, append([]byte{}, o.Data...))
			return err
		})
	}},
	{"compares immutable objects by size", "ChangedImmutable", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			old, err := s.Store.Get(ctx, o.Name)
			if err == nil && storage.KindOf(o.Name).Immutable() && len(old) == len(o.Data) {
				return nil
			}
			return s.Store.Put(ctx, o)
		})
	}},
	{"ignores changes of immutable objects", "ChangedImmutable", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if err := s.Store.Put(ctx, o); !errors.Is(err, storage.ErrChanged) {
				return err
			}
			return nil
		})
	}},
	{"refuses what is there already", "EqualAgain", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if _, err := s.Store.Get(ctx, o.Name); err == nil && storage.KindOf(o.Name).Immutable() {
				return storage.ErrChanged
			}
			return s.Store.Put(ctx, o)
		})
	}},
	{"keeps the first mutable object", "ReplaceMutable", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if _, err := s.Store.Get(ctx, o.Name); err == nil && !storage.KindOf(o.Name).Immutable() {
				return nil
			}
			return s.Store.Put(ctx, o)
		})
	}},
	{"does not truncate when it replaces", "ReplaceMutable", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if old, err := s.Store.Get(ctx, o.Name); err == nil && !storage.KindOf(o.Name).Immutable() && len(old) > len(o.Data) {
				o.Data = append(bytes.Clone(o.Data), old[len(o.Data):]...)
			}
			return s.Store.Put(ctx, o)
		})
	}},
	{"takes an empty object for an absent one", "Empty", func(s *store) {
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			b, err := s.Store.Get(ctx, name)
			if err == nil && len(b) == 0 {
				return nil, storage.ErrNotFound
			}
			return b, err
		}
	}},
	{"fails on an empty Put", "Empty", func(s *store) {
		s.put = func(ctx context.Context, o ...storage.Object) error {
			if len(o) == 0 {
				return errors.New("nothing to do")
			}
			return s.Store.Put(ctx, o...)
		}
	}},
	{"cuts large objects", "Large", func(s *store) {
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			o.Data = o.Data[:min(len(o.Data), 4<<20)]
			return s.Store.Put(ctx, o)
		})
	}},
	{"reports absence as a failure", "NotFound", func(s *store) {
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			b, err := s.Store.Get(ctx, name)
			if errors.Is(err, storage.ErrNotFound) {
				return nil, errors.New("404")
			}
			return b, err
		}
	}},
	{"reports a failure as absence", "Cancelled", func(s *store) {
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			b, err := s.Store.Get(ctx, name)
			if err != nil && !errors.Is(err, storage.ErrInvalidName) {
				return nil, storage.ErrNotFound
			}
			return b, err
		}
	}},
	{"serves the full tile for a partial one", "NotFound", func(s *store) {
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			b, err := s.Store.Get(ctx, name)
			if full, _, ok := strings.Cut(name, ".p/"); ok && errors.Is(err, storage.ErrNotFound) {
				return s.Store.Get(ctx, full)
			}
			return b, err
		}
	}},
	{"keeps the caller's slice", "Copies", func(s *store) {
		kept := make(map[string][]byte)
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error { kept[o.Name] = o.Data; return s.Store.Put(ctx, o) })
		s.get = func(_ context.Context, name string) ([]byte, error) { return bytes.Clone(kept[name]), nil }
	}},
	{"hands out its own slice", "Copies", func(s *store) {
		kept := make(map[string][]byte)
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			kept[o.Name] = bytes.Clone(o.Data)
			return s.Store.Put(ctx, o)
		})
		s.get = func(_ context.Context, name string) ([]byte, error) { return kept[name], nil }
	}},
	{"accepts any name", "InvalidNames", func(s *store) {
		s.put = func(_ context.Context, objects ...storage.Object) error {
			for _, o := range objects {
				s.Set(o.Name, o.Data)
			}
			return nil
		}
	}},
	{"cleans names", "InvalidNames", func(s *store) {
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			return s.Store.Get(ctx, strings.TrimPrefix(path.Clean("/"+name), "/"))
		}
	}},
	{"deletes by any name", "InvalidNames", func(s *store) {
		s.del = func(_ context.Context, names ...string) error {
			for _, name := range names {
				s.Set(name, nil)
			}
			return nil
		}
	}},
	{"lists any folder", "InvalidNames", func(s *store) {
		s.list = func(ctx context.Context, folder string) ([]string, error) {
			names, err := s.Store.List(ctx, folder)
			if errors.Is(err, storage.ErrInvalidName) {
				return nil, nil
			}
			return names, err
		}
	}},
	{"lists in reverse", "List", func(s *store) {
		s.list = func(ctx context.Context, folder string) ([]string, error) {
			names, err := s.Store.List(ctx, folder)
			slices.Reverse(names)
			return names, err
		}
	}},
	{"lists everything", "List", func(s *store) {
		s.list = func(ctx context.Context, folder string) (names []string, err error) {
			for name := range s.All() {
				names = append(names, name)
			}
			slices.Sort(names)
			return names, ctx.Err()
		}
	}},
	{"lists one page", "List", func(s *store) {
		s.list = func(ctx context.Context, folder string) ([]string, error) {
			names, err := s.Store.List(ctx, folder)
			return names[:min(10, len(names))], err
		}
	}},
	{"fails on an absent folder", "List", func(s *store) {
		s.list = func(ctx context.Context, folder string) ([]string, error) {
			names, err := s.Store.List(ctx, folder)
			if err == nil && len(names) == 0 {
				err = storage.ErrNotFound
			}
			return names, err
		}
	}},
	{"fails to list and says nothing", "Cancelled", func(s *store) {
		s.list = func(ctx context.Context, folder string) ([]string, error) {
			names, err := s.Store.List(ctx, folder)
			if errors.Is(err, context.Canceled) {
				return nil, nil
			}
			return names, err
		}
	}},
	{"does not delete", "Delete", func(s *store) {
		s.del = func(ctx context.Context, _ ...string) error { return ctx.Err() }
	}},
	{"deletes the first name only", "List", func(s *store) {
		s.del = func(ctx context.Context, names ...string) error {
			return s.Store.Delete(ctx, names[:min(1, len(names))]...)
		}
	}},
	{"deletes by prefix", "Delete", func(s *store) {
		s.del = func(ctx context.Context, names ...string) error {
			for _, name := range names {
				for other := range s.All() {
					if strings.HasPrefix(other, name) {
						s.Set(other, nil)
					}
				}
			}
			return ctx.Err()
		}
	}},
	{"fails to delete what is absent", "Delete", func(s *store) {
		s.del = func(ctx context.Context, names ...string) error {
			for _, name := range names {
				if _, err := s.Store.Get(ctx, name); err != nil {
					return err
				}
			}
			return s.Store.Delete(ctx, names...)
		}
	}},
	{"ignores cancellation", "Cancelled", func(s *store) {
		s.put = func(ctx context.Context, o ...storage.Object) error {
			return s.Store.Put(context.WithoutCancel(ctx), o...)
		}
	}},
	{"leaves half an object when cancelled", "Cancelled", func(s *store) {
		s.put = func(ctx context.Context, objects ...storage.Object) error {
			if ctx.Err() != nil {
				for _, o := range objects {
					s.Set(o.Name, bytes.Clone(o.Data[:len(o.Data)/2]))
				}
			}
			return s.Store.Put(ctx, objects...)
		}
	}},
	{"fails for a while after a cancellation", "CancelledMidway", func(s *store) {
		poisoned := false
		s.put = func(ctx context.Context, o ...storage.Object) error {
			if len(o) > 10 { // as if the context had ended halfway
				if poisoned = !poisoned; poisoned {
					s.Set(o[0].Name, []byte("half"))
					return context.Canceled
				}
			}
			return s.Store.Put(ctx, o...)
		}
	}},
	{"removes before it replaces", "AtomicReplace", breakReplace(nil)},
	{"writes in place", "AtomicReplace", breakReplace([]byte("half"))},
	{"checks, then stores", "ConcurrentChanged", func(s *store) {
		pair := newPair()
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if _, err := s.Store.Get(ctx, o.Name); err == nil {
				return s.Store.Put(ctx, o)
			}
			pair.meet(o.Name)
			s.Set(o.Name, append([]byte{}, o.Data...))
			return nil
		})
	}},
	{"loses concurrent puts", "ConcurrentPuts", func(s *store) {
		var inside sync.Mutex
		s.put = func(ctx context.Context, o ...storage.Object) error {
			if len(o) == 3 && strings.HasPrefix(o[0].Name, "tile/data/x001/") {
				return nil // stands for a lost race, which no fake can promise to lose
			}
			inside.Lock()
			defer inside.Unlock()
			return s.Store.Put(ctx, o...)
		}
	}},
}

// breakReplace replaces the checkpoint in two steps, once, with half in
// between. The second step waits until a reader has seen the first.
func breakReplace(half []byte) func(s *store) {
	return func(s *store) {
		var mu sync.Mutex
		var once sync.Once
		var seen chan struct{}
		s.put = s.putEach(func(ctx context.Context, o storage.Object) error {
			if _, err := s.Store.Get(ctx, o.Name); err == nil && o.Name == "checkpoint" {
				once.Do(func() {
					mu.Lock()
					s.Set(o.Name, half)
					wait := make(chan struct{})
					seen = wait
					mu.Unlock()
					<-wait
				})
			}
			return s.Store.Put(ctx, o)
		})
		s.get = func(ctx context.Context, name string) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			b, err := s.Store.Get(ctx, name)
			if seen != nil && name == "checkpoint" {
				close(seen)
				seen = nil
			}
			return b, err
		}
	}
}

// pair lets the first two goroutines that come for the same name go on only
// together, so that what they do next is concurrent for certain.
type pair struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
	met     map[string]bool
}

func newPair() *pair {
	return &pair{waiting: make(map[string]chan struct{}), met: make(map[string]bool)}
}

func (p *pair) meet(name string) {
	p.mu.Lock()
	switch first := p.waiting[name]; {
	case p.met[name]:
		p.mu.Unlock()
	case first != nil:
		p.met[name] = true
		close(first)
		p.mu.Unlock()
	default:
		first = make(chan struct{})
		p.waiting[name] = first
		p.mu.Unlock()
		<-first
	}
}

func TestSuiteFindsBrokenStores(t *testing.T) {
	covered := make(map[string]bool)
	for _, b := range brokenStores {
		covered[b.found] = true
		t.Run(b.defect, func(t *testing.T) {
			i := slices.IndexFunc(storeCases, func(c storeCase) bool { return c.name == b.found })
			if i < 0 {
				t.Fatalf("there is no case %s", b.found)
			}
			failures := record(t, func(tb testing.TB) {
				s := &store{Store: memory.NewStore()}
				b.damage(s)
				storeCases[i].run(tb, s)
			})
			if len(failures) == 0 {
				t.Errorf("case %s passes a store that %s", b.found, b.defect)
			}
		})
	}
	for _, c := range storeCases {
		if !covered[c.name] {
			t.Errorf("no broken store shows that case %s can fail", c.name)
		}
		// The wrapper itself is not what fails.
		if failures := record(t, func(tb testing.TB) { c.run(tb, &store{Store: memory.NewStore()}) }); len(failures) > 0 {
			t.Errorf("case %s fails a good store: %q", c.name, failures)
		}
	}
}

func TestSuiteFindsForgetfulStores(t *testing.T) {
	failures := record(t, func(tb testing.TB) {
		testStoreReopen(tb, func(testing.TB) func() storage.Store {
			return func() storage.Store { return memory.NewStore() }
		})
	})
	if len(failures) == 0 {
		t.Error("suite passes a store that forgets everything when it is closed")
	}
}
