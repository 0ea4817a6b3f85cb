package crash

import (
	"errors"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// sql runs statements on a database of the log, which is made if it is not there.
func (l *logDir) sql(t testing.TB, name, statements string) {
	t.Helper()
	c, err := sqlite.OpenConn(l.at(name), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	if err := sqlitex.ExecuteScript(c, statements, nil); err != nil {
		t.Fatal(err)
	}
}

// column returns the first column of the only row of a query.
func (l *logDir) column(t testing.TB, name, query string) (b []byte) {
	t.Helper()
	c, err := sqlite.OpenConn(l.at(name), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		b = make([]byte, row.ColumnLen(0))
		row.ColumnBytes(0, b)
		return nil
	}})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

// afterPut is a place of death after two seconds of rounds, by when keys were put
// in the cache, and its WAL is there.
const afterPut = "discard:after:40"

// killedHere returns a log whose process was killed just now, with its WALs.
func killedHere(t *testing.T, plan string) *subject {
	t.Helper()
	s := fork(t, false)
	s.killAt(t, plan)
	return s
}

// TestCacheLost: a lost cache costs duplicates, and nothing else (S8); one
// that is damaged, or not a cache, is refused.
func TestCacheLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		spoil      func(t *testing.T, s *subject)
		refused    string
		says       string
		duplicates bool
	}{
		{name: "deleted", spoil: func(t *testing.T, s *subject) { s.remove(t, "cache.db") }, says: "the dedup cache was missing and starts empty", duplicates: true},
		{name: "cut to nothing", spoil: func(t *testing.T, s *subject) { s.write(t, "cache.db", nil) }, says: "the dedup cache was missing and starts empty", duplicates: true},
		{name: "cut to half", spoil: func(t *testing.T, s *subject) {
			b := s.read(t, "cache.db")
			s.write(t, "cache.db", b[:len(b)/2])
		}, refused: "is malformed: move the file away"},
		{name: "zeroed", spoil: func(t *testing.T, s *subject) { s.write(t, "cache.db", make([]byte, len(s.read(t, "cache.db")))) }, refused: "file is not a database: move the file away"},
		{name: "text", spoil: func(t *testing.T, s *subject) { s.write(t, "cache.db", []byte("a shopping list\n")) }, refused: "move the file away"},
		{name: "of another program", spoil: func(t *testing.T, s *subject) {
			s.remove(t, "cache.db")
			s.sql(t, "cache.db", "CREATE TABLE bookmarks (url TEXT)")
		}, refused: "so it belongs to another program: move the file away"},
		{name: "the lock in its place", spoil: func(t *testing.T, s *subject) { s.swap(t, "cache.db", "lock.db") }, refused: "this is not the lock database of a log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fork(t, false)
			c.spoil(t, s)
			if c.refused != "" {
				if message := s.refuses(t, how{}); !strings.Contains(message, c.refused) {
					t.Errorf("refused with\n%s\nwant\n%s", message, c.refused)
				}
				return
			}
			p := s.serve(t, how{})
			p.says(t, c.says)
			s.MayMove(c.duplicates)
			s.Resubmit(t.Context(), p.Addr, 100)
			s.fill(t, p, 40)
			duplicates := s.sound(t, p)
			if got := duplicates > 0; got != c.duplicates {
				t.Errorf("%d entries were logged twice", duplicates)
			}
			t.Logf("%d entries were logged twice", duplicates)
		})
	}
}

// TestDamagedCache: a page of the cache that is gone makes the lookups that come
// to it fail, which is an answer of its own: not a miss, and no promise.
func TestDamagedCache(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		starts bool
		misses bool // SQLite reads zeros for what was cut off, so a row or two are gone
	}{
		{"a page zeroed", func(b []byte) []byte { clear(b[len(b)-4096:]); return b }, true, false},
		{"the last page cut", func(b []byte) []byte { return b[:len(b)-4096] }, false, false},
		{"cut within a page", func(b []byte) []byte { return b[:len(b)-100] }, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fork(t, false)
			s.write(t, "cache.db", c.damage(s.read(t, "cache.db")))
			if c.starts {
				p := s.serve(t, how{})
				s.MayMove(c.misses)
				var list []uint64
				for n := range uint64(300) {
					list = append(list, n)
				}
				s.All(t.Context(), p.Addr, list, func(uint64, int) {})
				t.Logf("answers by status: %v", s.Counts().Statuses)
				if n := s.sound(t, p); n > 0 && !c.misses {
					t.Errorf("%d entries were logged twice", n)
				}
				p.kill()
			} else {
				t.Log(s.refuses(t, how{}))
			}
			s.remove(t, "cache.db", "cache.db-wal", "cache.db-shm")
			s.MayMove(true)
			p := s.serve(t, how{})
			s.Resubmit(t.Context(), p.Addr, 100)
			s.sound(t, p)
		})
	}
}
