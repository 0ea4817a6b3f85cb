package readpath

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	issuerName = "issuer/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	bundleName = "staging/300-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// content of the test log's objects, as a client must see them.
var content = map[string]string{
	"checkpoint":         "log.example/2027\n300\nroot\n\n- signature\n",
	"log.v3.json":        `{"log_id":"x"}`,
	"_roots.pem":         "-----BEGIN CERTIFICATE-----\n",
	"tile/0/000":         strings.Repeat("full hash tile ", 500),
	"tile/0/001.p/44":    strings.Repeat("partial ", 44),
	"tile/0/x001/000":    "a deep one",
	"tile/1/000.p/1":     "upper",
	"tile/data/000":      strings.Repeat("data tile ", 1000),
	"tile/data/001.p/44": strings.Repeat("partial data tile ", 44),
	"tile/names/000":     strings.Repeat(`{"Timestamp":1}`+"\n", 256),
	issuerName:           "a certificate",
}

// newLog writes the test log with things that must never be served beside it.
func newLog(t testing.TB) (dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "data")
	for name, s := range content {
		b := []byte(s)
		if storage.KindOf(name).Gzip() {
			b = tlog.Compress(b)
		}
		writeFile(t, filepath.Join(dir, name), b)
	}
	writeFile(t, filepath.Join(top, "seed.bin"), []byte("secret"))
	for _, name := range []string{bundleName, ".tmp-checkpoint-1", "checkpoint.tmp", "tile/0/.000-123", "issuer/README", "cache.db", "lock.db", "tile/entries/000"} {
		writeFile(t, filepath.Join(dir, name), []byte("secret"))
	}
	return dir
}

