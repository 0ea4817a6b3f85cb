package fsck

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/tlog"
)

func (l *testLog) rebuildOptions() RebuildOptions {
	return RebuildOptions{Directory: l.dir(), Cache: l.cache(), PageCache: 1 << 20}
}

func rebuild(t *testing.T, o RebuildOptions) *Report {
	t.Helper()
	r, err := Rebuild(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// clean checks that nothing is wrong with the log, all rows of the cache included.
func clean(t *testing.T, l *testLog) {
	t.Helper()
	r := check(t, l.options())
	for _, f := range r.Findings {
		t.Error(f)
	}
	if r.Matched+r.Duplicates != r.Entries || r.Entries != int64(len(l.leaves)) {
		t.Errorf("report %+v", r)
	}
}

// TestRebuild: a cache that is lost, or has lost rows, is made whole; doing it
// again does nothing.
func TestRebuild(t *testing.T) {
	l := makeLog(t, t.TempDir())
	twice := newMaker(t).entry(t, testSize)
	l.grow(t, l.leaves[5].Entry, l.leaves[300].Entry, twice, twice)
	removeFile(t, l.cache())
	var last Progress
	o := l.rebuildOptions()
	o.Progress = func(p Progress) { last = p }
	if r := rebuild(t, o); r.Count != 0 || r.Added != testSize+1 || r.Matched != testSize+1 || r.Duplicates != 3 || last.Done != 3 || last.Total != 3 {
		t.Errorf("report %+v, progress %+v", r, last)
	}
	clean(t, l)
	before := snapshot(t, l.dir())
	if r := rebuild(t, o); r.Count != 0 || r.Added != 0 || r.Matched != testSize+1 {
		t.Errorf("again: report %+v", r)
	}
	sql(t, l.cache(), "DELETE FROM cache256 WHERE leaf_index % 7 = 3")
	if r := rebuild(t, o); r.Count != 0 || r.Added != 86 {
		t.Errorf("after losing rows: report %+v", r)
	}
	clean(t, l)
	for path, b := range snapshot(t, l.dir()) {
		if before[path] != b {
			t.Errorf("%s was changed", path)
		}
	}
}

// TestRebuildFinds: rows that contradict the log stay, and are told, and nothing
// is made of tiles that are damaged.
func TestRebuildFinds(t *testing.T) {
	whole := makeLog(t, t.TempDir())
	t.Run("wrong rows", func(t *testing.T) {
		l := copyOf(t, whole)
		sql(t, l.cache(), "UPDATE cache256 SET leaf_index = 9 WHERE key = ?", l.key(5))
		sql(t, l.cache(), "UPDATE cache256 SET timestamp = 7 WHERE key = ?", l.key(400))
		wantFindings(t, rebuild(t, l.rebuildOptions()), []expected{
			{CacheObject, 5, 1, "points at entry 9, which is another entry; its own stands at 5"}, {CacheObject, 400, 1, "another timestamp"}})
	})
	t.Run("later copy", func(t *testing.T) {
		l := copyOf(t, whole)
		l.leaves = append([]tlog.Leaf(nil), l.leaves...)
		l.grow(t, l.leaves[5].Entry)
		sql(t, l.cache(), "UPDATE cache256 SET leaf_index = 600, timestamp = ? WHERE key = ?", l.leaves[600].Timestamp, l.key(5))
		if r := rebuild(t, l.rebuildOptions()); r.Count != 0 || r.Added != 0 || r.Matched != testSize || r.Duplicates != 1 {
			t.Errorf("report %+v", r)
		}
	})
	t.Run("forged tile", func(t *testing.T) {
		l := copyOf(t, whole)
		removeFile(t, l.cache())
		// Hash tile and data tile agree on another entry, which the root does not.
		leaf := l.leaves[3]
		leaf.Entry = newMaker(t).entry(t, testSize+1)
		var data []byte
		for i, old := range l.leaves[:256] {
			if i == 3 {
				old = leaf
			}
			data = old.AppendTileLeaf(data)
		}
		l.setContent(t, "tile/data/000", data)
		hashes, hash := l.read(t, "tile/0/000"), leaf.Hash()
		copy(hashes[3*32:], hash[:])
		l.write(t, "tile/0/000", hashes)
		r := rebuild(t, l.rebuildOptions())
		wantFindings(t, r, []expected{{"tile/0/000", -1, 0, "does not hash to hash 0 of tile/1/000.p/2"}})
		if r.Added != testSize-256 {
			t.Errorf("report %+v", r)
		}
	})
	t.Run("damaged tiles", func(t *testing.T) {
		l := copyOf(t, whole)
		removeFile(t, l.cache())
		// An entry that says it stands where another does must not get a row.
		b := l.content(t, "tile/data/000")
		l.setContent(t, "tile/data/000", bytes.Replace(b, l.leaves[3].Entry.Certificate(), l.leaves[0].Entry.Certificate(), 1))
		l.remove(t, "tile/data/001")
		r := rebuild(t, l.rebuildOptions())
		if r.Added != r.Entries || r.Entries >= testSize-256 || r.Entries < 88 {
			t.Errorf("report %+v", r)
		}
		objects := map[string]bool{}
		for _, f := range r.Findings {
			objects[f.Object] = true
		}
		if len(objects) != 2 || !objects["tile/data/000"] || !objects["tile/data/001"] {
			t.Errorf("findings %v", r.Findings)
		}
		l.write(t, "tile/data/000", whole.read(t, "tile/data/000"))
		l.write(t, "tile/data/001", whole.read(t, "tile/data/001"))
		rebuild(t, l.rebuildOptions())
		clean(t, l)
	})
}

// TestRebuildResumes: an interrupted run goes on where it stopped, and only if
// what it put is there.
func TestRebuildResumes(t *testing.T) {
	l := makeLog(t, t.TempDir())
	removeFile(t, l.cache())
	o := l.rebuildOptions()
	o.State = l.place + "/state.json"
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(p Progress) {
		if p.Done == 2 {
			cancel()
		}
	}
	r, err := Rebuild(ctx, o)
	if !errors.Is(err, context.Canceled) || r.Added != 512 {
		t.Fatalf("report %+v, error %v", r, err)
	}
	l.remove(t, "tile/data/000") // it is not read again
	o.Progress = nil
	if r = rebuild(t, o); !r.Resumed || r.Count != 0 || r.Added != testSize || r.DataTiles != 3 {
		t.Errorf("report %+v", r)
	}
	if _, err := os.Stat(o.State); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state is still there: %v", err)
	}
}

// TestRebuildNotesWhatIsDurable: as long as a reader keeps what was put from being
// folded back, nothing is noted, and the next run begins anew.
func TestRebuildNotesWhatIsDurable(t *testing.T) {
	l := makeLog(t, t.TempDir())
	sql(t, l.cache(), "DELETE FROM cache256")
	reader, err := sqlite.OpenConn(l.cache(), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"BEGIN", "SELECT count(*) FROM cache256"} {
		if err := sqlitex.ExecuteTransient(reader, statement, nil); err != nil {
			t.Fatal(err)
		}
	}
	o := l.rebuildOptions()
	o.State = l.place + "/state.json"
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(p Progress) {
		if p.Done == 2 {
			cancel()
		}
	}
	if _, err := Rebuild(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.State); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state was noted, %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	o.Progress = nil
	if r := rebuild(t, o); r.Resumed || r.Added != 88 || r.Entries != testSize {
		t.Errorf("report %+v", r)
	}
	clean(t, l)
}

// TestRebuildBesideLog: with a cache that is open elsewhere it takes turns; a
// cache that the running log has lost is not made anew behind its back.
func TestRebuildBesideLog(t *testing.T) {
	l := makeLog(t, t.TempDir())
	store, err := posix.Open(l.dir(), posix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sql(t, l.cache(), "DELETE FROM cache256 WHERE leaf_index < 300")
	db, err := cache.Open(l.cache(), cache.Options{PageCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() { // what each round of a log does
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			key := tlog.Key{0xff, byte(i), byte(i >> 8)}
			if err := db.Put(context.Background(), []storage.Record{{Key: key, Position: tlog.Position{Index: int64(1e6 + i)}}}); err != nil {
				done <- err
				return
			}
			if _, err := db.Checkpoint(context.Background()); err != nil {
				done <- err
				return
			}
		}
	}()
	if r := rebuild(t, l.rebuildOptions()); r.Count != 0 || r.Added != 300 {
		t.Errorf("report %+v", r)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Errorf("the log beside: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	removeFile(t, l.cache())
	if _, err := Rebuild(t.Context(), l.rebuildOptions()); !errors.Is(err, ErrRunning) {
		t.Errorf("with the cache gone: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if r := rebuild(t, l.rebuildOptions()); r.Added != testSize {
		t.Errorf("report %+v", r)
	}
}
