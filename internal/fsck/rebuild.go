package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// RebuildOptions say what Rebuild does.
type RebuildOptions struct {
	Directory string // storage directory
	Origin    string // as in Options
	Key       []byte

	Cache     string // dedup cache; it is made if there is none
	PageCache int64  // bytes per connection; 0 is the cache's default

	// Rates of reading, per second; 0 is no bound.
	BytesPerSecond, ObjectsPerSecond int64
	// State is a file in which an interrupted run notes how far it came, and the
	// next one goes on. It is removed at the end.
	State string

	Found    func(Finding)
	Progress func(Progress)
}

// ErrRunning means that the log is running without the cache that is to be
// rebuilt.
var ErrRunning = errors.New("the log is running, and the file of its dedup cache is gone: restart the log, which makes an empty one, and rebuild it then")

// tilesPerCheckpoint bounds what is put in the WAL between two WAL checkpoints. A
// transaction has the rows of one tile, at most 256, so that a log that runs
// waits for milliseconds.
const tilesPerCheckpoint = 32

// rebuildBusy bounds the wait for a log that writes to the cache.
const rebuildBusy = 10 * time.Second

// Rebuild puts every entry of the log in the dedup cache, from the first to the
// last, unless its key is there already. It reads the data tiles, and takes only
// what is verified up to the signed root. The log may be running. Rows that
// contradict the log stay as they are, and are findings, as is what is wrong
// with the tiles. The error is nil if all could be looked at.
func Rebuild(ctx context.Context, o RebuildOptions) (_ *Report, err error) {
	r := &run{
		o: Options{Directory: o.Directory, Target: o.Directory, Origin: o.Origin, Key: o.Key, Cache: o.Cache, All: true, State: o.State,
			Found: o.Found, Progress: o.Progress, Workers: 1},
		start: time.Now(), pace: newPacer(o.BytesPerSecond, o.ObjectsPerSecond), found: newFindings(o.Found), inTiles: newFindings(nil)}
	if r.dir, err = openDirectory(o.Directory, r.pace); err != nil {
		return nil, err
	}
	defer func() { _ = r.dir.Close() }() // only read
	r.src = r.dir
	if err := r.readHead(ctx); err != nil {
		return nil, err
	}
	db, err := openForRebuild(o)
	if err != nil {
		return nil, err
	}
	if err = r.openState("rebuild"); err == nil {
		err = r.rebuild(ctx, db)
	}
	// The last WAL checkpoint makes durable what the state says is done.
	if err = errors.Join(err, db.Close()); err == nil {
		err = r.removeState()
	}
	r.report.Findings, r.report.Count, r.report.Took = sorted(r.found.all()), r.found.count(), time.Since(r.start)
	return &r.report, err
}

// readHead reads the checkpoint of the tree that the cache is made from.
func (r *run) readHead(ctx context.Context) error {
	err := r.identify(ctx)
	if err != nil {
		return err
	}
	r.signed, r.head, err = monitor.ReadCheckpoint(ctx, r.src, r.verifier)
	if f := (*monitor.Fault)(nil); errors.As(err, &f) {
		return errors.New(finding(f).String())
	}
	r.report.Tree, r.report.Timestamp = r.head.Tree, r.head.Timestamp
	return err
}

func openForRebuild(o RebuildOptions) (*cache.DB, error) {
	options := cache.Options{PageCache: o.PageCache, BusyTimeout: rebuildBusy}
	db, err := cache.Open(o.Cache, options)
	if !errors.Is(err, fs.ErrNotExist) {
		return db, err
	}
	switch running, err := inUse(o.Directory); {
	case err != nil:
		return nil, err
	case running:
		return nil, ErrRunning
	}
	options.Create = true
	return cache.Open(o.Cache, options)
}

// inUse tells whether a log has the storage directory open for writing.
func inUse(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, fmt.Errorf("opening the storage directory: %w", err)
	}
	defer func() { _ = f.Close() }() // which also unlocks it
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err {
		case nil:
			return false, nil
		case unix.EWOULDBLOCK:
			return true, nil
		case unix.EINTR:
		default:
			return false, fmt.Errorf("finding out whether the log is running: %w", err)
		}
	}
}

// rebuild goes through the tiles in order, so that of the entries with one key
// the first is remembered.
func (r *run) rebuild(ctx context.Context, db *cache.DB) error {
	c, err := monitor.NewChecker(ctx, r.src, r.head, monitor.CheckerOptions{LeavesOnly: true, Thorough: true}, r.found.fault)
	if err != nil {
		return err
	}
	if r.leaves, err = newLeafReader(ctx, r.src, r.head); err != nil {
		return err
	}
	w := &rebuilding{run: r, db: db, rows: &leafRows{get: db.Get, leaves: r.leaves, size: r.head.Tree.N}, saved: time.Now()}
	for n := r.state.Next; n < c.Tiles() && err == nil; n++ {
		found := newFindings(nil)
		var t *monitor.TileResult
		if t, err = c.Tile(ctx, n, found.fault); err == nil {
			err = w.tile(ctx, n, t.Leaves, found)
		}
		r.progress("tiles", r.state.Next, c.Tiles())
		if err == nil && (n+1)%tilesPerCheckpoint == 0 {
			err = w.checkpoint(ctx, time.Since(w.saved) >= saveEvery)
		}
	}
	if err != nil {
		return errors.Join(err, w.checkpoint(context.WithoutCancel(ctx), true))
	}
	return nil
}

// rebuilding is a Rebuild that writes.
type rebuilding struct {
	*run
	db    *cache.DB
	rows  *leafRows
	saved time.Time
}

// tile puts the leaves of a tile in the cache, and sees whether they are there.
func (w *rebuilding) tile(ctx context.Context, n int64, leaves []tlog.Leaf, found *findings) error {
	// Looking first keeps the reading of pages out of the transaction, during
	// which a log that runs cannot write.
	var records []storage.Record
	added := map[tlog.Key]bool{}
	for _, leaf := range leaves {
		key := leaf.Entry.Key()
		_, ok, err := w.db.Get(ctx, key)
		if err != nil {
			return err
		}
		if !ok && !added[key] {
			added[key] = true
			records = append(records, storage.Record{Key: key, Position: leaf.Position})
		}
	}
	if err := w.db.Put(ctx, records); err != nil {
		return err
	}
	counts := Counts{DataTiles: 1, Entries: int64(len(leaves)), Added: int64(len(records))}
	for _, leaf := range leaves {
		if err := w.rows.check(ctx, leaf, &counts, found); err != nil {
			return err
		}
	}
	w.report.add(counts)
	for _, f := range found.all() {
		w.found.add(f)
		w.inTiles.add(f)
	}
	w.state.Next = n + 1
	return nil
}

// checkpoint runs a WAL checkpoint. If it made durable what was put so far, and
// if that is asked for, the state is saved.
func (w *rebuilding) checkpoint(ctx context.Context, save bool) error {
	// A log that runs does the same each round, so that one of the two finds
	// the other at it now and then.
	wal, err := w.db.Checkpoint(ctx)
	if err != nil || wal.Busy || wal.Checkpointed < wal.Frames || !save {
		return err
	}
	w.saved = time.Now()
	return w.saveState()
}
