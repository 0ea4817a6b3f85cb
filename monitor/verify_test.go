package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

var testClient = ClientOptions{Retries: -1}

func verifyLog(t testing.TB, prefix string, o Options) (*Report, error) {
	t.Helper()
	c, err := NewClient(prefix, testClient)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o.Client = c
	return Verify(t.Context(), o)
}

func mustVerify(t testing.TB, prefix string, o Options) *Report {
	t.Helper()
	r, err := verifyLog(t, prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bothLogs runs a test on our own log and on one that others made.
func bothLogs(t *testing.T, f func(t *testing.T, l *testLog)) {
	t.Run("own", func(t *testing.T) { f(t, ownLog(t)) })
	t.Run("taken", func(t *testing.T) { f(t, takenLog(t)) })
}

func TestVerify(t *testing.T) {
	bothLogs(t, func(t *testing.T, l *testLog) {
		var last Progress
		r := mustVerify(t, serve(t, l.handler(t)), Options{Signatures: true, Progress: func(p Progress) {
			if p.Tiles != last.Tiles+1 || p.TotalTiles != 3 || p.Bytes < last.Bytes {
				t.Errorf("progress %+v after %+v", p, last)
			}
			last = p
		}})
		if r.Tree.N != testSize || r.Entries != testSize || r.DataTiles != 3 || r.NamesTiles != 3 || r.HashTiles != 4 || r.Timestamp != l.time || r.Checkpoints != 1 {
			t.Errorf("report %+v", r)
		}
		// The issuers above the first are checked once, or once a worker.
		if r.Issuers < 2 || r.Signatures < testSize || r.Precerts < 1 || r.Origin != l.signer.Origin() || r.LogID != l.signer.LogID() {
			t.Errorf("report %+v", r)
		}
		if last.Entries != testSize {
			t.Errorf("last progress %+v", last)
		}
	})
}

// TestSizes visits sizes at which tiles are empty, full or the first.
func TestSizes(t *testing.T) {
	b := newBuilder(t, t.TempDir())
	prefix := serve(t, b.handler(t))
	for _, grow := range []int{0, 1, 1, 253, 1, 1, 255, 1} {
		b.grow(t, grow)
		if r := mustVerify(t, prefix, Options{}); r.Entries != b.size {
			t.Errorf("size %d: report %+v", b.size, r)
		}
	}
}

// corruption is one way to break a log, and the fault that must come of it.
type corruption struct {
	name   string
	do     func(t *testing.T, l *testLog)
	object string
	entry  int64
	what   string
}

func flip(name string, at int) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		b := l.read(t, name)
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 1
		l.write(t, name, b)
	}
}

// flipContent flips a bit of the content of a compressed tile.
func flipContent(name string, at int) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		b := l.readGzip(t, name)
		b[at] ^= 1
		l.writeGzip(t, name, b)
	}
}

func swap(a, b string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		first, second := l.read(t, a), l.read(t, b)
		l.write(t, a, second)
		l.write(t, b, first)
	}
}

func remove(names ...string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		for _, name := range names {
			l.remove(t, name)
		}
	}
}

func edit(name, from, to string) func(*testing.T, *testLog) {
	return func(t *testing.T, l *testLog) {
		b := l.read(t, name)
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("%s has no %q", name, from)
		}
		l.write(t, name, bytes.Replace(b, []byte(from), []byte(to), 1))
	}
}

// signed publishes a checkpoint of the given tree under the log's own key.
func (l *testLog) signed(t *testing.T, tree tlog.Tree, timestamp int64) {
	t.Helper()
	b, err := l.signer.SignTreeHead(tree, timestamp)
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, "checkpoint", b)
}

// treeAt returns the tree that the log had at an earlier size.
func (l *testLog) treeAt(t *testing.T, size int64) tlog.Tree {
	t.Helper()
	edge := map[int][]tlog.Hash{}
	for _, tile := range tlog.HashTiles(size) {
		name := tile.Path()
		for w := tile.W; w <= tlog.TileWidth; w++ { // narrower tiles may be gone
			wider := tlog.Tile{L: tile.L, N: tile.N, W: w}
			if _, err := os.Stat(filepath.Join(l.dir, wider.Path())); err == nil {
				name = wider.Path()
			}
		}
		hashes, err := tlog.ParseHashTile(tile, l.read(t, name)[:tile.W*32])
		if err != nil {
			t.Fatal(err)
		}
		edge[tile.L] = hashes
	}
	return tlog.Tree{N: size, Hash: edgeRoot(func(i int) []tlog.Hash { return edge[i] })}
}

