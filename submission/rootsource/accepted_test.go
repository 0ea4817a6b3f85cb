package rootsource

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/submission"
)

// TestMonitorRoot: the built-in root is the one that it says it is.
func TestMonitorRoot(t *testing.T) {
	a := newFixture(t, Options{}).open(newStore(), MergeDelayMonitor())
	listed := a.Roots().Missing(nil)
	roots := stored(t, a.o.Store)
	if len(listed) != 0 || len(roots) != 1 || fmt.Sprintf("%x", roots[0].Fingerprint) != "86d8219c7e2b6009e37eb14356268489b81379e076e8f372e3dde8c162a34134" {
		t.Errorf("%d roots", len(roots))
	}
	if names := string(roots[0].NamesJSON()); !strings.Contains(names, `"Merge Delay Monitor Root"`) || !strings.Contains(names, "Google UK Ltd.") {
		t.Error(names)
	}
}

// TestFirstStart: a new log starts if some source has roots, and otherwise says
// what is wrong with each.
func TestFirstStart(t *testing.T) {
	r := newRoots(t, 2)
	dir := t.TempDir()
	good, other := PEM(write(t, filepath.Join(dir, "good.pem"), r[0])), PEM(write(t, filepath.Join(dir, "other.pem"), r[1]+r[0]))
	missing, page := PEM(filepath.Join(dir, "none.pem")), PEM(write(t, filepath.Join(dir, "page.pem"), "<html>"))
	s := newSite(t)
	s.set(text("<html>"))
	report := s.source(t)
	for _, test := range []struct {
		name    string
		sources []Source
		roots   int
		want    []string // parts of the error
	}{
		{"one", []Source{good}, 1, nil},
		{"union", []Source{good, other, MergeDelayMonitor(), good}, 3, nil},
		{"one of two", []Source{missing, other}, 2, nil},
		{"built-in alone", []Source{MergeDelayMonitor()}, 1, nil},
		{"none", nil, 0, []string{"no usable root"}},
		{"failing file", []Source{missing}, 0, []string{missing.String(), "no such file", "no usable root"}},
		{"failing URL", []Source{report}, 0, []string{report.String(), "web page"}},
		{"all fail", []Source{missing, page, report, MergeDelayMonitor()}, 0, []string{missing.String(), page.String(), report.String()}},
	} {
		f := newFixture(t, Options{})
		store := newStore()
		a, err := f.tryOpen(store, test.sources...)
		if test.want == nil {
			if err != nil || a.Roots().Len() != test.roots || len(stored(t, store)) != test.roots {
				t.Errorf("%s: %v, want %d roots", test.name, err, test.roots)
			}
			continue
		}
		if a != nil || !errors.Is(err, submission.ErrNoRoots) {
			t.Errorf("%s: started, or stopped by %v", test.name, err)
			continue
		}
		for _, part := range test.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", test.name, err, part)
			}
		}
		if _, err := store.Get(t.Context(), object); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: a set was stored, %v", test.name, err)
		}
	}
}

