package server

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/posix"
)

// TestVolumes: what is on one file system is told once.
func TestVolumes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := volumes([]string{"storage", "cache", "lock"}, []string{dir, "/proc", filepath.Join(dir, "sub")})
	if len(got) != 2 || !slices.Equal(got[0].what, []string{"storage", "lock"}) || got[0].dir != dir || !slices.Equal(got[1].what, []string{"cache"}) {
		t.Errorf("volumes %+v", got)
	}
}

// tmpfs mounts a file system of this many bytes and inodes for a test.
func tmpfs(t *testing.T, bytes, inodes int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", bytes, inodes)); err != nil {
		t.Skipf("NOT TESTED: a small file system cannot be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return dir
}

// TestDiskFull: a log whose file system fills up refuses entries in time, goes on
// publishing, takes entries again when there is space, and loses nothing.
func TestDiskFull(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(t *testing.T, dir string) (free func())
	}{
		{"bytes", func(t *testing.T, dir string) func() {
			path := filepath.Join(dir, "filler")
			free, err := posix.FreeSpace(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, make([]byte, free.Bytes-15<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			return func() { remove(t, path) }
		}},
		{"inodes", func(t *testing.T, dir string) func() {
			sub := filepath.Join(dir, "filler")
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			for n := 0; ; n++ {
				free, err := posix.FreeSpace(dir)
				if err != nil {
					t.Fatal(err)
				}
				if free.Inodes < 450 {
					break
				}
				if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(n)), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			return func() {
				if err := os.RemoveAll(sub); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { testDiskFull(t, c.fill) })
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func testDiskFull(t *testing.T, fill func(*testing.T, string) func()) {
	p := newPlace(t)
	disk := tmpfs(t, 64<<20, 4000)
	o := p.log("alpha")
	o.StorageDirectory, o.CachePath, o.LockPath = filepath.Join(disk, "alpha"), filepath.Join(disk, "cache.db"), filepath.Join(disk, "lock.db")
	o.MinFree, o.WarnFree, o.MinFreeInodes = 16<<20, 32<<20, 500
	id := p.create(o)
	reg := prometheus.NewRegistry()
	r := p.start(Options{Logs: []LogOptions{o}, Registry: reg})
	var promises []monitor.Promise
	next := uint64(0)
	submit := func() int {
		code, answer := p.submit(r, "alpha", next)
		if code == 200 {
			promises = append(promises, p.promise(next, answer))
		} else if code != 503 || !strings.Contains(answer, "short of storage") {
			t.Fatalf("answer %d %s", code, answer)
		}
		next++
		return code
	}
	for range 20 {
		if submit() != 200 {
			t.Fatal("refused with an empty disk")
		}
	}
	free := fill(t, disk)
	await(t, "entries are refused", func() bool { return submit() == 503 })
	if got := gaugeOf(t, reg, "daybook_storage_low", "lock"); got != 2 {
		t.Errorf("daybook_storage_low is %v", got)
	}
	published := r.status().Published
	await(t, "a later checkpoint", func() bool { return r.status().Published.After(published) })
	if code, h := r.health(); code != 200 || h.Status != obs.StatusRefusing || !strings.Contains(h.Logs[0].Reason, "too little is free") {
		t.Errorf("health %d %+v", code, h)
	}
	if code, body := request(t, "GET", r.AdminAddr(), "", "/ready", nil); code != 503 {
		t.Errorf("ready %d %s", code, body)
	}
	free()
	await(t, "entries are taken again", func() bool { return submit() == 200 })
	if code, body := request(t, "GET", r.AdminAddr(), "", "/ready", nil); code != 200 {
		t.Errorf("ready with space again: %d %s", code, body)
	}
	for range 20 {
		if submit() != 200 {
			t.Fatal("refused after space was freed")
		}
	}
	srv := httptest.NewServer(r.log().monitoring)
	defer srv.Close()
	report, err := monitor.Verify(t.Context(), monitor.Options{Prefix: srv.URL + "/alpha/", Origin: id.Origin, Key: id.PublicKey, Promises: promises})
	if err != nil {
		t.Fatal(err)
	}
	if report.Promises != len(promises) || report.Entries != int64(len(promises)) || len(promises) < 41 {
		t.Errorf("%d promises, report %+v", len(promises), report)
	}
	r.stop()
	if err := r.Wait(); err != nil {
		t.Errorf("the log did not stay whole: %v", err)
	}
	// Low from the start, it takes nothing from the start.
	fill(t, disk)
	r = p.start(Options{Logs: []LogOptions{o}})
	if code, answer := p.submit(r, "alpha", next); code != 503 || !strings.Contains(answer, "short of storage") {
		t.Errorf("started on a full disk: %d %s", code, answer)
	}
}

// log returns the only log.
func (r *running) log() *openLog            { return r.Server.logs[0] }
func (r *running) status() sequencer.Status { return r.log().sequencer.Status() }
