package conformance_test

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/test/conformance/own"
	"github.com/daybook-ct/daybook/tlog"
)

// proxy stands before a good log and makes it a bad one. It has the log's keys,
// so that what it changes may be well signed.
type proxy struct {
	t        *testing.T
	upstream string
	server   *httptest.Server
	keys     checkpoint.Keys
	signer   *checkpoint.Signer
	client   *http.Client
	fault    fault

	mu    sync.Mutex
	count map[string]int    // for faults that come now and then
	kept  map[string][]byte // for faults that remember
}

// exchange is a request and its answer.
type exchange struct {
	method, path string // path without the slash in front
	header       http.Header
	body         []byte

	status  int
	out     http.Header
	content []byte // decoded
	gzip    bool   // it was, and is to be again
	raw     []byte // if not nil, the body to send as it is

	before, beforeGzip []byte // content as the log sent it, decoded and not
}

func newProxy(t *testing.T, d *own.Dev, f fault) *proxy {
	seed, err := os.ReadFile(filepath.Join(d.Dir(), "seed.bin"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, upstream: d.Submission, fault: f, count: make(map[string]int), kept: make(map[string][]byte)}
	if p.keys, err = checkpoint.KeysFromSeed(seed); err != nil {
		t.Fatal(err)
	}
	if p.signer, err = checkpoint.NewSigner(d.Origin, p.keys); err != nil {
		t.Fatal(err)
	}
	p.client = &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() { p.server.Close(); p.client.CloseIdleConnections() })
	return p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 11<<20))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	x := &exchange{method: r.Method, path: strings.TrimPrefix(r.URL.EscapedPath(), "/"), header: r.Header, body: body}
	if p.fault.intercept == nil || !p.fault.intercept(p, x) {
		if err := p.forward(r, x); err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if p.fault.change != nil {
			p.fault.change(p, x)
		}
	}
	p.write(w, x)
}

func (p *proxy) forward(r *http.Request, x *exchange) error {
	req, err := http.NewRequestWithContext(r.Context(), x.method, p.upstream+"/"+x.path, bytes.NewReader(x.body))
	if err != nil {
		return err
	}
	req.Header = x.header.Clone()
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	x.status, x.out = resp.StatusCode, resp.Header
	if x.content, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	// A part of a gzip stream cannot be decoded, and is passed on as it is.
	if x.out.Get("Content-Encoding") == "gzip" && x.status == http.StatusOK && x.method == http.MethodGet {
		x.gzip, x.beforeGzip = true, x.content
		x.content, err = gunzipped(x.content)
		x.before = bytes.Clone(x.content)
	}
	return err
}

func gunzipped(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&out)
	_, _ = z.Write(b) // to memory
	_ = z.Close()
	return out.Bytes()
}

func (p *proxy) write(w http.ResponseWriter, x *exchange) {
	for k, v := range x.out {
		w.Header()[k] = v
	}
	body := x.content
	switch {
	case x.gzip && bytes.Equal(body, x.before):
		body = x.beforeGzip // to compress takes long
	case x.gzip:
		body = gzipped(body)
	}
	if x.raw != nil {
		body = x.raw
	}
	if x.method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if x.status == http.StatusNoContent || x.status == http.StatusNotModified {
		w.Header().Del("Content-Length")
		body = nil
	}
	w.WriteHeader(x.status)
	_, _ = w.Write(body)
}

// answer makes an answer without the log.
func (x *exchange) answer(status int, contentType, body string) bool {
	x.status, x.content, x.gzip = status, []byte(body), false
	x.out = http.Header{"Content-Type": {contentType}, "Access-Control-Allow-Origin": {"*"}}
	return true
}

// submission reports whether it is one.
func (x *exchange) submission() bool {
	return x.method == http.MethodPost && (x.path == "ct/v1/add-chain" || x.path == "ct/v1/add-pre-chain")
}

func (x *exchange) precert() bool { return x.path == "ct/v1/add-pre-chain" }

// accepted reports whether it is a submission that the log has accepted.
func (x *exchange) accepted() bool { return x.submission() && x.status == http.StatusOK }

// served reports whether it is an object of the tree below a path.
func (x *exchange) served(prefix string) bool {
	return strings.HasPrefix(x.path, prefix) && x.status == http.StatusOK
}

func (x *exchange) hashTile() bool {
	return x.served("tile/") && !x.served("tile/data/") && !x.served("tile/names/")
}

// chain returns the certificates of a submission.
func (x *exchange) chain() (list [][]byte) {
	var r struct{ Chain [][]byte }
	if json.Unmarshal(x.body, &r) != nil {
		return nil
	}
	return r.Chain
}

// sctFields is the JSON of an SCT.
type sctFields struct {
	Version    int    `json:"sct_version"`
	ID         []byte `json:"id"`
	Timestamp  int64  `json:"timestamp"`
	Extensions []byte `json:"extensions"`
	Signature  []byte `json:"signature"`
}

