package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/durable/durabletest"
)

func openOS(t testing.TB) (*durable.Dir, string) {
	dir := t.TempDir()
	fsys, err := durable.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := durable.NewDir(fsys)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, dir
}

// tree returns all paths below dir.
func tree(t testing.TB, dir string) (paths []string) {
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		paths = append(paths, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestWriteOnOS(t *testing.T) {
	d, dir := openOS(t)
	err := d.Write(text("checkpoint", "c", durable.Replace), text("tile/0/x001/000", "t", durable.Keep), durable.Content{Name: "empty", Mode: durable.New})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write(text("tile/0/x001/000", "t", durable.Keep), text("checkpoint", "d", durable.Replace)); err != nil {
		t.Fatal(err)
	}
	want := []string{".", "checkpoint", "empty", "tile", "tile/0", "tile/0/x001", "tile/0/x001/000"}
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("directory holds %q, want %q", got, want)
	}
	for name, want := range map[string]string{"checkpoint": strings.Repeat("d", 50), "tile/0/x001/000": strings.Repeat("t", 50), "empty": ""} {
		got, err := d.Read(name, 50)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := d.List("tile/0/x001"); err != nil || !slices.Equal(got, []string{"000"}) {
		t.Errorf("list: %q, %v", got, err)
	}
	if got, err := d.List("absent"); err != nil || got != nil {
		t.Errorf("list of an absent directory: %q, %v", got, err)
	}
	if err := d.Remove("tile/0/x001/000", "tile/0/x001/001", "absent/file"); err != nil {
		t.Error(err)
	}
	if _, err := d.Read("tile/0/x001/000", 50); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read of a removed file: %v", err)
	}
}

// TestModes: another user's file server can read what is written.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	d, dir := openOS(t)
	if err := d.Write(text("a/b/file", "x", durable.Keep), durable.Content{Name: "private", Perm: 0o600}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"a": 0o755 | fs.ModeDir, "a/b": 0o755 | fs.ModeDir, "a/b/file": 0o644, "private": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestDifferent(t *testing.T) {
	d, dir := openOS(t)
	if err := d.Write(text("file", "old", durable.Keep)); err != nil {
		t.Fatal(err)
	}
	for _, f := range []durable.Content{text("file", "new", durable.Keep), text("file", "oldold", durable.Keep), {Name: "file", Mode: durable.Keep}} {
		if err := d.Write(f, text("other", "x", durable.Keep)); !errors.Is(err, durable.ErrDifferent) {
			t.Errorf("writing other content: %v, want ErrDifferent", err)
		}
	}
	if err := d.Write(text("file", "old", durable.New)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writing a new file that exists: %v, want fs.ErrExist", err)
	}
	if err := d.Write(text("twice", "a", durable.Keep), text("twice", "b", durable.Keep)); !errors.Is(err, durable.ErrDifferent) {
		t.Errorf("writing one file twice: %v, want ErrDifferent", err)
	}
	if got, err := d.Read("file", 1000); err != nil || string(got) != strings.Repeat("old", 50) {
		t.Errorf("file changed: %q, %v", got, err)
	}
	for _, name := range tree(t, dir) {
		if durable.IsTemp(name) {
			t.Error("a temporary file is left")
		}
	}
	if err := d.Err(); err != nil {
		t.Errorf("writing has ended: %v", err)
	}
}

func TestInvalidNames(t *testing.T) {
	d, dir := openOS(t)
	for _, name := range []string{"", ".", "..", "../x", "/x", "a//b", "a/", "a/../b", ".tmp-x", "a/.tmp-x"} {
		if err := d.Write(durable.Content{Name: name}); err == nil {
			t.Errorf("wrote %q", name)
		}
	}
	if got := tree(t, dir); len(got) != 1 {
		t.Errorf("directory holds %q", got)
	}
}

// TestNothingLeftBehind makes each operation of a Write fail once.
func TestNothingLeftBehind(t *testing.T) {
	errDisk := errors.New("no space left on device")
	for _, op := range []durable.Op{durable.OpOpen, durable.OpRead, durable.OpCreate, durable.OpWrite, durable.OpSync, durable.OpMkdir,
		durable.OpLink, durable.OpRename, durable.OpSyncDir} {
		t.Run(string(op), func(t *testing.T) {
			fsys, err := durable.OpenOS(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var calls int
			fail := false
			var mu sync.Mutex
			d := durable.NewDir(durable.Hook(fsys, durable.Hooks{Before: func(c durable.Call) error {
				mu.Lock()
				defer mu.Unlock()
				if fail && c.Op == op {
					if calls++; calls == 1 {
						return fmt.Errorf("%v: %w", c, errDisk)
					}
				}
				return nil
			}}))
			defer func() { _ = d.Close() }()
			if err := d.Write(text("old", "x", durable.Keep)); err != nil {
				t.Fatal(err)
			}
			fail = true
			err = d.Write(text("old", "x", durable.Keep), text("a/1", "x", durable.Keep), text("a/2", "x", durable.Keep), text("b/3", "x", durable.Replace))
			if !errors.Is(err, errDisk) {
				t.Fatalf("write returned %v, want the injected error", err)
			}
			if isSync := op == durable.OpSync || op == durable.OpSyncDir; errors.Is(err, durable.ErrSync) != isSync {
				t.Errorf("write returned %v; ErrSync is for failed fsyncs alone", err)
			}
			if errors.Is(err, durable.ErrDifferent) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a failure is taken for an answer: %v", err)
			}
			if entries, err := fsys.ReadDir("."); err != nil || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return durable.IsTemp(e.Name()) }) {
				t.Errorf("temporary files are left: %v, %v", entries, err)
			}
		})
	}
}

