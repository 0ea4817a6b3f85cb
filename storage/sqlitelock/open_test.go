package sqlitelock

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/storage"
)

// execute makes a database by SQL.
func execute(t *testing.T, path, sql string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteScript(c, sql, nil), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFiles: a file of something else is refused, with Options.Create
// too, and left alone.
func TestForeignFiles(t *testing.T) {
	for name, sql := range map[string]string{
		"cache":             "CREATE TABLE cache256 (key BLOB PRIMARY KEY, timestamp INTEGER NOT NULL, leaf_index INTEGER NOT NULL) WITHOUT ROWID, STRICT",
		"other columns":     "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
		"more columns":      "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB NOT NULL, etag TEXT) STRICT",
		"text":              "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body TEXT NOT NULL) STRICT",
		"nullable":          "CREATE TABLE checkpoints (logID BLOB PRIMARY KEY, body BLOB) STRICT",
		"several registers": "CREATE TABLE checkpoints (logID BLOB, body BLOB NOT NULL) STRICT",
	} {
		path := filepath.Join(t.TempDir(), "lock.db")
		execute(t, path, sql)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, create := range []bool{false, true} {
			l, err := Open(path, Options{Create: create})
			if err == nil {
				_ = l.Close()
			}
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s, create %v: %v, want ErrForeign and the path", name, create, err)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: file was changed (%v)", name, err)
		}
	}

	path := filepath.Join(t.TempDir(), "lock.db")
	garbage := bytes.Repeat([]byte("no database\n"), 1000)
	if err := os.WriteFile(path, garbage, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Create: true}); !errors.Is(err, ErrForeign) {
		t.Errorf("garbage: %v, want ErrForeign", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(garbage, after) {
		t.Errorf("garbage was changed (%v)", err)
	}
	if _, err := Open(t.TempDir(), Options{Create: true}); !errors.Is(err, ErrForeign) {
		t.Errorf("directory: %v, want ErrForeign", err)
	}
}

// TestCreateNeedsDirectory: the directory of a lock is not made by accident.
func TestCreateNeedsDirectory(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "absent", "lock.db"), Options{Create: true}); err == nil {
		t.Error("lock was made in a directory that does not exist")
	}
	if _, err := os.Stat(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory was made: %v", err)
	}
}

// TestCreateAgain: the file is shared by several logs, so creating one opens
// what is there; so does a creation after one that crashed halfway.
func TestCreateAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, path, Options{Create: true})
	if err := l.Create(t.Context(), [32]byte{1}, []byte("a")); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, path, Options{Create: true})
	if got, err := other.Fetch(t.Context(), [32]byte{1}); err != nil || string(got) != "a" {
		t.Errorf("fetch: %q, %v", got, err)
	}
}

// TestSettingsNotInForce: what SQLite silently does not do is an error.
func TestSettingsNotInForce(t *testing.T) {
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := prepareDatabase(c, true); err == nil || !strings.Contains(err.Error(), `journal_mode is "memory" in force, not "wal"`) {
		t.Errorf("database that cannot have a WAL: %v", err)
	}
	if err := pragma(c, "synchronous", "OFF", "2"); err == nil || !strings.Contains(err.Error(), "synchronous") {
		t.Errorf("synchronous off: %v", err)
	}
	if err := pragma(c, "no_such_setting", "1", "1"); err == nil {
		t.Error("unknown setting: no error")
	}

	path := filepath.Join(t.TempDir(), "lock.db")
	if err := openTest(t, path, Options{Create: true}).Close(); err != nil {
		t.Fatal(err)
	}
	ro, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ro.Close() }()
	if err := prepareDatabase(ro, false); err == nil || !strings.Contains(err.Error(), "cannot be written to") {
		t.Errorf("database that is write-protected: %v", err)
	}
}

// TestFlippedBits: a damaged database may give an error, or bytes whose
// signature does not verify, but it never says that a register is absent.
func TestFlippedBits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.db")
	l := openTest(t, path, Options{Create: true})
	id := [32]byte{31: 7}
	for i := range id[:31] {
		id[i] = byte(i * 37)
	}
	body := bytes.Repeat([]byte("checkpoint\n"), 300)
	if err := l.Create(t.Context(), id, body); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, wrong := 0, 0
	for i := 0; i < len(good); i += 31 {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path, Options{})
		if err != nil {
			if errors.Is(err, ErrAbsent) || errors.Is(err, storage.ErrNotFound) {
				t.Errorf("bit flipped in byte %d: open says %v", i, err)
			}
			refused++
			continue
		}
		switch got, err := l.Fetch(t.Context(), id); {
		case errors.Is(err, storage.ErrNotFound):
			t.Errorf("bit flipped in byte %d: fetch says %v", i, err)
		case err != nil:
			refused++
		case !bytes.Equal(got, body):
			wrong++
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("of %d flipped bits %d were refused, %d gave other bytes", (len(good)+30)/31, refused, wrong)
	if refused == 0 || wrong == 0 {
		t.Error("the flipped bits did not reach the tables")
	}
}

// TestOpenFoldsWAL: what a lock says after it was opened stands in the database
// itself, and its WAL begins anew. The WAL of a process that was killed may
// never have reached the disk.
func TestOpenFoldsWAL(t *testing.T) {
	path, id := filepath.Join(t.TempDir(), "lock.db"), [32]byte{1}
	l, err := Open(path, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Create(t.Context(), id, []byte("one")), l.Swap(t.Context(), id, []byte("one"), []byte("two"))); err != nil {
		t.Fatal(err)
	}
	killed := copyLock(t, path, "", "-wal")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(killed + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("the copy has no WAL: %v", err)
	}
	if got := fetch(t, copyLock(t, killed, ""), id); got == "two" {
		t.Fatal("the database has the last register without its WAL: nothing is tested")
	}
	// A link, as the WAL stands where it leads.
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(killed, link); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(link, Options{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(killed + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the WAL does not begin anew: %v, %v", info, err)
	}
	if got := fetch(t, copyLock(t, killed, ""), id); got != "two" {
		t.Errorf("the database alone has the register %q", got)
	}
	if err := errors.Join(l.Swap(t.Context(), id, []byte("two"), []byte("three")), l.Close()); err != nil {
		t.Error(err)
	}
}

// TestOpenWaitsForReaders: a WAL that somebody reads cannot begin anew.
func TestOpenWaitsForReaders(t *testing.T) {
	path, id := filepath.Join(t.TempDir(), "lock.db"), [32]byte{1}
	l, err := Open(path, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Create(t.Context(), id, []byte("one")); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "SELECT * FROM checkpoints"} {
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	if second, err := Open(path, Options{BusyTimeout: 10 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "another process keeps it busy") {
		t.Errorf("opened beside a reader: %v, %v", second, err)
	}
	if err := errors.Join(c.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyLock copies some files of a database to a new directory.
func copyLock(t *testing.T, path string, suffixes ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "lock.db")
	for _, suffix := range suffixes {
		b, err := os.ReadFile(path + suffix)
		if err := errors.Join(err, os.WriteFile(to+suffix, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// fetch reads a register without the code under test, "" if there is none.
func fetch(t *testing.T, path string, id [32]byte) (body string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, "SELECT body FROM checkpoints WHERE logID = ?", &sqlitex.ExecOptions{Args: []any{id[:]},
		ResultFunc: func(row *sqlite.Stmt) error { body = row.ColumnText(0); return nil }})
	if err != nil && !strings.Contains(err.Error(), "no such table") {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return body
}
