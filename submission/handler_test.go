package submission

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

// testSite is a handler for the chains of one CA.
type testSite struct {
	*Handler
	ca  *testca.CA
	log *fakeLog
	reg *prometheus.Registry
}

func newSite(t testing.TB, o Options) *testSite {
	t.Helper()
	s := &testSite{ca: newCA(t, testca.Options{}), reg: prometheus.NewRegistry()}
	o.Metrics = s.reg
	if o.Roots == nil {
		o.Roots = parseRoots(t, s.ca.RootPEM())
	}
	s.Handler, s.log = newHandler(t, o)
	return s
}

func (s *testSite) chain(t testing.TB, n uint64, l testca.Leaf) testca.Chain {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	if l.NotAfter.IsZero() {
		l.NotAfter = now.Add(90 * 24 * time.Hour)
	}
	if l.NotBefore.IsZero() {
		l.NotBefore = now.Add(-time.Hour)
	}
	c, err := s.ca.Make(n, l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// series returns the values of all series of a metric, by label values.
func (s *testSite) series(t testing.TB, name string) map[string]float64 {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if len(values) == 0 {
		t.Fatalf("no metric %s", name)
	}
	return values
}

func (s *testSite) outcomes(t testing.TB, endpoint, outcome string) float64 {
	t.Helper()
	return s.series(t, "daybook_submission_requests_total")[endpoint+" "+outcome]
}

// TestSCTResponse pins the response byte by byte (RFC 6962 section 4.1).
func TestSCTResponse(t *testing.T) {
	s := newSite(t, Options{})
	for i, precert := range []bool{false, true} {
		c := s.chain(t, uint64(i), testca.Leaf{Precert: precert})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/"+c.Endpoint(), bytes.NewReader(c.Body())))
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		sub := s.log.last()
		signature, _ := fakeSigner{}.SignSCT(tlog.Leaf{Entry: sub.Entry, Position: tlog.Position{Index: int64(i), Timestamp: fakeTimestamp}})
		want := fmt.Sprintf(`{"sct_version":0,"id":"+/8BAgMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","timestamp":1750000000123,"extensions":%q,"signature":%q}`,
			[]string{"AAAFAAAAAAA=", "AAAFAAAAAAE="}[i], base64.StdEncoding.EncodeToString(signature))
		if got := w.Body.String(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if ct, n := w.Header().Get("Content-Type"), w.Header().Get("Content-Length"); ct != "application/json" || n != fmt.Sprint(len(want)) {
			t.Errorf("Content-Type %q, Content-Length %q", ct, n)
		}
		if !bytes.Equal(sub.Entry.Certificate(), c.SignedEntry) {
			t.Error("the entry is not what the CA signed")
		}
		var names struct{ DNS []string }
		line := tlog.Leaf{Entry: sub.Entry}.AppendNamesLine(nil)
		if err := json.Unmarshal(line, &names); err != nil || len(names.DNS) == 0 {
			t.Errorf("names line %s: %v", line, err)
		}
	}
	if got := s.outcomes(t, "add-chain", "ok") + s.outcomes(t, "add-pre-chain", "ok"); got != 2 {
		t.Errorf("%v requests counted, want 2", got)
	}
}

// TestAnswers gives every error of the log to the client: status, sentence,
// headers and metric as in the table of the design, nothing internal.
func TestAnswers(t *testing.T) {
	secret := errors.New("open /secret/path: permission denied")
	for _, c := range []struct {
		err    error
		status int
		label  string
		says   string
	}{
		{sequencer.ErrFull, 503, "full", "at its capacity"},
		{fmt.Errorf("wrapped: %w", sequencer.ErrFull), 503, "full", "at its capacity"},
		{sequencer.ErrEvicted, 503, "evicted", "fresher"},
		{sequencer.ErrBusy, 503, "busy", "overloaded"},
		{fmt.Errorf("%w: %w", sequencer.ErrStorage, secret), 503, "storage", "short of storage"},
		{fmt.Errorf("%w: %w", sequencer.ErrClock, secret), 503, "clock", "does not trust its clock"},
		{sequencer.ErrClosed, 503, "closed", "shutting down"},
		{fmt.Errorf("%w: %w", sequencer.ErrRound, secret), 503, "round-failed", "submit it again"},
		{sequencer.ErrLimited, 429, "limited", "slow down"},
		{sequencer.ErrSunset, 410, "sunset", "read-only"},
		{fmt.Errorf("%w: %w", sequencer.ErrHalted, secret), 500, "halted", "has stopped"},
		{secret, 500, "internal", "failed to process"},
		// Only the request's own end makes these the client's doing.
		{context.Canceled, 500, "internal", "failed to process"},
		{context.DeadlineExceeded, 500, "internal", "failed to process"},
	} {
		s := newSite(t, Options{})
		s.log.err = c.err
		w := post(s, "add-chain", s.chain(t, 1, testca.Leaf{}).Body())
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: status %d, body %q; want %d, %q", c.err, w.Code, w.Body, c.status, c.says)
		}
		checkSentence(t, c.label, w.Body.String())
		retry := ""
		if c.status == 503 || c.status == 429 {
			retry = "1"
		}
		h := w.Header()
		if h.Get("Retry-After") != retry || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%v: headers %v", c.err, h)
		}
		if n := s.outcomes(t, "add-chain", c.label); n != 1 {
			t.Errorf("%v: %v requests are counted as %s", c.err, n, c.label)
		}
	}
}

// TestEveryAnswerIsPlain checks all rows of the table, the sentences that no
// test provokes too.
func TestEveryAnswerIsPlain(t *testing.T) {
	labels := map[string]bool{outcomeOK: true}
	for _, a := range answers {
		checkSentence(t, a.label, a.sentence+"\n")
		if labels[a.label] || a.label == "" || strings.Trim(a.label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("label %q is used twice or not plain", a.label)
		}
		labels[a.label] = true
		if got := answerTo(context.Background(), fmt.Errorf("x: %w", a.reason)); got != a {
			t.Errorf("%v is answered as %v", a.reason, got.label)
		}
	}
}

func TestSignerFails(t *testing.T) {
	s := newSite(t, Options{Signer: fakeSigner{err: errors.New("no entropy")}})
	if w := post(s, "add-chain", s.chain(t, 1, testca.Leaf{}).Body()); w.Code != 500 || strings.Contains(w.Body.String(), "entropy") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestGetRoots: the list is what is accepted, no more and no less (RFC 6962
// section 4.7), also after it grew.
func TestGetRoots(t *testing.T) {
	s := newSite(t, Options{})
	other := newCA(t, testca.Options{})
	list := func() (fps [][32]byte) {
		var got struct{ Certificates [][]byte }
		if err := json.Unmarshal(get(s, "get-roots").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, der := range got.Certificates {
			fps = append(fps, sha256.Sum256(der))
		}
		return fps
	}
	theirs, err := other.Make(1, testca.Leaf{NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	ours := s.chain(t, 1, testca.Leaf{})
	accepted := func(want ...bool) {
		t.Helper()
		for i, c := range []testca.Chain{ours, theirs} {
			if got := post(s, "add-chain", c.Body()).Code == 200; got != want[i] {
				t.Errorf("chain %d accepted: %v", i, got)
			}
		}
	}
	root := mustParse(t, other.Issuers()[1])
	accepted(true, false)
	if l := list(); len(l) != 1 || slices.Contains(l, root.Fingerprint) {
		t.Errorf("get-roots lists %x", l)
	}
	s.o.Roots.Union([]*cert.Certificate{root})
	accepted(true, true)
	if l := list(); len(l) != 2 || l[1] != root.Fingerprint {
		t.Errorf("get-roots lists %x", l)
	}
}

// TestClientGone: who hangs up is counted apart and is nobody's fault.
func TestClientGone(t *testing.T) {
	var events bytes.Buffer
	for name, cancelled := range map[string]bool{"client-gone": true, "timeout": false} {
		ctx, cancel := context.WithCancel(context.Background())
		if !cancelled {
			ctx, cancel = context.WithDeadline(context.Background(), time.Unix(0, 0))
		}
		l := &fakeLog{add: func(ctx context.Context, _ sequencer.Submission) (tlog.Position, error) {
			cancel()
			<-ctx.Done()
			return tlog.Position{}, fmt.Errorf("waiting: %w", ctx.Err())
		}}
		s := newSite(t, Options{Log: l, Logger: slog.New(slog.NewTextHandler(&events, nil))})
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/ct/v1/add-chain", bytes.NewReader(s.chain(t, 1, testca.Leaf{}).Body()))
		s.ServeHTTP(w, r.WithContext(ctx))
		if n := s.outcomes(t, "add-chain", name); n != 1 || w.Code != 503 {
			t.Errorf("%s: counted %v, status on the wire %d", name, n, w.Code)
		}
	}
	if events.Len() > 0 {
		t.Errorf("it was logged above Debug: %s", &events)
	}
}

// TestPreflight: who will be refused anyway is refused before the body is read.
func TestPreflight(t *testing.T) {
	var asked netip.Prefix
	o := Options{TrustedProxies: testProxies, Preflight: func(from netip.Prefix, p sequencer.Priority) error {
		asked = from
		if p != sequencer.High {
			t.Errorf("asked for %v before anything is known of the entry", p)
		}
		return sequencer.ErrFull
	}}
	s := newSite(t, o)
	r := httptest.NewRequest("POST", "/ct/v1/add-chain", readFails{t})
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 198.51.100.7")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || asked != netip.MustParsePrefix("198.51.100.7/32") {
		t.Errorf("status %d, asked for %v", w.Code, asked)
	}
}

// TestPreflightByPriority: a pool that would take a fresh entry only refuses an old
// one before any signature is verified.
func TestPreflightByPriority(t *testing.T) {
	var asked []sequencer.Priority
	s := newSite(t, Options{Preflight: func(_ netip.Prefix, p sequencer.Priority) error {
		asked = append(asked, p)
		if p == sequencer.Low {
			return sequencer.ErrFull
		}
		return nil
	}})
	now := time.Now()
	for i, c := range []struct {
		leaf testca.Leaf
		want int
		asks []sequencer.Priority
	}{
		{testca.Leaf{Precert: true}, 200, []sequencer.Priority{sequencer.High, sequencer.High, sequencer.High}},
		{testca.Leaf{Precert: true, NotBefore: now.Add(-72 * time.Hour)}, 503, []sequencer.Priority{sequencer.High, sequencer.High, sequencer.Low}},
	} {
		asked = nil
		chain := s.chain(t, uint64(i), c.leaf).Certificates
		// A broken signature would be noticed, and answered with 400.
		if c.want == 503 {
			leaf := chain[0]
			leaf[len(leaf)-1] ^= 1
		}
		w := post(s, "add-pre-chain", chainBody(chain))
		if w.Code != c.want || !slices.Equal(asked, c.asks) {
			t.Errorf("status %d, want %d; asked %v, want %v", w.Code, c.want, asked, c.asks)
		}
	}
}

type readFails struct{ t *testing.T }

func (r readFails) Read([]byte) (int, error) {
	r.t.Error("the body is read")
	return 0, io.EOF
}

// TestSubmission checks what goes to the log beside the entry.
func TestSubmission(t *testing.T) {
	s := newSite(t, Options{TrustedProxies: testProxies})
	now := time.Now().Truncate(time.Second)
	for _, c := range []struct {
		name string
		leaf testca.Leaf
		want sequencer.Priority
	}{
		{"fresh precertificate", testca.Leaf{Precert: true}, sequencer.High},
		{"precertificate of 47 hours", testca.Leaf{Precert: true, NotBefore: now.Add(-47 * time.Hour)}, sequencer.High},
		{"precertificate of 48 hours", testca.Leaf{Precert: true, NotBefore: now.Add(-48 * time.Hour)}, sequencer.Low},
		{"precertificate of the future", testca.Leaf{Precert: true, NotBefore: now.Add(48 * time.Hour)}, sequencer.High},
		{"certificate", testca.Leaf{}, sequencer.High},
		{"old certificate", testca.Leaf{NotBefore: now.Add(-1000 * time.Hour)}, sequencer.High},
		{"certificate with SCTs", testca.Leaf{SCTs: [][]byte{{1, 2, 3}}}, sequencer.Low},
	} {
		chain := s.chain(t, 1, c.leaf)
		r := httptest.NewRequest("POST", "/"+chain.Endpoint(), bytes.NewReader(chain.Body()))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "2001:db8:7:7:7::7")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("%s: status %d: %s", c.name, w.Code, w.Body)
		}
		sub := s.log.last()
		if sub.Priority != c.want {
			t.Errorf("%s: priority %v, want %v", c.name, sub.Priority, c.want)
		}
		if sub.Submitter != netip.MustParsePrefix("2001:db8:7:7::/64") {
			t.Errorf("%s: submitter %v", c.name, sub.Submitter)
		}
		for i, der := range s.ca.Issuers() {
			if !bytes.Equal(sub.Issuers[i], der) || sub.Entry.Chain()[i] != sha256.Sum256(der) {
				t.Errorf("%s: issuer %d is another one", c.name, i)
			}
		}
	}
}

// TestEvents: one event a request, at Debug, or at Error for a fault of ours.
func TestEvents(t *testing.T) {
	var out bytes.Buffer
	l := &fakeLog{}
	s := newSite(t, Options{Log: l, Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	c := s.chain(t, 1, testca.Leaf{Precert: true})
	post(s, "add-pre-chain", c.Body())
	post(s, "add-chain", c.Body())
	l.err = errors.New("disk on fire")
	post(s, "add-pre-chain", c.Body())
	get(s, "get-roots")
	get(s, "get-sth")
	var got []string
	for line := range strings.Lines(out.String()) {
		var e struct {
			Level, Endpoint, Outcome, Error, Leaf string
			Status, Chain                         int
			Timestamp                             int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Level, " ", e.Endpoint, " ", e.Status, " ", e.Outcome, " ", e.Chain, " ", len(e.Leaf), " ", e.Timestamp))
		if (e.Error != "") != (e.Outcome != "ok") {
			t.Errorf("error %q for outcome %s", e.Error, e.Outcome)
		}
	}
	want := []string{
		"DEBUG add-pre-chain 200 ok 2 64 1750000000123",
		"DEBUG add-chain 400 wrong-endpoint 2 0 0",
		"ERROR add-pre-chain 500 internal 2 64 0",
		"DEBUG get-roots 200 ok 0 0 0",
		"DEBUG other 404 not-found 0 0 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMetrics: the series exist from the start, and nothing is left in flight.
func TestMetrics(t *testing.T) {
	s := newSite(t, Options{})
	requests := s.series(t, "daybook_submission_requests_total")
	if want := 2*(len(answers)+1) + 1; len(requests) != want {
		t.Errorf("%d series of requests, want %d", len(requests), want)
	}
	c := s.chain(t, 1, testca.Leaf{IncludeRoot: true})
	for range 3 {
		post(s, "add-chain", c.Body())
	}
	lookups := s.series(t, "daybook_submission_issuer_lookups_total")
	if lookups["hit"] != 5 || lookups["miss"] != 1 {
		t.Errorf("issuer lookups: %v; want 5 hits and 1 miss: the intermediate was parsed once, the root never", lookups)
	}
	for name, want := range map[string]float64{
		"daybook_submission_in_flight_requests":          0,
		"daybook_submission_accepted_roots":              1,
		"daybook_submission_validation_duration_seconds": 3,
		"daybook_submission_validation_wait_seconds":     3,
	} {
		if got := s.series(t, name)[""]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if got := s.series(t, "daybook_submission_request_duration_seconds")["add-chain"]; got != 3 {
		t.Errorf("%v durations of add-chain", got)
	}
	if _, err := NewHandler(Options{Log: &fakeLog{}, Signer: fakeSigner{}, Roots: s.o.Roots, Metrics: s.reg}); err == nil {
		t.Error("two handlers share one set of metrics")
	}
}

func TestOptions(t *testing.T) {
	roots := parseRoots(t, newCA(t, testca.Options{}).RootPEM())
	day := func(n int) time.Time { return time.Date(2027, 1, n, 0, 0, 0, 0, time.UTC) }
	for name, o := range map[string]Options{
		"no log":       {Signer: fakeSigner{}, Roots: roots},
		"no signer":    {Log: &fakeLog{}, Roots: roots},
		"no roots":     {Log: &fakeLog{}, Signer: fakeSigner{}},
		"empty window": {Log: &fakeLog{}, Signer: fakeSigner{}, Roots: roots, Window: Window{day(2), day(2)}},
		"turned round": {Log: &fakeLog{}, Signer: fakeSigner{}, Roots: roots, Window: Window{day(2), day(1)}},
	} {
		if _, err := NewHandler(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestWindow: the start is inside, the limit is not, and each end may be open.
func TestWindow(t *testing.T) {
	start, limit := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		window Window
		at     time.Time
		want   bool
	}{
		{Window{start, limit}, start, true},
		{Window{start, limit}, start.Add(-time.Second), false},
		{Window{start, limit}, limit.Add(-time.Second), true},
		{Window{start, limit}, limit, false},
		{Window{Limit: limit}, time.Time{}, true},
		{Window{Limit: limit}, limit, false},
		{Window{Start: start}, start.AddDate(8000, 0, 0), true},
		{Window{Start: start}, start.Add(-1), false},
		{Window{}, start, true},
	} {
		if got := c.window.contains(c.at); got != c.want {
			t.Errorf("%v contains %v: %v", c.window, c.at, got)
		}
	}
}
