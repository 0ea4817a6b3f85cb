package incident

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident returns how many pages of a file are in the system's memory.
func resident(t *testing.T, path string, size int) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	}()
	pages := make([]byte, (size+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(size), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}

// TestCold: what was in memory is not, and nothing is lost.
func TestCold(t *testing.T) {
	const size = 4 << 20
	path := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("cold "), size/5)[:size/5*5]
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("SKIPPED: temporary files are in memory here, which cannot be cold; set TMPDIR to a directory on a disk")
	}
	whole := resident(t, path, len(want))
	if whole < 1000 {
		t.Fatalf("%d pages are in memory after writing", whole)
	}
	if err := Cold(path); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, path, len(want)); n > whole/10 {
		t.Errorf("%d of %d pages are in memory", n, whole)
	}
	to := path + ".copy"
	if err := CopyFile(path, to); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, path, len(want)) + resident(t, to, len(want)); n > whole/10 {
		t.Errorf("%d of %d pages are in memory after copying", n, 2*whole)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs: %v", err)
	}
}
