package storagetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
)

// lock is a good lock whose methods can be replaced by bad ones.
type lock struct {
	*memory.Lock
	fetch  func(ctx context.Context, id [32]byte) ([]byte, error)
	create func(ctx context.Context, id [32]byte, body []byte) error
	swap   func(ctx context.Context, id [32]byte, old, new []byte) error
}

func (l *lock) Fetch(ctx context.Context, id [32]byte) ([]byte, error) {
	if l.fetch != nil {
		return l.fetch(ctx, id)
	}
	return l.Lock.Fetch(ctx, id)
}

func (l *lock) Create(ctx context.Context, id [32]byte, body []byte) error {
	if l.create != nil {
		return l.create(ctx, id, body)
	}
	return l.Lock.Create(ctx, id, body)
}

func (l *lock) Swap(ctx context.Context, id [32]byte, old, new []byte) error {
	if l.swap != nil {
		return l.swap(ctx, id, old, new)
	}
	return l.Lock.Swap(ctx, id, old, new)
}

func set(l *lock, id [32]byte, body []byte) { l.Set(id, append([]byte{}, body...)) }

// swapIf is a Swap that compares in its own way, and not under one lock with
// the write.
func swapIf(l *lock, equal func(register, old []byte) bool) func(context.Context, [32]byte, []byte, []byte) error {
	return func(ctx context.Context, id [32]byte, old, new []byte) error {
		register, err := l.Lock.Fetch(ctx, id)
		if err != nil {
			return err
		}
		if !equal(register, old) {
			return storage.ErrConflict
		}
		set(l, id, new)
		return nil
	}
}

var brokenLocks = []struct {
	defect, found string
	damage        func(l *lock)
}{
	{"lets two swaps win", "OneWinner", func(l *lock) {
		p := newPair()
		l.swap = swapIf(l, func(register, old []byte) bool {
			if !bytes.Equal(register, old) {
				return false
			}
			p.meet(string(old))
			return true
		})
	}},
	{"lets two creators win", "OneCreator", func(l *lock) {
		p := newPair()
		l.create = func(ctx context.Context, id [32]byte, body []byte) error {
			if _, err := l.Lock.Fetch(ctx, id); err == nil {
				return storage.ErrExists
			}
			p.meet(string(id[:]))
			set(l, id, body)
			return nil
		}
	}},
	{"loses updates", "NoLostUpdate", func(l *lock) {
		var once sync.Once
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			lost := false
			if string(old) == "7" {
				once.Do(func() { lost = true })
			}
			if lost {
				return nil
			}
			return l.Lock.Swap(ctx, id, old, new)
		}
	}},
	{"swaps whatever is there", "Swap", func(l *lock) {
		l.swap = swapIf(l, func(_, _ []byte) bool { return true })
	}},
	{"writes in spite of the conflict", "Swap", func(l *lock) {
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			err := l.Lock.Swap(ctx, id, old, new)
			if errors.Is(err, storage.ErrConflict) {
				set(l, id, new)
			}
			return err
		}
	}},
	{"loses swaps", "Swap", func(l *lock) {
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			return l.Lock.Swap(ctx, id, old, old)
		}
	}},
	{"compares prefixes", "SwapComparesAllBytes", func(l *lock) { l.swap = swapIf(l, bytes.HasPrefix) }},
	{"ignores case", "SwapComparesAllBytes", func(l *lock) { l.swap = swapIf(l, bytes.EqualFold) }},
	{"compares up to the first NUL", "SwapComparesAllBytes", func(l *lock) {
		l.swap = swapIf(l, func(register, old []byte) bool {
			register, _, _ = bytes.Cut(register, []byte{0})
			old, _, _ = bytes.Cut(old, []byte{0})
			return bytes.Equal(register, old)
		})
	}},
	{"trims space", "SwapComparesAllBytes", func(l *lock) {
		l.swap = swapIf(l, func(register, old []byte) bool { return bytes.Equal(bytes.TrimSpace(register), bytes.TrimSpace(old)) })
	}},
	{"never finds nothing equal to nothing", "Empty", func(l *lock) {
		l.swap = swapIf(l, func(register, old []byte) bool { return len(old) > 0 && bytes.Equal(register, old) })
	}},
	{"takes an empty register for an absent one", "Empty", func(l *lock) {
		l.fetch = func(ctx context.Context, id [32]byte) ([]byte, error) {
			b, err := l.Lock.Fetch(ctx, id)
			if err == nil && len(b) == 0 {
				return nil, storage.ErrNotFound
			}
			return b, err
		}
	}},
	{"refuses an empty body", "Empty", func(l *lock) {
		l.create = func(ctx context.Context, id [32]byte, body []byte) error {
			if body == nil {
				return errors.New("NOT NULL constraint failed")
			}
			return l.Lock.Create(ctx, id, body)
		}
	}},
	{"cuts long bodies", "Large", func(l *lock) {
		l.create = func(ctx context.Context, id [32]byte, body []byte) error {
			return l.Lock.Create(ctx, id, body[:min(len(body), 65535)])
		}
	}},
	{"hands out its own slice", "Copies", func(l *lock) {
		kept := make(map[string][]byte)
		l.fetch = func(ctx context.Context, id [32]byte) ([]byte, error) {
			b, err := l.Lock.Fetch(ctx, id)
			if old, ok := kept[string(b)]; ok {
				return old, err
			}
			kept[string(b)] = b
			return b, err
		}
	}},
	{"creates over what is there", "Create", func(l *lock) {
		l.create = func(ctx context.Context, id [32]byte, body []byte) error { set(l, id, body); return ctx.Err() }
	}},
	{"accepts an equal creation", "Create", func(l *lock) {
		l.create = func(ctx context.Context, id [32]byte, body []byte) error {
			if b, err := l.Lock.Fetch(ctx, id); err == nil && bytes.Equal(b, body) {
				return nil
			}
			return l.Lock.Create(ctx, id, body)
		}
	}},
	{"creates by swapping", "NotFound", func(l *lock) {
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			err := l.Lock.Swap(ctx, id, old, new)
			if errors.Is(err, storage.ErrNotFound) && len(old) == 0 {
				set(l, id, new)
				return nil
			}
			return err
		}
	}},
	{"calls an absent register a conflict", "NotFound", func(l *lock) {
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			if err := l.Lock.Swap(ctx, id, old, new); err != nil {
				return storage.ErrConflict
			}
			return nil
		}
	}},
	{"has one register for all", "LogIDs", func(l *lock) {
		l.fetch = func(ctx context.Context, _ [32]byte) ([]byte, error) { return l.Lock.Fetch(ctx, [32]byte{}) }
		l.create = func(ctx context.Context, _ [32]byte, b []byte) error { return l.Lock.Create(ctx, [32]byte{}, b) }
	}},
	{"cuts log IDs", "LogIDs", func(l *lock) {
		cut := func(id [32]byte) [32]byte { id[31] = 0; return id }
		l.fetch = func(ctx context.Context, id [32]byte) ([]byte, error) { return l.Lock.Fetch(ctx, cut(id)) }
		l.create = func(ctx context.Context, id [32]byte, b []byte) error { return l.Lock.Create(ctx, cut(id), b) }
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			return l.Lock.Swap(ctx, cut(id), old, new)
		}
	}},
	{"reads a failure as absence", "Cancelled", func(l *lock) {
		l.fetch = func(ctx context.Context, id [32]byte) ([]byte, error) {
			b, err := l.Lock.Fetch(ctx, id)
			if err != nil {
				return nil, storage.ErrNotFound
			}
			return b, nil
		}
	}},
	{"calls an unknown outcome a conflict", "Cancelled", func(l *lock) {
		l.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
			err := l.Lock.Swap(ctx, id, old, new)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return storage.ErrConflict
			}
			return err
		}
	}},
}

