package sqlitelock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/storage"
)

// known reports whether an error says that nothing happened.
func known(err error) bool {
	return errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrExists)
}

// holdWriteLock stands for a process that stays in a write transaction.
func holdWriteLock(t *testing.T, path string) (release func()) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(c, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(sqlitex.ExecuteTransient(c, "ROLLBACK", nil), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBusy: waiting for another writer ends with the context or the timeout,
// whichever is first. The outcome is none of those that say what happened
// (S4), and reads go on meanwhile. It runs on the clock of a bubble.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	id := [32]byte{1}
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(path, Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		if err := l.Create(t.Context(), id, []byte("a")); err != nil {
			t.Fatal(err)
		}
		release := holdWriteLock(t, path)

		start := time.Now()
		err = l.Swap(t.Context(), id, []byte("a"), []byte("b"))
		if took := time.Since(start); err == nil || known(err) || took < 4*time.Second || took > 5*time.Second {
			t.Errorf("swap while another process writes: %v after %v, want an unknown outcome after 5s", err, took)
		}
		err = l.Create(t.Context(), [32]byte{2}, nil)
		if err == nil || known(err) {
			t.Errorf("create while another process writes: %v", err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		err = l.Swap(ctx, id, []byte("a"), []byte("b"))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || known(err) || took != time.Second {
			t.Errorf("swap with a deadline: %v after %v, want the deadline after 1s", err, took)
		}
		if got, err := l.Fetch(t.Context(), id); err != nil || string(got) != "a" {
			t.Errorf("fetch while another process writes: %q, %v", got, err)
		}

		// Once the other is done, a waiting Swap goes through, and those that
		// gave up do not come after.
		done := make(chan error)
		go func() { done <- l.Swap(t.Context(), id, []byte("a"), []byte("c")) }()
		time.Sleep(time.Second)
		release()
		if err := <-done; err != nil {
			t.Errorf("swap after the other process: %v", err)
		}
		if got, err := l.Fetch(t.Context(), id); err != nil || string(got) != "c" {
			t.Errorf("register is %q, %v", got, err)
		}
	})
}

// TestWaitForTurn: operations on one handle wait for each other, but not
// longer than their context allows.
func TestWaitForTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(path, Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		<-l.turn // an operation that hangs in the disk
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err = l.Fetch(ctx, [32]byte{})
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("fetch behind an operation that hangs: %v after %v", err, took)
		}
		l.turn <- struct{}{}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		}
		if _, err := l.Fetch(t.Context(), [32]byte{}); err == nil || known(err) {
			t.Errorf("fetch after closing: %v", err)
		}
		if err := l.Swap(t.Context(), [32]byte{}, nil, nil); err == nil || known(err) {
			t.Errorf("swap after closing: %v", err)
		}
	})
}

// TestIOError: after the disk has failed nothing more is written, as it would
// stand behind a gap in the WAL.
func TestIOError(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "lock.db"), Options{Create: true})
	if err := l.Create(t.Context(), [32]byte{1}, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := l.ioError(sqlite.ResultFull.ToError()); errors.Is(err, storage.ErrNotDurable) || l.failed != nil {
		t.Errorf("a full disk is taken for a failed one: %v", err)
	}
	if err := l.ioError(sqlite.ResultIOErrFsync.ToError()); !errors.Is(err, storage.ErrNotDurable) {
		t.Errorf("failed fsync: %v, want ErrNotDurable", err)
	}
	if err := l.Swap(t.Context(), [32]byte{1}, []byte("a"), []byte("b")); !errors.Is(err, storage.ErrNotDurable) || known(err) {
		t.Errorf("swap after a failed fsync: %v, want ErrNotDurable", err)
	}
	if err := l.Create(t.Context(), [32]byte{2}, nil); !errors.Is(err, storage.ErrNotDurable) {
		t.Errorf("create after a failed fsync: %v, want ErrNotDurable", err)
	}
	if got, err := l.Fetch(t.Context(), [32]byte{1}); err != nil || string(got) != "a" {
		t.Errorf("register is %q, %v", got, err)
	}
}

// TestWALStaysSmall: the WAL of many swaps is one small file, written over and
// over again: neither truncated nor made anew. That also shows that no read
// statement is left open, which would keep it from being reused.
func TestWALStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	l := openTest(t, path, Options{Create: true})
	id := [32]byte{1}
	old := bytes.Repeat([]byte("x"), 6000)
	if err := l.Create(t.Context(), id, old); err != nil {
		t.Fatal(err)
	}
	var first os.FileInfo
	var largest int64
	for i := range 500 {
		next := append(fmt.Appendf(nil, "%6d", i), old[6:]...)
		if err := l.Swap(t.Context(), id, old, next); err != nil {
			t.Fatal(err)
		}
		old = next
		if _, err := l.Fetch(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := l.Swap(t.Context(), id, []byte("wrong"), nil); !errors.Is(err, storage.ErrConflict) {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = info
		}
		if !os.SameFile(first, info) {
			t.Fatalf("the WAL was made anew at swap %d", i)
		}
		if info.Size() < largest {
			t.Fatalf("the WAL was truncated at swap %d", i)
		}
		largest = info.Size()
	}
	if limit := int64(2 * walPages * (4096 + 24)); largest > limit || largest == 0 {
		t.Errorf("the WAL has grown to %d bytes, more than %d", largest, limit)
	}
}

// BenchmarkSwap is the commit step of a round: one durable write.
func BenchmarkSwap(b *testing.B) {
	l := openTest(b, filepath.Join(b.TempDir(), "lock.db"), Options{Create: true})
	id := [32]byte{1}
	old := bytes.Repeat([]byte("x"), 4200) // a checkpoint with both signatures and grease
	if err := l.Create(b.Context(), id, old); err != nil {
		b.Fatal(err)
	}
	var slowest time.Duration
	for i := 0; b.Loop(); i++ {
		next := append(fmt.Appendf(nil, "%10d", i), old[10:]...)
		start := time.Now()
		if err := l.Swap(b.Context(), id, old, next); err != nil {
			b.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
		old = next
	}
	b.ReportMetric(float64(slowest.Nanoseconds()), "slowest-ns")
}
