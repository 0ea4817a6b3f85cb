package cache

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestWALStaysFlat: each round's WAL checkpoint lets the next round start over
// at the beginning of the file, which is neither truncated nor grown.
func TestWALStaysFlat(t *testing.T) {
	db := newTest(t)
	mustPut(t, db, batch(0, 5000)...) // so that rounds touch different pages
	mustCheckpoint(t, db)
	wal := db.path + "-wal"
	high := fileSize(t, wal)
	for i := range int64(100) {
		wantMiss(t, db, numbered(10_000+i*20).Key)
		mustPut(t, db, batch(10_000+i*20, 20)...)
		wantHit(t, db, numbered(10_000+i*20))
		w := mustCheckpoint(t, db)
		if w.Busy || w.Frames == 0 || w.Checkpointed != w.Frames || w.Frames > 60 {
			t.Fatalf("round %d: %+v, want all of a few frames written back", i, w)
		}
		if size := fileSize(t, wal); size != high {
			t.Fatalf("round %d: WAL has %d bytes, had %d", i, size, high)
		}
	}
	if w := mustCheckpoint(t, db); w.Busy || w.Frames != w.Checkpointed {
		t.Errorf("with nothing new: %+v", w)
	}
}

// TestWALGrowsWithoutCheckpoint shows that automatic WAL checkpoints are off:
// by default SQLite would run one at 1,000 pages.
func TestWALGrowsWithoutCheckpoint(t *testing.T) {
	db := newTest(t)
	for i := range int64(60) {
		mustPut(t, db, batch(i*1000, 1000)...)
	}
	if frames := fileSize(t, db.path+"-wal") / (pageSize + 24); frames < 2500 {
		t.Errorf("WAL of %d frames was checkpointed on its own", frames)
	}
	if w := mustCheckpoint(t, db); w.Busy || w.Frames < 2500 || w.Checkpointed != w.Frames {
		t.Errorf("WAL checkpoint %+v", w)
	}
}

// TestOutsideReader: a reader with an open transaction, such as a backup, makes
// the outcome Busy after ReaderTimeout and no error; Puts and Gets go on; and
// when it leaves the WAL starts over.
func TestOutsideReader(t *testing.T) {
	db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{ReaderTimeout: 30 * time.Millisecond})
	mustPut(t, db, batch(0, 100)...)
	reader := outsider(t, db.path)
	mustExec(t, reader, "BEGIN")
	if rows, err := query(reader, "SELECT count(*) FROM cache256"); err != nil || rows[0][0] != "100" {
		t.Fatal(rows, err)
	}

	mustPut(t, db, batch(100, 100)...)
	start := time.Now()
	w := mustCheckpoint(t, db)
	// The lower bound shows that it did wait, the upper one that it gave up.
	if took := time.Since(start); took < 25*time.Millisecond || took > 5*time.Second {
		t.Errorf("WAL checkpoint took %v beside a reader", took)
	}
	if !w.Busy || w.Frames == 0 {
		t.Errorf("WAL checkpoint %+v beside a reader, want Busy", w)
	}
	grown := w.Frames
	mustPut(t, db, batch(200, 100)...)
	if w := mustCheckpoint(t, db); !w.Busy || w.Frames <= grown {
		t.Errorf("second WAL checkpoint %+v, want Busy and more than %d frames", w, grown)
	}
	wantHit(t, db, numbered(299))
	wantMiss(t, db, numbered(300).Key)

	mustExec(t, reader, "COMMIT")
	if w := mustCheckpoint(t, db); w.Busy || w.Checkpointed != w.Frames {
		t.Errorf("WAL checkpoint %+v after the reader left", w)
	}
	mustPut(t, db, numbered(300))
	if w := mustCheckpoint(t, db); w.Busy || w.Frames >= grown {
		t.Errorf("WAL checkpoint %+v, want the WAL to have started over", w)
	}
}

