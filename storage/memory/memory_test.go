package memory_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/storage/storagetest"
	"github.com/daybook-ct/daybook/tlog"
)

func TestStore(t *testing.T) {
	storagetest.TestStore(t, func(testing.TB) storage.Store { return memory.NewStore() })
	storagetest.TestStoreReopen(t, func(testing.TB) func() storage.Store {
		s := memory.NewStore()
		return func() storage.Store { return s }
	})
}

func TestLock(t *testing.T) {
	storagetest.TestLock(t, func(testing.TB) storage.Lock { return memory.NewLock() })
	storagetest.TestLocks(t, func(_ testing.TB, n int) []storage.Lock {
		l := memory.NewLock()
		locks := make([]storage.Lock, n)
		for i := range locks {
			locks[i] = l
		}
		return locks
	})
}

func TestCache(t *testing.T) {
	storagetest.TestCache(t, func(testing.TB) storage.Cache { return memory.NewCache() })
}

// TestBubble runs all three inside a synctest bubble, where anything that
// blocks on the outside world would hang.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, c := memory.NewStore(), memory.NewLock(), memory.NewCache()
		if err := s.Put(t.Context(), storage.Object{Name: "checkpoint", Data: []byte("c")}); err != nil {
			t.Error(err)
		}
		if err := l.Create(t.Context(), [32]byte{1}, []byte("c")); err != nil {
			t.Error(err)
		}
		if err := c.Put(t.Context(), []storage.Record{{Key: tlog.Key{1}}}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

func TestStoreOracleAndDamage(t *testing.T) {
	s := memory.NewStore()
	if err := s.Put(t.Context(), storage.Object{Name: "tile/0/000", Data: []byte("abc")}); err != nil {
		t.Fatal(err)
	}
	all := s.All()
	all["tile/0/000"][0] = 'X'
	if got, err := s.Get(t.Context(), "tile/0/000"); err != nil || string(got) != "abc" {
		t.Errorf("changing what All returned changed the store: %q, %v", got, err)
	}
	s.Set("tile/0/000", []byte("abd"))
	if got, err := s.Get(t.Context(), "tile/0/000"); err != nil || string(got) != "abd" {
		t.Errorf("damage was not done: %q, %v", got, err)
	}
	s.Set("tile/0/000", nil)
	if _, err := s.Get(t.Context(), "tile/0/000"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("removed object: %v", err)
	}
	if len(s.All()) != 0 {
		t.Errorf("objects left: %v", s.All())
	}
}

// TestStorePutIsAllOrNothing holds for this store alone; the contract allows
// any subset.
func TestStorePutIsAllOrNothing(t *testing.T) {
	s := memory.NewStore()
	err := s.Put(t.Context(), storage.Object{Name: "tile/0/000"}, storage.Object{Name: "nonsense"})
	if !errors.Is(err, storage.ErrInvalidName) || len(s.All()) != 0 {
		t.Errorf("put with an invalid name: %v, left %v", err, s.All())
	}
	if err := s.Put(t.Context(), storage.Object{Name: "tile/0/000"}); err != nil {
		t.Fatal(err)
	}
	err = s.Put(t.Context(), storage.Object{Name: "tile/0/001"}, storage.Object{Name: "tile/0/000", Data: []byte("x")})
	if !errors.Is(err, storage.ErrChanged) || len(s.All()) != 1 {
		t.Errorf("put with a changed object: %v, left %v", err, s.All())
	}
}

func TestLockSet(t *testing.T) {
	l := memory.NewLock()
	l.Set([32]byte{1}, []byte("older"))
	if got, err := l.Fetch(t.Context(), [32]byte{1}); err != nil || !bytes.Equal(got, []byte("older")) {
		t.Errorf("fetch after set: %q, %v", got, err)
	}
	l.Set([32]byte{1}, nil)
	if _, err := l.Fetch(t.Context(), [32]byte{1}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("fetch after removal: %v", err)
	}
}

func TestCacheCountsAndForgets(t *testing.T) {
	c := memory.NewCache()
	if err := c.Put(t.Context(), []storage.Record{{Key: tlog.Key{1}}, {Key: tlog.Key{2}}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := c.Get(t.Context(), tlog.Key{1}); err != nil {
			t.Fatal(err)
		}
	}
	if w, err := c.Checkpoint(t.Context()); err != nil || w != (storage.WAL{Frames: 2, Checkpointed: 2}) {
		t.Errorf("WAL checkpoint: %+v, %v", w, err)
	}
	if got, want := c.Calls(), (memory.Calls{Gets: 3, Puts: 1, Checkpoints: 1}); got != want {
		t.Errorf("calls: got %+v, want %+v", got, want)
	}
	if len(c.All()) != 2 {
		t.Errorf("records: %v", c.All())
	}
	c.Forget()
	if _, ok, err := c.Get(t.Context(), tlog.Key{1}); ok || err != nil {
		t.Errorf("get after forgetting: %v, %v", ok, err)
	}
}
