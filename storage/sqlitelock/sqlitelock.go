// Package sqlitelock keeps the last checkpoints of logs in an SQLite database.
//
// The database is what makes a log's promises: it runs in WAL mode with
// synchronous=FULL, so that a Swap that returned nil has been fsynced. The
// table is the one that Sunlight uses. Its WAL is folded back by SQLite's own
// automatic WAL checkpoints, which are cheap for a database of a few pages, and
// the file is reused.
package sqlitelock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/storage"
)

// ErrAbsent means that the database file does not exist. It is not made by
// accident: a log with a new lock in the place of the old one would fork.
var ErrAbsent = errors.New("the lock database does not exist")

// Options of Open.
type Options struct {
	// Create makes the database if it does not exist.
	Create bool
	// BusyTimeout bounds the wait for another process that is writing; 0 means
	// five seconds.
	BusyTimeout time.Duration
}

const (
	defaultBusyTimeout = 5 * time.Second
	// walPages is where SQLite folds the WAL back. A Swap writes two pages.
	walPages = 64

	schema    = "CREATE TABLE IF NOT EXISTS checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT"
	fetchSQL  = "SELECT body FROM checkpoints WHERE logID = ?"
	createSQL = "INSERT INTO checkpoints (logID, body) VALUES (?, ?) ON CONFLICT (logID) DO NOTHING"
	swapSQL   = "UPDATE checkpoints SET body = ? WHERE logID = ? AND body = ?"
)

// Lock implements [storage.Lock]. All methods are safe for concurrent use, in
// this and any other process on this machine.
type Lock struct {
	path string

	mu                  sync.Mutex // guards what follows
	conn                *sqlite.Conn
	fetch, create, swap *sqlite.Stmt
}

var _ storage.Lock = (*Lock)(nil)

// Open opens the database at path. It fails if a setting that durability
// depends on is not in force.
func Open(path string, o Options) (*Lock, error) {
	l, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return l, nil
}

func open(path string, o Options) (_ *Lock, err error) {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = defaultBusyTimeout
	}
	created, err := checkFile(path, o.Create)
	if err != nil {
		return nil, err
	}
	flags := sqlite.OpenReadWrite
	if created {
		flags |= sqlite.OpenCreate
	}
	conn, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	conn.SetBusyTimeout(o.BusyTimeout) // the driver's own would wait for ever
	for _, p := range []struct{ set, name, want string }{
		{"PRAGMA journal_mode = WAL", "journal_mode", "wal"},
		{"PRAGMA synchronous = FULL", "synchronous", "2"},
		{fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", walPages), "wal_autocheckpoint", fmt.Sprint(walPages)},
	} {
		if err := sqlitex.ExecuteTransient(conn, p.set, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", p.set, err)
		}
		got, err := sqlitex.ResultText(conn.Prep("PRAGMA " + p.name))
		if err != nil || got != p.want {
			return nil, fmt.Errorf("%s is %q in force, not %q as durability needs (%w)", p.name, got, p.want, err)
		}
	}
	if o.Create {
		if err := sqlitex.ExecuteTransient(conn, schema, nil); err != nil {
			return nil, fmt.Errorf("making the table: %w", err)
		}
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	l := &Lock{path: path, conn: conn}
	for sql, stmt := range map[string]**sqlite.Stmt{fetchSQL: &l.fetch, createSQL: &l.create, swapSQL: &l.swap} {
		if *stmt, err = conn.Prepare(sql); err != nil {
			return nil, fmt.Errorf("this is not the lock database of a log: %w", err)
		}
	}
	return l, nil
}

// checkFile reports whether the database has to be made.
func checkFile(path string, create bool) (missing bool, err error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && fi.Size() == 0:
		if !create {
			return false, fmt.Errorf("%w: create the log first, or restore the file you lost (an old copy will be refused)", ErrAbsent)
		}
		return true, nil
	case err != nil:
		return false, err
	case !fi.Mode().IsRegular():
		return false, errors.New("not a regular file")
	}
	return false, nil
}

// syncDir makes the names of new files durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the database. It waits for an operation in progress.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}

// Fetch implements [storage.Lock].
func (l *Lock) Fetch(ctx context.Context, logID [32]byte) (body []byte, err error) {
	err = l.with(ctx, "reading", func() error {
		body, err = l.row(logID)
		return err
	})
	return body, err
}

// row returns the register's bytes. The caller holds mu.
func (l *Lock) row(logID [32]byte) (body []byte, err error) {
	defer func() { err = errors.Join(err, l.fetch.Reset()) }()
	l.fetch.BindBytes(1, logID[:])
	ok, err := l.fetch.Step()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("log %x: %w", logID, storage.ErrNotFound)
	}
	body = make([]byte, l.fetch.ColumnLen(0))
	l.fetch.ColumnBytes(0, body)
	return body, nil
}

// Create implements [storage.Lock].
func (l *Lock) Create(ctx context.Context, logID [32]byte, body []byte) error {
	return l.with(ctx, "creating a register in", func() error {
		changed, err := l.change(l.create, logID[:], body)
		if err == nil && changed == 0 {
			return fmt.Errorf("log %x: %w", logID, storage.ErrExists)
		}
		return err
	})
}

// Swap implements [storage.Lock]. It is one UPDATE, which SQLite runs under its
// write lock, so that of several processes one succeeds.
func (l *Lock) Swap(ctx context.Context, logID [32]byte, old, new []byte) error {
	return l.with(ctx, "swapping a register in", func() error {
		changed, err := l.change(l.swap, new, logID[:], old)
		if err != nil || changed == 1 {
			return err
		}
		found, err := l.row(logID)
		switch {
		case err != nil: // ErrNotFound among them
			return err
		case bytes.Equal(found, old):
			return errors.New("the register holds the expected bytes, but they could not be replaced")
		}
		return fmt.Errorf("log %x: %w", logID, storage.ErrConflict)
	})
}

// change runs a statement with these blobs and returns how many rows it changed.
func (l *Lock) change(stmt *sqlite.Stmt, blobs ...[]byte) (changed int, err error) {
	defer func() { err = errors.Join(err, stmt.Reset(), stmt.ClearBindings()) }()
	for i, b := range blobs {
		if len(b) == 0 {
			stmt.BindZeroBlob(i+1, 0) // an empty slice would be bound as NULL
		} else {
			stmt.BindBytes(i+1, b)
		}
	}
	if _, err := stmt.Step(); err != nil {
		return 0, err
	}
	return l.conn.Changes(), nil
}

// with runs f with the connection. Cancellation is honoured before f, and while
// SQLite works, after which the outcome is unknown.
func (l *Lock) with(ctx context.Context, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return fmt.Errorf("%s the lock %s: it is closed", what, l.path)
	}
	l.conn.SetInterrupt(ctx.Done())
	defer l.conn.SetInterrupt(nil)
	if err := f(); err != nil {
		return fmt.Errorf("%s the lock %s: %w", what, filepath.Base(l.path), err)
	}
	return nil
}
