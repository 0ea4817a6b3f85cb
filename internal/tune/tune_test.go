package tune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
)

// livePlace is a directory with what could be the files of a log.
func livePlace(t *testing.T) (Options, func() map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"log/checkpoint": "checkpoint", "lock.db": "lock", "cache.db": "not even a database"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{StorageDir: dir, LockDir: dir, CacheDir: dir, CacheFile: filepath.Join(dir, "cache.db"), PageCache: 8 << 20,
		Interval: 200 * time.Millisecond, PoolSize: 20, Time: time.Second}
	return o, func() map[string]string {
		found := make(map[string]string)
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() && path == dir {
				return err
			}
			content := "directory"
			if !d.IsDir() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				content = info.ModTime().String() + string(b)
			}
			found[path] = content
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

// TestRun: everything is measured, the log's files are as before, and nothing
// is left behind.
func TestRun(t *testing.T) {
	o, files := livePlace(t)
	before := files()
	phases := make(map[string]bool)
	o.Progress = func(phase string, percent int, _ string) {
		phases[phase] = true
		if percent < 0 || percent > 100 {
			t.Errorf("%s is at %d%%", phase, percent)
		}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(files(), before) {
		t.Errorf("files before: %v\nafter: %v", before, files())
	}
	if len(phases) < 10 {
		t.Errorf("phases shown: %v", phases)
	}
	if len(r.Disks) != 1 || !slices.Equal(r.Disks[0].Of, []string{"storage", "lock", "cache"}) || len(r.Caches) != 2 || len(r.Rounds.Sizes) < 3 {
		t.Fatalf("%+v", r)
	}
	timings := []Timing{r.Disks[0].Fsync, r.Disks[0].NewFile, r.Disks[0].SyncDir, r.CPU.Sign, r.CPU.Verify, r.CPU.Cosign, r.CPU.Gzip, r.CPU.Request}
	for _, c := range r.Caches {
		timings = append(timings, c.Put, c.WALCheckpoint, c.Hit, c.Miss, c.Cold)
		if c.Rows < buildBatch || c.Bytes < rowBytes*c.Rows*8/10 || c.Batch != 20 {
			t.Errorf("cache %+v", c)
		}
	}
	if r.Caches[0].Wanted != leastCache || r.Caches[1].Wanted != growth*leastCache {
		t.Errorf("sizes wanted: %d and %d", r.Caches[0].Wanted, r.Caches[1].Wanted)
	}
	for i, s := range r.Rounds.Sizes {
		timings = append(timings, s.Took)
		if want := []int{5, 10, 20, 40, 80}; s.Entries != want[i] || s.Fsyncs < 5 || len(s.Steps) == 0 {
			t.Errorf("rounds %d: %+v", i, s)
		}
	}
	for i, m := range timings {
		if m.Count == 0 || m.P50 <= 0 || m.P50 > m.P99 || m.P99 > m.Max {
			t.Errorf("timing %d: %+v", i, m)
		}
	}
	if r.Advice.Limit == "" || r.Advice.Present <= 0 || r.Advice.ByCPU == 0 || r.Advice.ByGets == 0 {
		t.Errorf("%+v", r.Advice)
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"pool_size":20`) {
		t.Errorf("%v: %s", err, b)
	}
}

// TestRunEnds: a measurement that is interrupted, wherever, or cannot be made,
// leaves nothing behind.
func TestRunEnds(t *testing.T) {
	stop := errors.New("stopped by the test")
	for _, phase := range []string{"fsync", "requests", "cache 1x", "cache get", "rounds"} {
		o, files := livePlace(t)
		before := files()
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Progress = func(p string, _ int, _ string) {
			if p == phase {
				cancel(stop)
			}
		}
		if _, err := Run(ctx, o); !errors.Is(err, stop) && !errors.Is(err, context.Canceled) {
			t.Errorf("stopped in phase %s: %v", phase, err)
		}
		cancel(nil)
		if !reflect.DeepEqual(files(), before) {
			t.Errorf("stopped in phase %s: left %v", phase, files())
		}
	}
	o, files := livePlace(t)
	before := files()
	o.CacheDir = filepath.Join(o.CacheDir, "none")
	if _, err := Run(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory for the cache: %v", err)
	}
	if !reflect.DeepEqual(files(), before) {
		t.Errorf("no directory for the cache: left %v", files())
	}
	if _, err := Run(t.Context(), Options{}); err == nil {
		t.Error("no options were accepted")
	}
}

func TestTiming(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Millisecond)
	}
	ms := func(n int) rounds.Duration { return rounds.Duration(time.Duration(n) * time.Millisecond) }
	if got := timing(d); got != (Timing{200, ms(100), ms(198), ms(200)}) {
		t.Errorf("%+v", got)
	}
	if got := timing(d[:1]); got != (Timing{1, ms(200), ms(200), ms(200)}) {
		t.Errorf("one: %+v", got)
	}
	if got := timing(nil); got != (Timing{}) {
		t.Errorf("none: %+v", got)
	}
}

func TestBeside(t *testing.T) {
	dir := t.TempDir()
	storage := filepath.Join(dir, "log")
	if err := os.Mkdir(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "cache.db")
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(storage, "link")
	if err := os.Symlink(db, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{storage: dir, db: dir, link: dir, filepath.Join(dir, "none"): dir, "/": "/"} {
		if got, err := Beside(path); err != nil || got != want {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	if _, err := Beside(filepath.Join(db, "x")); err == nil {
		t.Error("a file was taken for a directory")
	}
	// A mount point that every Linux has.
	if proc, err := device("/proc"); err == nil {
		if root, err := device("/"); err == nil && proc != root {
			if got, err := Beside("/proc"); err != nil || got != "/proc" {
				t.Errorf("a mount point: %s, %v", got, err)
			}
		}
	}
}

func TestLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*?")
	left := filepath.Join(dir, prefix+"123")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := Leftovers(dir, dir, t.TempDir()); !slices.Equal(got, []string{left}) {
		t.Errorf("%q", got)
	}
}

// TestKeys: rows come in the order of their keys, and new keys fall between them.
func TestKeys(t *testing.T) {
	m, err := newMaterial()
	if err != nil {
		t.Fatal(err)
	}
	rows := &rowMaker{t: &tuner{material: m}, step: 1 << 50, rows: 1000}
	known := make(map[[32]byte]bool)
	last := rows.key(0)
	known[last] = true
	for i := range uint64(999) {
		k := rows.key(i + 1)
		if string(k[:]) <= string(last[:]) {
			t.Fatalf("key %d is not larger than the one before", i+1)
		}
		known[k], last = true, k
	}
	for range 100 {
		if k := rows.old(); !known[k] {
			t.Fatalf("no row has the key %x", k)
		}
		end := rows.key(rows.rows)
		if k := rows.fresh(); known[k] || string(k[:8]) > string(end[:8]) {
			t.Fatalf("key %x is not new, or beyond all others", k)
		}
	}
}
