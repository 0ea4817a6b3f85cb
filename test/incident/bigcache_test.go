package incident

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/tlog"
)

// TestBigCache: what is made is a dedup cache with all the rows; it is made once; and
// the program's own code finds them.
func TestBigCache(t *testing.T) {
	const rows = 20_000
	dir := filepath.Join(t.TempDir(), "made", "too")
	path, err := BigCache(t.Context(), dir, rows, ignore)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	count := func(sql string) (n int64) {
		t.Helper()
		if err := sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			n = s.ColumnInt64(0)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("SELECT count(*) FROM cache256"); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
	if n := count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"); n != 1 {
		t.Error("the database is damaged")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := BigCache(t.Context(), dir, rows, ignore)
	if err != nil || again != path {
		t.Fatal(again, err)
	}
	if is, err := os.Stat(path); err != nil || !os.SameFile(is, was) || is.ModTime() != was.ModTime() {
		t.Errorf("it was made again: %v", err)
	}
	db, err := cache.Open(path, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := int64(0); i < rows; i += 97 {
		key, timestamp, index := row(i, rows)
		p, ok, err := db.Get(t.Context(), tlog.Key(key))
		if err != nil || !ok || p != (tlog.Position{Timestamp: timestamp, Index: index}) {
			t.Fatalf("row %d: %v, %v, %v", i, p, ok, err)
		}
	}
}

// TestBigCacheInterrupted: half a cache is not taken for a whole one.
func TestBigCacheInterrupted(t *testing.T) {
	dir := t.TempDir()
	if path, err := BigCache(canceled, dir, rowsPerTransaction+1, ignore); err == nil {
		t.Fatalf("it made %s", path)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRowsAreSorted: bulk inserts go by the order of keys.
func TestRowsAreSorted(t *testing.T) {
	for _, rows := range []int64{1, 1000, 10_000_000} {
		before, _, _ := row(0, rows)
		for i := int64(1); i < min(rows, 1000); i++ {
			key, timestamp, index := row(i, rows)
			if bytes.Compare(before[:], key[:]) >= 0 || timestamp <= 0 || index < 0 || index >= rows {
				t.Fatalf("row %d of %d: %x at %d, %d after %x", i, rows, key, index, timestamp, before)
			}
			before = key
		}
		if last, _, _ := row(rows-1, rows); rows > 1 && last[0] < 0xff-byte(255/rows) {
			t.Errorf("the last of %d keys is %x: they are not spread", rows, last)
		}
	}
}
