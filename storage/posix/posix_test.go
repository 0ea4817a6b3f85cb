package posix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/storagetest"
	"github.com/daybook-ct/daybook/tlog"
)

func openTest(tb testing.TB, dir string, o Options) *Store {
	tb.Helper()
	s, err := Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storagetest.TestStore(t, func(tb testing.TB) storage.Store { return openTest(tb, tb.TempDir(), Options{}) })
}

func TestStoreReopen(t *testing.T) {
	storagetest.TestStoreReopen(t, func(tb testing.TB) func() storage.Store {
		dir := tb.TempDir()
		return func() storage.Store {
			s, err := Open(dir, Options{}) // closed by the suite
			if err != nil {
				tb.Fatal(err)
			}
			return s
		}
	})
}

func put(t *testing.T, s *Store, name, data string) {
	t.Helper()
	if err := s.Put(t.Context(), storage.Object{Name: name, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

// TestSecondWriterIsRefused, in this process and in another one (F16).
func TestSecondWriterIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second writer: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOtherProcess$")
	cmd.Env = append(os.Environ(), "DAYBOOK_TEST_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), ErrInUse.Error()) {
		t.Errorf("another process: %v\n%s", err, out)
	}
	openTest(t, dir, Options{ReadOnly: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, Options{})
}

// TestOtherProcess is the other process of TestSecondWriterIsRefused.
func TestOtherProcess(t *testing.T) {
	dir := os.Getenv("DAYBOOK_TEST_DIR")
	if dir == "" {
		t.Skip("not asked for: TestSecondWriterIsRefused runs this in a process of its own")
	}
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("a second writer: %v", err)
	}
	t.Log(err)
	fmt.Println(err) // for the parent
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	put(t, openTest(t, dir, Options{}), "checkpoint", "a")
	s := openTest(t, dir, Options{ReadOnly: true})
	if b, err := s.Get(t.Context(), "checkpoint"); err != nil || string(b) != "a" {
		t.Errorf("%q, %v", b, err)
	}
	if err := s.Put(t.Context(), storage.Object{Name: "checkpoint"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Delete(t.Context(), "checkpoint"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Delete: %v", err)
	}
}

// TestReaderLeavesTemp: a reader must not remove what a writer is writing.
func TestReaderLeavesTemp(t *testing.T) {
	dir := t.TempDir()
	temp := filepath.Join(dir, ".tmp-1234")
	if err := os.WriteFile(temp, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir, Options{ReadOnly: true})
	if _, err := os.Stat(temp); err != nil {
		t.Error(err)
	}
}

// TestErrorsAreNotAbsence: what cannot be read is not missing.
func TestErrorsAreNotAbsence(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	if err := os.MkdirAll(filepath.Join(dir, "tile/0/000"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tile/data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tile/0/000", "tile/data/000"} { // a directory; a file in its path
		if b, err := s.Get(t.Context(), name); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := s.Get(t.Context(), "tile/0/001"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an absent tile: %v", err)
	}
}

// TestLeftoversGo: temporary files of a crash are neither listed nor left.
func TestLeftoversGo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".tmp-1234"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := openTest(t, dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "files=1") {
		t.Errorf("log says %q, want the number of files removed", log.String())
	}
	put(t, s, "tile/0/000.p/1", "x")
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if strings.Contains(path, ".tmp") {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSyncErrorIsFatal: an fsync error comes out as storage.ErrNotDurable, and
// nothing is written after it.
func TestSyncErrorIsFatal(t *testing.T) {
	for _, op := range []durable.Op{durable.OpSync, durable.OpSyncDir} {
		reg := prometheus.NewRegistry()
		s := openTest(t, t.TempDir(), Options{Metrics: reg})
		put(t, s, "checkpoint", "a")
		fsys, err := durable.OpenOS(s.path)
		if err != nil {
			t.Fatal(err)
		}
		failing := true
		s.dir = durable.NewDir(s.metrics.counting(durable.Hook(fsys, durable.Hooks{Before: func(c durable.Call) error {
			if failing && c.Op == op {
				return errors.New("input/output error")
			}
			return nil
		}})))
		if err := s.Put(t.Context(), storage.Object{Name: "checkpoint", Data: []byte("b")}); !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("%s: %v", op, err)
		}
		failing = false
		if err := s.Put(t.Context(), storage.Object{Name: "checkpoint", Data: []byte("c")}); !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("%s: after an fsync error a put returns %v", op, err)
		}
		metrics, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			if n := m.GetMetric()[0].GetCounter().GetValue(); m.GetName() == "daybook_storage_fsync_errors_total" && n != 1 {
				t.Errorf("%s: %v fsync errors are counted", op, n)
			}
		}
	}
}

// TestMetrics counts fsyncs exactly, and operations by kind.
func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	dir := t.TempDir()
	gather := func() map[string]float64 {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				seen[name] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return seen
	}
	for range 2 { // Close unregisters, so that a store can be opened again
		s, err := Open(dir, Options{Metrics: r})
		if err != nil {
			t.Fatal(err)
		}
		// The file, its directory, and the three above that have new entries.
		put(t, s, "tile/0/000.p/1", "x")
		if n := gather()["daybook_storage_fsyncs_total"]; n != 5 {
			t.Errorf("%v fsyncs for a first tile, want 5", n)
		}
		// Two files, two directories.
		if err := s.Put(t.Context(), storage.Object{Name: "tile/0/000.p/2"}, storage.Object{Name: "checkpoint"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "checkpoint"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), "issuer/"); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "tile/0/000.p/2"); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"daybook_storage_fsyncs_total":                       10,
			"daybook_storage_operation_seconds hash_tile put":    1,
			"daybook_storage_operation_seconds mixed put":        1,
			"daybook_storage_operation_seconds none put":         1,
			"daybook_storage_operation_seconds checkpoint get":   1,
			"daybook_storage_operation_seconds issuer list":      1,
			"daybook_storage_operation_seconds hash_tile delete": 1,
		} {
			if got := gather()[name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left := gather(); len(left) != 0 {
			t.Errorf("metrics left after Close: %v", left)
		}
	}

	openTest(t, dir, Options{Metrics: r})
	if _, err := Open(dir, Options{Metrics: r, ReadOnly: true}); err == nil || len(gather()) == 0 {
		t.Errorf("second store with the same metrics: %v; the first one has %v", err, gather())
	}
}

// TestOpen: what cannot be opened is said in words an operator can act on, and
// nothing is left locked.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "does not exist: mount it, or create the log first",
		file:                         "not a directory",
	} {
		for _, o := range []Options{{}, {ReadOnly: true}} {
			if _, err := Open(path, o); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
				t.Errorf("opening %s: %v, want %q", path, err, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory was made: %v", err)
	}

	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_storage_fsyncs_total", Help: "Another."}))
	if _, err := Open(dir, Options{Metrics: r}); err == nil {
		t.Error("opened with a metric that is taken")
	}
	openTest(t, dir, Options{}) // the failed one has let go of the lock
}

// TestModes: a static file server that runs as somebody else can read
// everything (F11).
func TestModes(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	for range 2 {
		put(t, s, "tile/0/x001/000.p/1", "x")
		put(t, s, "checkpoint", "y")
	}
	for name, want := range map[string]os.FileMode{
		"checkpoint": 0o644, "tile/0/x001/000.p/1": 0o644, "tile": 0o755 | os.ModeDir, "tile/0/x001/000.p": 0o755 | os.ModeDir,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// TestForeignFiles: what others put into the directory is not listed, and is
// left alone.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	bundle := fmt.Sprintf("staging/7-%064x", 7)
	for _, name := range []string{bundle, "staging/notes.txt", "staging/.tmp-1", "staging/.hidden", "staging/7-x/y", "other/file", ".htaccess"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, fmt.Sprintf("staging/8-%064x", 8)), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, dir, Options{})
	if got, err := s.List(t.Context(), "staging/"); err != nil || len(got) != 1 || got[0] != bundle {
		t.Errorf("list: %q, %v, want %s alone", got, err, bundle)
	}
	for _, name := range []string{"staging/notes.txt", "staging/.hidden", "other/file", ".htaccess"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("foreign file: %v", err)
		}
	}
}

// TestTooLarge: a Get is bounded, and what cannot be got is not put.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	put(t, s, "checkpoint", "x")
	if err := os.Truncate(filepath.Join(dir, "checkpoint"), MaxObject+1); err != nil { // a sparse file
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "checkpoint"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("get: %v, want ErrTooLarge", err)
	}
	// The pages of this slice are never touched.
	if err := s.Put(t.Context(), storage.Object{Name: "tile/0/000", Data: make([]byte, MaxObject+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("put: %v, want ErrTooLarge", err)
	}
}

// TestRemovedDirectory: the objects of a directory that was removed under a
// running log are not absent, they are lost.
func TestRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, dir, Options{})
	put(t, s, "checkpoint", "x")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.Get(t.Context(), "checkpoint")
	_, listErr := s.List(t.Context(), "staging/")
	for what, err := range map[string]error{"get": getErr, "list": listErr, "put": s.Put(t.Context(), storage.Object{Name: "checkpoint"}), "delete": s.Delete(t.Context(), "checkpoint")} {
		if !errors.Is(err, durable.ErrGone) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v, want ErrGone", what, err)
		}
	}
}