func (l *testLog) firstIssuer(t *testing.T) string {
	t.Helper()
	leaf, _, err := tlog.ReadTileLeaf(l.readGzip(t, "tile/data/000"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("issuer/%x", leaf.Entry.Chain()[0])
}

var corruptions = []corruption{
	{name: "flip in full hash tile", do: flip("tile/0/001", 32*7), object: "tile/0/001", entry: -1, what: "does not hash to hash 1 of tile/1/000.p/2"},
	{name: "flip in partial hash tile", do: flip("tile/0/002.p/88", 32*5+3), object: "tile/0/002.p/88", entry: 517, what: "hash 5 is not that of what it stands for"},
	{name: "flip in upper hash tile", do: flip("tile/1/000.p/2", 40), object: "tile/1/000.p/2", entry: -1, what: "hash 1 is not that of what it stands for"},
	{name: "flip in stored data tile", do: flip("tile/data/000", 5000), object: "tile/data/000", entry: -1, what: "does not decompress"},
	{name: "flip in certificate", do: flipContent("tile/data/000", 200), object: "tile/data/000", entry: 0, what: "leaf does not have the hash in tile/0/000"},
	{name: "flip in leaf timestamp", do: flipContent("tile/data/001", 7), object: "tile/data/001", entry: 256, what: "leaf does not have the hash"},
	{name: "flip in entry type", do: flipContent("tile/data/001", 8), object: "tile/data/001", entry: 256, what: "malformed TileLeaf"},
	{name: "flip in checkpoint root", do: func(t *testing.T, l *testLog) {
		lines := bytes.SplitN(l.read(t, "checkpoint"), []byte("\n"), 4)
		if lines[2][0]++; lines[2][0] == 'Z'+1 || lines[2][0] == 'z'+1 || lines[2][0] == '9'+1 {
			lines[2][0] = 'B'
		}
		l.write(t, "checkpoint", bytes.Join(lines, []byte("\n")))
	}, object: "checkpoint", entry: -1, what: "invalid signature"},
	{name: "checkpoint is not a note", do: func(t *testing.T, l *testLog) { l.write(t, "checkpoint", []byte(l.signer.Origin()+"\nnonsense\n")) }, object: "checkpoint", entry: -1, what: "malformed note"},
	{name: "checkpoint of another log", do: func(t *testing.T, l *testLog) {
		l.signer = newSigner(t, "other.example", 9)
		l.signed(t, l.treeAt(t, testSize), l.time)
	}, object: "checkpoint", entry: -1, what: `is of another log: got "other.example", want`},
	{name: "checkpoint by another key", do: func(t *testing.T, l *testLog) {
		l.signer = newSigner(t, l.signer.Origin(), 9)
		l.signed(t, l.treeAt(t, testSize), l.time)
	}, object: "checkpoint", entry: -1, what: "no signature with the log's key"},
	{name: "checkpoint of another tree", do: func(t *testing.T, l *testLog) {
		l.signed(t, tlog.Tree{N: testSize, Hash: tlog.Hash{1}}, l.time)
	}, object: "checkpoint", entry: -1, what: "does not hash to the root"},
	{name: "checkpoint of another tree, and a broken tile", do: func(t *testing.T, l *testLog) {
		l.signed(t, tlog.Tree{N: testSize, Hash: tlog.Hash{1}}, l.time)
		flip("tile/0/001", 32*7)(t, l)
	}, object: "checkpoint", entry: -1, what: "does not hash to the root"},
	{name: "checkpoint beyond the tiles", do: func(t *testing.T, l *testLog) {
		l.signed(t, tlog.Tree{N: testSize + 1, Hash: tlog.Hash{1}}, l.time)
	}, object: "tile/0/002.p/89", entry: -1, what: "not served (404), nor is the full tile"},
	{name: "checkpoint before its leaves", do: func(t *testing.T, l *testLog) {
		l.signed(t, l.treeAt(t, testSize), l.time-100000)
	}, object: "tile/data/000", entry: -2, what: "timestamp is after the checkpoint's"},
	{name: "no checkpoint", do: remove("checkpoint"), object: "checkpoint", entry: -1, what: "not served (404)"},
	{name: "no log info", do: remove("log.v3.json"), object: "log.v3.json", entry: -1, what: "give the log's key and origin"},
	{name: "log info is not JSON", do: func(t *testing.T, l *testLog) { l.write(t, "log.v3.json", []byte("<html>")) }, object: "log.v3.json", entry: -1, what: "is not JSON"},
	{name: "log ID of another key", do: edit("log.v3.json", "\"log_id\"", "\"log_id\": \"AAAA\", \"old_id\""), object: "log.v3.json", entry: -1, what: "log_id is not the SHA-256 of key: got AAAA, want"},
	{name: "no hash tile", do: remove("tile/0/000"), object: "tile/0/000", entry: -1, what: "not served (404)"},
	{name: "no partial hash tile", do: remove("tile/1/000.p/2"), object: "tile/1/000.p/2", entry: -1, what: "not served (404), nor is the full tile"},
	{name: "no data tile", do: remove("tile/data/001"), object: "tile/data/001", entry: -1, what: "not served (404)"},
	{name: "no names tile", do: remove("tile/names/001"), object: "tile/names/001", entry: -1, what: "not served (404)"},
	{name: "no last names tile", do: remove("tile/names/002.p/88"), object: "tile/names/002.p/88", entry: -1, what: "not served (404)"},
	{name: "no issuer", do: func(t *testing.T, l *testLog) { l.remove(t, l.firstIssuer(t)) }, object: "issuer/", entry: 0, what: "not served (404)"},
	{name: "flip in issuer", do: func(t *testing.T, l *testLog) { flip(l.firstIssuer(t), -1)(t, l) }, object: "issuer/", entry: 0, what: "does not hash to its name"},
	{name: "other issuer", do: func(t *testing.T, l *testLog) { l.write(t, l.firstIssuer(t), []byte("nonsense")) }, object: "issuer/", entry: 0, what: "does not hash to its name"},
	{name: "swapped hash tiles", do: swap("tile/0/000", "tile/0/001"), object: "tile/0/000", entry: -1, what: "does not hash to hash 0 of tile/1/000.p/2"},
	{name: "swapped data tiles", do: swap("tile/data/000", "tile/data/001"), object: "tile/data/000", entry: 0, what: "wrong leaf_index: got 256, want 0"},
	{name: "swapped names tiles", do: swap("tile/names/000", "tile/names/001"), object: "tile/names/000", entry: 0, what: "got"},
	{name: "truncated gzip", do: func(t *testing.T, l *testLog) {
		b := l.read(t, "tile/data/001")
		l.write(t, "tile/data/001", b[:len(b)/2])
	}, object: "tile/data/001", entry: -1, what: "gzip stream is cut short"},
	{name: "truncated before gzip", do: func(t *testing.T, l *testLog) {
		b := l.readGzip(t, "tile/data/001")
		l.writeGzip(t, "tile/data/001", b[:len(b)/2])
	}, object: "tile/data/001", entry: -2, what: "malformed TileLeaf"},
	{name: "entries missing", do: func(t *testing.T, l *testLog) { l.writeGzip(t, "tile/data/002.p/88", nil) }, object: "tile/data/002.p/88", entry: -1, what: "ends early: got 0 entries, want 88"},
	{name: "entries too many", do: func(t *testing.T, l *testLog) {
		l.writeGzip(t, "tile/data/001", append(l.readGzip(t, "tile/data/001"), l.readGzip(t, "tile/data/002.p/88")...))
	}, object: "tile/data/001", entry: -1, what: "goes on after 256 entries"},
	{name: "compressed twice", do: func(t *testing.T, l *testLog) { l.writeGzip(t, "tile/data/001", l.read(t, "tile/data/001")) }, object: "tile/data/001", entry: -1, what: "served without Content-Encoding"},
	{name: "hash tile too short", do: func(t *testing.T, l *testLog) { l.write(t, "tile/0/000", l.read(t, "tile/0/000")[:8000]) }, object: "tile/0/000", entry: -1, what: "wrong length in bytes: got 8000, want 8192"},
	{name: "hash tile too long", do: func(t *testing.T, l *testLog) { l.write(t, "tile/0/000", make([]byte, 1<<20)) }, object: "tile/0/000", entry: -1, what: "more than 8192 bytes"},
	{name: "names of another name", do: func(t *testing.T, l *testLog) {
		b := l.readGzip(t, "tile/names/001")
		lines := bytes.SplitAfter(b, []byte("\n"))
		lines[3] = bytes.ReplaceAll(lines[3], []byte(`"DNS":["`), []byte(`"DNS":["evil.`))
		l.writeGzip(t, "tile/names/001", bytes.Join(lines, nil))
	}, object: "tile/names/001", entry: 259, what: "line is not what the certificate says"},
	{name: "names of another time", do: func(t *testing.T, l *testLog) {
		b := l.readGzip(t, "tile/names/000")
		l.writeGzip(t, "tile/names/000", bytes.Replace(b, []byte(`{"Timestamp":`), []byte(`{"Timestamp":9`), 1))
	}, object: "tile/names/000", entry: 0, what: "timestamp is not the entry's: got 9"},
	{name: "names line is not JSON", do: func(t *testing.T, l *testLog) {
		l.writeGzip(t, "tile/names/000", bytes.Replace(l.readGzip(t, "tile/names/000"), []byte("{"), []byte("["), 1))
	}, object: "tile/names/000", entry: 0, what: "not a JSON object"},
	{name: "names lines missing", do: func(t *testing.T, l *testLog) { l.writeGzip(t, "tile/names/001", nil) }, object: "tile/names/001", entry: -1, what: "ends early: got 0 lines, want 256"},
	{name: "names lines too many", do: func(t *testing.T, l *testLog) {
		l.writeGzip(t, "tile/names/001", append(l.readGzip(t, "tile/names/001"), "{}\n"...))
	}, object: "tile/names/001", entry: -1, what: "goes on after 256 lines, with 3 bytes"},
	{name: "first of two", do: func(t *testing.T, l *testLog) {
		remove("tile/data/002.p/88", "tile/data/000")(t, l)
	}, object: "tile/data/000", entry: -1, what: "not served"},
}

// TestCorruptions: each fault is reported as what it is, where it is.
func TestCorruptions(t *testing.T) {
	bothLogs(t, func(t *testing.T, whole *testLog) {
		for _, c := range corruptions {
			t.Run(c.name, func(t *testing.T) {
				l := copyOf(t, whole)
				c.do(t, l)
				r, err := verifyLog(t, serve(t, l.handler(t)), Options{Workers: 3})
				wantFault(t, r, err, c.object, c.entry, c.what)
			})
		}
	})
}

// wantFault checks an error: entry -1 stands for none, -2 for any.
func wantFault(t *testing.T, r *Report, err error, object string, entry int64, what string) {
	t.Helper()
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("verified: %v, error %v, want a fault that says %q", r != nil, err, what)
	}
	if f.Object != object && (!strings.HasSuffix(object, "/") || !strings.HasPrefix(f.Object, object)) {
		t.Errorf("%v: object %q, want %q", err, f.Object, object)
	}
	if f.Entry != entry && (entry != -2 || f.Entry < 0) {
		t.Errorf("%v: entry %d, want %d", err, f.Entry, entry)
	}
	if !strings.Contains(err.Error(), what) {
		t.Errorf("%v: want it to say %q", err, what)
	}
	if errors.Is(err, ErrUnavailable) {
		t.Errorf("%v: is called unavailable", err)
	}
}

func TestWrongKey(t *testing.T) {
	l := ownLog(t)
	prefix := serve(t, l.handler(t))
	other := newSigner(t, "other.example", 9)
	if r := mustVerify(t, prefix, Options{Origin: l.signer.Origin(), Key: l.signer.PublicKey()}); r.Entries != testSize {
		t.Errorf("report %+v", r)
	}
	r, err := verifyLog(t, prefix, Options{Key: other.PublicKey()})
	wantFault(t, r, err, "checkpoint", -1, "no signature with the log's key")
	r, err = verifyLog(t, prefix, Options{Origin: "other.example"})
	wantFault(t, r, err, "checkpoint", -1, "is of another log")
	if _, err := verifyLog(t, prefix, Options{Key: []byte("no key")}); err == nil || errors.As(err, new(*Fault)) {
		t.Errorf("malformed key given by the caller: %v, want an error that does not blame the log", err)
	}
	l.write(t, "log.v3.json", bytes.ReplaceAll(l.read(t, "log.v3.json"), []byte("https://log.example"), []byte("https://elsewhere.example")))
	r, err = verifyLog(t, prefix, Options{})
	wantFault(t, r, err, "checkpoint", -1, "is of another log")
}

// TestKnown: checkpoints seen before must lie in the log's past.
func TestKnown(t *testing.T) {
	bothLogs(t, func(t *testing.T, l *testLog) {
		sign := func(tree tlog.Tree, timestamp int64) []byte {
			b, err := l.signer.SignTreeHead(tree, timestamp)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		prefix := serve(t, l.handler(t))
		var known [][]byte
		for _, size := range []int64{0, 1, 17, 255, 256, 257, 511, 512, 513, 599, 600} {
			known = append(known, sign(l.treeAt(t, size), l.time-1000+size))
		}
		if r := mustVerify(t, prefix, Options{Known: known}); r.Checkpoints != len(known)+1 {
			t.Errorf("%d checkpoints, want %d", r.Checkpoints, len(known)+1)
		}
		for size := int64(50); size <= testSize; size += 50 {
			r, err := verifyLog(t, prefix, Options{Known: [][]byte{sign(tlog.Tree{N: size, Hash: tlog.Hash{7}}, l.time-1)}})
			wantFault(t, r, err, "checkpoint", -1, "two histories")
		}
		r, err := verifyLog(t, prefix, Options{Known: [][]byte{sign(tlog.Tree{N: testSize + 1, Hash: tlog.Hash{7}}, l.time+1)}})
		wantFault(t, r, err, "checkpoint", -1, "size has gone back")
		r, err = verifyLog(t, prefix, Options{Known: [][]byte{sign(l.treeAt(t, testSize), l.time+1)}})
		wantFault(t, r, err, "checkpoint", -1, "timestamp has gone back")
		if _, err := verifyLog(t, prefix, Options{Known: [][]byte{[]byte("x")}}); err == nil || errors.As(err, new(*Fault)) {
			t.Errorf("malformed known checkpoint: %v, want an error that does not blame the log", err)
		}

		// A log that went back to an earlier state of its own.
		was := l.read(t, "checkpoint")
		l.signed(t, l.treeAt(t, 560), l.time-1)
		r, err = verifyLog(t, prefix, Options{Known: [][]byte{was}})
		wantFault(t, r, err, "checkpoint", -1, "size has gone back")
	})
}

// TestGrowth: the log may grow, and may only grow, while it is read.
func TestGrowth(t *testing.T) {
	change := func(t *testing.T, then func(b *builder)) (*Report, error) {
		b := newBuilder(t, t.TempDir())
		b.grow(t, 300)
		before := copyOf(t, b.testLog).handler(t)
		then(b)
		after := b.handler(t)
		var reads atomic.Int64
		return verifyLog(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/checkpoint" {
				reads.Add(1)
			}
			if reads.Load() < 2 {
				before.ServeHTTP(w, r)
				return
			}
			after.ServeHTTP(w, r)
		})), Options{})
	}
	r, err := change(t, func(b *builder) { b.grow(t, 500) })
	if err != nil || r.Checkpoints != 2 || r.Tree.N != 300 || r.LatestSize != 800 {
		t.Errorf("report %+v, error %v", r, err)
	}
	r, err = change(t, func(b *builder) { b.time += 5; b.sign(t) })
	if err != nil || r.Checkpoints != 2 || r.LatestSize != 300 {
		t.Errorf("report %+v, error %v", r, err)
	}
	r, err = change(t, func(b *builder) { b.time -= 5; b.sign(t) })
	wantFault(t, r, err, "checkpoint", -1, "timestamp went back while")
	r, err = change(t, func(b *builder) { b.signed(t, b.treeAt(t, 299), b.time+1) })
	wantFault(t, r, err, "checkpoint", -1, "size went back while")
	r, err = change(t, func(b *builder) { b.signed(t, tlog.Tree{N: 300, Hash: tlog.Hash{1}}, b.time+1) })
	wantFault(t, r, err, "checkpoint", -1, "does not hash to the root")
	r, err = change(t, func(b *builder) {
		fork := newBuilder(t, b.dir)
		fork.time = b.time + 1
		fork.grow(t, 301)
	})
	wantFault(t, r, err, "checkpoint", -1, "two histories")
}