func TestSuiteFindsBrokenLocks(t *testing.T) {
	covered := make(map[string]bool)
	for _, b := range brokenLocks {
		covered[b.found] = true
		t.Run(b.defect, func(t *testing.T) {
			i := slices.IndexFunc(lockCases, func(c lockCase) bool { return c.name == b.found })
			if i < 0 {
				t.Fatalf("there is no case %s", b.found)
			}
			failures := record(t, func(tb testing.TB) {
				l := &lock{Lock: memory.NewLock()}
				b.damage(l)
				lockCases[i].run(tb, l)
			})
			if len(failures) == 0 {
				t.Errorf("case %s passes a lock that %s", b.found, b.defect)
			}
		})
	}
	for _, c := range lockCases {
		if !covered[c.name] {
			t.Errorf("no broken lock shows that case %s can fail", c.name)
		}
		if failures := record(t, func(tb testing.TB) { c.run(tb, &lock{Lock: memory.NewLock()}) }); len(failures) > 0 {
			t.Errorf("case %s fails a good lock: %q", c.name, failures)
		}
	}
}

// TestSuiteFindsDividedLocks gives the suite handles that do not share their
// registers, and handles that share them without care.
func TestSuiteFindsDividedLocks(t *testing.T) {
	for _, c := range locksCases {
		failures := record(t, func(tb testing.TB) {
			shared := memory.NewLock()
			var locks []storage.Lock
			for range 4 {
				own := &lock{Lock: memory.NewLock()}
				own.swap = func(ctx context.Context, id [32]byte, old, new []byte) error {
					if err := own.Lock.Swap(ctx, id, old, new); err != nil {
						return err
					}
					return shared.Create(ctx, [32]byte(append(bytes.Repeat([]byte{1}, 31), byte(len(new)))), new)
				}
				locks = append(locks, own)
			}
			c.run(tb, locks)
		})
		if len(failures) == 0 {
			t.Errorf("case %s passes four locks that know nothing of each other", c.name)
		}
	}
	failures := record(t, func(tb testing.TB) {
		testLockReopen(tb, func(testing.TB) func() storage.Lock {
			return func() storage.Lock { return memory.NewLock() }
		})
	})
	if len(failures) == 0 {
		t.Error("suite passes a lock that forgets everything when it is closed")
	}
}
