package submission

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

func readRoots(t testing.TB, path string) *Roots {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseRoots(t, text)
}

func parseRoots(t testing.TB, text []byte) *Roots {
	t.Helper()
	certs, skipped, err := ParseRootsPEM(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range skipped {
		t.Log(s)
	}
	r, err := NewRoots(certs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustParse(t testing.TB, der []byte) *cert.Certificate {
	t.Helper()
	c, err := cert.Parse(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// chainBody is a request, built by other means than the code under test.
func chainBody(ders [][]byte) []byte {
	var elems []string
	for _, der := range ders {
		elems = append(elems, `"`+base64.StdEncoding.EncodeToString(der)+`"`)
	}
	return []byte(`{"chain":[` + strings.Join(elems, ",") + `]}`)
}

// fakeLog is a Log that gives out positions one after the other, or err.
type fakeLog struct {
	mu   sync.Mutex
	subs []sequencer.Submission
	err  error
	add  func(ctx context.Context, s sequencer.Submission) (tlog.Position, error) // if not nil, in place of all that
}

const fakeTimestamp = 1750000000123

func (l *fakeLog) Add(ctx context.Context, s sequencer.Submission) (tlog.Position, error) {
	if l.add != nil {
		return l.add(ctx, s)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return tlog.Position{}, l.err
	}
	l.subs = append(l.subs, s)
	return tlog.Position{Index: int64(len(l.subs)) - 1, Timestamp: fakeTimestamp}, nil
}

func (l *fakeLog) last() sequencer.Submission { return l.subs[len(l.subs)-1] }

// fakeSigner's signature is a fixed prefix and the hash of what it signs.
type fakeSigner struct{ err error }

func (s fakeSigner) SignSCT(leaf tlog.Leaf) ([]byte, error) {
	h := leaf.Hash()
	return append([]byte{4, 3, 0, 32}, h[:]...), s.err
}

func (fakeSigner) LogID() [32]byte { return [32]byte{0xfb, 0xff, 1, 2, 3} }

func newHandler(t testing.TB, o Options) (*Handler, *fakeLog) {
	t.Helper()
	l, _ := o.Log.(*fakeLog)
	if o.Log == nil {
		l = &fakeLog{}
		o.Log = l
	}
	if o.Signer == nil {
		o.Signer = fakeSigner{}
	}
	h, err := NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h, l
}

func post(h http.Handler, endpoint string, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/ct/v1/"+endpoint, bytes.NewReader(body)))
	return w
}

func get(h http.Handler, endpoint string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/ct/v1/"+endpoint, nil))
	return w
}
