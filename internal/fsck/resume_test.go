package fsck

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/readpath"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/tlog"
)

// TestResume: a run that is interrupted at any tile, and gone on with, tells
// what one run tells, and reads nothing twice.
func TestResume(t *testing.T) {
	l := makeLog(t, t.TempDir())
	flip("tile/0/000", 0)(t, l)
	l.remove(t, l.issuer())
	l.remove(t, "tile/names/001")
	sql(t, l.cache(), "DELETE FROM cache256 WHERE leaf_index IN (7, 590)")
	sql(t, l.cache(), "UPDATE cache256 SET leaf_index = 9 WHERE key = ?", l.key(5))
	l.write(t, "index.html", nil)
	want := check(t, l.options())
	if want.Count != 6 {
		t.Fatalf("%d findings: %v", want.Count, want.Findings)
	}
	for at := int64(1); at < 3; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			l := copyOf(t, l)
			o := l.options()
			o.State, o.Workers = filepath.Join(t.TempDir(), "state.json"), 1
			ctx, cancel := context.WithCancel(t.Context())
			o.Progress = func(p Progress) {
				if p.Phase == "tiles" && p.Done == at {
					cancel()
				}
			}
			if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted: %v", err)
			}
			// What was checked already is not looked at again.
			l.remove(t, "tile/data/000")
			wrong := o
			wrong.All = false
			if _, err := Run(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "with other options") {
				t.Errorf("with other options: %v", err)
			}
			o.Progress = nil
			r := check(t, o)
			// Where the rows are compared, they are all, and the tile is wanted.
			if !r.Resumed || !reflect.DeepEqual(r.Findings, want.Findings) || r.Counts != want.Counts {
				t.Errorf("findings %v, counts %+v; in one run %v, %+v", r.Findings, r.Counts, want.Findings, want.Counts)
			}
			if _, err := os.Stat(o.State); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the state is still there: %v", err)
			}
			if err := os.WriteFile(o.State, []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), o); err == nil {
				t.Error("took any JSON for a state")
			}
		})
	}
}

