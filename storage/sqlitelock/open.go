package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/internal/durable"
)

var (
	// ErrAbsent means that the database file does not exist. It is not made by
	// accident: a log with a new lock in the place of the old one would fork.
	ErrAbsent = errors.New("the lock database does not exist")

	// ErrForeign means that the file is not the lock database of a log.
	ErrForeign = errors.New("this is not the lock database of a log")
)

const (
	schema = "CREATE TABLE IF NOT EXISTS checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT"

	// walPages is where SQLite folds the WAL back. A Swap of an ordinary
	// checkpoint writes two or three pages of 4 KiB.
	walPages = 64
)

// Open opens the database at path. It fails if a setting that durability
// depends on is not in force, if the database is damaged, and if it cannot be
// written to.
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
	missing, err := checkFile(path, o.Create)
	if err != nil {
		return nil, err
	}
	flags := sqlite.OpenReadWrite
	if missing {
		flags |= sqlite.OpenCreate
	}
	// Not the database itself: closing a file takes SQLite's locks on it away
	// from the whole process. It needs it less, see foldWAL.
	wal, err := walOf(path)
	if err != nil {
		return nil, err
	}
	if err := durable.Reread(wal); err != nil {
		return nil, err
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
	if err := prepareDatabase(conn, o.Create); err != nil {
		return nil, err
	}
	if err := foldWAL(conn, wal, o.BusyTimeout); err != nil {
		return nil, err
	}
	// The database and its WAL may have been made just now, or by a process
	// that crashed before their names were durable.
	if err := durable.SyncDir(filepath.Dir(wal)); err != nil {
		return nil, err
	}
	l := &Lock{path: path, busyTimeout: o.BusyTimeout, turn: make(chan struct{}, 1), conn: conn}
	for sql, stmt := range map[string]**sqlite.Stmt{fetchSQL: &l.fetch, createSQL: &l.create, swapSQL: &l.swap} {
		if *stmt, err = conn.Prepare(sql); err != nil {
			return nil, err
		}
	}
	conn.SetBusyTimeout(0) // from now on it is waitWhileBusy that waits
	l.turn <- struct{}{}
	return l, nil
}

// walOf returns the WAL of a database, which stands beside the file that a
// symbolic link leads to.
func walOf(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) { // it is to be made
		target, err = path, nil
	}
	return target + "-wal", err
}

// foldWAL makes what is read of the lock durable before anybody acts on it, and
// lets the WAL begin anew. The process before may have been killed before its
// last fsync, or have met one that failed. What it wrote then is not on disk,
// though it is read from the page cache if that could not be dropped; and what
// would be appended to it would be lost with it when the power fails. The pages
// of the database itself are sound: SQLite uses a WAL anew only after an fsync
// of the database has succeeded, and until then this writes them again.
//
// SQLite waits for readers and writers, but not for another process that folds the
// WAL back, by opening the lock or with a commit: that is tried again.
func foldWAL(conn *sqlite.Conn, wal string, timeout time.Duration) error {
	err := waitWhileBusy(context.Background(), timeout, func() error {
		busy, err := text(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
		if err == nil && busy != "0" {
			err = sqlite.ResultBusy.ToError()
		}
		return err
	})
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
		return errors.New("folding its WAL back: another process keeps it busy, with a write or a read transaction: end that first")
	} else if err != nil {
		return fmt.Errorf("folding its WAL back: %w", err)
	}
	// SQLite does not sync the truncation. Older frames must not come back: they
	// would be read in place of the newer pages of the database.
	f, err := os.OpenFile(wal, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("syncing its WAL: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("syncing its WAL: %w: %w", durable.ErrSync, err)
	}
	return nil
}

// checkFile reports whether the database has to be made.
func checkFile(path string, create bool) (missing bool, err error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && fi.Mode().IsRegular() && fi.Size() == 0:
		if !create {
			return false, fmt.Errorf("%w: create the log first, or restore the file you lost (an old copy will be refused)", ErrAbsent)
		}
		return true, nil
	case err != nil:
		return false, err
	case !fi.Mode().IsRegular():
		return false, fmt.Errorf("%w: not a regular file", ErrForeign)
	}
	return false, nil
}

// prepareDatabase makes or checks the table, and puts the settings in force.
func prepareDatabase(conn *sqlite.Conn, create bool) error {
	if err := checkTables(conn, create); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		set  string
		want string
	}{
		{"journal_mode", "WAL", "wal"},
		{"synchronous", "FULL", "2"},
		{"wal_autocheckpoint", fmt.Sprint(walPages), fmt.Sprint(walPages)},
		{"journal_size_limit", "-1", "-1"},  // the WAL is reused, not truncated
		{"fullfsync", "ON", "1"},            // of use on macOS only
		{"checkpoint_fullfsync", "ON", "1"}, // likewise
	} {
		if err := pragma(conn, p.name, p.set, p.want); err != nil {
			return err
		}
	}
	if create {
		if err := sqlitex.ExecuteTransient(conn, schema, nil); err != nil {
			return fmt.Errorf("making the table: %w", err)
		}
	}
	switch found, err := text(conn, "PRAGMA integrity_check(1)"); {
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("the database is damaged: %s", found)
	}
	// SQLite opens what it may not write for reading only, and says nothing.
	// This takes the write lock, and changes nothing.
	if err := sqlitex.ExecuteTransient(conn, "UPDATE checkpoints SET body = body WHERE false", nil); err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return nil
}

// pragma sets a setting and reads it back.
func pragma(conn *sqlite.Conn, name, set, want string) error {
	if err := sqlitex.ExecuteTransient(conn, fmt.Sprintf("PRAGMA %s = %s", name, set), nil); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	switch got, err := text(conn, "PRAGMA "+name); {
	case err != nil:
		return fmt.Errorf("reading %s: %w", name, err)
	case got != want:
		return fmt.Errorf("%s is %q in force, not %q as durability needs", name, got, want)
	}
	return nil
}

// text returns the first column of the only row of a query.
func text(conn *sqlite.Conn, query string) (s string, err error) {
	err = sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
		s = stmt.ColumnText(0)
		return nil
	}})
	return s, err
}

// checkTables refuses a database of something else. Nothing is written.
func checkTables(conn *sqlite.Conn, create bool) error {
	tables, err := text(conn, "SELECT coalesce(group_concat(name, ', '), '') FROM sqlite_schema WHERE type = 'table'")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if tables == "" && create {
		return nil
	}
	columns, err := text(conn, `SELECT coalesce(group_concat(name || ' ' || type || ' ' || pk || ' ' || (name = 'body' AND "notnull"), ', '), '')
		FROM pragma_table_info('checkpoints')`)
	switch {
	case err != nil:
		return err
	case columns == "":
		return fmt.Errorf("%w: it has no table checkpoints (it has: %q)", ErrForeign, tables)
	case columns != "logID BLOB 1 0, body BLOB 0 1":
		return fmt.Errorf("%w: the columns of its table checkpoints are others (%s)", ErrForeign, columns)
	}
	return nil
}
