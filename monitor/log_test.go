package monitor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/readpath"
	"github.com/daybook-ct/daybook/tlog"
)

// testLog is a log on disk with all that is needed to make it lie.
type testLog struct {
	dir    string
	signer *checkpoint.Signer
	size   int64
	time   int64 // timestamp of the checkpoint
}

const testSize = 600 // two full tiles and a partial one of 88

// newSigner returns the signer of a test log.
func newSigner(t testing.TB, origin string, seed byte) *checkpoint.Signer {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(append(make([]byte, checkpoint.SeedSize-1), seed))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checkpoint.NewSigner(origin, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// builder grows a test log.
type builder struct {
	*testLog
	ca     *testca.CA
	edge   *tlog.Edge
	leaves []tlog.Leaf
}

const startTime = 1796061443463

func newBuilder(t testing.TB, dir string) *builder {
	t.Helper()
	ca, err := testca.New(testca.Options{Intermediates: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{testLog: &testLog{dir: dir, signer: newSigner(t, "log.example/2027h1", 1), time: startTime}, ca: ca, edge: tlog.NewEdge()}
	for _, der := range ca.Issuers() {
		b.write(t, fmt.Sprintf("issuer/%x", sha256.Sum256(der)), der)
	}
	id := b.signer.LogID()
	info, err := json.Marshal(map[string]string{
		"log_id":         base64.StdEncoding.EncodeToString(id[:]),
		"key":            base64.StdEncoding.EncodeToString(b.signer.PublicKey()),
		"submission_url": "https://log.example/2027h1/",
	})
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "log.v3.json", info)
	b.sign(t)
	return b
}

// entry makes entry number n; every third one is a final certificate.
func (b *builder) entry(t testing.TB, n uint64) *tlog.Entry {
	t.Helper()
	l := testca.Leaf{Precert: n%3 != 0, NotBefore: time.UnixMilli(startTime), NotAfter: time.UnixMilli(startTime).Add(90 * 24 * time.Hour)}
	c, err := b.ca.Make(n, l)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := cert.Parse(c.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	var chain []tlog.Fingerprint
	for _, der := range b.ca.Issuers() {
		chain = append(chain, sha256.Sum256(der))
	}
	var e *tlog.Entry
	if l.Precert {
		e, err = tlog.NewPrecertEntry(c.SignedEntry, b.ca.IssuerKeyHash(), c.Certificates[0], chain, parsed.NamesJSON())
	} else {
		e, err = tlog.NewX509Entry(c.Certificates[0], chain, parsed.NamesJSON())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// namesOf returns the names that a final certificate's entry must have.
func namesOf(t testing.TB, e *tlog.Entry) []byte {
	t.Helper()
	c, err := cert.Parse(e.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return c.NamesJSON()
}

// grow appends n generated entries in one round and publishes.
func (b *builder) grow(t testing.TB, n int) {
	t.Helper()
	var entries []*tlog.Entry
	for i := range n {
		entries = append(entries, b.entry(t, uint64(len(b.leaves)+i)))
	}
	b.add(t, entries...)
}

func (b *builder) add(t testing.TB, entries ...*tlog.Entry) {
	t.Helper()
	b.time += 200
	var leaves []tlog.Leaf
	for _, e := range entries {
		leaves = append(leaves, tlog.Leaf{Entry: e, Position: tlog.Position{Index: int64(len(b.leaves) + len(leaves)), Timestamp: b.time}})
	}
	edge, growth, err := b.edge.Append(leaves)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range growth.Objects {
		b.write(t, o.Name, o.Data)
	}
	b.edge, b.leaves = edge, append(b.leaves, leaves...)
	b.size = edge.Tree().N
	b.sign(t)
}

func (b *builder) sign(t testing.TB) {
	t.Helper()
	signed, err := b.signer.SignTreeHead(b.edge.Tree(), b.time)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "checkpoint", signed)
}

func (l *testLog) write(t testing.TB, name string, data []byte) {
	t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// Others may be reading, so the file is replaced whole, as a store does it.
	whole := l.dir + ".whole"
	if err := os.WriteFile(whole, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, path); err != nil {
		t.Fatal(err)
	}
}

func (l *testLog) read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *testLog) remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(l.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// readGzip and writeGzip see the content of a data or names tile.
func (l *testLog) readGzip(t testing.TB, name string) []byte {
	t.Helper()
	b, err := tlog.Decompress(l.read(t, name), 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *testLog) writeGzip(t testing.TB, name string, b []byte) {
	t.Helper()
	l.write(t, name, tlog.Compress(b))
}

// handler serves the log as a log does.
func (l *testLog) handler(t testing.TB) http.Handler {
	t.Helper()
	h, err := readpath.New(l.dir, readpath.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func serve(t testing.TB, h http.Handler) (prefix string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// ownLog returns a log of testSize entries that the tests made themselves.
func ownLog(t testing.TB) *testLog {
	t.Helper()
	b := newBuilder(t, t.TempDir())
	for _, n := range []int{1, 254, 1, 100, 0, 244} {
		b.grow(t, n)
	}
	if b.size != testSize {
		t.Fatalf("test log has %d entries", b.size)
	}
	return b.testLog
}

// copyOf returns a copy of a log in a folder of its own.
func copyOf(t testing.TB, l *testLog) *testLog {
	t.Helper()
	c := *l
	c.dir = t.TempDir()
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(l.dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		c.write(t, name, b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// takenLog returns a log of testSize entries that another implementation made
// (cases/sunlight-log, see README.md there), and a signer with its key.
func takenLog(t testing.TB) *testLog {
	t.Helper()
	dir := cases.Dir(t, "sunlight-log")
	seed, err := os.ReadFile(filepath.Join(dir, "seed.bin"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := checkpoint.KeysFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := checkpoint.NewSigner("rome.harness.example/2027h1", keys)
	if err != nil {
		t.Fatal(err)
	}
	l := copyOf(t, &testLog{dir: filepath.Join(dir, "data"), signer: signer})
	head, err := signer.Verifier().Verify(l.read(t, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	l.size, l.time = head.Tree.N, head.Timestamp
	return l
}
