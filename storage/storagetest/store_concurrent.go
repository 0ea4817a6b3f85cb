package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/storage"
)

// storeCancelledMidway cancels a Put while it runs. When exactly is left to
// the scheduler; the properties hold for any moment.
func storeCancelledMidway(t testing.TB, s storage.Store) {
	for round := range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		var objects []storage.Object
		for i := range 20 {
			name := fmt.Sprintf("tile/data/%03d.p/%d", round, i+1)
			objects = append(objects, object(name, pattern(name, 50_000)))
		}
		objects = append(objects, object("checkpoint", pattern(fmt.Sprint(round), 3000)))
		started, done := make(chan struct{}), make(chan error)
		go func() {
			close(started)
			done <- s.Put(ctx, objects...)
		}()
		<-started
		cancel()
		err := <-done
		for _, o := range objects {
			if err == nil {
				holds(t, s, o.Name, o.Data)
			} else if o.Name != "checkpoint" {
				wholeOrAbsent(t, s, o.Name, o.Data)
			}
		}
		if err != nil {
			wantErr(t, "putting", err, context.Canceled)
		}
		// The same Put succeeds when it is tried again, whatever it left.
		put(t, s, objects...)
		for _, o := range objects {
			holds(t, s, o.Name, o.Data)
		}
	}
}

func storeAtomicReplace(t testing.TB, s storage.Store) {
	for _, name := range mutableNames {
		versions := [][]byte{pattern("a", 20_000), pattern("b", 300), pattern("c", 4096), nil}
		put(t, s, object(name, versions[0]))
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					got, err := s.Get(t.Context(), name)
					if err != nil {
						t.Errorf("reading %s while it is replaced: %v", name, err)
						return
					}
					if !equalsAny(got, versions) {
						t.Errorf("reading %s while it is replaced: %s, which is no version of it", name, brief(got))
						return
					}
				}
			})
		}
		for i := range 100 {
			if err := s.Put(t.Context(), object(name, versions[i%len(versions)])); err != nil {
				t.Errorf("replacing %s: %v", name, err)
				break
			}
		}
		close(stop)
		readers.Wait()
	}
}

func equalsAny(got []byte, versions [][]byte) bool {
	for _, v := range versions {
		if string(got) == string(v) {
			return true
		}
	}
	return false
}

func storeConcurrentPuts(t testing.TB, s storage.Store) {
	const writers, rounds = 8, 5
	shared := object("tile/0/000", pattern("shared", 8192))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				own := object(fmt.Sprintf("tile/data/x%03d/%03d", w+1, r), pattern(fmt.Sprint(w, r), 3000))
				equal := object(issuerName(fmt.Sprint(r)), pattern(fmt.Sprint(r), 900))
				if err := s.Put(t.Context(), own, equal, shared); err != nil {
					t.Errorf("concurrent put: %v", err)
				}
				// What a Put has returned for is there for everyone.
				holds(t, s, own.Name, own.Data)
				holds(t, s, equal.Name, equal.Data)
				holds(t, s, shared.Name, shared.Data)
			}
		})
		wg.Go(func() {
			for r := range rounds {
				wholeOrAbsentNoFatal(t, s, fmt.Sprintf("tile/data/x%03d/%03d", w+1, r), pattern(fmt.Sprint(w, r), 3000))
				if _, err := s.List(t.Context(), "issuer/"); err != nil {
					t.Errorf("concurrent list: %v", err)
				}
				if err := s.Delete(t.Context(), stagingName(w)); err != nil {
					t.Errorf("concurrent delete: %v", err)
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		for r := range rounds {
			holds(t, s, fmt.Sprintf("tile/data/x%03d/%03d", w+1, r), pattern(fmt.Sprint(w, r), 3000))
		}
	}
}

// wholeOrAbsentNoFatal is wholeOrAbsent for goroutines other than the test's.
func wholeOrAbsentNoFatal(t testing.TB, s storage.Store, name string, want []byte) {
	got, err := s.Get(t.Context(), name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
	case err != nil:
		t.Errorf("concurrent get of %s: %v", name, err)
	default:
		wantBytes(t, name, got, want)
	}
}

// storeConcurrentChanged is invariant S7 for writers that race: one of them
// is first, and the others learn that they are not.
func storeConcurrentChanged(t testing.TB, s storage.Store) {
	const writers = 8
	for r := range 10 {
		name := fmt.Sprintf("tile/1/%03d", r)
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { errs[w] = s.Put(t.Context(), object(name, pattern(fmt.Sprint(w), 2000))) })
		}
		wg.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = w
			case err == nil:
				t.Errorf("writers %d and %d both stored %s, with different bytes", winner, w, name)
			default:
				wantErr(t, "losing writer", err, storage.ErrChanged)
			}
		}
		if winner < 0 {
			t.Fatalf("no writer of %s succeeded", name)
		}
		holds(t, s, name, pattern(fmt.Sprint(winner), 2000))
	}
}

func testStoreReopen(t testing.TB, newPlace func(tb testing.TB) func() storage.Store) {
	open := newPlace(t)
	s := open()
	data := func(name string) []byte { return pattern(name, 700) }
	for _, name := range allNames() {
		put(t, s, object(name, []byte("old "+name)))
	}
	noErr(t, "deleting", s.Delete(t.Context(), allNames()...))
	for _, name := range allNames() {
		put(t, s, object(name, data(name)))
	}
	noErr(t, "deleting", s.Delete(t.Context(), stagingName(1000)))
	closeIt(t, s)

	s = open()
	for _, name := range allNames() {
		if name != stagingName(1000) {
			holds(t, s, name, data(name))
		}
	}
	lacks(t, s, stagingName(1000))
	listed(t, s, "staging/", stagingName(0))
	wantErr(t, "changing an object after reopening", s.Put(t.Context(), object("tile/0/000", nil)), storage.ErrChanged)
	put(t, s, object("tile/0/000", data("tile/0/000")))
	closeIt(t, s)
}

// closeIt closes what has a Close method.
func closeIt(t testing.TB, v any) {
	t.Helper()
	if c, ok := v.(io.Closer); ok {
		noErr(t, "closing", c.Close())
	}
}