// TestNeverShrinks: what a log has accepted it accepts for good, through
// sources that list less, sources that fail, other sources, and restarts.
func TestNeverShrinks(t *testing.T) {
	cas := []*testca.CA{newCA(t), newCA(t), newCA(t), newCA(t)}
	pems := make([]string, len(cas))
	for i, ca := range cas {
		pems[i] = string(ca.RootPEM())
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "roots.pem")
	file := PEM(path)
	s := newSite(t)
	report := s.source(t)
	store := newStore()
	check := func(step string, a *Accepted, want int) {
		t.Helper()
		api := newAPI(t, a.Roots())
		listed := api.listed()
		kept := stored(t, store)
		if len(listed) != want || len(kept) != want {
			t.Fatalf("%s: get-roots has %d roots, _roots.pem %d, want %d", step, len(listed), len(kept), want)
		}
		for i := range want { // in the order in which they came
			if !bytes.Equal(listed[i], ders(t, []byte(pems[i]))[0]) || !bytes.Equal(kept[i].Raw, listed[i]) {
				t.Errorf("%s: root %d is another one", step, i)
			}
		}
		for i, ca := range cas {
			if api.takes(ca, 1) != (i < want) {
				t.Errorf("%s: a chain under root %d is taken: %v", step, i, i >= want)
			}
		}
	}

	write(t, path, pems[0])
	s.set(text(reportOf(pems[1], pems[0])))
	f := newFixture(t, Options{})
	a := f.open(store, file, report)
	check("first start", a, 2)

	write(t, path, "")
	s.set(text(reportOf(pems[2])))
	f.again(a)
	check("the file empty, the report another one", a, 3)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.set(text("<html>"))
	f.again(a)
	check("both fail", a, 3)

	s.Close()
	f = newFixture(t, Options{})
	check("restart with nothing there", f.open(store, file, report), 3)
	if f.reloads(file, outcomeUnreadable) != 1 || f.lines.Count("level=ERROR", path) != 1 || f.lines.Count("no source lists") != 0 {
		t.Errorf("no alert, or a guess about what is listed:\n%s", f.lines)
	}

	write(t, path, pems[3])
	f = newFixture(t, Options{})
	puts := store.written()
	check("restart with other sources", f.open(store, file), 4)
	if f.lines.Count("level=INFO", "no source lists stay accepted", "roots=3") != 1 || store.written() != puts+1 {
		t.Errorf("%d puts; the log:\n%s", store.written()-puts, f.lines)
	}
	f = newFixture(t, Options{})
	check("restart without news", f.open(store, file), 4)
	check("restart without sources", newFixture(t, Options{}).open(store), 4)
	if store.written() != puts+1 {
		t.Errorf("%d puts without news", store.written()-puts-1)
	}
}

