package fsck

import (
	"cmp"
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
	"github.com/daybook-ct/daybook/tlog"
)

// database is an SQLite database that is read and never written, while its owner
// may be running or not. A log that runs has a WAL file, which must be read
// together with the database; where there is none, nothing at all is opened for
// writing, not even the files that SQLite puts beside.
//
// Every operation is one short read transaction, so that the owner's WAL
// checkpoints do not have to wait. It is safe for concurrent use.
type database struct {
	path string

	mu    sync.Mutex
	conn  *sqlite.Conn
	still fs.FileInfo // of the file when it was opened without a WAL; nil with one
}

// errDamaged is wrapped by errors that say that the file is bad.
var errDamaged = errors.New("the database is damaged")

const databaseBusy = 5 * time.Second

func openDatabase(path string) (*database, error) {
	// SQLite looks for the WAL where a symbolic link points to.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	d := &database{path: path}
	if err := d.open(); err != nil {
		return nil, errors.Join(damage(err), d.Close())
	}
	return d, nil
}

// open opens the database anew.
func (d *database) open() error {
	if err := d.close(); err != nil {
		return err
	}
	uri := "file:" + escapeURI(d.path)
	info, err := os.Stat(d.path)
	switch _, walErr := os.Stat(d.path + "-wal"); {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is not a regular file", errDamaged)
	case info.Size() == 0:
		return fmt.Errorf("%w: it is empty", errDamaged)
	case errors.Is(walErr, fs.ErrNotExist):
		d.still = info
		uri += "?immutable=1"
	case walErr != nil:
		return walErr
	}
	if d.conn, err = sqlite.OpenConn(uri, sqlite.OpenReadOnly|sqlite.OpenURI); err != nil {
		return err
	}
	d.conn.SetBusyTimeout(databaseBusy) // the driver's own would wait for ever
	return sqlitex.ExecuteTransient(d.conn, "PRAGMA query_only = 1", nil)
}

// escapeURI escapes what has a meaning in the path of an SQLite URI.
func escapeURI(path string) string {
	var b []byte
	for _, c := range []byte(path) {
		if c == '%' || c == '?' || c == '#' {
			b = fmt.Appendf(b, "%%%02x", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func (d *database) close() error {
	d.still = nil
	if d.conn == nil {
		return nil
	}
	err := d.conn.Close()
	d.conn = nil
	return err
}

// Close closes the database.
func (d *database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.close()
}

// read runs f, which must leave nothing behind when it is run again: a database
// that was opened without a WAL and has one now is read anew.
func (d *database) read(f func(*sqlite.Conn) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		err := f(d.conn)
		if d.still == nil || !d.moved() {
			return damage(err)
		}
		if err := d.open(); err != nil {
			return damage(err)
		}
	}
}

// moved tells whether a database that was opened without a WAL was written since.
func (d *database) moved() bool {
	if _, err := os.Stat(d.path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	now, err := os.Stat(d.path)
	return err != nil || !os.SameFile(now, d.still) || !now.ModTime().Equal(d.still.ModTime()) || now.Size() != d.still.Size()
}

// damage marks errors of SQLite that say that the file is bad.
func damage(err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultIOErr, sqlite.ResultFormat:
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// prepare prepares a statement once. A database that it does not fit is not
// the one that it should be.
func prepare(c *sqlite.Conn, sql string) (*sqlite.Stmt, error) {
	s, err := c.Prepare(sql)
	if err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultError {
		err = fmt.Errorf("%w, or it is of something else: %w", errDamaged, err)
	}
	return s, err
}

// readLock returns the register of a log in a lock database.
func readLock(path string, logID [32]byte) (body []byte, err error) {
	d, err := openDatabase(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	err = d.read(func(c *sqlite.Conn) error {
		body = nil
		bad := ""
		err := sqlitex.ExecuteTransient(c, "PRAGMA integrity_check(1)", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			bad = s.ColumnText(0)
			return nil
		}})
		if err == nil && bad != "ok" {
			err = fmt.Errorf("%w: %s", errDamaged, bad)
		}
		if err != nil {
			return err
		}
		s, err := prepare(c, "SELECT body FROM checkpoints WHERE logID = ?")
		if err != nil {
			return err
		}
		s.BindBytes(1, logID[:])
		ok, err := s.Step()
		if ok {
			body = make([]byte, s.ColumnLen(0))
			s.ColumnBytes(0, body)
		}
		return cmp.Or(err, s.Reset())
	})
	if err == nil && body == nil {
		err = fmt.Errorf("log ID %x: %w", logID, storage.ErrNotFound)
	}
	return body, err
}

// rows reads the rows of a dedup cache.
type rows struct{ *database }

// get returns the position that a key has in the cache.
func (r rows) get(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return p, false, err
	}
	err = r.read(func(c *sqlite.Conn) (err error) {
		s, err := prepare(c, "SELECT timestamp, leaf_index FROM cache256 WHERE key = ?")
		if err != nil {
			return err
		}
		s.BindBytes(1, key[:])
		if ok, err = s.Step(); ok {
			p = tlog.Position{Timestamp: s.ColumnInt64(0), Index: s.ColumnInt64(1)}
		}
		return cmp.Or(err, s.Reset())
	})
	return p, ok, err
}

// row is a row as it stands in the table.
type row struct {
	key       []byte
	timestamp int64
	index     int64
}

// from returns up to limit rows in the order of their keys, the first of them
// with a key after the given one, or at it if inclusive.
func (r rows) from(ctx context.Context, key []byte, inclusive bool, limit int) (list []row, err error) {
	sql := "SELECT key, timestamp, leaf_index FROM cache256 WHERE key > ? ORDER BY key LIMIT ?"
	if inclusive {
		sql = "SELECT key, timestamp, leaf_index FROM cache256 WHERE key >= ? ORDER BY key LIMIT ?"
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = r.read(func(c *sqlite.Conn) (err error) {
		list = list[:0]
		s, err := prepare(c, sql)
		if err != nil {
			return err
		}
		s.BindBytes(1, key)
		s.BindInt64(2, int64(limit))
		for {
			more, err := s.Step()
			if err != nil || !more {
				return cmp.Or(err, s.Reset())
			}
			k := make([]byte, s.ColumnLen(0))
			s.ColumnBytes(0, k)
			list = append(list, row{k, s.ColumnInt64(1), s.ColumnInt64(2)})
		}
	})
	return list, err
}
