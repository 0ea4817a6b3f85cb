package fsck

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/tlog"
)

// testLog is a log with all its stores, and with all that is needed to damage
// them.
type testLog struct {
	place  string // holds data, lock.db and cache.db
	signer *checkpoint.Signer
	edge   *tlog.Edge
	leaves []tlog.Leaf
	time   int64 // timestamp of the checkpoint
	heads  [][]byte
}

func (l *testLog) dir() string   { return filepath.Join(l.place, "data") }
func (l *testLog) lock() string  { return filepath.Join(l.place, "lock.db") }
func (l *testLog) cache() string { return filepath.Join(l.place, "cache.db") }

const (
	testOrigin = "log.example/2027h1"
	testSize   = 600           // two full tiles and a partial one of 88
	startTime  = 1767225600000 // 2026-01-01, before any clock of today
)

func newSigner(t testing.TB, seed byte) *checkpoint.Signer {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(bytes.Repeat([]byte{seed}, checkpoint.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.NewSigner(testOrigin, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// entryMaker makes entries of one CA. It is safe for concurrent use.
type entryMaker struct {
	ca *testca.CA
}

var maker = sync.OnceValues(func() (*entryMaker, error) {
	ca, err := testca.New(testca.Options{Intermediates: 2})
	return &entryMaker{ca}, err
})

func newMaker(t testing.TB) *entryMaker {
	t.Helper()
	m, err := maker()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// entry makes entry number n; every third one is a final certificate.
func (m *entryMaker) entry(t testing.TB, n uint64) *tlog.Entry {
	t.Helper()
	l := testca.Leaf{Precert: n%3 != 0, NotBefore: time.UnixMilli(startTime), NotAfter: time.UnixMilli(startTime).Add(90 * 24 * time.Hour)}
	c, err := m.ca.Make(n, l)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := cert.Parse(c.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	var chain []tlog.Fingerprint
	for _, der := range m.ca.Issuers() {
		chain = append(chain, sha256.Sum256(der))
	}
	var e *tlog.Entry
	if l.Precert {
		e, err = tlog.NewPrecertEntry(c.SignedEntry, m.ca.IssuerKeyHash(), c.Certificates[0], chain, parsed.NamesJSON())
	} else {
		e, err = tlog.NewX509Entry(c.Certificates[0], chain, parsed.NamesJSON())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// newLog makes an empty log.
func newLog(t testing.TB, place string) *testLog {
	t.Helper()
	l := &testLog{place: place, signer: newSigner(t, 1), edge: tlog.NewEdge(), time: startTime}
	m := newMaker(t)
	for _, der := range m.ca.Issuers() {
		l.write(t, fmt.Sprintf("issuer/%x", sha256.Sum256(der)), der)
	}
	newLogInfo(t, l, l.signer)
	l.write(t, "_roots.pem", m.ca.RootPEM())
	l.sign(t)
	l.setLock(t, l.heads[0])
	l.withCache(t, func(*cache.DB) {})
	return l
}

// grow appends entries in one round of the log.
func (l *testLog) grow(t testing.TB, entries ...*tlog.Entry) {
	t.Helper()
	l.time += 200
	var leaves []tlog.Leaf
	var records []storage.Record
	for _, e := range entries {
		leaf := tlog.Leaf{Entry: e, Position: tlog.Position{Index: int64(len(l.leaves) + len(leaves)), Timestamp: l.time}}
		leaves = append(leaves, leaf)
		records = append(records, storage.Record{Key: e.Key(), Position: leaf.Position})
	}
	edge, growth, err := l.edge.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range growth.Objects {
		l.write(t, o.Name, o.Data)
	}
	l.edge, l.leaves = edge, append(l.leaves, leaves...)
	l.sign(t)
	l.setLock(t, l.heads[len(l.heads)-1])
	l.withCache(t, func(db *cache.DB) {
		if err := db.Put(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	})
}

// sign publishes a checkpoint of the tree.
func (l *testLog) sign(t testing.TB) {
	t.Helper()
	signed, err := l.signer.SignTreeHead(l.edge.Tree(), l.time)
	if err != nil {
		t.Fatal(err)
	}
	l.heads = append(l.heads, signed)
	l.write(t, "checkpoint", signed)
}

// setLock puts a checkpoint in the lock.
func (l *testLog) setLock(t testing.TB, signed []byte) {
	t.Helper()
	lock, err := sqlitelock.Open(l.lock(), sqlitelock.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	id := l.signer.LogID()
	old, err := lock.Fetch(t.Context(), id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		err = lock.Create(t.Context(), id, signed)
	case err == nil:
		err = lock.Swap(t.Context(), id, old, signed)
	}
	if err := errors.Join(err, lock.Close()); err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) withCache(t testing.TB, f func(*cache.DB)) {
	t.Helper()
	db, err := cache.Open(l.cache(), cache.Options{Create: true, PageCache: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// sql runs a statement on a database, past all who own it.
func sql(t testing.TB, path, statement string, args ...any) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(c, statement, &sqlitex.ExecOptions{Args: args})
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) write(t testing.TB, name string, data []byte) {
	t.Helper()
	path := filepath.Join(l.dir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// Others may be reading, so the file is replaced whole, as a store does it.
	whole := l.dir() + ".whole"
	if err := os.WriteFile(whole, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, path); err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *testLog) remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(l.dir(), name)); err != nil {
		t.Fatal(err)
	}
}

// content and setContent see what is in a compressed tile.
func (l *testLog) content(t testing.TB, name string) []byte {
	t.Helper()
	b, err := tlog.Decompress(l.read(t, name), 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *testLog) setContent(t testing.TB, name string, b []byte) {
	t.Helper()
	l.write(t, name, tlog.Compress(b))
}

// makeLog makes a log of testSize entries, with partial tiles of earlier sizes.
func makeLog(t testing.TB, place string) *testLog {
	t.Helper()
	l := newLog(t, place)
	m := newMaker(t)
	for _, n := range []int{1, 254, 1, 100, 0, 244} {
		var entries []*tlog.Entry
		for i := range n {
			entries = append(entries, m.entry(t, uint64(len(l.leaves)+i)))
		}
		l.grow(t, entries...)
	}
	if len(l.leaves) != testSize {
		t.Fatalf("test log has %d entries", len(l.leaves))
	}
	return l
}

// copyOf returns a copy of a log in a place of its own.
func copyOf(t testing.TB, l *testLog) *testLog {
	t.Helper()
	c := *l
	c.place = t.TempDir()
	if err := os.CopyFS(c.place, os.DirFS(l.place)); err != nil {
		t.Fatal(err)
	}
	return &c
}

// snapshot returns all files of a place, to see that nothing was changed.
func snapshot(t testing.TB, place string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(place, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// options are those of a check of all.
func (l *testLog) options() Options {
	return Options{Directory: l.dir(), Lock: l.lock(), Cache: l.cache(), All: true, Grace: time.Millisecond}
}

func check(t testing.TB, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newLogInfo writes the log.v3.json of a signer.
func newLogInfo(t testing.TB, l *testLog, s *checkpoint.Signer) {
	t.Helper()
	id := s.LogID()
	info, err := json.Marshal(map[string]string{
		"log_id":         base64.StdEncoding.EncodeToString(id[:]),
		"key":            base64.StdEncoding.EncodeToString(s.PublicKey()),
		"submission_url": "https://" + testOrigin + "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, "log.v3.json", info)
}
