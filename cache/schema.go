package cache

import (
	"errors"
	"fmt"
	"slices"

	"zombiezen.com/go/sqlite"
)

// ErrFormat means that the file is not a dedup cache. Its content was not changed.
var ErrFormat = errors.New("not a dedup cache")

// advice follows an ErrFormat.
const advice = "move the file away (with its -wal and -shm files) and start again: an empty cache is made, and losing the old one costs duplicate entries only"

// schema is the table of the cache. Sunlight makes the same one, so that a
// cache can change hands in both directions.
const schema = `CREATE TABLE cache256 (key BLOB PRIMARY KEY, timestamp INTEGER NOT NULL, leaf_index INTEGER NOT NULL) WITHOUT ROWID, STRICT`

const (
	selectSQL     = `SELECT timestamp, leaf_index FROM cache256 WHERE key = ?`
	checkpointSQL = `PRAGMA wal_checkpoint(RESTART)`
	insertSQL     = `INSERT INTO cache256 (key, timestamp, leaf_index) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING`
)

// columns are the rows of PRAGMA table_info: cid, name, type, notnull,
// dflt_value, pk. A primary key without a rowid is NOT NULL without saying so.
var columns = [][]string{
	{"0", "key", "BLOB", "1", "", "1"},
	{"1", "timestamp", "INTEGER", "1", "", "0"},
	{"2", "leaf_index", "INTEGER", "1", "", "0"},
}

// checkSchema reports whether the database is empty, or what keeps it from
// being a dedup cache. It only reads.
func checkSchema(c *sqlite.Conn) (empty bool, err error) {
	names, err := query(c, `SELECT name FROM sqlite_schema WHERE type = 'table'`)
	if err != nil {
		switch sqlite.ErrCode(err).ToPrimary() {
		case sqlite.ResultNotADB, sqlite.ResultCorrupt:
			return false, fmt.Errorf("%w: %w: %s", ErrFormat, err, advice)
		}
		return false, fmt.Errorf("reading the schema: %w", err)
	}
	if len(names) == 0 {
		return true, nil
	}
	if !slices.ContainsFunc(names, func(row []string) bool { return row[0] == "cache256" }) {
		return false, fmt.Errorf("%w: database has a table %q but none called cache256, so it belongs to another program: %s", ErrFormat, names[0][0], advice)
	}
	got, err := query(c, `PRAGMA table_info(cache256)`)
	if err != nil {
		return false, fmt.Errorf("reading the columns: %w", err)
	}
	if !slices.EqualFunc(got, columns, slices.Equal[[]string]) {
		return false, fmt.Errorf("%w: table cache256 has columns %v, not %v: %s", ErrFormat, got, columns, advice)
	}
	kind, err := query(c, `SELECT type, wr, strict FROM pragma_table_list('cache256') WHERE schema = 'main'`)
	if err != nil {
		return false, fmt.Errorf("reading the table's kind: %w", err)
	}
	if len(kind) != 1 || !slices.Equal(kind[0], []string{"table", "1", "1"}) {
		return false, fmt.Errorf("%w: cache256 is not a table WITHOUT ROWID, STRICT: %s", ErrFormat, advice)
	}
	return false, nil
}