// TestOrder states the order of operations, which everything else rests on.
func TestOrder(t *testing.T) {
	var mu sync.Mutex
	var ops []durable.Call
	fsys := durable.Hook(durabletest.NewDisk(), durable.Hooks{After: func(c durable.Call, _ error) {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, c)
	}})
	d := durable.NewDir(fsys)
	count := func(op durable.Op) (n int) {
		for _, c := range ops {
			if c.Op == op {
				n++
			}
		}
		return n
	}
	write := func(round int) {
		ops = nil
		var files []durable.Content
		for _, dir := range []string{"tile/0/x001", "tile/1"} {
			for i := range 4 {
				files = append(files, text(fmt.Sprintf("%s/%d-%d", dir, round, i), "x", durable.Keep))
			}
		}
		if err := d.Write(append(files, text("checkpoint", fmt.Sprint(round), durable.Replace))...); err != nil {
			t.Fatal(err)
		}
		last := make(map[durable.Op]int)
		first := make(map[durable.Op]int)
		for i, c := range ops {
			last[c.Op] = i
			if _, ok := first[c.Op]; !ok {
				first[c.Op] = i
			}
		}
		visible := min(first[durable.OpLink], first[durable.OpRename])
		if last[durable.OpSync] > visible {
			t.Errorf("round %d: a file became visible before all contents were durable: %v", round, ops)
		}
		if first[durable.OpSyncDir] < max(last[durable.OpLink], last[durable.OpRename]) {
			t.Errorf("round %d: a directory was synced too early: %v", round, ops)
		}
		if got := count(durable.OpSync); got != 9 {
			t.Errorf("round %d: %d file syncs, want 9", round, got)
		}
	}
	write(1)
	// The top, tile and tile/0 for the entries in them, tile/0/x001 and tile/1.
	if got := count(durable.OpSyncDir); got != 5 {
		t.Errorf("first write: %d directory syncs, want 5: %v", got, ops)
	}
	write(2)
	if got := count(durable.OpSyncDir); got != 3 || count(durable.OpMkdir) != 0 {
		t.Errorf("second write: %d directory syncs and %d mkdirs, want 3 and 0: %v", got, count(durable.OpMkdir), ops)
	}
}