// TestOutsideReaderLeavesInTime: SQLite waits by the millisecond, not in whole
// seconds, as it does where it was built without usleep. Its clock is the real one.
func TestOutsideReaderLeavesInTime(t *testing.T) {
	db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{ReaderTimeout: 10 * time.Second})
	mustPut(t, db, batch(0, 100)...)
	reader := outsider(t, db.path)
	mustExec(t, reader, "BEGIN", "SELECT * FROM cache256")
	mustPut(t, db, batch(100, 100)...)
	left := make(chan error)
	go func() {
		time.Sleep(20 * time.Millisecond)
		left <- exec(reader, "COMMIT")
	}()
	start := time.Now()
	w := mustCheckpoint(t, db)
	if took := time.Since(start); w.Busy || took > 990*time.Millisecond {
		t.Errorf("WAL checkpoint %+v in %v", w, took)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// TestOutsideWriter: a Put waits for another program's transaction no longer than
// BusyTimeout or its context, then fails and remembers nothing. Gets go on.
func TestOutsideWriter(t *testing.T) {
	db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{BusyTimeout: 30 * time.Millisecond, ReaderTimeout: time.Minute})
	mustPut(t, db, batch(0, 10)...)
	mustCheckpoint(t, db) // whose longer patience must not stay in force
	writer := outsider(t, db.path)
	mustExec(t, writer, "BEGIN IMMEDIATE", "DELETE FROM cache256")

	start := time.Now()
	err := db.Put(t.Context(), batch(10, 10))
	if took := time.Since(start); !isBusy(err) || took < 25*time.Millisecond || took > 5*time.Second {
		t.Errorf("Put = %v after %v, want it busy after 30ms", err, took)
	}
	wantHit(t, db, numbered(0))
	wantMiss(t, db, numbered(10).Key)

	db.busy = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := db.Put(ctx, batch(10, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put = %v, want %v", err, context.DeadlineExceeded)
	}
	mustExec(t, writer, "ROLLBACK")
	mustPut(t, db, batch(10, 10)...)
	wantHit(t, db, numbered(10))
	wantHit(t, db, numbered(0))
}

// TestOpenLocked: a program that has the file to itself makes Open fail after
// its bound, with the database's own reason.
func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	if err := openTest(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	owner := outsider(t, path)
	mustExec(t, owner, "PRAGMA locking_mode = EXCLUSIVE", "DELETE FROM cache256")
	start := time.Now()
	db, err := Open(path, Options{openTimeout: 30 * time.Millisecond})
	if !isBusy(err) || errors.Is(err, ErrFormat) {
		t.Errorf("Open = %v, %v, want it busy", db, err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v, as if it had the usual %v", took, defaultOpenTimeout)
	}
}

// TestReadStatementIsReset: after a hit no snapshot is left open on either
// connection, or the next WAL checkpoint could not restart the WAL.
func TestReadStatementIsReset(t *testing.T) {
	db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{ReaderTimeout: time.Millisecond})
	mustPut(t, db, numbered(0))
	for _, c := range []*conn{&db.main, &db.aside} {
		if p, ok, err := c.row(numbered(0).Key); err != nil || !ok || p != numbered(0).Position {
			t.Fatal(p, ok, err)
		}
		if sql := c.c.CheckReset(); sql != "" {
			t.Errorf("statement %q is still open", sql)
		}
		mustPut(t, db, numbered(1))
		if w := mustCheckpoint(t, db); w.Busy {
			t.Errorf("WAL checkpoint %+v", w)
		}
	}
	// The counter-example, so that this test could fail.
	db.aside.get.BindBytes(1, []byte("no such key"))
	stmt, _, err := db.aside.c.PrepareTransient("SELECT key FROM cache256")
	if err != nil {
		t.Fatal(err)
	}
	if row, err := stmt.Step(); err != nil || !row {
		t.Fatal(row, err)
	}
	mustPut(t, db, numbered(2))
	if w := mustCheckpoint(t, db); !w.Busy {
		t.Errorf("WAL checkpoint %+v beside an open statement", w)
	}
	if err := stmt.Finalize(); err != nil {
		t.Fatal(err)
	}
}

// TestOutsideReaderStays: a read transaction that stays open costs the rounds
// twice the bound in all and then next to nothing; the WAL stops growing at its
// limit; and everything is as before once the reader has gone.
func TestOutsideReaderStays(t *testing.T) {
	const limit = 1 << 20
	db := openTest(t, filepath.Join(t.TempDir(), "cache.db"), Options{ReaderTimeout: 64 * time.Millisecond, MaxWAL: limit})
	mustPut(t, db, batch(0, 100)...)
	reader := outsider(t, db.path)
	mustExec(t, reader, "BEGIN", "SELECT count(*) FROM cache256")

	next, full := int64(100), false
	start := time.Now()
	for range 100 {
		err := db.Put(t.Context(), batch(next, 50))
		switch {
		case errors.Is(err, ErrWALFull):
			full = true
		case err != nil:
			t.Fatal(err)
		case full:
			t.Fatal("a Put succeeded after the WAL was full")
		default:
			next += 50
		}
		if w := mustCheckpoint(t, db); !w.Busy {
			t.Fatal("a WAL checkpoint finished beside a reader")
		}
	}
	// 64 + 32 + ... + 1 ms and then 1 ms each; without backing off, 6.4 s.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("100 rounds beside a reader took %v", took)
	}
	if !full {
		t.Error("the WAL never reached its limit")
	}
	if size := fileSize(t, db.path+"-wal"); size > 2*limit {
		t.Errorf("the WAL has %d bytes, its limit is %d", size, limit)
	}
	mustExec(t, reader, "COMMIT")
	if w := mustCheckpoint(t, db); w.Busy {
		t.Error("a WAL checkpoint is busy after the reader has gone")
	}
	mustPut(t, db, batch(next, 50)...)
	if w := mustCheckpoint(t, db); w.Busy || w.Frames > 200 {
		t.Errorf("after the reader: %+v", w)
	}
	wantHit(t, db, numbered(next))
}