func writeFile(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func newHandler(t testing.TB, dir string, o Options) *Handler {
	t.Helper()
	h, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func do(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantHeader(t *testing.T, r *http.Response, name, want string) {
	t.Helper()
	if got := strings.Join(r.Header.Values(name), "; "); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// TestObjects holds the headers of static-ct-api (clauses S9, S10, S18, S20,
// S26, S27, S29, S33, S35 of the conformance list) and of the design.
func TestObjects(t *testing.T) {
	h := newHandler(t, newLog(t), Options{})
	const long = "public, max-age=604800, immutable"
	for name, want := range map[string]struct{ contentType, cache, encoding, vary string }{
		"checkpoint":         {"text/plain; charset=utf-8", "no-store", "", ""},
		"log.v3.json":        {"application/json", "no-cache", "", ""},
		"_roots.pem":         {"application/x-pem-file", "no-cache", "", ""},
		"tile/0/000":         {"application/octet-stream", long, "", ""},
		"tile/0/001.p/44":    {"application/octet-stream", long, "", ""},
		"tile/0/x001/000":    {"application/octet-stream", long, "", ""},
		"tile/1/000.p/1":     {"application/octet-stream", long, "", ""},
		"tile/data/000":      {"application/octet-stream", long, "gzip", "Accept-Encoding"},
		"tile/data/001.p/44": {"application/octet-stream", long, "gzip", "Accept-Encoding"},
		"tile/names/000":     {"application/jsonl; charset=utf-8", long, "gzip", "Accept-Encoding"},
		issuerName:           {"application/pkix-cert", long, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(h, "GET", "/"+name)
			got := body(t, r)
			if r.StatusCode != 200 {
				t.Fatalf("status %d: %s", r.StatusCode, got)
			}
			wantHeader(t, r, "Content-Length", strconv.Itoa(len(got)))
			if want.encoding == "gzip" {
				b, err := tlog.Decompress([]byte(got), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != content[name] {
				t.Errorf("body is %.60q, want %.60q", got, content[name])
			}
			wantHeader(t, r, "Content-Type", want.contentType)
			wantHeader(t, r, "Cache-Control", want.cache)
			wantHeader(t, r, "Content-Encoding", want.encoding)
			wantHeader(t, r, "Vary", want.vary)
			wantHeader(t, r, "X-Content-Type-Options", "nosniff")
			wantHeader(t, r, "Access-Control-Allow-Origin", "*")
			wantHeader(t, r, "Accept-Ranges", "bytes")
			if tag := r.Header.Get("ETag"); len(tag) < 10 || tag[0] != '"' {
				t.Errorf("ETag %q is not a strong one", tag)
			}

			head := do(h, "HEAD", "/"+name)
			if s := body(t, head); s != "" || head.StatusCode != 200 {
				t.Errorf("HEAD: status %d, body %q", head.StatusCode, s)
			}
			for _, k := range []string{"Content-Type", "Content-Length", "Content-Encoding", "ETag", "Cache-Control", "Vary"} {
				if a, b := head.Header.Get(k), r.Header.Get(k); a != b {
					t.Errorf("HEAD has %s %q, GET has %q", k, a, b)
				}
			}
		})
	}
}

// TestNotFound: only canonical names of public objects exist (S36, S19, S33;
// report cases G01, G02, G11), and errors may not be cached.
func TestNotFound(t *testing.T) {
	dir := newLog(t)
	if err := os.Symlink("../../../seed.bin", filepath.Join(dir, "tile/0/003")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tile/0/004"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "tile/0/005"), 0o644); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(newHandler(t, dir, Options{}))
	defer srv.Close()
	for _, path := range []string{
		"/", "//", "/.", "/..", "/index.html", "/tile", "/tile/", "/tile/0", "/tile/0/", "/tile/data/", "/issuer", "/issuer/", "/staging", "/staging/",
		"/tile/0/001", "/tile/data/001", "/tile/0/999", "/tile/data/000.p/255", "/tile/2/000.p/1", "/issuer/" + strings.Repeat("0", 64),
		"/tile/0/000.p/0", "/tile/0/000.p/256", "/tile/0/000.p/044", "/tile/0/001.p/44/", "/tile/00/000", "/tile/6/000", "/tile/-1/000",
		"/tile/0/0", "/tile/0/0000", "/tile/0/x000/000", "/tile/0/x001/x000", "/tile/0/001/000", "/tile/entries/000",
		"/" + strings.ToUpper(issuerName[:7]) + issuerName[7:], "/issuer/" + strings.ToUpper(issuerName[7:]), "/" + issuerName[:70], "/" + issuerName + "0",
		"/Checkpoint", "/checkpoint/", "//checkpoint", "/./checkpoint", "/x/../checkpoint", "/tile/../checkpoint", "/%63heckpoint", "/tile%2f0%2f000", "/tile/0/%30%30%30",
		"/checkpoint%00", "/checkpoint%20", "/..%2fseed.bin", "/../seed.bin", "/%2e%2e/seed.bin", "/issuer/../../seed.bin", "/tile/0/..%2f..%2f..%2f..%2fseed.bin", `/..\seed.bin`,
		"/" + bundleName, "/.tmp-checkpoint-1", "/checkpoint.tmp", "/tile/0/.000-123", "/issuer/README", "/cache.db", "/lock.db", "/cache.db-wal", "/seed.bin",
		"/tile/0/004", "/tile/0/005", "/tile/" + strings.Repeat("x", 4000),
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			if storage.KindOf(path[1:]).Public() && (method == "POST" || method == "OPTIONS") {
				continue // a name that a log may have: the method decides
			}
			status, header, b := rawRequest(t, srv.Listener.Addr(), method, path)
			if status != 404 {
				t.Errorf("%s %s: status %d, want 404", method, path, status)
				continue
			}
			if method == "HEAD" != (len(b) == 0) || len(b) > 100 {
				t.Errorf("%s %s: body %q", method, path, b)
			}
			for _, k := range []string{"Cache-Control", "Content-Encoding", "ETag", "Vary", "Location", "Expires"} {
				if v := header.Values(k); len(v) > 0 {
					t.Errorf("%s %s: 404 carries %s %q", method, path, k, v)
				}
			}
		}
	}
	// A link that leaves the directory is not followed, and not an absence.
	if status, _, b := rawRequest(t, srv.Listener.Addr(), "GET", "/tile/0/003"); status != 500 || strings.Contains(b, "seed") || strings.Contains(b, "secret") {
		t.Errorf("link out of the directory: status %d, body %q", status, b)
	}
}

// rawRequest sends a path as it is, which net/http's client would clean.
func rawRequest(t *testing.T, addr net.Addr, method, path string) (int, http.Header, string) {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: log.example\r\nConnection: close\r\n\r\n", method, path); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r.StatusCode, r.Header, body(t, r)
}

// TestEncoding is report case G05: one gzip layer, labelled, or none.
func TestEncoding(t *testing.T) {
	h := newHandler(t, newLog(t), Options{})
	for _, c := range []struct {
		accept string
		gzip   bool
	}{
		{"gzip", true}, {"x-gzip", true}, {"GZIP", true}, {"gzip, identity", true}, {"identity, gzip;q=0.5", true}, {"br, zstd, gzip;q=0.001", true},
		{"*", true}, {"*;q=0.1", true}, {"identity;q=0, *", true}, {"deflate , gzip ; q=1.0", true}, {"gzip;level=9", true},
		{"", false}, {"identity", false}, {"gzip;q=0", false}, {"gzip;q=0.000, *", false}, {"*;q=0", false}, {"zstd", false}, {"br, deflate", false},
		{"gzip;q=x", false}, {"gzip;q=", false}, {"gzip;q=-1", false}, {"gzip;q=NaN", false}, {"gzipped", false}, {"identity;q=1, gzip; q=0 ", false},
	} {
		r := do(h, "GET", "/tile/data/000", "Accept-Encoding", c.accept)
		got := body(t, r)
		if c.gzip {
			wantHeader(t, r, "Content-Encoding", "gzip")
			b, err := tlog.Decompress([]byte(got), 1<<20)
			if err != nil {
				t.Fatalf("%q: %v", c.accept, err)
			}
			got = string(b)
		} else {
			wantHeader(t, r, "Content-Encoding", "")
			wantHeader(t, r, "Content-Length", strconv.Itoa(len(got)))
		}
		wantHeader(t, r, "Vary", "Accept-Encoding")
		if r.StatusCode != 200 || got != content["tile/data/000"] {
			t.Errorf("%q: status %d, body of %d bytes", c.accept, r.StatusCode, len(got))
		}
	}
	if r := do(h, "GET", "/tile/0/000", "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "" || body(t, r) != content["tile/0/000"] {
		t.Error("hash tile was encoded")
	}
}

func TestConditions(t *testing.T) {
	dir := newLog(t)
	h := newHandler(t, dir, Options{})
	tags := map[string]string{}
	for name := range content {
		for _, accept := range []string{"gzip", "identity"} {
			tag := do(h, "GET", "/"+name, "Accept-Encoding", accept).Header.Get("ETag")
			if other, ok := tags[tag]; ok && (storage.KindOf(name).Gzip() || other != name) {
				t.Errorf("%s as %s and %s share the ETag %s", name, accept, other, tag)
			}
			tags[tag] = name
			for _, match := range []string{tag, `"other", ` + tag, "*"} {
				r := do(h, "GET", "/"+name, "Accept-Encoding", accept, "If-None-Match", match)
				if r.StatusCode != 304 || body(t, r) != "" {
					t.Errorf("%s as %s with If-None-Match %s: status %d, want 304", name, accept, match, r.StatusCode)
				}
				wantHeader(t, r, "ETag", tag)
			}
			if r := do(h, "GET", "/"+name, "Accept-Encoding", accept, "If-None-Match", `"other"`); r.StatusCode != 200 {
				t.Errorf("%s with another ETag: status %d, want 200", name, r.StatusCode)
			}
		}
	}
	before := do(h, "GET", "/checkpoint").Header.Get("ETag")
	writeFile(t, filepath.Join(dir, "checkpoint"), []byte(strings.ReplaceAll(content["checkpoint"], "300", "301")))
	if r := do(h, "GET", "/checkpoint", "If-None-Match", before); r.StatusCode != 200 || !strings.Contains(body(t, r), "301") {
		t.Errorf("replaced checkpoint of equal length: status %d, want 200", r.StatusCode)
	}
}

func TestRanges(t *testing.T) {
	dir := newLog(t)
	h := newHandler(t, dir, Options{})
	stored, err := os.ReadFile(filepath.Join(dir, "tile/data/000"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, accept, want string }{
		{"tile/0/000", "gzip", content["tile/0/000"]},
		{"tile/data/000", "gzip", string(stored)},
		{"tile/data/000", "identity", content["tile/data/000"]},
		{"checkpoint", "identity", content["checkpoint"]},
	} {
		r := do(h, "GET", "/"+c.name, "Accept-Encoding", c.accept, "Range", "bytes=3-12")
		if got := body(t, r); r.StatusCode != 206 || got != c.want[3:13] {
			t.Errorf("%s as %s: status %d, %q, want %q", c.name, c.accept, r.StatusCode, got, c.want[3:13])
		}
		wantHeader(t, r, "Content-Range", fmt.Sprintf("bytes 3-12/%d", len(c.want)))
		wantHeader(t, r, "Content-Length", "10")
		tag := r.Header.Get("ETag")
		if r := do(h, "GET", "/"+c.name, "Accept-Encoding", c.accept, "Range", "bytes=-4", "If-Range", tag); r.StatusCode != 206 || body(t, r) != c.want[len(c.want)-4:] {
			t.Errorf("%s with If-Range: status %d, want 206", c.name, r.StatusCode)
		}
		if r := do(h, "GET", "/"+c.name, "Accept-Encoding", c.accept, "Range", "bytes=0-3", "If-Range", `"other"`); r.StatusCode != 200 {
			t.Errorf("%s with another If-Range: status %d, want 200", c.name, r.StatusCode)
		}
		r = do(h, "GET", "/"+c.name, "Accept-Encoding", c.accept, "Range", "bytes=1000000-")
		if r.StatusCode != 416 || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Cache-Control") != "" {
			t.Errorf("%s beyond the end: status %d, headers %v", c.name, r.StatusCode, r.Header)
		}
	}
}

func TestMethods(t *testing.T) {
	h := newHandler(t, newLog(t), Options{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"} {
		r := do(h, method, "/checkpoint")
		if r.StatusCode != 405 || len(body(t, r)) == 0 {
			t.Errorf("%s: status %d, want 405", method, r.StatusCode)
		}
		wantHeader(t, r, "Allow", "GET, HEAD, OPTIONS")
		wantHeader(t, r, "Cache-Control", "")
	}
	for name := range content {
		r := do(h, "OPTIONS", "/"+name)
		if r.StatusCode != 204 || body(t, r) != "" {
			t.Errorf("OPTIONS %s: status %d, want 204", name, r.StatusCode)
		}
		wantHeader(t, r, "Access-Control-Allow-Origin", "*")
		wantHeader(t, r, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		wantHeader(t, r, "Access-Control-Max-Age", "86400")
		if !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), "Content-Type") {
			t.Error("OPTIONS does not allow Content-Type")
		}
	}
}

// TestPrefix is report case G09.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{"a/b", "/a/b", "/a/b/"} {
		h := newHandler(t, newLog(t), Options{Prefix: prefix})
		for path, want := range map[string]int{"/a/b/checkpoint": 200, "/a/b/tile/0/000": 200, "/checkpoint": 404, "/a/checkpoint": 404, "/a/b//checkpoint": 404, "/a/b": 404, "/a/bcheckpoint": 404} {
			if r := do(h, "GET", path); r.StatusCode != want {
				t.Errorf("prefix %q: %s has status %d, want %d", prefix, path, r.StatusCode, want)
			}
		}
	}
}

// TestUnreadable: an error is never an absence.
func TestUnreadable(t *testing.T) {
	dir := newLog(t)
	h := newHandler(t, dir, Options{})
	writeFile(t, filepath.Join(dir, "tile/data/000"), []byte("not gzip at all"))
	writeFile(t, filepath.Join(dir, "tile/data/001.p/44"), []byte("short"))
	if err := os.Truncate(filepath.Join(dir, "tile/0/000"), maxWhole+1); err != nil {
		t.Fatal(err)
	}
	closed := newHandler(t, newLog(t), Options{})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		h    *Handler
		path string
	}{{h, "/tile/data/000"}, {h, "/tile/data/001.p/44"}, {h, "/tile/0/000"}, {closed, "/checkpoint"}, {closed, "/tile/data/000"}} {
		r := do(c.h, "GET", c.path, "Accept-Encoding", "identity")
		if b := body(t, r); r.StatusCode != 500 || strings.Contains(b, dir) {
			t.Errorf("%s: status %d, body %q", c.path, r.StatusCode, b)
		}
		for _, k := range []string{"Cache-Control", "Content-Encoding", "ETag", "Vary"} {
			wantHeader(t, r, k, "")
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "absent"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent directory: %v", err)
	}
	reg := prometheus.NewRegistry()
	dir := newLog(t)
	newHandler(t, dir, Options{Registerer: reg})
	if _, err := New(dir, Options{Registerer: reg}); err == nil {
		t.Error("metrics were registered twice")
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := newHandler(t, newLog(t), Options{Registerer: reg})
	for range 3 {
		do(h, "GET", "/checkpoint")
	}
	do(h, "GET", "/tile/data/000")
	do(h, "GET", "/tile/data/005")
	do(h, "GET", "/tile/data/000", "If-None-Match", "*")
	do(h, "GET", "/no/such/thing")
	do(h, "GET", "/"+bundleName)
	page := body(t, do(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), "GET", "/metrics"))
	for _, want := range []string{
		`daybook_read_requests_total{code="2xx",kind="checkpoint"} 3`,
		`daybook_read_requests_total{code="2xx",kind="data_tile"} 1`,
		`daybook_read_requests_total{code="3xx",kind="data_tile"} 1`,
		`daybook_read_requests_total{code="4xx",kind="data_tile"} 1`,
		`daybook_read_requests_total{code="4xx",kind="invalid"} 2`,
		`daybook_read_sent_bytes_total{kind="checkpoint"} ` + strconv.Itoa(3*len(content["checkpoint"])),
		`daybook_read_duration_seconds_count{kind="data_tile"} 3`,
		`daybook_read_in_flight 0`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

// FuzzPath: whatever the path, only the test log's own public objects come
// out, and only under their names.
func FuzzPath(f *testing.F) {
	h := newHandler(f, newLog(f), Options{})
	for name := range content {
		f.Add("/" + name)
	}
	for _, path := range []string{"/../seed.bin", "/" + bundleName, "/tile/0/%30", "/tile/0/000.p/", "//checkpoint", "/checkpoint?x=1"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + path + " HTTP/1.1\r\nHost: x\r\nAccept-Encoding: identity\r\n\r\n")))
		if err != nil {
			return // no request comes of it
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200:
			name := strings.TrimPrefix(r.URL.EscapedPath(), "/")
			want, ok := content[name]
			if !ok || !bytes.Equal(w.Body.Bytes(), []byte(want)) {
				t.Errorf("%q gave %.60q", path, w.Body)
			}
		case 404:
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%q leaks", path)
			}
		default:
			t.Errorf("%q has status %d", path, w.Code)
		}
	})
}