// TestFallback is clause S25: no partial tile but those that the checkpoint
// implies is asked for, and the full one stands in for one that is gone.
func TestFallback(t *testing.T) {
	b := newBuilder(t, t.TempDir())
	b.grow(t, 300)
	was := b.read(t, "checkpoint")
	b.grow(t, 300)
	b.write(t, "checkpoint", was)
	for _, kind := range []string{"0", "data", "names"} {
		b.remove(t, "tile/"+kind+"/001.p/44")
	}
	h := b.handler(t)
	asked := make(chan string, 1000)
	r := mustVerify(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- strings.TrimPrefix(r.URL.Path, "/")
		h.ServeHTTP(w, r)
	})), Options{})
	close(asked)
	if r.Entries != 300 || r.NamesTiles != 2 {
		t.Errorf("report %+v", r)
	}
	for name := range asked {
		tile, err := tlog.ParseTilePath(name)
		if err != nil || tile.W == tlog.TileWidth {
			continue
		}
		if want := (300 >> (8 * max(tile.L, 0))) % 256; tile.W != want {
			t.Errorf("asked for %s, want only width %d at this level", name, want)
		}
	}
}

func TestWithoutNames(t *testing.T) {
	l := ownLog(t)
	if err := os.RemoveAll(filepath.Join(l.dir, "tile", "names")); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, serve(t, l.handler(t)), Options{}); r.NamesTiles != 0 || r.Entries != testSize {
		t.Errorf("report %+v", r)
	}
}