// TestResumeAfterGrowth: a run goes on with the tree that it began with.
func TestResumeAfterGrowth(t *testing.T) {
	l := makeLog(t, t.TempDir())
	o := l.options()
	o.State, o.Workers = filepath.Join(t.TempDir(), "state.json"), 1
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(p Progress) {
		if p.Phase == "tiles" && p.Done == 1 {
			cancel()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	was := *l
	m := newMaker(t)
	l.grow(t, m.entry(t, testSize), m.entry(t, testSize+1))
	o.Progress = nil
	if r := check(t, o); r.Count != 0 || r.Tree != was.edge.Tree() || r.Entries != testSize || r.NewerRows != 2 {
		t.Errorf("report %+v", r)
	}
}

// TestChecksAgain: a log that takes something back while it is checked is found
// out, whether it shows an older tree or another one.
func TestChecksAgain(t *testing.T) {
	whole := makeLog(t, t.TempDir())
	for name, c := range map[string]struct {
		head func(l *testLog) []byte
		want string
	}{
		"older": {func(l *testLog) []byte { return l.heads[4] }, "size went back while the log was checked"},
		"time":  {func(l *testLog) []byte { return l.signed(t, l.edge.Tree(), l.time-1) }, "timestamp went back while the log was checked"},
		"another history": {func(l *testLog) []byte {
			other := newLog(t, t.TempDir())
			var entries []*tlog.Entry
			for n := range uint64(700) {
				entries = append(entries, newMaker(t).entry(t, n+7))
			}
			other.time = l.time
			other.grow(t, entries...)
			for _, tile := range tlog.HashTiles(700) {
				l.write(t, tile.Path(), other.read(t, tile.Path()))
			}
			return other.heads[len(other.heads)-1]
		}, "shows two histories"},
	} {
		t.Run(name, func(t *testing.T) {
			l := copyOf(t, whole)
			o := l.options()
			o.Lock, o.Cache = "", ""
			o.Progress = func(p Progress) {
				if p.Phase == "tiles" && p.Done == p.Total {
					l.write(t, "checkpoint", c.head(l))
				}
			}
			r := check(t, o)
			if len(r.Findings) == 0 || !strings.Contains(fmt.Sprint(r.Findings), c.want) {
				t.Errorf("findings %v, want %q", r.Findings, c.want)
			}
		})
	}
}

// TestRunning checks a log again and again while it runs: what a round in
// progress leaves for a moment is no finding.
func TestRunning(t *testing.T) {
	l := makeLog(t, t.TempDir())
	store, err := posix.Open(l.dir(), posix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := sqlitelock.Open(l.lock(), sqlitelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := cache.Open(l.cache(), cache.Options{PageCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(store.Close(), lock.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}()
	log, err := sequencer.Open(t.Context(), sequencer.Config{Interval: 10 * time.Millisecond, PoolSize: 50, Signer: l.signer, Store: store, Lock: lock, Cache: db})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := log.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	var next atomic.Uint64
	next.Store(testSize)
	for range 8 {
		running.Go(func() {
			m := newMaker(t)
			for ctx.Err() == nil {
				if _, err := log.Add(ctx, sequencer.Submission{Entry: m.entry(t, next.Add(1)), Issuers: m.ca.Issuers()}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	o := l.options()
	o.Grace = DefaultGrace
	for runs := 0; runs < 10 || log.Status().Tree.N < testSize+300; runs++ {
		r := check(t, o)
		for _, f := range r.Findings {
			t.Error(f)
		}
		if r.Entries < testSize {
			t.Errorf("report %+v", r)
		}
	}
	stop()
	running.Wait()
}

// TestSoon: what a round in progress is about to do is waited for: to publish what
// is in the lock, to remember an entry, to remove its bundle and temporary files.
func TestSoon(t *testing.T) {
	l := makeLog(t, t.TempDir())
	row := l.leaves[testSize-1]
	l.setLock(t, l.signed(t, l.edge.Tree(), l.time+100))
	sql(t, l.cache(), "DELETE FROM cache256 WHERE leaf_index = ?", row.Index)
	bundle := fmt.Sprintf("staging/700-%064x", 1)
	l.write(t, bundle, nil)
	l.write(t, ".tmp-X", nil)
	o := l.options()
	wantFindings(t, check(t, o), []expected{{LockObject, -1, 0, "is newer than the published"}, {CacheObject, row.Index, 1, "has no row"},
		{bundle, -1, 0, "staging bundle"}, {".tmp-X", -1, 0, "temporary file"}})
	o.Grace = time.Minute
	synctest.Test(t, func(t *testing.T) {
		done := make(chan *Report, 1)
		go func() {
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		time.Sleep(time.Second)
		l.write(t, "checkpoint", l.signed(t, l.edge.Tree(), l.time+200)) // one after that in the lock
		time.Sleep(time.Second)
		l.withCache(t, func(db *cache.DB) {
			if err := db.Put(t.Context(), []storage.Record{{Key: row.Entry.Key(), Position: row.Position}}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		l.remove(t, bundle)
		l.remove(t, ".tmp-X")
		if r := <-done; r != nil && (r.Count != 0 || r.Matched != testSize || r.Took < 3*time.Second || r.Took > 4*time.Second) {
			t.Errorf("report %+v", r)
		}
	})
}

// TestWAL: what a log that was killed has left in the WAL of its databases counts.
func TestWAL(t *testing.T) {
	l := makeLog(t, t.TempDir())
	removeFile(t, l.cache())
	db, err := cache.Open(l.cache(), cache.Options{Create: true, PageCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var records []storage.Record
	for _, leaf := range l.leaves {
		records = append(records, storage.Record{Key: leaf.Entry.Key(), Position: leaf.Position})
	}
	if err := db.Put(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	killed := copyOf(t, l)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, without := range []string{"", "-shm"} {
		if without != "" {
			removeFile(t, killed.cache()+without)
		}
		before := snapshot(t, killed.place)
		if r := check(t, killed.options()); r.Count != 0 || r.Matched != testSize {
			t.Errorf("without %q: report %+v", without, r)
		}
		for path, b := range snapshot(t, killed.place) {
			if before[path] != b && path != killed.cache()+"-shm" {
				t.Errorf("without %q: %s was changed", without, path)
			}
		}
	}
	removeFile(t, killed.cache()+"-wal")
	wantFindings(t, check(t, killed.options()), []expected{{CacheObject, -1, 0, "it is of something else"}})
}

// TestURL: what can be seen from outside is found from outside.
func TestURL(t *testing.T) {
	l := makeLog(t, t.TempDir())
	h, err := readpath.New(l.dir(), readpath.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	srv := httptest.NewServer(h)
	defer srv.Close()
	client, err := monitor.NewClient(srv.URL, monitor.ClientOptions{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := l.options()
	o.Directory, o.Source, o.Target = "", client, srv.URL
	if r := check(t, o); r.Count != 0 || r.Entries != testSize || r.Matched != testSize || r.Files != 0 {
		t.Errorf("report %+v", r)
	}
	flip("tile/0/001", 32*7)(t, l)
	l.remove(t, "tile/names/000")
	l.write(t, "index.html", nil)
	wantFindings(t, check(t, o), []expected{{"tile/0/001", 263, 1, "its hash 7 is wrong"}, {"tile/names/000", -1, 0, "is missing"}})
	srv.Close()
	if _, err := Run(t.Context(), o); !errors.Is(err, monitor.ErrUnavailable) {
		t.Errorf("a log that cannot be reached: %v", err)
	}
}
