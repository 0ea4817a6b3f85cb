package posix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	s := openTest(t, dir, Options{})
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
		s := openTest(t, t.TempDir(), Options{})
		put(t, s, "checkpoint", "a")
		fsys, err := durable.OpenOS(s.path)
		if err != nil {
			t.Fatal(err)
		}
		failing := true
		s.dir = durable.NewDir(durable.Hook(fsys, durable.Hooks{Before: func(c durable.Call) error {
			if failing && c.Op == op {
				return errors.New("input/output error")
			}
			return nil
		}}))
		if err := s.Put(t.Context(), storage.Object{Name: "checkpoint", Data: []byte("b")}); !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("%s: %v", op, err)
		}
		failing = false
		if err := s.Put(t.Context(), storage.Object{Name: "checkpoint", Data: []byte("c")}); !errors.Is(err, storage.ErrNotDurable) {
			t.Errorf("%s: after an fsync error a put returns %v", op, err)
		}
	}
}

// TestMetrics: fsyncs are counted, and each put has its histogram.
func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	s := openTest(t, t.TempDir(), Options{Metrics: r})
	put(t, s, "tile/0/000.p/1", "x")
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			seen[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	// The file, its directory, and the two new directories above.
	if n := seen["daybook_storage_fsyncs_total"]; n < 4 {
		t.Errorf("%v fsyncs for a first tile", n)
	}
	if n := seen["daybook_storage_operation_seconds"]; n != 1 {
		t.Errorf("%v operations", n)
	}
}

func TestFreeSpace(t *testing.T) {
	free, err := FreeSpace(t.TempDir())
	if err != nil || free.Bytes == 0 {
		t.Errorf("%+v, %v", free, err)
	}
	if _, err := FreeSpace(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent directory has free space")
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