// changeSCT changes an accepted submission's SCT, and signs it anew if sign is
// set: over the entry that it names, as the tree has it.
func (p *proxy) changeSCT(x *exchange, sign bool, change func(*sctFields)) {
	var s sctFields
	if !x.accepted() || json.Unmarshal(x.content, &s) != nil {
		return
	}
	index, err := tlog.ParseExtensions(s.Extensions)
	if err != nil {
		return
	}
	change(&s)
	if sign {
		leaf, ok := p.leaf(index)
		if !ok {
			return
		}
		s.Signature = p.sign(sctMessage(leaf.Entry, s))
	}
	x.content = encode(s)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// sctMessage is what an SCT with these fields is over.
func sctMessage(e *tlog.Entry, s sctFields) []byte {
	m := tlog.Leaf{Entry: e, Position: tlog.Position{Timestamp: s.Timestamp}}.SCTInput()
	m = m[:len(m)-10] // extensions of 8 bytes, with their length
	m = binary.BigEndian.AppendUint16(m, uint16(len(s.Extensions)))
	return append(m, s.Extensions...)
}

func (p *proxy) sign(message []byte) []byte {
	digest := sha256.Sum256(message)
	der, err := p.keys.ECDSA.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return append([]byte{4, 3, byte(len(der) >> 8), byte(len(der))}, der...)
}

// get reads an object of the good log.
func (p *proxy) get(path string) ([]byte, bool) {
	resp, err := p.client.Get(p.upstream + "/" + path)
	if err != nil {
		return nil, false
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.Header.Get("Content-Encoding") == "gzip" {
		b, err = gunzipped(b)
	}
	return b, err == nil && resp.StatusCode == http.StatusOK
}

// head returns the good log's tree head.
func (p *proxy) head() checkpoint.TreeHead {
	b, _ := p.get("checkpoint")
	h, err := p.signer.Verifier().Verify(b)
	if err != nil {
		p.t.Errorf("the good log's checkpoint: %v", err)
	}
	return h
}

// leaf returns an entry of the good log.
func (p *proxy) leaf(index int64) (l tlog.Leaf, ok bool) {
	size := p.head().Tree.N
	tile := tlog.Tile{L: tlog.DataLevel, N: index / 256, W: int(min(256, size-index/256*256))}
	rest, ok := p.get(tile.Path())
	for i := tile.N * 256; ok && i <= index; i++ {
		var err error
		if l, rest, err = tlog.ReadTileLeaf(rest); err != nil {
			return l, false
		}
	}
	return l, ok
}

// note is a checkpoint taken apart.
type note struct {
	text  string
	lines []string // without their newlines
}

func (x *exchange) note() note {
	text, lines, _ := strings.Cut(string(x.content), "\n\n")
	return note{text + "\n", strings.Split(strings.TrimSuffix(lines, "\n"), "\n")}
}

func (n note) bytes() []byte {
	return []byte(n.text + "\n" + strings.Join(n.lines, "\n") + "\n")
}

func (n note) size() int64 {
	size, _ := strconv.ParseInt(strings.Split(n.text, "\n")[1], 10, 64)
	return size
}

// signature returns the key ID and the body of a signature line.
func signature(line string) (name string, id uint32, body []byte) {
	fields := strings.Split(line, " ")
	raw, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
	if err != nil || len(raw) < 4 {
		return "", 0, nil
	}
	return fields[1], binary.BigEndian.Uint32(raw), raw[4:]
}

func line(name string, id uint32, body []byte) string {
	raw := append(binary.BigEndian.AppendUint32(nil, id), body...)
	return "\u2014 " + name + " " + base64.StdEncoding.EncodeToString(raw)
}

// keyHash is the ID of a note key.
func keyHash(name string, kind byte, key []byte) uint32 {
	sum := sha256.Sum256(append(append([]byte(name+"\n"), kind), key...))
	return binary.BigEndian.Uint32(sum[:])
}

func (p *proxy) treeKeyID(origin string) uint32 {
	id := p.signer.LogID()
	return keyHash(origin, 5, id[:])
}

// treeLine signs a tree head, of which nothing need be true.
func (p *proxy) treeLine(origin string, size int64, root tlog.Hash, timestamp int64) string {
	m := binary.BigEndian.AppendUint64([]byte{0, 1}, uint64(timestamp))
	m = append(binary.BigEndian.AppendUint64(m, uint64(size)), root[:]...)
	return line(origin, p.treeKeyID(origin), append(binary.BigEndian.AppendUint64(nil, uint64(timestamp)), p.sign(m)...))
}

// changeNote changes a checkpoint.
func (p *proxy) changeNote(x *exchange, change func(n *note)) {
	if x.path != "checkpoint" || x.method != http.MethodGet || x.status != http.StatusOK {
		return
	}
	n := x.note()
	change(&n)
	x.content = n.bytes()
}

// changeLine changes the line of the log's RFC 6962 key, or of its ML-DSA-44
// key if other is set.
func (p *proxy) changeLine(x *exchange, other bool, change func(name string, id uint32, body []byte) string) {
	p.changeNote(x, func(n *note) {
		for i, l := range n.lines {
			name, id, body := signature(l)
			isTree := name == p.signer.Origin() && id == p.treeKeyID(name)
			isOther := name == p.signer.Origin() && len(body) == 8+2420
			if isTree && !other || isOther && other {
				n.lines[i] = change(name, id, body)
			}
		}
	})
}

// newHead replaces the checkpoint by one that is signed anew.
func (p *proxy) newHead(x *exchange, change func(h *checkpoint.TreeHead)) {
	if x.path != "checkpoint" || x.method != http.MethodGet {
		return
	}
	h, err := p.signer.Verifier().Verify(x.content)
	if err != nil {
		p.t.Errorf("the good log's checkpoint: %v", err)
		return
	}
	change(&h)
	text := fmt.Sprintf("%s\n%d\n%s\n", p.signer.Origin(), h.Tree.N, base64.StdEncoding.EncodeToString(h.Tree.Hash[:]))
	x.content = note{text, []string{p.treeLine(p.signer.Origin(), h.Tree.N, h.Tree.Hash, h.Timestamp)}}.bytes()
}

// every counts calls by name and reports each n-th.
func (p *proxy) every(name string, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[name]++
	return p.count[name]%n == 0
}

// once keeps the first value of a name.
func (p *proxy) once(name string, value []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.kept[name]; ok {
		return v
	}
	p.kept[name] = bytes.Clone(value)
	return value
}
