package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/internal/durable"
)

// cached tells whether the first page of a file is in the page cache.
func cached(t *testing.T, name string) bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	switch _, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 4096)}, 0, unix.RWF_NOWAIT); {
	case err == nil:
		return true
	case errors.Is(err, unix.EAGAIN):
		return false
	default:
		t.Skipf("SKIPPED, NOT TESTED: this file system does not tell what it caches: %v", err)
	}
	return false
}

// TestReread: the content is on disk, and no longer in the page cache, whether
// or not it was written back before.
func TestReread(t *testing.T) {
	dir, err := os.MkdirTemp(".", "reread-") // the usual place may be in memory
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name, content := filepath.Join(dir, "file"), bytes.Repeat([]byte("daybook."), 512)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if !cached(t, name) {
		t.Fatal("a file that was just written is not cached")
	}
	if err := durable.Reread(name); err != nil {
		t.Fatal(err)
	}
	if cached(t, name) {
		t.Error("it is still read from the page cache")
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the content is not what was written, %v", err)
	}
	if err := durable.Reread(filepath.Join(dir, "absent")); err != nil {
		t.Errorf("absent file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file was made: %v", err)
	}
	if err := durable.Reread(dir); err == nil {
		t.Error("a directory is no file")
	}
}
