package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	addr    = "log.invalid" // asked of nobody
	logPath = "/witness/"
	origin  = "ct.example.com/witness"

	begun = 1796061443463 // milliseconds since the Unix epoch
)

// liar is a log that says what a test wants it to.
type liar struct {
	t testing.TB
	Log
	chains  *Chains
	signer  *checkpoint.Signer
	edge    *tlog.Edge
	time    int64             // of the last checkpoint
	objects map[string][]byte // that are served
	status  int               // of answers to submissions
	answers [][]byte          // what is left of them
}

func newLiar(t *testing.T) *liar {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(make([]byte, checkpoint.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := checkpoint.NewSigner(origin, keys)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{t: t, signer: signer, edge: tlog.NewEdge(), time: begun, objects: map[string][]byte{}, status: http.StatusOK}
	said := "made a log\npublic key: " + base64.StdEncoding.EncodeToString(signer.PublicKey()) + "\nstart it\n"
	if l.Log, err = ReadLog(origin, logPath, said); err != nil {
		t.Fatal(err)
	}
	if l.chains, err = NewChains(1); err != nil {
		t.Fatal(err)
	}
	for _, der := range l.chains.CA.Issuers() {
		l.objects[fmt.Sprintf("issuer/%x", sha256.Sum256(der))] = der
	}
	l.publish(l.edge.Tree())
	return l
}

// witness returns one who knows nothing yet.
func (l *liar) witness() *Witness {
	client := &http.Client{Transport: l}
	return New(l.Log, Options{Chains: l.chains, HTTP: client, Monitor: monitor.ClientOptions{HTTP: client, Retries: -1}, Pause: time.Millisecond, AtOnce: 2}, NewRand(1, "witness"))
}

// RoundTrip answers for the log.
func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Request: r}
	var body []byte
	switch object, ok := l.objects[strings.TrimPrefix(r.URL.Path, logPath)]; {
	case r.Method == http.MethodPost && len(l.answers) == 0:
		return nil, errors.New("no answer")
	case r.Method == http.MethodPost:
		resp.StatusCode, body, l.answers = l.status, l.answers[0], l.answers[1:]
	case ok:
		resp.StatusCode, body = http.StatusOK, object
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// sct returns an SCT for chain n.
func (l *liar) sct(n uint64, p tlog.Position) []byte {
	l.t.Helper()
	_, entry, err := l.chains.Make(n)
	if err != nil {
		l.t.Fatal(err)
	}
	sct, err := l.signer.SCT(tlog.Leaf{Entry: entry, Position: p})
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := json.Marshal(sct)
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// publish signs a tree and returns the checkpoint.
func (l *liar) publish(tree tlog.Tree) []byte {
	l.t.Helper()
	l.time++
	signed, err := l.signer.SignTreeHead(tree, l.time)
	if err != nil {
		l.t.Fatal(err)
	}
	l.objects["checkpoint"] = signed
	return signed
}

// grow logs chains, whose numbers are odd: final certificates.
func (l *liar) grow(chains ...uint64) {
	l.t.Helper()
	var fingerprints []tlog.Fingerprint
	for _, der := range l.chains.CA.Issuers() {
		fingerprints = append(fingerprints, sha256.Sum256(der))
	}
	var leaves []tlog.Leaf
	for i, n := range chains {
		c, _, err := l.chains.Make(n)
		if err != nil {
			l.t.Fatal(err)
		}
		parsed, err := cert.Parse(c.Certificates[0])
		if err != nil {
			l.t.Fatal(err)
		}
		entry, err := tlog.NewX509Entry(c.Certificates[0], fingerprints, parsed.NamesJSON())
		if err != nil {
			l.t.Fatal(err)
		}
		leaves = append(leaves, tlog.Leaf{Entry: entry, Position: at(l.edge.Tree().N + int64(i))})
	}
	edge, growth, err := l.edge.Append(leaves)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, o := range growth.Objects {
		b, err := tlog.Decompress(o.Data, 1<<20)
		if err != nil {
			b = o.Data // hash tiles are not compressed
		}
		l.objects[o.Name] = b
	}
	l.edge = edge
	l.publish(edge.Tree())
}

// at is the position of an entry that is logged where it should be.
func at(index int64) tlog.Position {
	return tlog.Position{Index: index, Timestamp: begun}
}

// want fails the test unless an error says this; "" is none.
func want(t *testing.T, err error, says string) {
	t.Helper()
	if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, want %q", err, says)
	}
}

func TestSCTs(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers func(l *liar) [][]byte // to chain 1, one after the other
		mayMove bool
		says    string
		counts  Counts
	}{
		{name: "the same again", answers: func(l *liar) [][]byte {
			return [][]byte{l.sct(1, at(7)), l.sct(1, at(7))}
		}, counts: Counts{Promised: 1, Repeated: 1}},
		{name: "another place", answers: func(l *liar) [][]byte {
			return [][]byte{l.sct(1, at(7)), l.sct(1, at(8))}
		}, says: "chain 1 was promised at", counts: Counts{Promised: 1}},
		{name: "another time", answers: func(l *liar) [][]byte {
			return [][]byte{l.sct(1, at(7)), l.sct(1, tlog.Position{Index: 7, Timestamp: begun + 1})}
		}, says: "chain 1 was promised at", counts: Counts{Promised: 1}},
		{name: "another place, which may be", mayMove: true, answers: func(l *liar) [][]byte {
			return [][]byte{l.sct(1, at(7)), l.sct(1, at(8))}
		}, counts: Counts{Promised: 1, Moved: 1}},
		{name: "of another entry", answers: func(l *liar) [][]byte {
			return [][]byte{l.sct(3, at(7))}
		}, says: "chain 1: "},
		{name: "no SCT", answers: func(*liar) [][]byte { return [][]byte{[]byte("promised")} }, says: "answer to chain 1 is no SCT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar(t)
			w := l.witness()
			w.MayMove(c.mayMove)
			l.answers = c.answers(l)
			c.counts.Statuses = map[int]int{http.StatusOK: len(l.answers)}
			for range len(l.answers) {
				w.Submit(t.Context(), addr, 1)
			}
			want(t, w.Err(), c.says)
			if got := w.Counts(); fmt.Sprint(got) != fmt.Sprint(c.counts) {
				t.Errorf("counted %+v, want %+v", got, c.counts)
			}
			if got := len(w.Promises()); got != c.counts.Promised+c.counts.Moved {
				t.Errorf("%d promises are to be kept", got)
			}
			want(t, w.Err(), "")
		})
	}
}