// TestLinksStayInside: a symbolic link cannot lead out of the directory.
func TestLinksStayInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := openTest(t, dir, Options{})
	if err := os.WriteFile(filepath.Join(outside, "000"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tile"), 0o755), os.Symlink(outside, filepath.Join(dir, "tile", "0"))); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), "tile/0/000"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get through a link: %q, %v", got, err)
	}
	if err := s.Put(t.Context(), storage.Object{Name: "tile/0/001"}); err == nil {
		t.Error("put through a link")
	}
}

func TestFreeSpace(t *testing.T) {
	free, err := FreeSpace(t.TempDir())
	if err != nil || free.Bytes <= 0 || free.Bytes > free.TotalBytes || free.Inodes > free.TotalInodes {
		t.Errorf("%+v, %v", free, err)
	}
	if _, err := FreeSpace(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent directory has free space")
	}
}

// TestRoom: more than there is, is refused; a margin counts.
func TestRoom(t *testing.T) {
	s := openTest(t, t.TempDir(), Options{})
	free, err := FreeSpace(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if free.Bytes < 1<<30 {
		t.Skip("SKIPPED, NOT TESTED: less than 1 GiB is free here")
	}
	if err := s.Room(1<<20, 10); err != nil {
		t.Errorf("a megabyte: %v", err)
	}
	if err := s.Room(free.Bytes-min(roomMargin, free.TotalBytes/16)/2, 10); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("nearly all of it: %v", err)
	}
	if free.TotalInodes > 0 {
		if err := s.Room(1<<20, free.TotalInodes+1); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("more files than there can be: %v", err)
		}
	}
}

// BenchmarkPut is what a round does: eight objects of a round's size.
func BenchmarkPut(b *testing.B) {
	for name, batch := range map[string]bool{"one by one": false, "batch": true} {
		b.Run(name, func(b *testing.B) {
			s := openTest(b, b.TempDir(), Options{})
			data := bytes.Repeat([]byte("x"), 20_000)
			n := int64(0)
			for b.Loop() {
				var objects []storage.Object
				for range 8 {
					n++
					objects = append(objects, storage.Object{Name: tlog.Tile{L: 0, N: n, W: tlog.TileWidth}.Path(), Data: data})
				}
				if batch {
					if err := s.Put(context.Background(), objects...); err != nil {
						b.Fatal(err)
					}
					continue
				}
				for _, o := range objects {
					if err := s.Put(context.Background(), o); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
