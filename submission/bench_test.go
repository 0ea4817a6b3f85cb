package submission

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

// benchChains are chains of leaf and intermediate, all P-256.
func benchChains(b *testing.B, precert bool) (*testca.CA, []testca.Chain) {
	ca := newCA(b, testca.Options{})
	var chains []testca.Chain
	for n := range uint64(64) {
		c, err := ca.Make(n, testca.Leaf{Precert: precert, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)})
		if err != nil {
			b.Fatal(err)
		}
		chains = append(chains, c)
	}
	return ca, chains
}

func BenchmarkDecode(b *testing.B) {
	_, chains := benchChains(b, true)
	body := chains[0].Body()
	s := getScratch()
	defer putScratch(s)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		s.body = append(s.body[:0], body...)
		if err := s.decode(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate is a hot CA: one leaf is parsed, one signature checked.
// Its floor is BenchmarkSignatureCheck.
func BenchmarkValidate(b *testing.B) {
	ca, chains := benchChains(b, true)
	v := newValidator(b, rootOf(ca))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(chains) == 0 {
			clear(v.leaves.young) // these leaves are new again
		}
		p, err := v.validate(chains[i%len(chains)].Certificates, true, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.submission(true, time.Now(), network(testProxies[0].Addr())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignatureCheck(b *testing.B) {
	_, chains := benchChains(b, true)
	leaf, issuer := mustParse(b, chains[0].Certificates[0]), mustParse(b, chains[0].Certificates[1])
	b.ReportAllocs()
	for b.Loop() {
		if err := leaf.CheckSignatureFrom(issuer); err != nil {
			b.Fatal(err)
		}
	}
}

// discard is a ResponseWriter without the cost of one.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkHandler is a whole request over a log that answers at once and a
// signer that only hashes.
func BenchmarkHandler(b *testing.B) {
	ca, chains := benchChains(b, true)
	l := &fakeLog{add: func(context.Context, sequencer.Submission) (tlog.Position, error) {
		return tlog.Position{Index: 1, Timestamp: fakeTimestamp}, nil
	}}
	roots, err := NewRoots([]*cert.Certificate{mustParse(b, rootOf(ca))})
	if err != nil {
		b.Fatal(err)
	}
	h, _ := newHandler(b, Options{Log: l, Roots: roots})
	var bodies [][]byte
	for _, c := range chains {
		bodies = append(bodies, c.Body())
	}
	r, err := http.NewRequest("POST", "http://log.example/ct/v1/add-pre-chain", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:4321"
	body := &readCloser{}
	r.Body = body
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		body.Reset(bodies[i%len(bodies)])
		r.ContentLength = int64(body.Len())
		w := &discard{header: make(http.Header), status: 200}
		if h.ServeHTTP(w, r); w.status != 200 {
			b.Fatal(w.status)
		}
	}
}

type readCloser struct{ bytes.Reader }

func (*readCloser) Close() error { return nil }
