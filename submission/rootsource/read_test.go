package rootsource

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// site is a web server whose answer a test sets.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	hits   int
}

func (s *site) set(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.hits++
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) source(t *testing.T) Source {
	t.Helper()
	source, err := CCADB(s.URL + "/roots.csv")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// TestAnswers: whatever a server answers in place of a report, the roots that
// are known stay, an error is logged and the outcome is counted.
func TestAnswers(t *testing.T) {
	r := newRoots(t, 3)
	report := reportOf(r...)
	const size = 64 << 10
	for _, test := range []struct {
		name    string
		answer  http.HandlerFunc
		outcome string
		cause   string
	}{
		{"HTML", text("<html><body>Sorry</body></html>"), outcomeUnusable, "a web page"},
		{"empty", text(""), outcomeUnusable, "it is empty"},
		{"truncated report", text(report[:len(report)-300]), outcomeUnusable, "quote"},
		{"500 with a report", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, report)
		}, outcomeUnreadable, "status 500"},
		{"404", http.NotFound, outcomeUnreadable, "status 404"},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, outcomeUnreadable, "status 204"},
		{"206", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(206)
			_, _ = io.WriteString(w, report)
		}, outcomeUnreadable, "status 206"},
		{"304 that nobody asked for", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, outcomeUnreadable, "status 304"},
		{"cut connection", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(report)))
			_, _ = io.WriteString(w, report[:len(report)/2])
		}, outcomeUnreadable, "unexpected EOF"},
		{"cut chunks", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, report)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, outcomeUnreadable, "unexpected EOF"},
		{"huge by its length", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size+1))
			_, _ = io.WriteString(w, strings.Repeat("x", size+1))
		}, outcomeUnusable, "65537 bytes, of which 65536 are possible"},
		{"huge without a length", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, report); err != nil {
					return
				}
			}
		}, outcomeUnusable, "more than 65536 bytes"},
		{"huge when unpacked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("x", 10*size))
			_ = z.Close()
		}, outcomeUnusable, "more than 65536 bytes"},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, outcomeUnreadable, "deadline exceeded"},
		{"answer without end", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, report[:100])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, outcomeUnreadable, "deadline exceeded"},
		{"redirects in a circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/roots.csv", http.StatusFound) }, outcomeUnreadable, "more than 5 redirects"},
		{"redirect to plain HTTP elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://ct.example.com/roots.csv", http.StatusFound)
		}, outcomeUnreadable, `the redirect to http://ct.example.com/roots.csv is refused: its scheme is \"http\"`},
		{"redirect to a file", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file://localhost/etc/passwd", http.StatusFound)
		}, outcomeUnreadable, `its scheme is \"file\"`},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, "SSH-2.0-x\r\n")
			_ = c.Close()
		}, outcomeUnreadable, "malformed HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			s.set(text(report))
			f := newFixture(t, Options{MaxSize: size, Timeout: 300 * time.Millisecond})
			a := f.open(newStore(), s.source(t))
			if a.Roots().Len() != 3 || f.reloads(s.source(t), outcomeOK) != 1 || f.lines.Count("level=ERROR") > 0 {
				t.Fatalf("%d roots at first\n%s", a.Roots().Len(), f.lines)
			}
			success := value(t, f.registry, "daybook_roots_last_success_timestamp_seconds", s.source(t).String())
			before := a.Roots().PEM()

			s.set(test.answer)
			f.again(a)
			if !bytes.Equal(a.Roots().PEM(), before) || len(newAPI(t, a.Roots()).listed()) != 3 {
				t.Error("the accepted roots have changed")
			}
			if n := f.reloads(s.source(t), test.outcome); n != 1 {
				t.Errorf("%s counted %d times", test.outcome, n)
			}
			if f.lines.Count("level=ERROR", "could not be read from a source", "source="+s.source(t).String(), test.outcome) != 1 || !strings.Contains(f.lines.String(), test.cause) || strings.Contains(f.lines.String(), "Get ") {
				t.Errorf("the log does not say %q, and the URL once:\n%s", test.cause, f.lines)
			}
			if now := value(t, f.registry, "daybook_roots_last_success_timestamp_seconds", s.source(t).String()); now != success || now == 0 {
				t.Errorf("last success at %v and then %v", success, now)
			}

			// And it goes on as if nothing had been.
			more := newRoots(t, 1)[0]
			s.set(text(reportOf(more)))
			f.again(a)
			if a.Roots().Len() != 4 || f.reloads(s.source(t), outcomeOK) != 2 {
				t.Errorf("%d roots in the end\n%s", a.Roots().Len(), f.lines)
			}
		})
	}
}

