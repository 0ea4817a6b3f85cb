package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/storagetest"
	"github.com/daybook-ct/daybook/tlog"
)

func TestContract(t *testing.T) {
	storagetest.TestCache(t, func(tb testing.TB) storage.Cache { return newTest(tb) })
}

func TestContractReopen(t *testing.T) {
	storagetest.TestCacheReopen(t, func(tb testing.TB) func() storage.Cache {
		path := filepath.Join(tb.TempDir(), "cache.db")
		var last *DB
		return func() storage.Cache {
			if last != nil {
				if err := last.Close(); err != nil {
					tb.Fatal(err)
				}
			}
			last = openTest(tb, path, Options{})
			return last
		}
	})
}

// TestSunlightCache takes over the cache of a log that Sunlight ran: each
// entry of its data tiles is found at its position, and the cache goes on.
func TestSunlightCache(t *testing.T) {
	dir := filepath.Join(cases.Dir(t), "sunlight-log")
	path := filepath.Join(t.TempDir(), "cache.db")
	copyFile(t, filepath.Join(dir, "cache.db"), path)
	db := openTest(t, path, Options{})

	var leaves []tlog.Leaf
	for _, name := range []string{"000", "001", "002.p/88"} {
		b, err := os.ReadFile(filepath.Join(dir, "data", "tile", "data", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		tile, err := tlog.Decompress(b, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		for len(tile) > 0 {
			var leaf tlog.Leaf
			if leaf, tile, err = tlog.ReadTileLeaf(tile); err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leaf)
		}
	}
	if len(leaves) != 600 {
		t.Fatalf("%d entries in the data tiles, want 600", len(leaves))
	}
	for _, leaf := range leaves {
		wantHit(t, db, storage.Record{Key: leaf.Entry.Key(), Position: leaf.Position})
	}
	rows, err := query(db.main.c, "SELECT count(*) FROM cache256")
	if err != nil || rows[0][0] != "600" {
		t.Errorf("rows: %v, %v, want 600", rows, err)
	}
	wantMiss(t, db, numbered(1).Key)
	mustPut(t, db, numbered(1))
	wantHit(t, db, numbered(1))
}

// TestSchema: the table is the one of the design, letter by letter where it counts.
func TestSchema(t *testing.T) {
	db := newTest(t)
	rows, err := query(db.main.c, "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
	want := "[[table cache256 CREATE TABLE cache256 (key BLOB PRIMARY KEY, timestamp INTEGER NOT NULL, leaf_index INTEGER NOT NULL) WITHOUT ROWID, STRICT]]"
	if err != nil || fmt.Sprint(rows) != want {
		t.Errorf("schema %v, %v, want %s", rows, err, want)
	}
}

// TestPutIsAllOrNothing makes the database refuse one row of a batch.
func TestPutIsAllOrNothing(t *testing.T) {
	db := newTest(t)
	mustPut(t, db, numbered(0))
	mustExec(t, db.main.c, "CREATE TRIGGER refuse BEFORE INSERT ON cache256 WHEN NEW.leaf_index = 5 BEGIN SELECT RAISE(ABORT, 'refused'); END")
	err := db.Put(t.Context(), batch(1, 9))
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Put = %v, want the database's refusal", err)
	}
	wantHit(t, db, numbered(0))
	for i := int64(1); i < 10; i++ {
		wantMiss(t, db, numbered(i).Key)
	}
	// The connection is as good as before.
	mustExec(t, db.main.c, "DROP TRIGGER refuse")
	mustPut(t, db, batch(1, 9)...)
	wantHit(t, db, numbered(5))
	if w := mustCheckpoint(t, db); w.Busy {
		t.Errorf("WAL checkpoint = %+v: a transaction was left open", w)
	}
}

// TestPutKeepsItsInput: sorting is the cache's own affair.
func TestPutKeepsItsInput(t *testing.T) {
	db := newTest(t)
	records, same := batch(0, 50), batch(0, 50)
	mustPut(t, db, records...)
	for i := range records {
		if records[i] != same[i] {
			t.Fatalf("record %d was moved", i)
		}
	}
}

// TestPutOrder: rows go in by key, and of many records with one key the first counts.
func TestPutOrder(t *testing.T) {
	db := newTest(t)
	records := batch(0, 100)
	for i := range int64(1000) {
		again := numbered(i % 100)
		again.Position.Index += 1 + i
		records = append(records, again)
	}
	mustPut(t, db, records...)
	if !slices.IsSortedFunc(db.sorted, func(a, b storage.Record) int { return bytes.Compare(a.Key[:], b.Key[:]) }) || len(db.sorted) != len(records) {
		t.Error("records were not sorted by key")
	}
	for i := range int64(100) {
		wantHit(t, db, numbered(i))
	}
}

// TestStartedTransactionFinishes: cancellation counts until the transaction has begun.
func TestStartedTransactionFinishes(t *testing.T) {
	db := newTest(t)
	ctx := &cancelledLater{Context: t.Context()}
	if err := db.Put(ctx, batch(0, 3)); err != nil {
		t.Errorf("Put = %v", err)
	}
	wantHit(t, db, numbered(2))

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Put(cancelled, batch(3, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want %v", err, context.Canceled)
	}
	wantMiss(t, db, numbered(3).Key)
	if _, _, err := db.Get(cancelled, numbered(0).Key); !errors.Is(err, context.Canceled) {
		t.Errorf("Get = %v, want %v", err, context.Canceled)
	}
	if _, err := db.Checkpoint(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("Checkpoint = %v, want %v", err, context.Canceled)
	}
}

// TestImpossiblePositions is S8: what cannot be a position goes neither in nor out.
func TestImpossiblePositions(t *testing.T) {
	db := newTest(t)
	for _, p := range []tlog.Position{{Index: -1}, {Index: 1 << 40}, {Timestamp: -1}} {
		r := storage.Record{Key: numbered(9).Key, Position: p}
		if err := db.Put(t.Context(), []storage.Record{numbered(1), r}); err == nil {
			t.Errorf("Put of %v succeeded", p)
		}
		wantMiss(t, db, numbered(1).Key)
		mustExec(t, db.main.c, fmt.Sprintf("INSERT INTO cache256 VALUES (x'%x', %d, %d)", r.Key, p.Timestamp, p.Index))
		if err := wantError(t, db, r.Key); err != nil && !strings.Contains(err.Error(), "damaged") {
			t.Errorf("error %v", err)
		}
		mustExec(t, db.main.c, "DELETE FROM cache256")
	}
}

// TestGetWaitsForNoWrite holds the main connection as a Put or a Checkpoint
// does; Gets are answered all the same, and see what was committed before.
func TestGetWaitsForNoWrite(t *testing.T) {
	db := newTest(t)
	mustPut(t, db, numbered(1))
	db.main.mu.Lock()
	defer db.main.mu.Unlock()
	wantHit(t, db, numbered(1))
	if err := db.run("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db.main.c, fmt.Sprintf("INSERT INTO cache256 VALUES (x'%x', 1, 1)", numbered(2).Key))
	wantHit(t, db, numbered(1))
	wantMiss(t, db, numbered(2).Key)
	if err := db.run("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := db.Get(t.Context(), numbered(2).Key); err != nil || !ok {
		t.Errorf("Get after the commit = %v, %v, %v", p, ok, err)
	}
}

// TestConcurrentUse is for the race detector, and for locks taken in two orders.
func TestConcurrentUse(t *testing.T) {
	db := newTest(t)
	mustPut(t, db, numbered(0))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range int64(200) {
				wantHit(t, db, numbered(0))
				wantMiss(t, db, numbered(1_000_000+i).Key)
			}
		})
	}
	for w := range int64(2) {
		wg.Go(func() {
			for i := range int64(20) {
				if err := db.Put(t.Context(), batch(1+w*1000+i*10, 10)); err != nil {
					t.Error(err)
				}
				if _, err := db.Checkpoint(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for w := range int64(2) {
		for i := range int64(200) {
			wantHit(t, db, numbered(1+w*1000+i))
		}
	}
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cache.db")
	db := openTest(t, path, Options{})
	mustPut(t, db, batch(0, 100)...)
	for range 2 {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := wantError(t, db, numbered(0).Key); !errors.Is(err, ErrClosed) {
		t.Errorf("Get = %v, want %v", err, ErrClosed)
	}
	if err := db.Put(t.Context(), batch(0, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Put = %v, want %v", err, ErrClosed)
	}
	if _, err := db.Checkpoint(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Checkpoint = %v, want %v", err, ErrClosed)
	}
	// One file is left, and it is whole.
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files left: %v, %v", entries, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "moved.db")
	copyFile(t, path, elsewhere)
	wantHit(t, openTest(t, elsewhere, Options{}), numbered(99))
}

// TestKilled takes the files as they are while the cache is open, and then
// without the WAL: what is gone is forgotten, and nothing is made up (S8).
func TestKilled(t *testing.T) {
	dir, after := t.TempDir(), t.TempDir()
	db := openTest(t, filepath.Join(dir, "cache.db"), Options{})
	mustPut(t, db, batch(0, 100)...)
	mustCheckpoint(t, db)
	mustPut(t, db, batch(100, 100)...) // in the WAL only
	for _, name := range []string{"whole.db", "cut.db"} {
		copyFile(t, filepath.Join(dir, "cache.db"), filepath.Join(after, name))
	}
	copyFile(t, filepath.Join(dir, "cache.db-wal"), filepath.Join(after, "whole.db-wal"))

	whole := openTest(t, filepath.Join(after, "whole.db"), Options{})
	cut := openTest(t, filepath.Join(after, "cut.db"), Options{})
	for i := range int64(200) {
		wantHit(t, whole, numbered(i))
		if i < 100 {
			wantHit(t, cut, numbered(i))
		} else {
			wantMiss(t, cut, numbered(i).Key)
		}
	}
}

// TestDamagedFile is S8 and "an error is never a miss": every page but the
// first is overwritten, and each Get fails.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	db := openTest(t, path, Options{})
	mustPut(t, db, batch(0, 5000)...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := pageSize; i < len(b); i++ {
		b[i] = 0xa5
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err = Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		err := wantError(t, db, numbered(i).Key)
		if code := sqlite.ErrCode(err).ToPrimary(); code != sqlite.ResultCorrupt {
			t.Fatalf("error %v, with code %v", err, code)
		}
	}
	if err := db.Put(t.Context(), batch(0, 1)); err == nil {
		t.Error("Put into a damaged file succeeded")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhileBusy: attempts are repeated while the database is locked, until the
// bound or the context ends, and never after another outcome.
func TestWhileBusy(t *testing.T) {
	busy := fmt.Errorf("wrapped: %w", sqlite.ResultBusySnapshot.ToError())
	tests := []struct {
		name     string
		bound    time.Duration
		cancel   time.Duration
		outcomes []error // the last one is repeated
		want     error
		took     time.Duration
	}{
		{"free", time.Second, time.Hour, []error{nil}, nil, 0},
		{"free later", time.Second, time.Hour, []error{busy, busy, nil}, nil, 3 * time.Millisecond},
		{"other error", time.Second, time.Hour, []error{busy, errOther}, errOther, time.Millisecond},
		{"never free", 100 * time.Millisecond, time.Hour, []error{busy}, busy, 100 * time.Millisecond},
		{"cancelled", time.Second, 50 * time.Millisecond, []error{busy}, context.DeadlineExceeded, 50 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.cancel)
				defer cancel()
				start, n := time.Now(), 0
				err := whileBusy(ctx, tt.bound, func() error {
					n++
					return tt.outcomes[min(n, len(tt.outcomes))-1]
				})
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