// TestResubmit: what was never answered is asked for again, with what was
// promised last, and must be answered then.
func TestResubmit(t *testing.T) {
	l := newLiar(t)
	w := l.witness()
	lost, kept := w.Next(1), w.Next(1001) // which is too far off to be drawn
	if status, ok := w.Submit(t.Context(), addr, lost); status != 0 || ok {
		t.Fatal(status, ok)
	}
	l.answers = [][]byte{l.sct(kept, at(0))}
	if status, ok := w.Submit(t.Context(), addr, kept); status != http.StatusOK || !ok {
		t.Fatal(status, ok)
	}
	w.o.AtOnce = 1 // in their order
	l.answers = [][]byte{l.sct(lost, at(1)), l.sct(kept, at(0))}
	w.Resubmit(t.Context(), addr, 1)
	want(t, w.Err(), "")
	if n := w.Counts(); n.Promised != 2 || n.Repeated != 1 {
		t.Errorf("counted %+v", n)
	}
	l.status, l.answers = http.StatusServiceUnavailable, [][]byte{nil}
	w.Resubmit(t.Context(), addr, 1)
	want(t, w.Err(), "resubmission of chain 1001: status 503")
}

func TestCheckpoints(t *testing.T) {
	one, other, two := tlog.Tree{N: 1, Hash: tlog.Hash{1}}, tlog.Tree{N: 1, Hash: tlog.Hash{2}}, tlog.Tree{N: 2, Hash: tlog.Hash{3}}
	type head struct {
		tree tlog.Tree
		time int64
	}
	for _, c := range []struct {
		name        string
		heads       []head
		says        string
		checkpoints int
		trees       int
	}{
		{"growing", []head{{one, 1}, {one, 2}, {one, 2}, {two, 3}}, "", 3, 2},
		{"smaller", []head{{two, 1}, {one, 2}}, "checkpoint of size 1 at 2 came after the one of size 2 at 1", 1, 1},
		{"of another tree of this size", []head{{one, 1}, {other, 2}}, "came after", 1, 1},
		{"of this time", []head{{one, 1}, {two, 1}}, "came after", 1, 1},
		{"older", []head{{one, 2}, {one, 1}}, "came after", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar(t)
			w := l.witness()
			for _, h := range c.heads {
				l.time = h.time - 1
				l.publish(h.tree)
				w.Look(t.Context(), addr)
			}
			want(t, w.Err(), c.says)
			if n := w.Counts(); n.Checkpoints != c.checkpoints || n.Trees != c.trees {
				t.Errorf("%d checkpoints of %d trees, want %d of %d", n.Checkpoints, n.Trees, c.checkpoints, c.trees)
			}
		})
	}
	t.Run("not signed", func(t *testing.T) {
		l := newLiar(t)
		w := l.witness()
		signed := l.publish(one)
		w.See(bytes.Replace(signed, []byte("\n1\n"), []byte("\n2\n"), 1))
		want(t, w.Err(), "a checkpoint does not verify")
	})
}

