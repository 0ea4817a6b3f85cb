package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// maxIndex is the largest leaf index: a 40-bit number (c2sp.org/static-ct-api, SCT Extension).
const maxIndex = 1<<40 - 1

// Get returns the position of the entry with this key; see storage.Cache. It
// is at most one walk down a B-tree. A read from disk under way cannot be
// cancelled, but waiting for a lock of another process can, and is bounded by BusyTimeout.
func (db *DB) Get(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error) {
	start := time.Now()
	p, ok, err = db.lookup(ctx, key)
	observe(start, db.metrics.get, db.metrics.getErr, err)
	switch {
	case err != nil:
		return tlog.Position{}, false, fmt.Errorf("reading the dedup cache: %w", err)
	case ok:
		db.metrics.hit.Inc()
	default:
		db.metrics.miss.Inc()
	}
	return p, ok, nil
}

func (db *DB) lookup(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return p, false, err
	}
	c := &db.main
	if !c.mu.TryLock() {
		c = &db.aside
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.c == nil {
		return p, false, ErrClosed
	}
	if p, ok, err = c.row(key); isBusy(err) {
		err = whileBusy(ctx, db.busy, func() error {
			p, ok, err = c.row(key)
			return err
		})
	}
	if err != nil {
		return p, false, err
	}
	if ok && !valid(p) {
		return p, false, fmt.Errorf("row of key %x has an impossible position (leaf index %d, timestamp %d): the file is damaged", key, p.Index, p.Timestamp)
	}
	return p, ok, nil
}

// row reads the row of a key. The caller holds mu.
func (c *conn) row(key tlog.Key) (p tlog.Position, ok bool, err error) {
	if incident.Enabled {
		defer incident.SlowReads()()
	}
	c.get.BindBytes(1, key[:])
	if ok, err = c.get.Step(); ok {
		p = tlog.Position{Timestamp: c.get.ColumnInt64(0), Index: c.get.ColumnInt64(1)}
	}
	// A statement that is not reset keeps its snapshot, and no WAL checkpoint
	// could restart the WAL.
	return p, ok, cmp.Or(err, c.get.Reset())
}

// Put remembers all records in one transaction; see storage.Cache. A
// transaction that has begun ignores cancellation. On an error nothing is remembered.
func (db *DB) Put(ctx context.Context, records []storage.Record) error {
	if len(records) == 0 {
		return ctx.Err()
	}
	start := time.Now()
	err := db.insert(ctx, records)
	observe(start, db.metrics.put, db.metrics.putErr, err)
	if err != nil {
		return fmt.Errorf("writing the dedup cache: %w", err)
	}
	db.metrics.records.Add(float64(len(records)))
	return nil
}

