package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/durable/durabletest"
)

// cut makes the power go off before the nth operation, counted from 0, or not
// at all if n is negative, and counts the operations.
type cut struct {
	disk *durabletest.Disk
	n    int

	mu   sync.Mutex
	seen int
}

func (c *cut) fs() durable.FS {
	return durable.Hook(c.disk, durable.Hooks{Before: func(durable.Call) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.seen++; c.seen > c.n && c.n >= 0 {
			return durabletest.ErrPower
		}
		return nil
	}})
}

// step is a part of a scenario: what is written, and whether it returned.
type step struct {
	files  []durable.Content
	remove []string
}

func text(name, s string, mode durable.Mode) durable.Content {
	return durable.Content{Name: name, Data: []byte(strings.Repeat(s, 50)), Mode: mode}
}

// scenario is a short life of a directory. Files are written one at a time, so
// that the nth operation is nearly the same in each run.
var scenario = []step{
	{files: []durable.Content{text("checkpoint", "one ", durable.Replace)}},
	{files: []durable.Content{text("a/b/c/first", "1 ", durable.Keep)}},
	{files: []durable.Content{text("a/b/second", "2 ", durable.Keep)}},
	{files: []durable.Content{text("a/b/c/first", "1 ", durable.Keep)}},
	{files: []durable.Content{text("checkpoint", "two ", durable.Replace)}},
	{files: []durable.Content{text("a/x/new", "3 ", durable.New)}},
	{remove: []string{"a/b/second", "a/nothing"}},
	{files: []durable.Content{text("checkpoint", "three ", durable.Replace)}},
}

// play runs the scenario. It returns what must be durable, and what may be
// there beside it: the outcome of the step that failed.
func play(d *durable.Dir) (must map[string][]byte, may step, err error) {
	must = make(map[string][]byte)
	for _, s := range scenario {
		if err := errors.Join(d.Write(s.files...), d.Remove(s.remove...)); err != nil {
			return must, s, err
		}
		for _, f := range s.files {
			must[f.Name] = f.Data
		}
		for _, name := range s.remove {
			delete(must, name)
		}
	}
	return must, step{}, nil
}

// check compares what is on a disk with what must and may be there.
func check(t *testing.T, what string, got, must map[string][]byte, may step) {
	t.Helper()
	allowed := make(map[string][][]byte)
	for name, data := range must {
		allowed[name] = [][]byte{data}
	}
	for _, f := range may.files {
		if must[f.Name] == nil {
			allowed[f.Name] = append(allowed[f.Name], nil)
		}
		allowed[f.Name] = append(allowed[f.Name], f.Data)
	}
	for _, name := range may.remove {
		allowed[name] = append(allowed[name], nil)
	}
	for name, values := range allowed {
		if !slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, got[name]) && (v == nil) == (got[name] == nil) }) {
			t.Errorf("%s: %s has %d bytes %.20q, want one of %.40q", what, name, len(got[name]), got[name], values)
		}
	}
	for name := range got {
		if allowed[name] == nil && !durable.IsTemp(name) {
			t.Errorf("%s: there is a file %s", what, name)
		}
	}
}

// TestPowerLoss cuts the power before each operation of the scenario, and
// looks at what is left, without luck and with several kinds of it. Then the
// rest of the scenario is played on what is left.
func TestPowerLoss(t *testing.T) {
	whole := &cut{disk: durabletest.NewDisk(), n: -1}
	final, _, err := play(durable.NewDir(whole.fs()))
	if err != nil {
		t.Fatal(err)
	}
	check(t, "uncut", whole.disk.Files(), final, step{})
	check(t, "cut at the end", whole.disk.PowerLoss(nil).Files(), final, step{})
	t.Logf("cutting before each of %d operations", whole.seen)

	for n := range whole.seen {
		for luck := range uint64(20) {
			what := fmt.Sprintf("cut before operation %d, luck %d", n, luck)
			var r *rand.Rand
			if luck > 0 {
				r = rand.New(rand.NewPCG(luck, uint64(n)))
			}
			c := &cut{disk: durabletest.NewDisk(), n: n}
			must, may, err := play(durable.NewDir(c.fs()))
			if !errors.Is(err, durabletest.ErrPower) {
				t.Fatalf("%s: scenario returned %v", what, err)
			}
			left := c.disk.PowerLoss(r)
			check(t, what, left.Files(), must, may)

			// A new process finds entries that were never made durable, or not
			// all of them; after it is done, everything is.
			d := durable.NewDir(left)
			if _, err := d.RemoveTemp(); err != nil {
				t.Fatalf("%s: removing leftovers: %v", what, err)
			}
			if err := d.Remove("a/x/new"); err != nil { // or it is not new
				t.Fatalf("%s: %v", what, err)
			}
			if _, _, err := play(d); err != nil {
				t.Fatalf("%s: playing again: %v", what, err)
			}
			for name := range left.Files() {
				if durable.IsTemp(name) {
					t.Errorf("%s: temporary file is left", what)
				}
			}
			check(t, what+", played again", left.PowerLoss(nil).Files(), final, step{})
		}
	}
}