// TestVerify: a monitor finds what the witness cannot see alone, and no more.
func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name string
		lie  func(l *liar, w *Witness)
		says string
	}{
		{"nothing", func(*liar, *Witness) {}, ""},
		{"an entry beyond the tree", func(l *liar, w *Witness) {
			l.answers = [][]byte{l.sct(5, at(2))}
			w.Submit(t.Context(), addr, 5)
		}, "promised, but the tree has only 2 entries"},
		{"another entry in its place", func(l *liar, w *Witness) {
			l.answers = [][]byte{l.sct(5, at(1))}
			w.Submit(t.Context(), addr, 5)
		}, "entry 1"},
		{"an entry lost when it moved", func(l *liar, w *Witness) {
			w.MayMove(true)
			l.answers = [][]byte{l.sct(5, at(0)), l.sct(5, at(1))}
			w.Submit(t.Context(), addr, 5)
			w.Submit(t.Context(), addr, 5)
		}, "entry 0"},
		{"a promise of another process", func(l *liar, w *Witness) {
			other := l.witness()
			l.answers = [][]byte{l.sct(5, at(2))}
			other.Submit(t.Context(), addr, 5)
			w.Adopt(other)
		}, "promised, but"},
		{"another history, shown by another process", func(l *liar, w *Witness) {
			other := l.witness()
			l.time--
			other.See(l.publish(tlog.Tree{N: 1, Hash: tlog.Hash{1}}))
			l.publish(l.edge.Tree())
			w.Adopt(other)
		}, "checkpoint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar(t)
			w := l.witness()
			l.grow(1, 3)
			for i, n := range []uint64{1, 3} {
				l.answers = [][]byte{l.sct(n, at(int64(i)))}
				w.Submit(t.Context(), addr, n)
			}
			w.Look(t.Context(), addr)
			c.lie(l, w)
			// A fork knows it, too.
			for _, w := range []*Witness{w, w.Fork(w.o.HTTP, NewRand(2, "fork"))} {
				_, err := w.Verify(t.Context(), addr, true)
				want(t, err, c.says)
				_, err = w.VerifyFresh(t.Context(), addr, 0)
				want(t, err, c.says)
				want(t, w.Err(), "")
			}
		})
	}
}

// TestVerifyFresh holds the log to what is new, once.
func TestVerifyFresh(t *testing.T) {
	l := newLiar(t)
	w := l.witness()
	l.grow(1, 3)
	w.Look(t.Context(), addr)
	for promises := range 2 {
		if promises == 1 {
			l.answers = [][]byte{l.sct(1, at(0))}
			w.Submit(t.Context(), addr, w.Next(1))
		}
		for _, n := range []int{promises, 0} {
			r, err := w.VerifyFresh(t.Context(), addr, 0)
			want(t, err, "")
			if r.Promises != n {
				t.Errorf("%d promises are fresh, want %d", r.Promises, n)
			}
		}
	}
	if r, err := w.VerifyFresh(t.Context(), addr, 50); err != nil || r.Promises == 0 {
		t.Errorf("no old promise among fifty drawn: %v, %v", r, err)
	}
}

func TestNotServed(t *testing.T) {
	l := newLiar(t)
	w := l.witness()
	l.objects[".tmp-1"] = nil
	denied, err := w.NotServed(t.Context(), addr, []string{"staging/1", ".tmp-1"})
	if denied != 1 || err != nil {
		t.Errorf("%d are denied, %v", denied, err)
	}
	want(t, w.Err(), ".tmp-1 is served: status 200")
}

func TestErr(t *testing.T) {
	w := newLiar(t).witness()
	for i := range 12 {
		w.Fault(fmt.Errorf("fault %d", i))
	}
	want(t, w.Err(), "fault 9\nand 2 more")
	want(t, w.Err(), "")
}

func TestReadLog(t *testing.T) {
	for said, says := range map[string]string{
		"daybook: there is a log already": "no public key:\ndaybook: there is a log already",
		"public key: %\nstart it\n":       "public key: illegal base64",
		"public key: AAAA\n":              "asn1",
	} {
		_, err := ReadLog(origin, logPath, said)
		want(t, err, says)
	}
}

// TestChains: what is submitted depends on the seed and a number alone, so that a
// failure can be had again.
func TestChains(t *testing.T) {
	if a, b := draw(NewRand(1, "a")), draw(NewRand(1, "a")); !slices.Equal(a, b) {
		t.Error("the same seed and name, and other numbers")
	}
	if a, b := draw(NewRand(1, "a")), draw(NewRand(1, "b")); slices.Equal(a, b) {
		t.Error("another name, and the same numbers")
	}
	if a, b := draw(NewRand(1, "a")), draw(NewRand(2, "a")); slices.Equal(a, b) {
		t.Error("another seed, and the same numbers")
	}
}

func draw(r interface{ Uint64() uint64 }) (numbers []uint64) {
	for range 4 {
		numbers = append(numbers, r.Uint64())
	}
	return numbers
}