// TestForeignNames: the same content may be written in another way.
func TestForeignNames(t *testing.T) {
	l := ownLog(t)
	b := l.readGzip(t, "tile/names/000")
	b = bytes.ReplaceAll(b, []byte(`,"Subject"`), []byte(`, "Other": {"x":[1]}, "IP": [], "Subject"`))
	l.writeGzip(t, "tile/names/000", b)
	if r := mustVerify(t, serve(t, l.handler(t)), Options{}); r.NamesTiles != 3 {
		t.Errorf("report %+v", r)
	}
}

func TestPromises(t *testing.T) {
	b := newBuilder(t, t.TempDir())
	b.grow(t, 1500)
	prefix := serve(t, b.handler(t))
	promise := func(i int) Promise { return Promise{Key: b.leaves[i].Entry.Key(), Position: b.leaves[i].Position} }
	all := []Promise{promise(1499), promise(0), promise(0), promise(700), promise(255), promise(256)}
	r := mustVerify(t, prefix, Options{Promises: all, PromisesOnly: true})
	if r.Promises != 6 || r.DataTiles != 4 || r.Entries != 3*256+220 {
		t.Errorf("report %+v", r)
	}
	if r := mustVerify(t, prefix, Options{Promises: all}); r.Promises != 6 || r.DataTiles != 6 {
		t.Errorf("report %+v", r)
	}
	if r := mustVerify(t, prefix, Options{PromisesOnly: true}); r.DataTiles != 0 {
		t.Errorf("report %+v", r)
	}
	for _, c := range []struct {
		change func(*Promise)
		object string
		what   string
	}{
		{func(p *Promise) { p.Key[31] ^= 1 }, "tile/data/002", "is not the promised entry"},
		{func(p *Promise) { p.Index++ }, "tile/data/002", "is not the promised entry"},
		{func(p *Promise) { p.Timestamp++ }, "tile/data/002", "does not have the promised timestamp"},
		{func(p *Promise) { p.Index = 1500 }, "checkpoint", "promised, but the tree has only 1500 entries"},
	} {
		p := promise(700)
		c.change(&p)
		r, err := verifyLog(t, prefix, Options{Promises: append([]Promise{p}, all...), PromisesOnly: true})
		wantFault(t, r, err, c.object, p.Index, c.what)
	}
	r, err := verifyLog(t, prefix, Options{Promises: []Promise{{Position: tlog.Position{Index: -1}}}})
	wantFault(t, r, err, "checkpoint", -1, "is no place in a tree")
}

