package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	// The database and its WAL may have been made just now, or by a process
	// that crashed before their names were durable.
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
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