// TestRequest: what the server sees, and that an unchanged report costs it
// nothing.
func TestRequest(t *testing.T) {
	r := newRoots(t, 2)
	s := newSite(t)
	version, hops, unmodified := `"v1"`, 0, 0
	var mu sync.Mutex // guards them
	s.set(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if req.UserAgent() != "daybook/1" || req.Method != "GET" || !req.Close {
			t.Errorf("%s from %q, which keeps the connection: %v", req.Method, req.UserAgent(), !req.Close)
		}
		if hops < 5 {
			hops++
			http.Redirect(w, req, fmt.Sprintf("/%d", hops), http.StatusMovedPermanently)
			return
		}
		hops = 0
		w.Header().Set("ETag", version)
		w.Header().Set("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
		if req.Header.Get("If-None-Match") == version && req.Header.Get("If-Modified-Since") != "" {
			unmodified++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, reportOf(r...))
	})
	f := newFixture(t, Options{UserAgent: "daybook/1"})
	a := f.open(newStore(), s.source(t))
	reading := f.readings(a.o.Sources)[0]
	if a.Roots().Len() != 2 || s.requests() != 6 {
		t.Fatalf("%d roots after %d requests", a.Roots().Len(), s.requests())
	}
	first := &reading.roots[0]
	for i, outcome := range []string{outcomeUnchanged, outcomeUnchanged} {
		if f.again(a); f.reloads(s.source(t), outcome) != i+1 || &reading.roots[0] != first {
			t.Errorf("reading %d: %s", i, f.lines)
		}
	}
	// Another version with the same bytes is no news either.
	mu.Lock()
	if unmodified != 2 {
		t.Errorf("%d answers without a body, want 2", unmodified)
	}
	version = `"v2"`
	mu.Unlock()
	if f.again(a); f.reloads(s.source(t), outcomeUnchanged) != 3 || reading.content.etag != `"v2"` || &reading.roots[0] != first {
		t.Errorf("the same bytes were parsed again: %s", f.lines)
	}
	if n := s.requests(); n != 4*6 {
		t.Errorf("%d requests", n)
	}
}

func TestSources(t *testing.T) {
	for _, location := range []string{"https://ccadb.example.org/x?y", "http://127.0.0.1:80/x", "http://[::1]/x", "http://localhost/x"} {
		if s, err := CCADB(location); err != nil || s.String() != location || !s.remote() {
			t.Errorf("%s: %v, %v", location, s, err)
		}
	}
	if s, err := CCADB("/etc/roots.csv"); err != nil || s.remote() || s == PEM("/etc/roots.csv") {
		t.Errorf("a file: %+v, %v", s, err)
	}
	for _, location := range []string{"http://ccadb.example.org/", "https://", "https:///x", "ftp://localhost/x", "https://u:p@ccadb.example.org/", "https://a b/", "://"} {
		if s, err := CCADB(location); err == nil || strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: %v, %v", location, s, err)
		}
	}
}

// answers is a transport without a network.
type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// A redirect never leads from https to plain HTTP, not even of this host.
func TestRedirectToPlainHTTP(t *testing.T) {
	f := newFixture(t, Options{Transport: answers(func(r *http.Request) (*http.Response, error) {
		if r.URL.Scheme != "https" {
			t.Errorf("request to %s", r.URL)
		}
		return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"http://127.0.0.1/x"}}, Body: http.NoBody, Request: r}, nil
	})})
	source, err := CCADB("https://ccadb.example.org/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.tryOpen(newStore(), source); err == nil || !strings.Contains(err.Error(), "the redirect to http://127.0.0.1/x is refused") {
		t.Error(err)
	}
}