func (db *DB) insert(ctx context.Context, records []storage.Record) (err error) {
	for _, r := range records {
		if !valid(r.Position) {
			return fmt.Errorf("record of key %x has an impossible position (leaf index %d, timestamp %d)", r.Key, r.Position.Index, r.Position.Timestamp)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	db.main.mu.Lock()
	defer db.main.mu.Unlock()
	if db.main.c == nil {
		return ErrClosed
	}
	if db.walSize >= db.maxWAL {
		return ErrWALFull
	}
	if incident.Enabled {
		incident.WALMade(db.path + "-wal")
		defer incident.SlowReads()()
	}
	// In key order a page is visited once. The order is stable: of two records
	// with one key the first is kept.
	db.sorted = append(db.sorted[:0], records...)
	slices.SortStableFunc(db.sorted, func(a, b storage.Record) int { return bytes.Compare(a.Key[:], b.Key[:]) })

	if err := whileBusy(ctx, db.busy, func() error { return db.run("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	defer func() {
		if err != nil && !db.main.c.AutocommitEnabled() {
			err = errors.Join(err, db.run("ROLLBACK"))
		}
	}()
	for i := range db.sorted {
		r := &db.sorted[i]
		db.put.BindBytes(1, r.Key[:])
		db.put.BindInt64(2, r.Position.Timestamp)
		db.put.BindInt64(3, r.Position.Index)
		if _, err := db.put.Step(); err != nil {
			return err
		}
		if err := db.put.Reset(); err != nil {
			return err
		}
	}
	return db.run("COMMIT")
}

// run runs a statement without rows on the main connection. It is prepared
// once. The caller holds main.mu.
func (db *DB) run(sql string) error {
	stmt, err := db.main.c.Prepare(sql)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return cmp.Or(err, stmt.Reset())
}

// Checkpoint runs a RESTART WAL checkpoint; see storage.Cache. Readers, which
// only other processes keep open, are waited for no longer than
// ReaderTimeout, and while they stay each time for half as long; the outcome is
// then Busy and no error. So an outside reader takes from the rounds twice
// ReaderTimeout in all, and a millisecond each.
func (db *DB) Checkpoint(ctx context.Context) (storage.WAL, error) {
	if err := ctx.Err(); err != nil {
		return storage.WAL{}, err
	}
	db.main.mu.Lock()
	defer db.main.mu.Unlock()
	return db.checkpoint()
}

// checkpoint is Checkpoint for a caller that holds main.mu.
func (db *DB) checkpoint() (w storage.WAL, err error) {
	if db.main.c == nil {
		return w, ErrClosed
	}
	if incident.Off(incident.Restart) {
		return w, nil
	}
	start := time.Now()
	defer func() { observe(start, db.metrics.walCheckpoint, db.metrics.walErr, err) }()
	// Here SQLite itself has to wait, as it keeps others from writing meanwhile.
	db.main.c.SetBusyTimeout(db.patience())
	defer db.main.c.SetBusyTimeout(0)
	row, err := db.wal.Step()
	if row {
		w = storage.WAL{
			Busy: db.wal.ColumnInt(0) != 0,
			// Both are -1 when another connection is at it.
			Frames:       max(0, db.wal.ColumnInt(1)),
			Checkpointed: max(0, db.wal.ColumnInt(2)),
		}
	}
	if err := cmp.Or(err, db.wal.Reset()); err != nil {
		return storage.WAL{}, fmt.Errorf("running a WAL checkpoint of the dedup cache: %w", err)
	}
	if !row {
		return storage.WAL{}, errors.New("running a WAL checkpoint of the dedup cache: SQLite told no outcome")
	}
	if w.Busy {
		db.metrics.walBusy.Inc()
		db.busyRuns++
		db.walSize = int64(w.Frames) * (pageSize + walFrameHeader)
		if incident.Off(incident.Backoff) {
			db.walSize = 0
		}
	} else {
		db.busyRuns, db.walSize = 0, 0
	}
	db.metrics.walFrames.Set(float64(w.Frames))
	db.metrics.walCheckpointed.Set(float64(w.Checkpointed))
	return w, nil
}

// patience is how long the next WAL checkpoint waits for readers.
func (db *DB) patience() time.Duration {
	if incident.Off(incident.Backoff) {
		return time.Second
	}
	return max(time.Millisecond, db.readers>>min(db.busyRuns, 20))
}

// walFrameHeader is what a frame has beside its page, in bytes.
const walFrameHeader = 24

// busyDelays are the pauses between attempts while another process holds a lock.
var busyDelays = [...]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}

// whileBusy repeats f while it finds the database locked, until bound has
// passed or ctx ends. The driver's own way to be cancelled starts a goroutine
// per call and waits until it is scheduled, which does not belong under the turnstile.
func whileBusy(ctx context.Context, bound time.Duration, f func() error) error {
	deadline := time.Now().Add(bound)
	for i := 0; ; i++ {
		err := f()
		if !isBusy(err) {
			return err
		}
		pause := min(busyDelays[min(i, len(busyDelays)-1)], time.Until(deadline))
		if pause <= 0 {
			return fmt.Errorf("another process kept the database locked for %v: %w", bound, err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

func valid(p tlog.Position) bool {
	return p.Index >= 0 && p.Index <= maxIndex && p.Timestamp >= 0
}

// isCancelled reports whether err is the caller's doing.
func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
