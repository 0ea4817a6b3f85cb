package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/tlog"
)

// window is how many rows are inserted at random within their part of the key
// space, before the next part: a file made in strict order would have full pages,
// and each put into it would split one. That of a log, whose keys come at random,
// has pages that are some two thirds full.
const window = 50_000

// rowKey returns key i of a cache of so many rows. They are spread over the key
// space like hashes, and ascend with i.
func rowKey(i, rows int64) (k tlog.Key) {
	step := ^uint64(0) / uint64(rows)
	binary.BigEndian.PutUint64(k[:], uint64(i)*step+mix(uint64(i))%step)
	for j := 8; j < len(k); j += 8 {
		binary.BigEndian.PutUint64(k[j:], mix(uint64(i)*4+uint64(j)))
	}
	return k
}

// mix is a step of SplitMix64.
func mix(z uint64) uint64 {
	z *= 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// freshKey returns key n of those that no cache has.
func freshKey(n uint64) tlog.Key {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("fresh"), n))
}

// database returns the file of a dedup cache of so many rows, which is made
// unless it is there.
func database(ctx context.Context, o *options, rows int64) (path string, err error) {
	path = filepath.Join(o.dir, fmt.Sprintf("cache-%d.db", rows))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	making := path + ".making"
	if err := removeDatabase(making); err != nil {
		return "", err
	}
	db, err := cache.Open(making, cache.Options{Create: true})
	if err == nil {
		err = db.Close()
	}
	if err == nil {
		err = fill(ctx, o, making, rows)
	}
	if err != nil {
		return "", fmt.Errorf("making a cache of %d rows: %w", rows, err)
	}
	return path, os.Rename(making, path)
}

func removeDatabase(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// fill inserts the rows of an empty cache, by SQLite itself and without any
// durability: this is no work of a log.
func fill(ctx context.Context, o *options, path string, rows int64) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, sql := range []string{"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA cache_size = -262144"} {
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	insert, err := c.Prepare("INSERT INTO cache256 (key, timestamp, leaf_index) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(1, uint64(rows)))
	began := time.Now()
	for from := int64(0); from < rows; from += window {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := sqlitex.ExecuteTransient(c, "BEGIN", nil); err != nil {
			return err
		}
		for _, i := range rnd.Perm(int(min(window, rows-from))) {
			k := rowKey(from+int64(i), rows)
			insert.BindBytes(1, k[:])
			insert.BindInt64(2, 1_800_000_000_000+from)
			insert.BindInt64(3, from+int64(i))
			if _, err := insert.Step(); err != nil {
				return err
			}
			if err := insert.Reset(); err != nil {
				return err
			}
		}
		if err := sqlitex.ExecuteTransient(c, "COMMIT", nil); err != nil {
			return err
		}
		if done := min(rows, from+window); done == rows || done%1_000_000 == 0 {
			o.say("made %s of %s rows in %.0f s", thousands(done), thousands(rows), time.Since(began).Seconds())
		}
	}
	return nil
}

// say reports progress.
func (o *options) say(format string, args ...any) {
	// Who does not read it can still have the tables.
	_, _ = fmt.Fprintf(o.log, format+"\n", args...)
}

// copyFile copies a file and makes the copy durable, so that the system can
// forget it.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}

// sortedKeys returns n keys of a cache in ascending order, evenly spread.
func sortedKeys(n, rows int64) []tlog.Key {
	n = min(n, rows)
	keys := make([]tlog.Key, n)
	for i := range keys {
		keys[i] = rowKey(int64(i)*(rows/n), rows)
	}
	slices.SortFunc(keys, func(a, b tlog.Key) int { return bytes.Compare(a[:], b[:]) })
	return keys
}

// readers is how many pages are read at a time.
const readers = 16

// readPages reads a file into memory page by page, as random gets would do. What
// the system reads ahead stands in memory in large pieces, and one changed page
// then makes it write a whole one.
func readPages(f *os.File, pages int64) error {
	if err := noReadAhead(f); err != nil {
		return err
	}
	var g errgroup.Group
	for w := range int64(readers) {
		g.Go(func() error {
			page := make([]byte, pageSize)
			for n := w; n < pages; n += readers {
				if _, err := f.ReadAt(page, n*pageSize); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
