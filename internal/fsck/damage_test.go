package fsck

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// expected is a finding that must come; what is a part of its text with values.
type expected struct {
	object string
	entry  int64
	count  int64
	what   string
}

// damage is one way to break a log, and all that must be found.
type damageCase struct {
	name string
	do   func(t *testing.T, l *testLog)
	want []expected
}

func flip(name string, at int) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		b := l.read(t, name)
		b[(at+len(b))%len(b)] ^= 1
		l.write(t, name, b)
	}
}

// flipContent flips a bit of what is in a compressed tile.
func flipContent(name string, at int) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		b := l.content(t, name)
		b[at] ^= 1
		l.setContent(t, name, b)
	}
}

func swap(a, b string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		first, second := l.read(t, a), l.read(t, b)
		l.write(t, a, second)
		l.write(t, b, first)
	}
}

func remove(name string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) { l.remove(t, name) }
}

func truncate(name string, to int) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) { l.write(t, name, l.read(t, name)[:to]) }
}

func add(name string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) { l.write(t, name, []byte("something")) }
}

// both does one damage after another.
func both(a, b func(*testing.T, *testLog)) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) { a(t, l); b(t, l) }
}

// issuer returns the name of the first issuer of the entries.
func (l *testLog) issuer() string { return fmt.Sprintf("issuer/%x", l.leaves[0].Entry.Chain()[0]) }

func (l *testLog) key(n int) []byte {
	k := l.leaves[n].Entry.Key()
	return k[:]
}

// cacheSQL runs a statement on the cache.
func cacheSQL(statement string, args func(l *testLog) []any) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) { sql(t, l.cache(), statement, args(l)...) }
}

var foreignKey = bytes.Repeat([]byte{0x55}, 32)