// TestBadEntries are logs that hash and sign rightly what they should not have
// logged.
func TestBadEntries(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, b *builder, good *tlog.Entry) (*tlog.Entry, error)
		what string
	}{
		{"no certificate", func(_ *testing.T, _ *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewX509Entry([]byte("no certificate"), e.Chain(), nil)
		}, "certificate does not parse"},
		{"precertificate as final", func(_ *testing.T, _ *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewX509Entry(e.Precertificate(), e.Chain(), nil)
		}, "x509 entry holds a precertificate"},
		{"final as precertificate", func(t *testing.T, b *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewPrecertEntry(e.Certificate(), e.IssuerKeyHash(), b.entry(t, 3).Certificate(), e.Chain(), nil)
		}, "without the poison extension"},
		{"other issuer key", func(_ *testing.T, _ *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewPrecertEntry(e.Certificate(), [32]byte{1}, e.Precertificate(), e.Chain(), nil)
		}, "issuer_key_hash is not that of the issuer"},
		{"other TBSCertificate", func(t *testing.T, b *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewPrecertEntry(b.entry(t, 7).Certificate(), e.IssuerKeyHash(), e.Precertificate(), e.Chain(), nil)
		}, "TBSCertificate is not that of the precertificate"},
		{"precertificate without issuers", func(_ *testing.T, _ *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewPrecertEntry(e.Certificate(), e.IssuerKeyHash(), e.Precertificate(), nil, nil)
		}, "precert entry has no issuers"},
		{"chain without the first issuer", func(_ *testing.T, _ *builder, e *tlog.Entry) (*tlog.Entry, error) {
			return tlog.NewX509Entry(e.Certificate(), e.Chain()[1:], nil)
		}, "certificate does not parse"}, // a TBSCertificate is no certificate
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, t.TempDir())
			b.grow(t, 5)
			e, err := c.make(t, b, b.entry(t, 5))
			if err != nil {
				t.Fatal(err)
			}
			b.add(t, e)
			b.grow(t, 3)
			r, err := verifyLog(t, serve(t, b.handler(t)), Options{})
			wantFault(t, r, err, "tile/data/000.p/9", 5, c.what)
		})
	}
}

