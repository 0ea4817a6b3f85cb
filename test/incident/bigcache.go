package incident

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/cache"
)

// Progress is told how far something long is.
type Progress func(what string, done, total int64)

// BigCache returns the name of a dedup cache of so many rows in the directory. It
// is made if it is not there, which takes about a minute for ten million, and
// is left there for the next time. Nobody may write to it; see CopyFile.
func BigCache(ctx context.Context, dir string, rows int64, progress Progress) (path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("cache-%d.db", rows))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	partial := path + ".partial" // of a run that was interrupted
	defer func() { err = errors.Join(err, removeDatabase(partial)) }()
	if err := removeDatabase(partial); err != nil {
		return "", err
	}
	db, err := cache.Open(partial, cache.Options{Create: true, PageCache: 64 << 20})
	if err != nil {
		return "", err
	}
	if err := db.Close(); err != nil {
		return "", err
	}
	if err := fill(ctx, partial, rows, progress); err != nil {
		return "", fmt.Errorf("filling the dedup cache: %w", err)
	}
	return path, os.Rename(partial, path)
}

func removeDatabase(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// rowsPerTransaction keeps transactions at some ten MiB.
const rowsPerTransaction = 200_000

// fill inserts the rows in two passes, each in the order of their keys: seven of
// ten first, the others between them. So it is as fast as a sorted insert, and
// leaves pages about two thirds full, as keys in any order would. After one pass all
// pages would be full, and each entry of the log split one.
func fill(ctx context.Context, path string, rows int64, progress Progress) (err error) {
	c, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// Whatever is not finished is thrown away.
	if err := execute(c, "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -131072", "BEGIN"); err != nil {
		return err
	}
	stmt, err := c.Prepare("INSERT INTO cache256 (key, timestamp, leaf_index) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	done := int64(0)
	for pass := range 2 {
		for i := range rows {
			if (i%10 < 7) != (pass == 0) {
				continue
			}
			key, timestamp, index := row(i, rows)
			stmt.BindBytes(1, key[:])
			stmt.BindInt64(2, timestamp)
			stmt.BindInt64(3, index)
			if _, err := stmt.Step(); err != nil {
				return err
			}
			if err := stmt.Reset(); err != nil {
				return err
			}
			if done++; done%rowsPerTransaction == 0 {
				if err := errors.Join(ctx.Err(), execute(c, "COMMIT", "BEGIN")); err != nil {
					return err
				}
				progress("making the dedup cache", done, rows)
			}
		}
	}
	return execute(c, "COMMIT")
}

// open opens a database as another program would.
func open(path string) (*sqlite.Conn, error) { return sqlite.OpenConn(path, sqlite.OpenReadWrite) }

// execute runs statements and drops their rows.
func execute(c *sqlite.Conn, statements ...string) error {
	for _, sql := range statements {
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// row returns row i of so many, a pure function: the keys are spread evenly and
// strictly grow with i. Positions are somewhere in a log of that size.
func row(i, rows int64) (key [32]byte, timestamp, index int64) {
	gap := math.MaxUint64 / uint64(rows)
	state := uint64(i)
	next := func() uint64 { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	binary.BigEndian.PutUint64(key[:], uint64(i)*gap+next()%gap)
	for j := 8; j < len(key); j += 8 {
		binary.BigEndian.PutUint64(key[j:], next())
	}
	index = int64(next() % uint64(rows))
	return key, 1_790_000_000_000 + index*5, index
}