func damages() []damageCase {
	return []damageCase{
		{"hash tile: flip", flip("tile/0/001", 32*7), []expected{{"tile/0/001", 263, 1, "does not hash to hash 1 of tile/1/000.p/2: its hash 7 is wrong"}}},
		{"hash tile: two flips", both(flip("tile/0/001", 32*7), flip("tile/0/001", 32*9)), []expected{{"tile/0/001", -1, 0, "its hashes [7 9] are wrong"}}},
		{"hash tile: removed", remove("tile/0/000"), []expected{{"tile/0/000", -1, 0, "is missing"}}},
		{"hash tile: truncated", truncate("tile/0/001", 8000), []expected{{"tile/0/001", -1, 0, "wrong length in bytes: got 8000, want 8192"}}},
		{"hash tile: empty", truncate("tile/0/001", 0), []expected{{"tile/0/001", -1, 0, "wrong length in bytes: got 0"}}},
		{"hash tile: swapped", swap("tile/0/000", "tile/0/001"), []expected{
			{"tile/0/000", -1, 0, "does not hash to hash 0 of tile/1/000.p/2: 256 of its hashes are wrong"},
			{"tile/0/001", -1, 0, "does not hash to hash 1 of tile/1/000.p/2: 256 of its hashes are wrong"}}},
		{"hash tile: too long", func(t *testing.T, l *testLog) { l.write(t, "tile/0/000", make([]byte, 1<<20)) }, []expected{{"tile/0/000", -1, 0, "more than 8192 bytes"}}},
		{"last hash tile: flip", flip("tile/0/002.p/88", 32*5+3), []expected{{"tile/0/002.p/88", 517, 1, "hash 5 is not that of what it stands for"}}},
		{"last hash tile: removed", remove("tile/0/002.p/88"), []expected{{"tile/0/002.p/88", -1, 0, "is missing, nor is the full tile"}}},
		{"last hash tile: truncated", truncate("tile/0/002.p/88", 32), []expected{{"tile/0/002.p/88", -1, 0, "wrong length"}}},
		{"upper hash tile: flip", flip("tile/1/000.p/2", 40), []expected{{"tile/1/000.p/2", -1, 0, "hash 1 is not that of what it stands for"}}},
		{"upper hash tile: removed", remove("tile/1/000.p/2"), []expected{{"tile/1/000.p/2", -1, 0, "is missing"}}},
		{"upper and last hash tile: flips", both(flip("tile/1/000.p/2", 40), flip("tile/0/002.p/88", 0)), []expected{
			{"tile/0/002.p/88", 512, 1, "hash 0 is not"}, {"tile/1/000.p/2", -1, 0, "hash 1 is not"}}},
		{"upper hash tile and the one below: flips", both(flip("tile/1/000.p/2", 40), flip("tile/0/000", 0)), []expected{
			{"tile/0/000", 0, 1, "its hash 0 is wrong"}, {"tile/1/000.p/2", -1, 0, "hash 1 is not"}}},
		{"hash tile and its data tile: different entries", both(flip("tile/0/001", 32*7), flipContent("tile/data/001", 7)), []expected{
			{"tile/0/001", 263, 1, "its hash 7 is wrong"}, {"tile/data/001", 256, 1, "leaf does not have the hash in tile/0/001"}, {CacheObject, 0, 0, ""}}},

		{"data tile: flip in what is stored", flip("tile/data/000", 5000), []expected{{"tile/data/000", -1, 0, "does not decompress"}, {CacheObject, 0, 0, ""}}},
		{"data tile: flip in a certificate", flipContent("tile/data/000", 200), []expected{{"tile/data/000", 0, 1, "leaf does not have the hash in tile/0/000"}, {CacheObject, 0, 0, ""}}},
		{"data tile: flip in a timestamp", flipContent("tile/data/001", 7), []expected{{"tile/data/001", 256, 1, "leaf does not have the hash"}, {CacheObject, 0, 0, ""}}},
		{"data tile: removed", remove("tile/data/001"), []expected{{"tile/data/001", -1, 0, "is missing"}, {CacheObject, 0, 0, ""}}},
		{"data tile: truncated", truncate("tile/data/001", 10000), []expected{{"tile/data/001", -1, 0, "gzip stream is cut short"}, {CacheObject, 0, 0, ""}}},
		{"data tile: swapped", swap("tile/data/000", "tile/data/001"), []expected{
			{"tile/data/000", 0, 256, "wrong leaf_index: got 256, want 0"}, {"tile/data/001", 256, 256, "wrong leaf_index: got 0, want 256"}, {CacheObject, 0, 0, ""}}},
		{"last data tile: removed", remove("tile/data/002.p/88"), []expected{{"tile/data/002.p/88", -1, 0, "is missing"}, {CacheObject, 0, 0, ""}}},
		{"last data tile: an entry too many", func(t *testing.T, l *testLog) {
			b := l.content(t, "tile/data/002.p/88")
			l.setContent(t, "tile/data/002.p/88", l.leaves[0].AppendTileLeaf(b))
		}, []expected{{"tile/data/002.p/88", -1, 0, "goes on after 88 entries"}}},

		{"names tile: flip in what is stored", flip("tile/names/000", 300), []expected{{"tile/names/000", -1, 0, "does not decompress"}}},
		{"names tile: removed", remove("tile/names/001"), []expected{{"tile/names/001", -1, 0, "is missing"}}},
		{"names tile: truncated", truncate("tile/names/001", 100), []expected{{"tile/names/001", -1, 0, "cut short"}}},
		{"names tile: another name", func(t *testing.T, l *testLog) {
			lines := bytes.SplitAfter(l.content(t, "tile/names/001"), []byte("\n"))
			for _, i := range []int{3, 5} {
				lines[i] = bytes.ReplaceAll(lines[i], []byte(`"DNS":["`), []byte(`"DNS":["evil.`))
			}
			l.setContent(t, "tile/names/001", bytes.Join(lines, nil))
		}, []expected{{"tile/names/001", 259, 2, "line is not what the certificate says"}}},
		{"names tile: a line too few", func(t *testing.T, l *testLog) {
			lines := bytes.SplitAfter(l.content(t, "tile/names/002.p/88"), []byte("\n"))
			l.setContent(t, "tile/names/002.p/88", bytes.Join(lines[:87], nil))
		}, []expected{{"tile/names/002.p/88", -1, 0, "ends early: got 87 lines, want 88"}}},

		{"issuer: flip", func(t *testing.T, l *testLog) { flip(l.issuer(), 100)(t, l) }, []expected{{"issuer/", 0, testSize, "does not hash to its name"}}},
		{"issuer: removed", func(t *testing.T, l *testLog) { l.remove(t, l.issuer()) }, []expected{{"issuer/", 0, testSize, "is missing"}}},
		{"issuer: that no entry has, damaged", add("issuer/" + strings.Repeat("ab", 32)), []expected{{"issuer/" + strings.Repeat("ab", 32), -1, 0, "does not hash to its name"}}},
		{"issuer: that no entry has, no certificate", func(t *testing.T, l *testLog) {
			l.write(t, fmt.Sprintf("issuer/%x", sha256.Sum256([]byte("no certificate"))), []byte("no certificate"))
		}, []expected{{fmt.Sprintf("issuer/%x", sha256.Sum256([]byte("no certificate"))), -1, 0, "does not parse"}}},

		{"checkpoint: flip", flip("checkpoint", 30), []expected{{"checkpoint", -1, 0, ""}}},
		{"checkpoint: removed", remove("checkpoint"), []expected{{"checkpoint", -1, 0, "is missing"}}},
		{"checkpoint: truncated", truncate("checkpoint", 100), []expected{{"checkpoint", -1, 0, "malformed note"}}},
		{"checkpoint: flip in a signature that nobody verifies", func(t *testing.T, l *testLog) {
			for at := range l.read(t, "checkpoint") {
				flip("checkpoint", at)(t, l)
				if head, err := l.signer.Verifier().Verify(l.read(t, "checkpoint")); err == nil && head.Tree == l.edge.Tree() {
					return
				}
				flip("checkpoint", at)(t, l)
			}
			t.Fatal("every bit is verified")
		}, []expected{{"checkpoint", -1, 0, "says what the lock's says, but in other bytes"}}},
		{"checkpoint: an older one", func(t *testing.T, l *testLog) { l.write(t, "checkpoint", l.heads[4]) }, []expected{
			{LockObject, -1, 0, "is newer than the published checkpoint: a round was not finished"}}},
		{"log.v3.json: removed", remove("log.v3.json"), []expected{{"log.v3.json", -1, 0, "is missing"}}},
		{"log.v3.json: flip", flip("log.v3.json", 20), []expected{{"log.v3.json", -1, 0, ""}}},
		{"log.v3.json: of another key", func(t *testing.T, l *testLog) { newLogInfo(t, l, newSigner(t, 9)) }, []expected{{"log.v3.json", -1, 0, "is of a log with another key"}}},
		{"_roots.pem: flip in a boundary", flip("_roots.pem", 2), []expected{{"_roots.pem", -1, 0, "1 of 1 roots are not well-formed PEM"}}},
		{"_roots.pem: flip in a certificate", func(t *testing.T, l *testLog) {
			b := l.read(t, "_roots.pem")
			b[40] = '!'
			l.write(t, "_roots.pem", b)
		}, []expected{{"_roots.pem", -1, 0, "1 of 1 roots are not well-formed PEM"}}},

		{"lock: older", func(t *testing.T, l *testLog) { l.setLock(t, l.heads[3]) }, []expected{{LockObject, -1, 0, "is older than the published checkpoint: do not start the log"}}},
		{"lock: older, of the same tree", func(t *testing.T, l *testLog) { l.setLock(t, l.signed(t, l.edge.Tree(), l.time-1)) },
			[]expected{{LockObject, -1, 0, "is older than the published checkpoint"}}},
		{"lock: newer", func(t *testing.T, l *testLog) {
			l.edge = mustAppend(t, l)
			signed, err := l.signer.SignTreeHead(l.edge.Tree(), l.time+1)
			if err != nil {
				t.Fatal(err)
			}
			l.setLock(t, signed)
		}, []expected{{LockObject, -1, 0, "is newer than the published checkpoint"}}},
		{"lock: newer, of the same tree", func(t *testing.T, l *testLog) { l.setLock(t, l.signed(t, l.edge.Tree(), l.time+1)) },
			[]expected{{LockObject, -1, 0, "is newer than the published checkpoint"}}},
		{"lock: forked", func(t *testing.T, l *testLog) {
			l.setLock(t, l.signed(t, tlog.Tree{N: testSize, Hash: tlog.Hash{1}}, l.time))
		},
			[]expected{{LockObject, -1, 0, "the log has forked"}}},
		{"lock: without the log", func(t *testing.T, l *testLog) { sql(t, l.lock(), "DELETE FROM checkpoints") }, []expected{{LockObject, -1, 0, "has no register of this log"}}},
		{"lock: flip in the register", func(t *testing.T, l *testLog) {
			b := bytes.Clone(l.heads[len(l.heads)-1])
			b[30] ^= 1
			sql(t, l.lock(), "UPDATE checkpoints SET body = ?", b)
		}, []expected{{LockObject, -1, 0, ""}}},
		{"lock: removed", func(t *testing.T, l *testLog) { removeFile(t, l.lock()) }, []expected{{LockObject, -1, 0, "there is no lock database"}}},
		{"lock: zeroed", func(t *testing.T, l *testLog) { writeFile(t, l.lock(), make([]byte, 8192)) }, []expected{{LockObject, -1, 0, "the database is damaged"}}},
		{"lock: empty", func(t *testing.T, l *testLog) { writeFile(t, l.lock(), nil) }, []expected{{LockObject, -1, 0, "it is empty"}}},
		{"lock: of another program", func(t *testing.T, l *testLog) { sql(t, l.lock(), "DROP TABLE checkpoints") }, []expected{{LockObject, -1, 0, "it is of something else"}}},
		{"lock: flip in its page", func(t *testing.T, l *testLog) { flipFile(t, l.lock(), 4096+3) }, []expected{{LockObject, -1, 0, "damaged"}}},

		{"cache: wrong index", cacheSQL("UPDATE cache256 SET leaf_index = 9 WHERE key = ?", func(l *testLog) []any { return []any{l.key(5)} }),
			[]expected{{CacheObject, 5, 1, "points at entry 9, which is another entry; its own stands at 5"}}},
		{"cache: wrong index before", cacheSQL("UPDATE cache256 SET leaf_index = 300 WHERE key = ?", func(l *testLog) []any { return []any{l.key(500)} }),
			[]expected{{CacheObject, 500, 1, "points at entry 300, which is another entry; its own stands at 500"}}},
		{"cache: index beyond the tree", cacheSQL("UPDATE cache256 SET leaf_index = 600 WHERE key = ?", func(l *testLog) []any { return []any{l.key(5)} }),
			[]expected{{CacheObject, 5, 1, "points at entry 600, beyond the 600 of the tree; its entry stands at 5"}}},
		{"cache: impossible index", cacheSQL("UPDATE cache256 SET leaf_index = -1 WHERE key = ?", func(l *testLog) []any { return []any{l.key(5)} }),
			[]expected{{CacheObject, 5, 1, "points at entry -1, beyond the 600 of the tree; its entry stands at 5"}}},
		{"cache: wrong timestamp", cacheSQL("UPDATE cache256 SET timestamp = 7 WHERE key = ?", func(l *testLog) []any { return []any{l.key(5)} }),
			[]expected{{CacheObject, 5, 1, "has another timestamp than the entry: got 7, want " + fmt.Sprint(startTime+400)}}},
		{"cache: extra row", cacheSQL("INSERT INTO cache256 VALUES (?, 7, 300)", func(*testLog) []any { return []any{foreignKey} }),
			[]expected{{CacheObject, 300, 1, "row of key 5555"}}},
		{"cache: extra row beyond the tree", cacheSQL("INSERT INTO cache256 VALUES (?, 7, 700)", func(*testLog) []any { return []any{foreignKey} }),
			[]expected{{CacheObject, 700, 1, "rows point beyond the tree: got row of key 5555555555555555555555555555555555555555555555555555555555555555, want entries below 600"}}},
		{"cache: row with a short key", cacheSQL("INSERT INTO cache256 VALUES (?, 7, 3)", func(*testLog) []any { return []any{foreignKey[:5]} }),
			[]expected{{CacheObject, -1, 0, "key of 5 bytes: 5555555555"}}},
		{"cache: rows missing", cacheSQL("DELETE FROM cache256 WHERE leaf_index IN (7, 590)", func(*testLog) []any { return nil }),
			[]expected{{CacheObject, 7, 2, "has no row of entries"}}},
		{"cache: another key", cacheSQL("UPDATE cache256 SET key = ? WHERE leaf_index = 300", func(*testLog) []any { return []any{foreignKey} }),
			[]expected{{CacheObject, 300, 1, "has no row of entries"}, {CacheObject, 300, 1, "row of key 5555"}}},
		{"cache: two rows changed places", cacheSQL("UPDATE cache256 SET leaf_index = 13 - leaf_index WHERE leaf_index IN (6, 7)", func(*testLog) []any { return nil }),
			[]expected{{CacheObject, 6, 1, "points at entry 7, which is another entry; its own stands at 6"}, {CacheObject, 7, 1, "points at entry 6, which is another entry; its own stands at 7"}}},
		{"cache: removed", func(t *testing.T, l *testLog) { removeFile(t, l.cache()) }, []expected{{CacheObject, -1, 0, "there is no dedup cache"}}},
		{"cache: zeroed", func(t *testing.T, l *testLog) { writeFile(t, l.cache(), make([]byte, 8192)) }, []expected{{CacheObject, -1, 0, "damaged"}}},
		{"cache: truncated", func(t *testing.T, l *testLog) { truncateFile(t, l.cache(), 4096) }, []expected{{CacheObject, -1, 0, "damaged"}}},
		{"cache: of another program", func(t *testing.T, l *testLog) { sql(t, l.cache(), "ALTER TABLE cache256 RENAME TO other") }, []expected{{CacheObject, -1, 0, "it is of something else"}}},

		{"leftover: temporary file", add(".tmp-ABC"), []expected{{".tmp-ABC", -1, 0, "temporary file"}}},
		{"leftover: staging bundle", add("staging/700-" + strings.Repeat("ab", 32)), []expected{{"staging/700-" + strings.Repeat("ab", 32), -1, 0, "staging bundle"}}},
		{"leftover: foreign files", both(add("index.html"), add("tile/0/000~")), []expected{{"index.html", -1, 0, "does not belong"}, {"tile/0/000~", -1, 0, "does not belong"}}},
		{"leftover: tiles beyond the tree", both(add("tile/0/003"), add("tile/data/002.p/89")), []expected{
			{"tile/0/003", -1, 0, "belongs to a larger tree"}, {"tile/data/002.p/89", -1, 0, "belongs to a larger tree"}}},
		{"leftover: link", func(t *testing.T, l *testLog) {
			if err := os.Symlink("../../checkpoint", filepath.Join(l.dir(), "tile/0/005")); err != nil {
				t.Fatal(err)
			}
		}, []expected{{"tile/0/005", -1, 0, "is not a regular file"}}},

		{"all at once", both(both(flip("tile/0/001", 0), flipContent("tile/data/000", 200)), both(remove("tile/names/001"), both(add("x"), func(t *testing.T, l *testLog) { l.setLock(t, l.heads[3]) }))),
			[]expected{{"tile/0/001", 256, 1, "its hash 0 is wrong"}, {"tile/data/000", 0, 1, "leaf does not"}, {"tile/names/001", -1, 0, "is missing"},
				{"x", -1, 0, "does not belong"}, {LockObject, -1, 0, "is older"}, {CacheObject, 0, 0, ""}}},
	}
}