// TestSignatures: a chain that does not certify its leaf is found, if asked for.
func TestSignatures(t *testing.T) {
	for _, c := range []struct {
		name  string
		chain func(e *tlog.Entry) []tlog.Fingerprint
		ok    bool
	}{
		{"whole chain", func(e *tlog.Entry) []tlog.Fingerprint { return e.Chain() }, true},
		{"first issuer missing", func(e *tlog.Entry) []tlog.Fingerprint { return e.Chain()[1:] }, false},
		{"second issuer missing", func(e *tlog.Entry) []tlog.Fingerprint { return []tlog.Fingerprint{e.Chain()[0], e.Chain()[2]} }, false},
		{"out of order", func(e *tlog.Entry) []tlog.Fingerprint {
			return []tlog.Fingerprint{e.Chain()[0], e.Chain()[2], e.Chain()[1]}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t, t.TempDir())
			b.grow(t, 5)
			good := b.entry(t, 6)
			e, err := tlog.NewX509Entry(good.Certificate(), c.chain(good), namesOf(t, good))
			if err != nil {
				t.Fatal(err)
			}
			b.add(t, e)
			prefix := serve(t, b.handler(t))
			mustVerify(t, prefix, Options{})
			r, err := verifyLog(t, prefix, Options{Signatures: true})
			if c.ok {
				if err != nil || r.Signatures < 8 {
					t.Errorf("report %+v, error %v", r, err)
				}
				return
			}
			wantFault(t, r, err, "tile/data/000.p/6", 5, "was not signed by")
		})
	}
}

// TestServedName ties the names that the monitor asks for to the ones a log
// may serve.
func TestServedName(t *testing.T) {
	l := ownLog(t)
	h := l.handler(t)
	mustVerify(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.URL.Path, "/"); !storage.KindOf(name).Public() || r.Header.Get("User-Agent") == "" || r.URL.RawQuery != "" {
			t.Errorf("request for %s", r.URL)
		}
		h.ServeHTTP(w, r)
	})), Options{})
}

// TestStops: after a fault, what lies behind it is not downloaded.
func TestStops(t *testing.T) {
	l := ownLog(t)
	l.remove(t, "tile/data/000")
	h := l.handler(t)
	r, err := verifyLog(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tile/data/001" {
			t.Error("the tile after the fault was read")
		}
		h.ServeHTTP(w, r)
	})), Options{Workers: 1})
	wantFault(t, r, err, "tile/data/000", -1, "not served")
}
