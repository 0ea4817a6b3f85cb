package fsck

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// TestClean: a log with nothing wrong has no findings, all of it was looked at,
// and nothing was changed.
func TestClean(t *testing.T) {
	l := makeLog(t, t.TempDir())
	l.write(t, "lost+found/something", nil) // of the file system
	before := snapshot(t, l.place)
	o := l.options()
	o.Signatures = true
	r := check(t, o)
	for _, f := range r.Findings {
		t.Error(f)
	}
	want := Counts{DataTiles: 3, NamesTiles: 3, Entries: testSize, Precerts: 400, Signatures: r.Signatures, Matched: testSize}
	if r.Count != 0 || r.Counts != want || r.HashTiles != 4 || r.Issuers != 3 || r.StoredIssuers != 3 || r.Rows != testSize || r.NewerRows != 0 ||
		!r.Locked || r.Tree != l.edge.Tree() || r.Timestamp != l.time || r.Origin != testOrigin || r.LogID != l.signer.LogID() {
		t.Errorf("report %+v", r)
	}
	// Of data, names and hash tiles the widths 1, 255 and 100; 256 is full. At
	// level 1 the width 1.
	if r.EarlierPartials != 3*3+1 || r.Files != 3+3+3*6+2 {
		t.Errorf("%d files, %d of earlier sizes", r.Files, r.EarlierPartials)
	}
	if r.Signatures < testSize {
		t.Errorf("%d signatures", r.Signatures)
	}
	if after := snapshot(t, l.place); !maps.Equal(before, after) {
		t.Error("the log was changed")
	}
}

// TestAhead: workers wait for the first tile that is not done, so that what they
// have found does not pile up.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &walk{run: &run{found: newFindings(nil), inTiles: newFindings(nil), state: &state{}}, total: 1000, done: map[int64]*outcome{}}
		w.room = sync.NewCond(&w.mu)
		for n := range int64(ahead) {
			if got, ok := w.take(t.Context()); !ok || got != n {
				t.Fatalf("took %d, %v", got, ok)
			}
		}
		taken := make(chan int64, 1)
		go func() {
			n, _ := w.take(t.Context())
			taken <- n
		}()
		synctest.Wait()
		if err := w.finish(1, &outcome{}); err != nil || len(taken) != 0 || w.state.Next != 0 {
			t.Errorf("state %+v, error %v", w.state, err)
		}
		synctest.Wait()
		if len(taken) != 0 {
			t.Error("went too far ahead")
		}
		if err := w.finish(0, &outcome{}); err != nil || <-taken != ahead || w.state.Next != 2 {
			t.Errorf("state %+v, error %v", w.state, err)
		}
	})
}

// TestDatabaseMoves: a database that nobody had open, and that a log opens and
// writes to, is read anew.
func TestDatabaseMoves(t *testing.T) {
	l := makeLog(t, t.TempDir())
	d, err := openDatabase(l.cache())
	if err != nil {
		t.Fatal(err)
	}
	r := rows{d}
	key := tlog.Key(foreignKey)
	has := func(want bool) {
		t.Helper()
		if _, ok, err := r.get(t.Context(), key); err != nil || ok != want {
			t.Errorf("row is there: %v, %v, want %v", ok, err, want)
		}
	}
	has(false)
	db, err := cache.Open(l.cache(), cache.Options{PageCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put(t.Context(), []storage.Record{{Key: key}}); err != nil {
		t.Fatal(err)
	}
	has(true)
	if w, err := db.Checkpoint(t.Context()); err != nil || w.Busy {
		t.Errorf("WAL checkpoint of the log: %+v, %v", w, err)
	}
	has(true)
	key[0]++
	if err := errors.Join(db.Put(t.Context(), []storage.Record{{Key: key}}), db.Close()); err != nil {
		t.Fatal(err)
	}
	has(true)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.get(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