// TestDamage: everything that is damaged is found, as what it is, where it is,
// and nothing else is said to be.
func TestDamage(t *testing.T) {
	whole := makeLog(t, t.TempDir())
	for _, c := range damages() {
		t.Run(c.name, func(t *testing.T) {
			l := copyOf(t, whole)
			c.do(t, l)
			before := snapshot(t, l.place)
			o := l.options()
			// The log's own key and origin, as an operator has them.
			o.Key, o.Origin = l.signer.PublicKey(), testOrigin
			r := check(t, o)
			wantFindings(t, r, c.want)
			for path, b := range snapshot(t, l.place) {
				if before[path] != b {
					t.Errorf("%s was changed", path)
				}
			}
		})
	}
}

// wantFindings compares findings. An expected one of the cache without text says
// that nothing may be found there, although leaves cannot be read.
func wantFindings(t *testing.T, r *Report, want []expected) {
	t.Helper()
	left := r.Findings
	for _, w := range want {
		if w.object == CacheObject && w.what == "" {
			continue
		}
		found := false
		for i, f := range left {
			object := f.Object == w.object || w.object == "issuer/" && strings.HasPrefix(f.Object, w.object)
			if found = object && f.Entry == w.entry && f.Count == w.count && strings.Contains(f.String(), w.what); found {
				left = append(left[:i:i], left[i+1:]...)
				break
			}
		}
		if !found {
			t.Errorf("not found: %+v", w)
		}
	}
	for _, f := range left {
		t.Errorf("found, but not expected: %v (entry %d, count %d)", f, f.Entry, f.Count)
	}
	if r.Count != int64(len(r.Findings)) {
		t.Errorf("%d findings are counted, %d are there", r.Count, len(r.Findings))
	}
}