// TestDirectory: of a directory the PEM files count, and one that is no good
// hinders no other.
func TestDirectory(t *testing.T) {
	r := newRoots(t, 6)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a.pem"), r[0])
	write(t, at("b.CRT"), r[1]+r[0])
	write(t, at("c.txt"), r[2])
	write(t, at(".hidden.pem"), r[2])
	write(t, at("d.pem"), "<html>")
	write(t, at("e.pem"), r[3]+"-----BEGIN CERTIFICATE-----\nx")
	outside := write(t, filepath.Join(t.TempDir(), "linked"), r[4])
	for link, target := range map[string]string{"f.pem": outside, "g.pem": at("nowhere")} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("h.pem"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, at("h.pem/i.pem"), r[5])
	if err := unix.Mkfifo(at("j.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, Options{})
	a := f.open(newStore(), PEM(dir))
	listed := newAPI(t, a.Roots()).listed()
	if len(listed) != 4 {
		t.Fatalf("%d roots\n%s", len(listed), f.lines)
	}
	for i, n := range []int{0, 1, 3, 4} {
		if !bytes.Equal(listed[i], ders(t, []byte(r[n]))[0]) {
			t.Errorf("root %d is another one", i)
		}
	}
	for name, reason := range map[string]string{"d.pem": "no usable root", "e.pem": "root certificate skipped (PEM block 2", "g.pem": "no such file",
		"h.pem": "not a regular file", "j.pem": "not a regular file"} {
		if f.lines.Count("level=WARN", "a root was left out", "source="+dir, "cause=\""+name+": ", reason) != 1 {
			t.Errorf("%s is not named with its reason %q:\n%s", name, reason, f.lines)
		}
	}
	if n := value(t, f.registry, "daybook_roots_listed", dir); n != 4 {
		t.Errorf("%v listed", n)
	}
	if n := value(t, f.registry, "daybook_roots_skipped", dir); n != 5 {
		t.Errorf("%v skipped", n)
	}
	// A new file counts; a lost one takes nothing away.
	if err := os.Remove(at("a.pem")); err != nil {
		t.Fatal(err)
	}
	write(t, at("b.CRT"), "")
	write(t, at("k.pem"), r[5])
	if f.again(a); a.Roots().Len() != 5 {
		t.Errorf("%d roots\n%s", a.Roots().Len(), f.lines)
	}
}

func TestUnreadableFiles(t *testing.T) {
	r := newRoots(t, 1)[0]
	dir := t.TempDir()
	empty := t.TempDir()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.pem"), r)
	write(t, filepath.Join(dir, "b.pem"), strings.Repeat("x", 5000))
	csv, err := CCADB(dir)
	if err != nil {
		t.Fatal(err)
	}
	report, err := CCADB(write(t, filepath.Join(t.TempDir(), "roots.pem"), r))
	if err != nil {
		t.Fatal(err)
	}
	together := t.TempDir()
	for _, name := range []string{"a.pem", "b.pem"} {
		write(t, filepath.Join(together, name), r+strings.Repeat("x", 2500))
	}
	for _, test := range []struct {
		source  Source
		outcome string
		cause   string
	}{
		{PEM(together), outcomeUnusable, "with b.pem: it is no list of roots: it is too large"},
		{PEM(filepath.Join(dir, "none.pem")), outcomeUnreadable, "no such file"},
		{PEM(pipe), outcomeUnreadable, "not a regular file"},
		{csv, outcomeUnreadable, "not a regular file"},
		{report, outcomeUnusable, "a PEM file"},
		{PEM(empty), outcomeUnusable, "no file *.pem or *.crt"},
		{PEM(dir), outcomeUnusable, "with b.pem: it is no list of roots: it is too large"},
		{PEM(write(t, filepath.Join(t.TempDir(), "roots.csv"), reportOf(r))), outcomeUnusable, "no usable root"},
		{PEM(write(t, filepath.Join(t.TempDir(), "x"), strings.Repeat(r, 10))), outcomeUnusable, "more than 4000 bytes"},
	} {
		f := newFixture(t, Options{MaxSize: 4000})
		if err := f.load(context.Background(), []Source{test.source}, func(*reading) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if f.reloads(test.source, test.outcome) != 1 || f.lines.Count("level=ERROR", test.cause) != 1 {
			t.Errorf("%s: want %s, %q; the log:\n%s", test.source, test.outcome, test.cause, f.lines)
		}
	}
}