// TestProcessCrash kills the process before each operation, so that the next
// one finds everything that was written, durable or not; when that one is
// done, a power loss must not take anything.
func TestProcessCrash(t *testing.T) {
	whole := &cut{disk: durabletest.NewDisk(), n: -1}
	final, _, err := play(durable.NewDir(whole.fs()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole.seen {
		c := &cut{disk: durabletest.NewDisk(), n: n}
		if _, _, err := play(durable.NewDir(c.fs())); err == nil {
			t.Fatalf("crash before operation %d did not happen", n)
		}
		d := durable.NewDir(c.disk)
		if _, err := d.RemoveTemp(); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove("a/x/new"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := play(d); err != nil {
			t.Fatalf("playing again after a crash before operation %d: %v", n, err)
		}
		check(t, fmt.Sprintf("crash before operation %d", n), c.disk.PowerLoss(nil).Files(), final, step{})
	}
}

// TestDirectoryOfAnother: two writes put files into a new directory, and the
// one that did not create it is done first.
func TestDirectoryOfAnother(t *testing.T) {
	disk := durabletest.NewDisk()
	reached, release := make(chan struct{}), make(chan struct{})
	var blocked atomic.Bool
	d := durable.NewDir(durable.Hook(disk, durable.Hooks{Before: func(c durable.Call) error {
		if c.Op == durable.OpSyncDir && c.Name == "." && blocked.CompareAndSwap(false, true) {
			close(reached)
			<-release
		}
		return nil
	}}))
	first := make(chan error)
	go func() { first <- d.Write(text("dir/first", "1", durable.Keep)) }()
	<-reached
	second := text("dir/second", "2", durable.Keep)
	if err := d.Write(second); err != nil {
		t.Fatal(err)
	}
	check(t, "power loss after the second write", disk.PowerLoss(nil).Files(),
		map[string][]byte{"dir/second": second.Data}, step{files: []durable.Content{text("dir/first", "1", durable.Keep)}})
	close(release)
	if err := <-first; !errors.Is(err, durabletest.ErrPower) {
		t.Errorf("first write after the power loss: %v", err)
	}
}

// TestPowerLossOfBatch cuts the power during a Write of many files, whose
// operations run in parallel.
func TestPowerLossOfBatch(t *testing.T) {
	batch := step{}
	for i := range 12 {
		batch.files = append(batch.files, text(fmt.Sprintf("tile/%d/x%03d/%03d", i%3, i%2, i), fmt.Sprint(i), durable.Keep))
	}
	batch.files = append(batch.files, text("checkpoint", "c", durable.Replace))
	want := make(map[string][]byte)
	for _, f := range batch.files {
		want[f.Name] = f.Data
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 1000 {
		c := &cut{disk: durabletest.NewDisk(), n: n}
		err := durable.NewDir(c.fs()).Write(batch.files...)
		left := c.disk.PowerLoss(r)
		if err == nil {
			check(t, "whole batch", left.Files(), want, step{})
			return
		}
		check(t, fmt.Sprintf("batch cut after %d operations", n), left.Files(), nil, batch)
		d := durable.NewDir(left)
		if err := d.Write(batch.files...); err != nil {
			t.Fatalf("writing the batch again after %d operations: %v", n, err)
		}
		check(t, "batch written again", left.PowerLoss(nil).Files(), want, step{})
	}
	t.Error("the batch never got through; the test cuts too early")
}

// TestFailedSync: after an fsync error the cache of the operating system shows
// what the disk may never get. Writing ends, and a new process that writes the
// same files again must not be deceived by finding them equal.
func TestFailedSync(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(name string) bool
	}{
		{"content", durable.IsTemp},
		{"directory", func(name string) bool { return name == "dir" }},
		{"directory above", func(name string) bool { return name == "." }},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := durabletest.NewDisk()
			d := durable.NewDir(disk)
			disk.FailSyncs(c.fails)
			f := text("dir/file", "x", durable.Keep)
			if err := d.Write(f); !errors.Is(err, durable.ErrSync) {
				t.Fatalf("write returned %v, want ErrSync", err)
			}
			disk.FailSyncs(nil)
			for what, err := range map[string]error{
				"same write": d.Write(f), "other write": d.Write(text("other", "y", durable.Replace)), "remove": d.Remove("dir/file"), "Err": d.Err(),
			} {
				if !errors.Is(err, durable.ErrSync) {
					t.Errorf("%s after a failed fsync: %v, want ErrSync", what, err)
				}
			}
			for name := range disk.Files() {
				if durable.IsTemp(name) {
					t.Error("a temporary file is left")
				}
			}
			if err := durable.NewDir(disk).Write(f); err != nil {
				t.Fatalf("write by a new process: %v", err)
			}
			check(t, "after a power loss", disk.PowerLoss(nil).Files(), map[string][]byte{"dir/file": f.Data}, step{})
		})
	}

	// A file that is visible, but whose pages were dropped.
	disk := durabletest.NewDisk()
	w, err := disk.Create("file", 0)
	if err != nil {
		t.Fatal(err)
	}
	f := text("file", "x", durable.Keep)
	if _, err := w.Write(f.Data); err != nil {
		t.Fatal(err)
	}
	disk.FailSyncs(func(string) bool { return true })
	if err := w.Sync(); err == nil {
		t.Fatal("sync did not fail")
	}
	disk.FailSyncs(nil)
	if err := durable.NewDir(disk).Write(f); err != nil {
		t.Fatal(err)
	}
	check(t, "kept file of a failing disk", disk.PowerLoss(nil).Files(), map[string][]byte{"file": f.Data}, step{})
}

// TestRemoveIsDurable covers an absence that another process made.
func TestRemoveIsDurable(t *testing.T) {
	disk := durabletest.NewDisk()
	d := durable.NewDir(disk)
	if err := d.Write(text("a/b", "x", durable.Keep), text("a/c", "y", durable.Keep)); err != nil {
		t.Fatal(err)
	}
	if err := disk.Remove("a/b"); err != nil { // and crashed
		t.Fatal(err)
	}
	if err := durable.NewDir(disk).Remove("a/b", "a/c", "nowhere/d"); err != nil {
		t.Fatal(err)
	}
	if got := disk.PowerLoss(nil).Files(); len(got) != 0 {
		t.Errorf("removed files came back: %v", slices.Collect(maps.Keys(got)))
	}
}

// TestDiskLoses checks the disk itself, so that the tests above mean something.
func TestDiskLoses(t *testing.T) {
	write := func(disk *durabletest.Disk, name string, sync bool) {
		f, err := disk.Create(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("data")); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk := durabletest.NewDisk()
	write(disk, "no entry", true)
	if got := disk.PowerLoss(nil).Files(); len(got) != 0 {
		t.Errorf("a file without a durable entry survived: %q", got)
	}
	disk = durabletest.NewDisk()
	write(disk, "no content", false)
	if err := disk.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	left := disk.PowerLoss(nil)
	if got := left.Files(); len(got) != 1 || len(got["no content"]) != 0 {
		t.Errorf("a file without durable content is %q, want an empty file", got)
	}
	if _, err := disk.Open("no content"); !errors.Is(err, durabletest.ErrPower) {
		t.Errorf("the disk still works without power: %v", err)
	}
	write(left, "both", true)
	if err := left.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	if err := left.Rename("both", "renamed"); err != nil {
		t.Fatal(err)
	}
	if got := left.PowerLoss(nil).Files(); string(got["both"]) != "data" || got["renamed"] != nil {
		t.Errorf("after a rename that was not durable: %q", got)
	}
	lucky := 0
	for seed := range uint64(50) {
		disk := durabletest.NewDisk()
		write(disk, "file", false)
		if len(disk.PowerLoss(rand.New(rand.NewPCG(seed, 0))).Files()["file"]) > 0 {
			lucky++
		}
	}
	if lucky == 0 || lucky == 50 {
		t.Errorf("%d of 50 files survived by luck", lucky)
	}
	if _, err := durabletest.NewDisk().Open("x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of an absent file: %v", err)
	}
}
