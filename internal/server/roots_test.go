package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybook-ct/daybook/internal/testca"
)

// rootList serves a report of CCADB that a test sets.
type rootList struct {
	*httptest.Server
	mu       sync.Mutex
	text     string
	requests int
	hang     bool // no answer comes
}

func newRootList(t *testing.T) *rootList {
	t.Helper()
	l := &rootList{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.requests++
		text, hang := l.text, l.hang
		l.mu.Unlock()
		if hang {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(l.Close)
	return l
}

// list makes the report list the roots of these CAs.
func (l *rootList) list(cas ...*testca.CA) {
	text := "\"X.509 Certificate (PEM)\",\"Intended Use Case(s) Served\"\n"
	for _, ca := range cas {
		text += fmt.Sprintf("\"%s\",\"Server Authentication (TLS) 1.3.6.1.5.5.7.3.1\"\n", ca.RootPEM())
	}
	l.set(text, false)
}

func (l *rootList) set(text string, hang bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text, l.hang = text, hang
}

func (l *rootList) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// submitFrom submits a leaf of a CA and returns the status.
func (r *running) submitFrom(ca *testca.CA, log string, n uint64) int {
	r.t.Helper()
	chain, err := ca.Make(n, testca.Leaf{})
	if err != nil {
		r.t.Fatal(err)
	}
	code, _ := r.do("POST", "ct.example.com", "/"+log+"/"+chain.Endpoint(), chain.Body())
	return code
}

// roots returns what get-roots answers, as DER.
func (r *running) getRoots(log string) (list []string) {
	r.t.Helper()
	code, body := r.do("GET", "ct.example.com", "/"+log+"/ct/v1/get-roots", nil)
	var answer struct{ Certificates [][]byte }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 {
		r.t.Fatalf("get-roots: %d %v", code, err)
	}
	for _, der := range answer.Certificates {
		list = append(list, string(der))
	}
	return list
}

// TestRoots: two logs share a root list but not what they accept; asking reads
// it again while submissions go on; nothing is lost by a restart without it.
func TestRoots(t *testing.T) {
	p := newPlace(t)
	var cas []*testca.CA
	var ders []string
	for range 3 {
		ca := newPlace(t).ca
		cas, ders = append(cas, ca), append(ders, string(ca.Issuers()[1]))
	}
	report := newRootList(t)
	report.list(cas[0])
	a, b := p.log("a"), p.log("b")
	for _, o := range []*LogOptions{&a, &b} {
		o.RootFiles, o.CCADB = nil, []string{report.URL}
		p.create(*o)
	}
	p.write("roots.pem", cas[1].RootPEM())
	b.RootFiles = []string{p.path("roots.pem")}
	ask := make(chan os.Signal, 1)
	o := Options{Logs: []LogOptions{a, b}, ReloadRoots: ask}
	r := p.start(o)
	if n := report.count(); n != 1 {
		t.Errorf("%d requests of two logs", n)
	}
	check := func(when string, r *running, n uint64, want map[string][]int) {
		t.Helper()
		for log, numbers := range want {
			var listed []string
			for _, i := range numbers {
				listed = append(listed, ders[i])
			}
			if got := r.getRoots(log); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(listed))) {
				t.Errorf("%s: get-roots of %s has %d roots, want %d", when, log, len(got), len(listed))
			}
			for i, ca := range cas {
				if code := r.submitFrom(ca, log, n); (code == 200) != slices.Contains(numbers, i) || code != 200 && code != 400 {
					t.Errorf("%s: %s answers %d to a chain under root %d", when, log, code, i)
				}
			}
		}
	}
	check("at the start", r, 1, map[string][]int{"a": {0}, "b": {0, 1}})

	report.list(cas[2])
	ask <- syscall.SIGHUP
	await(t, "both logs have the new root", func() bool { return len(r.getRoots("a")) == 2 && len(r.getRoots("b")) == 3 })
	all := map[string][]int{"a": {0, 2}, "b": {0, 1, 2}}
	check("after a reload", r, 2, all)

	requests := report.count()
	report.set("", true)
	ask <- syscall.SIGHUP
	await(t, "the list is asked for", func() bool { return report.count() > requests })
	check("while the list hangs", r, 3, all)
	r.stop()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}

	// Neither a list that hangs nor one that is gone holds up a start.
	requests = report.count()
	r = p.start(o)
	await(t, "the list is asked for", func() bool { return report.count() > requests })
	check("after a restart while the list hangs", r, 4, all)
	r.stop()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
	report.Close()
	if err := os.Remove(p.path("roots.pem")); err != nil {
		t.Fatal(err)
	}
	r = p.start(o)
	await(t, "the failures are told", func() bool {
		return r.logs.Has("level=ERROR", "source="+report.URL) && r.logs.Has("level=ERROR", "source="+p.path("roots.pem"))
	})
	check("after a restart with nothing to read", r, 5, all)
	_, metrics := request(t, "GET", r.AdminAddr(), "", "/metrics", nil)
	for _, series := range []string{
		`daybook_roots_reload_total{outcome="unreadable",source="` + report.URL + `"} 1`,
		`daybook_roots_last_success_timestamp_seconds{source="` + report.URL + `"} 0`,
		`daybook_roots_store_failures_total{log="a"} 0`,
		`daybook_submission_accepted_roots{log="b"} 3`,
	} {
		if !strings.Contains(metrics, series+"\n") {
			t.Errorf("no series %s", series)
		}
	}
}

// TestRootsOfNewLog: a log without roots does not start, and says why.
func TestRootsOfNewLog(t *testing.T) {
	p := newPlace(t)
	report := newRootList(t)
	report.set("<html>", false)
	o := p.log("a")
	o.RootFiles, o.CCADB, o.MergeDelayMonitor = []string{p.path("none.pem")}, []string{report.URL}, true
	p.create(o)
	_, err := Start(t.Context(), Options{Logs: []LogOptions{o}, Listen: []string{"127.0.0.1:0"}})
	for _, part := range []string{"log a: loading the accepted roots: ", p.path("none.pem"), "no such file", report.URL, "a web page"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
	report.list(p.ca)
	r := p.start(Options{Logs: []LogOptions{o}})
	if code, body := p.submit(r, "a", 1); code != 200 || len(r.getRoots("a")) != 2 {
		t.Errorf("with one source that works: %d %s", code, body)
	}
}