// TestStoredText: what stands in _roots.pem stays as it is, whoever wrote it,
// and what cannot be read of it is named.
func TestStoredText(t *testing.T) {
	r := newRoots(t, 3)
	old := "\n# CN=Root\n# added on 2026-01-01T00:00:00Z from CCADB\n" + r[0] + "\n" +
		"-----BEGIN CERTIFICATE-----\nTm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n" + strings.TrimSpace(r[1])
	store := newStore()
	put := func(text string) {
		t.Helper()
		if err := store.Put(t.Context(), storage.Object{Name: object, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	put(old)
	f := newFixture(t, Options{})
	path := write(t, filepath.Join(t.TempDir(), "roots.pem"), r[1]+r[2])
	a := f.open(store, PEM(path))
	got, err := store.Get(t.Context(), object)
	if err != nil || string(got) != old+"\n"+r[2] || a.Roots().Len() != 3 {
		t.Errorf("%d roots, %v, in\n%s", a.Roots().Len(), err, got)
	}
	if f.lines.Count("level=ERROR", "cannot be accepted", "PEM block 2, line ") != 1 {
		t.Errorf("the bad one is not named:\n%s", f.lines)
	}

	// A set that is there but cannot be read is no absent one.
	for _, text := range []string{"", "\n", "<html>", "-----BEGIN CERTIFICATE-----\n"} {
		put(text)
		if _, err := newFixture(t, Options{}).tryOpen(store, PEM(path)); !errors.Is(err, submission.ErrNoRoots) || !strings.Contains(err.Error(), "_roots.pem from which no root can be read") {
			t.Errorf("%q: %v", text, err)
		}
	}
	fire := errors.New("disk on fire")
	store.fail(nil, fire)
	if _, err := newFixture(t, Options{}).tryOpen(store, PEM(path)); !errors.Is(err, fire) {
		t.Error(err)
	}
}

// TestStoreRefuses: no root is accepted before the storage has it.
func TestStoreRefuses(t *testing.T) {
	r := newRoots(t, 2)
	path := write(t, filepath.Join(t.TempDir(), "roots.pem"), r[0])
	store := newStore()
	full := errors.New("no space")
	store.fail(full, nil)
	f := newFixture(t, Options{})
	if _, err := f.tryOpen(store, PEM(path)); !errors.Is(err, full) {
		t.Errorf("first start: %v", err)
	}
	store.fail(nil, nil)
	registry := prometheus.NewRegistry()
	a, err := f.Open(t.Context(), LogOptions{Sources: []Source{PEM(path)}, Store: store, Logger: f.logger, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, r[1])
	if err := f.load(t.Context(), a.o.Sources, func(*reading) bool { return true }); err != nil {
		t.Fatal(err)
	}
	store.fail(full, nil)
	for range 2 {
		if err := a.Update(t.Context()); !errors.Is(err, full) || a.Roots().Len() != 1 {
			t.Errorf("%d roots, %v", a.Roots().Len(), err)
		}
	}
	if n := value(t, registry, "daybook_roots_store_failures_total"); n != 2 || f.lines.Count("level=ERROR", "are not accepted yet", "no space") != 2 {
		t.Errorf("%v failures\n%s", n, f.lines)
	}
	store.fail(nil, nil)
	if err := a.Update(t.Context()); err != nil || a.Roots().Len() != 2 || len(stored(t, store)) != 2 {
		t.Errorf("%d roots, %v", a.Roots().Len(), err)
	}
}

// TestShared: logs share what was read and parsed, and nothing of what they
// accept.
func TestShared(t *testing.T) {
	cas := []*testca.CA{newCA(t), newCA(t)}
	s := newSite(t)
	s.set(text(reportOf(string(cas[0].RootPEM()))))
	own := PEM(write(t, filepath.Join(t.TempDir(), "own.pem"), string(cas[1].RootPEM())+string(cas[0].RootPEM())))
	f := newFixture(t, Options{})
	first, second := f.open(newStore(), s.source(t)), f.open(newStore(), own, s.source(t))
	if n := s.requests(); n != 1 {
		t.Errorf("%d requests for one URL", n)
	}
	if a, b := f.readings([]Source{s.source(t)})[0].roots[0], f.readings([]Source{own})[0].roots[1]; a != b {
		t.Error("a root was parsed twice")
	}
	for i, want := range []bool{true, false} {
		if newAPI(t, first.Roots()).takes(cas[i], 1) != want || !newAPI(t, second.Roots()).takes(cas[i], 1) {
			t.Errorf("root %d is not accepted where it should be", i)
		}
	}
	// A log that is opened later shares with what it finds in its storage.
	third := f.open(second.o.Store.(*faultyStore), own)
	if third.Roots().Len() != 2 || len(f.known) != 2 {
		t.Errorf("%d roots, %d parsed", third.Roots().Len(), len(f.known))
	}
}

// TestUnchanged: reading the same again forgets nothing of what was learned of
// issuers.
func TestUnchanged(t *testing.T) {
	ca, err := testca.New(testca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRoots(t, 1)[0]
	path := write(t, filepath.Join(t.TempDir(), "roots.pem"), string(ca.RootPEM()))
	f := newFixture(t, Options{})
	a := f.open(newStore(), PEM(path))
	registry := prometheus.NewRegistry()
	h, err := submission.NewHandler(submission.Options{Log: fakeLog{}, Signer: fakeLog{}, Roots: a.Roots(), Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	misses := func(n uint64) float64 {
		if !(api{h, t}).takes(ca, n) {
			t.Fatal("refused")
		}
		return value(t, registry, "daybook_submission_issuer_lookups_total", "miss")
	}
	if n := misses(1); n != 1 {
		t.Fatalf("%v misses of one intermediate", n)
	}
	f.again(a)
	write(t, path, "# other text, same roots\n"+string(ca.RootPEM()))
	f.again(a)
	if n := misses(2); n != 1 || f.reloads(PEM(path), outcomeOK) != 2 || f.reloads(PEM(path), outcomeUnchanged) != 1 {
		t.Errorf("%v misses after reading the same\n%s", n, f.lines)
	}
	// The test can see the difference: a new root makes a new set.
	write(t, path, r)
	f.again(a)
	if n := misses(3); n != 2 {
		t.Errorf("%v misses after a change", n)
	}
}

// TestManyBadRoots: lines about single certificates are bounded, in number and
// length.
func TestManyBadRoots(t *testing.T) {
	rows := []row{{newRoots(t, 1)[0], tlsUse, ""}}
	for range 500 {
		rows = append(rows, row{"x", tlsUse, ""})
	}
	report := strings.ReplaceAll(included(rows...), "CN=Root", strings.Repeat("CN=Root", 1000))
	source, err := CCADB(write(t, filepath.Join(t.TempDir(), "x.csv"), report))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, Options{})
	f.open(newStore(), source)
	if f.lines.Count("level=WARN", "a root was left out") != maxLines || f.lines.Count("level=WARN", "more roots were left out", "more=480") != 1 {
		t.Errorf("%d lines", f.lines.Count("level=WARN"))
	}
	for line := range strings.Lines(f.lines.String()) {
		if len(line) > 2*maxLineBytes {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if s := clip(strings.Repeat("ä", maxLineBytes)); len(s) > maxLineBytes+3 || !strings.HasSuffix(s, "ä...") {
		t.Errorf("clipped to %d bytes", len(s))
	}
	if s := clip(strings.Repeat("x", maxLineBytes-1) + "ä"); s != strings.Repeat("x", maxLineBytes-1)+"..." {
		t.Errorf("cut within a character: %q", s[maxLineBytes-2:])
	}
}

// TestPublicRoots: the list of a log in use, a messy one and one of odd roots
// are accepted together; get-roots lists each root once and byte for byte, and
// chains under a sampled root and the built-in one are taken.
func TestPublicRoots(t *testing.T) {
	dir := cases.Dir(t, "open")
	at := func(name string) Source { return PEM(filepath.Join(dir, "roots", name)) }
	// What a strict reader of PEM finds, but for what is no root.
	want := make(map[string]bool)
	for _, name := range []string{"arche2026h1-roots.pem", "quirky-roots.pem", "messy-roots.pem"} {
		for _, der := range ders(t, readFileT(t, filepath.Join(dir, "roots", name))) {
			if _, err := submission.ParseRoot(der); err == nil {
				want[string(der)] = true
			}
		}
	}
	f := newFixture(t, Options{})
	a := f.open(newStore(), at("arche2026h1-roots.pem"), at("quirky-roots.pem"), at("messy-roots.pem"), MergeDelayMonitor())
	api := newAPI(t, a.Roots())
	for _, der := range api.listed() {
		if !want[string(der)] {
			t.Errorf("a root that no file has, or twice: %.40x", der)
		}
		delete(want, string(der))
	}
	if len(want) > 0 {
		t.Errorf("%d roots are not listed", len(want))
	}
	if f.lines.Count("a root was left out", "end entity", "a01.aperta.example") != 1 || f.lines.Count("level=WARN") != 2 {
		t.Errorf("left out:\n%s", f.lines)
	}
	for name, endpoint := range map[string]string{"o03-precert-sectigo-root-omitted": "add-pre-chain", "o13-precert-googlemdm-direct": "add-pre-chain"} {
		var body struct {
			Chain []string `json:"chain"`
		}
		for _, der := range ders(t, readFileT(t, filepath.Join(dir, "chains", name+".pem"))) {
			body.Chain = append(body.Chain, base64.StdEncoding.EncodeToString(der))
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if !api.post("ct/v1/"+endpoint, b) {
			t.Errorf("%s is refused", name)
		}
		if none := newAPI(t, newFixture(t, Options{}).open(newStore(), at("quirky-roots.pem")).Roots()); none.post("ct/v1/"+endpoint, b) {
			t.Errorf("%s is taken without its root", name)
		}
	}
	t.Logf("%d roots", a.Roots().Len())
}
