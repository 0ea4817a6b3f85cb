package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/tlog"
)

// TestScrub: a log that runs says which object of its storage went bad, and
// goes on.
func TestScrub(t *testing.T) {
	p := newPlace(t)
	o := p.log("alpha")
	o.ScrubRate = 100
	p.create(o)
	r := p.start(Options{Logs: []LogOptions{o}})
	for n := range uint64(3) {
		if code, answer := p.submit(r, "alpha", n); code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
	}
	name := tlog.Tile{L: 0, N: 0, W: 3}.Path()
	path := filepath.Join(o.StorageDirectory, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[40] ^= 1
	// The scrub is reading: it must see all of the damaged tile, or none.
	if err := durable.WriteFile(path, b, durable.Replace, 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, "the damage is told", func() bool {
		return r.logs.Has("level=ERROR", "the storage is damaged", "log=alpha", "object="+name, "hash 1 is not that of what it stands for")
	})
	if code, answer := p.submit(r, "alpha", 3); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
	r.stop()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}