func TestRead(t *testing.T) {
	d, dir := openOS(t)
	if err := d.Write(text("a/file", "x", durable.Keep)); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Read("a/file", 50); err != nil || len(got) != 50 || cap(got) != 50 {
		t.Errorf("read at the limit: %d bytes, capacity %d, %v", len(got), cap(got), err)
	}
	if _, err := d.Read("a/file", 49); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("read of a file one byte too large: %v, want ErrTooLarge", err)
	}
	for _, name := range []string{"b", "a/b", "b/c"} {
		if _, err := d.Read(name, 50); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read of absent %s: %v, want fs.ErrNotExist", name, err)
		}
	}
	for _, name := range []string{"a", ".", "a/file/x", "link", "../outside", "/etc/passwd"} {
		if got, err := d.Read(name, 50); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read of %s: %q, %v, want an error of another kind", name, got, err)
		}
	}
}

// TestGone: a directory that was removed has no files, which must not be read
// as an absence of the files.
func TestGone(t *testing.T) {
	d, dir := openOS(t)
	if err := d.Write(text("file", "x", durable.Keep)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, readErr := d.Read("file", 50)
	_, listErr := d.List("folder")
	for what, err := range map[string]error{"read": readErr, "list": listErr, "remove": d.Remove("file"),
		"keep": d.Write(text("new", "x", durable.Keep)), "replace": d.Write(text("new", "x", durable.Replace))} {
		if !errors.Is(err, durable.ErrGone) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s in a removed directory: %v, want ErrGone", what, err)
		}
	}
}

func TestConcurrentKeep(t *testing.T) {
	d, dir := openOS(t)
	for round := range 20 {
		name := fmt.Sprintf("dir%d/file", round)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = d.Write(text(name, fmt.Sprint(i%4), durable.Keep)) })
		}
		wg.Wait()
		got, err := d.Read(name, 50)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if won := string(got) == strings.Repeat(fmt.Sprint(i%4), 50); won && err != nil || !won && !errors.Is(err, durable.ErrDifferent) {
				t.Errorf("writer %d: won is %v, error is %v", i, won, err)
			}
		}
	}
	for _, name := range tree(t, dir) {
		if durable.IsTemp(name) {
			t.Error("a temporary file is left")
		}
	}
}

func TestRemoveTemp(t *testing.T) {
	d, dir := openOS(t)
	for _, name := range []string{".tmp-1", ".tmp-ABC", ".other", "tmp-2", "checkpoint"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.RemoveTemp(); n != 2 || err != nil {
		t.Errorf("removed %d, %v, want 2", n, err)
	}
	if got, want := tree(t, dir), []string{".", ".other", "checkpoint", "tmp-2"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if got, err := d.List("."); err != nil || len(got) != 3 {
		t.Errorf("list: %q, %v", got, err)
	}
}

func TestPaths(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b", "c")
	for range 2 {
		if err := durable.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "seed")
	if err := durable.WriteFile(name, []byte("one"), durable.New, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(name, []byte("two"), durable.New, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second new file: %v, want fs.ErrExist", err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "one" {
		t.Errorf("file is %q, %v", got, err)
	}
	if err := durable.WriteFile(name, []byte("three"), durable.Replace, 0); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "three" {
		t.Errorf("file is %q, %v", got, err)
	}
	if err := durable.MkdirAll(filepath.Join(name, "x")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory below a file: %v", err)
	}
	if err := durable.SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := durable.SyncDir(filepath.Join(dir, "absent")); !errors.Is(err, durable.ErrSync) {
		t.Errorf("sync of an absent directory: %v, want ErrSync", err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "absent", "file"), nil, durable.New, 0); err == nil {
		t.Error("wrote into an absent directory")
	}
	if got := tree(t, dir); len(got) != 2 {
		t.Errorf("directory holds %q", got)
	}
}

func TestManyDirectories(t *testing.T) {
	disk := durabletest.NewDisk()
	d := durable.NewDir(disk)
	want := 0
	for round := range 50 { // more than the memory of known directories
		var files []durable.Content
		for i := range 100 {
			files = append(files, text(fmt.Sprintf("tile/x%03d/%03d.p/1", round, i), "x", durable.Keep))
		}
		if err := d.Write(files...); err != nil {
			t.Fatal(err)
		}
		want += len(files)
	}
	if got := len(disk.PowerLoss(nil).Files()); got != want {
		t.Errorf("%d files are durable, want %d", got, want)
	}
}
