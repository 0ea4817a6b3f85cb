package load

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// fakeLog is a log of a few lines, which lies on demand. It publishes each
// entry before it answers.
type fakeLog struct {
	t      *testing.T
	signer *checkpoint.Signer

	// intercept, if not nil, answers a submission in the log's place, or not.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// lie, if not nil, changes the leaf that goes into the tree for the one
	// that was promised, or drops it.
	lie func(leaf tlog.Leaf) (tlog.Leaf, bool)
	// forget keeps no memory of entries.
	forget bool

	mu      sync.Mutex
	objects map[string][]byte
	edge    *tlog.Edge
	known   map[tlog.Key]tlog.Leaf
	time    int64
	posts   int
}

func newFakeLog(t *testing.T) *fakeLog {
	t.Helper()
	keys, err := checkpoint.KeysFromSeed(make([]byte, checkpoint.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := checkpoint.NewSigner("log.example/fake", keys)
	if err != nil {
		t.Fatal(err)
	}
	l := &fakeLog{t: t, signer: signer, objects: map[string][]byte{}, edge: tlog.NewEdge(), known: map[tlog.Key]tlog.Leaf{}, time: time.Now().UnixMilli()}
	id := signer.LogID()
	info, err := json.Marshal(map[string]string{
		"log_id":         base64.StdEncoding.EncodeToString(id[:]),
		"key":            base64.StdEncoding.EncodeToString(signer.PublicKey()),
		"submission_url": "https://log.example/fake/",
	})
	if err != nil {
		t.Fatal(err)
	}
	l.objects["log.v3.json"] = info
	l.publish()
	return l
}

func (l *fakeLog) publish() {
	b, err := l.signer.SignTreeHead(l.edge.Tree(), l.time)
	if err != nil {
		l.t.Error(err)
	}
	l.objects["checkpoint"] = b
}

func (l *fakeLog) start() string {
	l.t.Helper()
	srv := httptest.NewServer(l)
	l.t.Cleanup(srv.Close)
	return srv.URL
}

func (l *fakeLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method != http.MethodPost {
		name := r.URL.Path[1:]
		b, ok := l.objects[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if storage.KindOf(name).Gzip() {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_, _ = w.Write(b)
		return
	}
	l.posts++
	if l.intercept != nil && l.intercept(w, r) {
		return
	}
	e, err := l.entry(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	leaf, ok := l.known[e.Key()]
	if !ok || l.forget {
		if leaf, err = l.sequence(e); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	sct, err := l.signer.SCT(leaf)
	if err != nil {
		l.t.Error(err)
	}
	if _, err := w.Write(sct.AppendJSON(nil)); err != nil {
		l.t.Error(err)
	}
}

func (l *fakeLog) entry(r *http.Request) (*tlog.Entry, error) {
	var body struct{ Chain [][]byte }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	var certs []*cert.Certificate
	var chain []tlog.Fingerprint
	for i, der := range body.Chain {
		c, err := cert.Parse(der)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
		if i > 0 {
			chain = append(chain, c.Fingerprint)
			l.objects[fmt.Sprintf("issuer/%x", c.Fingerprint)] = der
		}
	}
	if strings.HasSuffix(r.URL.Path, "add-pre-chain") {
		tbs, err := certs[0].PrecertTBS(nil)
		if err != nil {
			return nil, err
		}
		return tlog.NewPrecertEntry(tbs, sha256.Sum256(certs[1].RawSPKI), certs[0].Raw, chain, certs[0].NamesJSON())
	}
	if certs[0].Poison != cert.NoPoison {
		return nil, fmt.Errorf("precertificate at %s", r.URL.Path)
	}
	return tlog.NewX509Entry(certs[0].Raw, chain, certs[0].NamesJSON())
}

// sequence appends an entry and returns the leaf that the SCT is to promise.
func (l *fakeLog) sequence(e *tlog.Entry) (tlog.Leaf, error) {
	l.time = max(l.time+1, time.Now().UnixMilli())
	promised := tlog.Leaf{Entry: e, Position: tlog.Position{Index: l.edge.Tree().N, Timestamp: l.time}}
	leaf, keep := promised, true
	if l.lie != nil {
		leaf, keep = l.lie(promised)
	}
	l.known[e.Key()] = promised
	if !keep {
		return promised, nil
	}
	edge, growth, err := l.edge.Append([]tlog.Leaf{leaf})
	if err != nil {
		return promised, err
	}
	for _, o := range growth.Objects {
		l.objects[o.Name] = o.Data
	}
	l.edge = edge
	l.publish()
	return promised, nil
}
