package cache

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// ext4 is a filesystem that is not ZFS.
func ext4(string) (FSType, error) { return FSType{Magic: 0xef53}, nil }

// openTest opens a cache that the test closes at its end.
func openTest(t testing.TB, path string, o Options) *DB {
	t.Helper()
	o.Create = true
	db, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func newTest(t testing.TB) *DB {
	t.Helper()
	return openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{})
}

func mustPut(t testing.TB, db *DB, records ...storage.Record) {
	t.Helper()
	if err := db.Put(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func mustCheckpoint(t testing.TB, db *DB) storage.WAL {
	t.Helper()
	w, err := db.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func wantHit(t testing.TB, db *DB, r storage.Record) {
	t.Helper()
	p, ok, err := db.Get(t.Context(), r.Key)
	if err != nil || !ok || p != r.Position {
		t.Errorf("Get(%x) = %v, %v, %v, want %v", r.Key[:4], p, ok, err, r.Position)
	}
}

func wantMiss(t testing.TB, db *DB, key tlog.Key) {
	t.Helper()
	if p, ok, err := db.Get(t.Context(), key); err != nil || ok {
		t.Errorf("Get(%x) = %v, %v, %v, want a miss", key[:4], p, ok, err)
	}
}

// wantError is "an error is never a miss": err is there, and nothing else.
func wantError(t testing.TB, db *DB, key tlog.Key) error {
	t.Helper()
	p, ok, err := db.Get(t.Context(), key)
	if err == nil || ok || p != (tlog.Position{}) {
		t.Errorf("Get(%x) = %v, %v, %v, want an error alone", key[:4], p, ok, err)
	}
	return err
}

// outsider opens the database as another program would.
func outsider(t testing.TB, path string) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	c.SetBusyTimeout(0)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func mustExec(t testing.TB, c *sqlite.Conn, sql ...string) {
	t.Helper()
	for _, s := range sql {
		if err := exec(c, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// copyFile copies a file, as a backup or a crash leaves it.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// cancelledLater is a context that is found cancelled from the second look on,
// which is after the transaction began.
type cancelledLater struct {
	context.Context
	looks int
}

func (c *cancelledLater) Err() error {
	if c.looks++; c.looks > 1 {
		return context.Canceled
	}
	return nil
}

func (c *cancelledLater) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

var errOther = errors.New("another error")

func sameFile(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s was changed", filepath.Base(path))
	}
}