func (l *testLog) signed(t *testing.T, tree tlog.Tree, at int64) []byte {
	t.Helper()
	b, err := l.signer.SignTreeHead(tree, at)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustAppend(t *testing.T, l *testLog) *tlog.Edge {
	t.Helper()
	e := newMaker(t).entry(t, testSize)
	edge, _, err := l.edge.Append([]tlog.Leaf{{Entry: e, Position: tlog.Position{Index: int64(len(l.leaves)), Timestamp: l.time + 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return edge
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func truncateFile(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func flipFile(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0xff
	writeFile(t, path, b)
}

// TestCopies: an entry that is in the log twice has one row, of either: a cache that
// was lost knows the second only, and a log must not be called damaged for that ever after.
func TestCopies(t *testing.T) {
	l := makeLog(t, t.TempDir())
	l.grow(t, l.leaves[5].Entry, l.leaves[300].Entry)
	if r := check(t, l.options()); r.Count != 0 || r.Matched != testSize || r.Duplicates != 2 || r.Entries != testSize+2 {
		t.Fatalf("report %+v", r)
	}
	sql(t, l.cache(), "UPDATE cache256 SET leaf_index = 600, timestamp = ? WHERE key = ?", l.leaves[600].Timestamp, l.key(5))
	if r := check(t, l.options()); r.Count != 0 || r.Matched != testSize || r.Duplicates != 2 || r.Rows != testSize {
		t.Errorf("a row of the second: report %+v", r)
	}
	sql(t, l.cache(), "UPDATE cache256 SET timestamp = 7 WHERE key = ?", l.key(5))
	wantFindings(t, check(t, l.options()), []expected{{CacheObject, 600, 1, "another timestamp"}})
}

// TestDamagedRowOfLostTile: what is not known is not found.
func TestDamagedRowOfLostTile(t *testing.T) {
	l := makeLog(t, t.TempDir())
	l.remove(t, "tile/data/000")
	l.remove(t, "tile/0/000")
	l.withCache(t, func(db *cache.DB) {
		if err := db.Put(t.Context(), []storage.Record{{Key: tlog.Key(foreignKey), Position: tlog.Position{Index: 5}}}); err != nil {
			t.Fatal(err)
		}
	})
	wantFindings(t, check(t, l.options()), []expected{{"tile/data/000", -1, 0, "is missing"}, {"tile/0/000", -1, 0, "is missing"}})
}
