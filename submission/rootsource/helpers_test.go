package rootsource

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/internal/testlog"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/submission"
	"github.com/daybook-ct/daybook/tlog"
)

// ders returns the certificates of PEM text.
func ders(t testing.TB, text []byte) (list [][]byte) {
	t.Helper()
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return list
		}
		list = append(list, b.Bytes)
	}
}

func readFileT(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// write writes a file of a test and returns its path.
func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newCA(t testing.TB) *testca.CA {
	t.Helper()
	ca, err := testca.New(testca.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// newRoots returns n roots as PEM.
func newRoots(t testing.TB, n int) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = string(newCA(t).RootPEM())
	}
	return list
}

// row is one row of a report.
type row struct{ pem, use, sha256 string }

const (
	tlsUse  = "Server Authentication (TLS) 1.3.6.1.5.5.7.3.1"
	mailUse = "Secure Email (S/MIME) 1.3.6.1.5.5.7.3.4"
)

// included makes RootCACertificatesIncludedByRSReportCSV, whose fields are all
// in quotation marks.
func included(rows ...row) string {
	fields := [][]string{{"Subject", "CA Owner", "X.509 Certificate (PEM)", "SHA-256 Fingerprint", "Intended Use Case(s) Served",
		"Apple Status", "Google Chrome Status", "Microsoft Status", "Mozilla Status"}}
	for i, r := range rows {
		fields = append(fields, []string{fmt.Sprintf("CN=Root %d; O=\"Roots, Ltd.\"; C=XX", i+1), "Roots, Ltd.", r.pem, r.sha256, r.use,
			"Included", "Included", "Not Included", "Removed"})
	}
	return asCSV(fields)
}

// reportOf makes a report of roots for servers.
func reportOf(pems ...string) string {
	rows := make([]row, len(pems))
	for i, p := range pems {
		rows[i] = row{pem: strings.TrimSpace(p), use: tlsUse + ";Client Authentication 1.3.6.1.5.5.7.3.2"}
	}
	return included(rows...)
}

func asCSV(rows [][]string) string {
	var b strings.Builder
	for _, fields := range rows {
		for i, f := range fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + strings.ReplaceAll(f, `"`, `""`) + `"`)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fixture is a Loader in a test, with its log and its metrics.
type fixture struct {
	*Loader
	t        testing.TB
	registry *prometheus.Registry
	lines    *testlog.Lines
	logger   *slog.Logger
}

func newFixture(t testing.TB, o Options) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry(), lines: new(testlog.Lines)}
	f.logger = slog.New(slog.NewTextHandler(f.lines, nil))
	o.Logger, o.Metrics = f.logger, f.registry
	var err error
	if f.Loader, err = New(o); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens a log that must open.
func (f *fixture) open(store storage.Store, sources ...Source) *Accepted {
	f.t.Helper()
	a, err := f.tryOpen(store, sources...)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) tryOpen(store storage.Store, sources ...Source) (*Accepted, error) {
	return f.Open(f.t.Context(), LogOptions{Sources: sources, Store: store, Logger: f.logger, Metrics: prometheus.NewRegistry()})
}

// again reads all sources of a log again and updates it.
func (f *fixture) again(a *Accepted) {
	f.t.Helper()
	if err := f.load(f.t.Context(), a.o.Sources, func(*reading) bool { return true }); err != nil {
		f.t.Fatal(err)
	}
	if err := a.Update(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) reloads(s Source, outcome string) int {
	return int(value(f.t, f.registry, "daybook_roots_reload_total", s.String(), outcome))
}

// value returns the value of the series of a metric that has exactly these
// label values, which must be there.
func value(t testing.TB, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			slices.Sort(values)
			if slices.Sort(labels); family.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s with the labels %q", name, labels)
	return 0
}

// stored returns the roots in _roots.pem.
func stored(t testing.TB, store storage.Store) []*cert.Certificate {
	t.Helper()
	text, err := store.Get(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	roots, _, err := submission.ParseRootsPEM(text)
	if err != nil {
		t.Fatal(err)
	}
	return roots
}

// api is the submission interface of a log without a tree.
type api struct {
	http.Handler
	t testing.TB
}

func newAPI(t testing.TB, roots *submission.Roots) api {
	t.Helper()
	h, err := submission.NewHandler(submission.Options{Log: fakeLog{}, Signer: fakeLog{}, Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	return api{h, t}
}

// listed returns what get-roots answers.
func (a api) listed() [][]byte {
	a.t.Helper()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", "/ct/v1/get-roots", nil))
	var answer struct{ Certificates [][]byte }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
		a.t.Fatalf("get-roots: %d, %v", w.Code, err)
	}
	return answer.Certificates
}

// takes reports whether the log takes a chain under the CA's root.
func (a api) takes(ca *testca.CA, n uint64) bool {
	a.t.Helper()
	chain, err := ca.Make(n, testca.Leaf{})
	if err != nil {
		a.t.Fatal(err)
	}
	return a.post(chain.Endpoint(), chain.Body())
}

func (a api) post(endpoint string, body []byte) bool {
	a.t.Helper()
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("POST", "/"+strings.TrimPrefix(endpoint, "/"), bytes.NewReader(body)))
	if w.Code != 200 && w.Code != 400 {
		a.t.Errorf("%s: %d %s", endpoint, w.Code, w.Body)
	}
	return w.Code == 200
}

// fakeLog takes everything.
type fakeLog struct{}

func (fakeLog) Add(context.Context, sequencer.Submission) (tlog.Position, error) {
	return tlog.Position{Timestamp: 1}, nil
}
func (fakeLog) SignSCT(tlog.Leaf) ([]byte, error) { return []byte{4, 3, 0, 0}, nil }
func (fakeLog) LogID() [32]byte                   { return [32]byte{} }

// faultyStore is a store that can be made to refuse, or to fail to read.
type faultyStore struct {
	*memory.Store
	mu       sync.Mutex
	put, get error
	puts     int
}

func newStore() *faultyStore { return &faultyStore{Store: memory.NewStore()} }

// fail makes all puts and gets fail with these errors, if they are not nil.
func (s *faultyStore) fail(put, get error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put, s.get = put, get
}

// written returns how many puts there were.
func (s *faultyStore) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

func (s *faultyStore) Put(ctx context.Context, objects ...storage.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.put != nil {
		return s.put
	}
	s.puts++
	return s.Store.Put(ctx, objects...)
}

func (s *faultyStore) Get(ctx context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get != nil {
		return nil, s.get
	}
	return s.Store.Get(ctx, name)
}
