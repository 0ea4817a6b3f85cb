package monitor

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/tlog"
)

// answers is a server that never touches the network, for synctest.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func newTestClient(t *testing.T, f answers, o ClientOptions) *Client {
	t.Helper()
	o.HTTP = &http.Client{Transport: f}
	c, err := NewClient("http://log.example/prefix/", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRetries: what may pass is tried again, with growing waits; what will not
// change is not.
func TestRetries(t *testing.T) {
	const asked = "asked for"
	for _, c := range []struct {
		name     string
		answer   func() (*http.Response, error)
		attempts int
		took     time.Duration
		is       error
	}{
		{"500", func() (*http.Response, error) { return response(500, "x"), nil }, 4, 700 * time.Millisecond, ErrUnavailable},
		{"connection error", func() (*http.Response, error) { return nil, errors.New("refused") }, 4, 700 * time.Millisecond, ErrUnavailable},
		{"broken body", func() (*http.Response, error) {
			r := response(200, "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("abc"), errorReader{}))
			return r, nil
		}, 4, 700 * time.Millisecond, ErrUnavailable},
		{"429 with Retry-After", func() (*http.Response, error) { return response(429, "x", "Retry-After", "2"), nil }, 4, 6 * time.Second, ErrUnavailable},
		{"503 with a Retry-After of days", func() (*http.Response, error) { return response(503, "x", "Retry-After", "500000"), nil }, 4, 90 * time.Second, ErrUnavailable},
		{"503 with a date", func() (*http.Response, error) { return response(503, "x", "Retry-After", "Fri, 31 Dec 1999"), nil }, 4, 700 * time.Millisecond, ErrUnavailable},
		{"404", func() (*http.Response, error) { return response(404, "x"), nil }, 1, 0, ErrNotFound},
		{"410", func() (*http.Response, error) { return response(410, "x"), nil }, 1, 0, ErrNotFound},
		{"403", func() (*http.Response, error) { return response(403, "x"), nil }, 1, 0, ErrUnavailable},
		{"304", func() (*http.Response, error) { return response(304, ""), nil }, 1, 0, ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				client := newTestClient(t, func(r *http.Request) (*http.Response, error) {
					attempts++
					if r.URL.String() != "http://log.example/prefix/checkpoint" || r.Header.Get("User-Agent") != asked || r.Header.Get("Accept-Encoding") != "gzip, identity" {
						t.Errorf("request %s %v", r.URL, r.Header)
					}
					return c.answer()
				}, ClientOptions{Retries: 3, Backoff: 100 * time.Millisecond, UserAgent: asked})
				start := time.Now()
				_, err := client.Get(t.Context(), "checkpoint", 100)
				if !errors.Is(err, c.is) || attempts != c.attempts || time.Since(start) != c.took {
					t.Errorf("%d attempts in %v, error %v; want %d in %v, %v", attempts, time.Since(start), err, c.attempts, c.took, c.is)
				}
				if errors.Is(err, ErrNotFound) == errors.Is(err, ErrUnavailable) {
					t.Errorf("%v is both or neither", err)
				}
				if got := client.retries.Load(); got != int64(c.attempts-1) {
					t.Errorf("%d retries counted", got)
				}
			})
		})
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		client := newTestClient(t, func(*http.Request) (*http.Response, error) {
			if attempts++; attempts < 3 {
				return response(502, ""), nil
			}
			return response(200, "content"), nil
		}, ClientOptions{})
		if b, err := client.Get(t.Context(), "checkpoint", 7); err != nil || string(b) != "content" || attempts != 3 {
			t.Errorf("%q, %v after %d attempts", b, err, attempts)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newTestClient(t, func(*http.Request) (*http.Response, error) { return response(503, ""), nil }, ClientOptions{Retries: 100, Backoff: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := client.Get(ctx, "checkpoint", 7); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second+30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newTestClient(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, ClientOptions{Retries: 1, Backoff: time.Second, Timeout: 10 * time.Second})
		start := time.Now()
		if _, err := client.Get(t.Context(), "checkpoint", 7); !errors.Is(err, ErrUnavailable) || time.Since(start) != 21*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		client := newTestClient(t, func(*http.Request) (*http.Response, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return response(200, ""), nil
		}, ClientOptions{Concurrency: 3})
		done := make(chan error)
		for range 30 {
			go func() {
				_, err := client.Get(t.Context(), "checkpoint", 7)
				done <- err
			}()
		}
		for range 30 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 3 {
			t.Errorf("%d requests at once, want 3", most.Load())
		}
	})
}

func compress(t *testing.T, b []byte) string {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// TestBounds: nothing that a log sends makes the client read on without end.
func TestBounds(t *testing.T) {
	large := make([]byte, usualLimit+1)
	bomb := compress(t, make([]byte, usualLimit+3))
	for _, c := range []struct {
		name   string
		answer *http.Response
		limit  int64
		want   string // of the fault
	}{
		{"plain, at the limit", response(200, "1234567"), 7, ""},
		{"plain, above", response(200, "12345678"), 7, "more than 7 bytes"},
		{"identity", response(200, "1234567", "Content-Encoding", "identity"), 7, ""},
		{"gzip, at the limit", response(200, compress(t, make([]byte, 1000)), "Content-Encoding", "gzip"), 1000, ""},
		{"gzip, above", response(200, compress(t, make([]byte, 1001)), "Content-Encoding", "GZIP"), 1000, "decompresses to more than 1000 bytes"},
		{"gzip, large but within", response(200, compress(t, large), "Content-Encoding", "gzip"), usualLimit + 2, ""},
		{"bomb", response(200, bomb, "Content-Encoding", "gzip"), usualLimit + 2, "decompresses to more than"},
		{"cut short", response(200, bomb[:len(bomb)-9], "Content-Encoding", "gzip"), usualLimit + 9, "gzip stream is cut short"},
		{"trailer cut off", response(200, bomb[:len(bomb)-3], "Content-Encoding", "gzip"), usualLimit + 9, "gzip stream is cut short"},
		{"empty gzip", response(200, "", "Content-Encoding", "gzip"), 9, "gzip stream is cut short"},
		{"no gzip", response(200, "plain text that is none", "Content-Encoding", "gzip"), 99, "does not decompress"},
		{"garbage after gzip", response(200, compress(t, []byte("x"))+"garbage, and more of it", "Content-Encoding", "gzip"), 99, "does not decompress"},
		{"other coding", response(200, "x", "Content-Encoding", "br"), 9, `Content-Encoding "br", which was not asked for`},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := 0
			client := newTestClient(t, func(*http.Request) (*http.Response, error) { attempts++; return c.answer, nil }, ClientOptions{})
			b, err := client.Get(t.Context(), "tile/data/000", c.limit)
			var f *Fault
			switch {
			case attempts != 1:
				t.Errorf("%d attempts", attempts)
			case c.want == "" && (err != nil || len(b) == 0):
				t.Errorf("%d bytes, %v", len(b), err)
			case c.want != "" && (!errors.As(err, &f) || f.Object != "tile/data/000" || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want a fault that says %q", err, c.want)
			}
		})
	}
}

// TestKinds is clause S28: logs may serve gzip only, or none at all.
func TestKinds(t *testing.T) {
	l := ownLog(t)
	h := l.handler(t)
	for _, coding := range []string{"gzip", "identity"} {
		var codings atomic.Int64
		r := mustVerify(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Accept-Encoding", coding)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if rec.Header().Get("Content-Encoding") == "gzip" {
				codings.Add(1)
			}
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
		})), Options{})
		if r.Entries != testSize || (codings.Load() > 0) != (coding == "gzip") {
			t.Errorf("%s: report %+v, %d bodies with gzip", coding, r, codings.Load())
		}
	}
}

func TestNewClientRefuses(t *testing.T) {
	for _, prefix := range []string{"", "log.example", "ftp://log.example/", "http://", "http://log.example/?x=1", "http://log.example/#x", "http://log.example:port/"} {
		if _, err := NewClient(prefix, ClientOptions{}); err == nil {
			t.Errorf("prefix %q was taken", prefix)
		}
	}
	if c, err := NewClient("http://log.example//", ClientOptions{}); err != nil || c.Prefix() != "http://log.example/" {
		t.Errorf("prefix %q, error %v", c.Prefix(), err)
	}
}

// TestUnavailable: a log that does not answer is not called wrong.
func TestUnavailable(t *testing.T) {
	l := ownLog(t)
	h := l.handler(t)
	for _, path := range []string{"/checkpoint", "/log.v3.json", "/tile/0/000", "/tile/1/000.p/2", "/tile/data/001", "/tile/names/000", "/tile/names/002.p/88", "/" + l.firstIssuer(t)} {
		r, err := verifyLog(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				http.Error(w, "", http.StatusInternalServerError)
				return
			}
			h.ServeHTTP(w, r)
		})), Options{})
		if r != nil || !errors.Is(err, ErrUnavailable) || errors.As(err, new(*Fault)) || !strings.Contains(err.Error(), path[1:]) {
			t.Errorf("%s: verified %v, error %v", path, r != nil, err)
		}
	}
}

// TestEmptyRoot: a root that the empty tree does not have.
func TestEmptyRoot(t *testing.T) {
	client := newTestClient(t, func(*http.Request) (*http.Response, error) { return response(404, ""), nil }, ClientOptions{})
	if _, err := openTree(t.Context(), client, tlog.Tree{Hash: tlog.Hash{1}}, false, stop); err == nil || !strings.Contains(err.Error(), "root of the empty tree is wrong") {
		t.Error(err)
	}
	if _, err := openTree(t.Context(), client, tlog.Tree{Hash: tlog.EmptyRoot}, false, stop); err != nil {
		t.Error(err)
	}
}

// TestTall builds the hash tiles of a tree of 70,000 leaves without the leaves,
// so that tiles of level 1 are full and kept.
func TestTall(t *testing.T) {
	const size = 70000
	l := &testLog{dir: t.TempDir()}
	level := make([]tlog.Hash, size)
	for i := range level {
		level[i] = tlog.Hash{byte(i), byte(i >> 8), byte(i >> 16)}
	}
	edge := map[int][]tlog.Hash{}
	for n := 0; len(level) > 0; n++ {
		var above []tlog.Hash
		for i := 0; i < len(level); i += tlog.TileWidth {
			hashes := level[i:min(i+tlog.TileWidth, len(level))]
			var b []byte
			for _, h := range hashes {
				b = append(b, h[:]...)
			}
			l.write(t, tlog.Tile{L: n, N: int64(i / tlog.TileWidth), W: len(hashes)}.Path(), b)
			if len(hashes) == tlog.TileWidth {
				above = append(above, perfectRoot(hashes))
			} else {
				edge[n] = hashes
			}
		}
		level = above
	}
	head := tlog.Tree{N: size, Hash: edgeRoot(func(i int) []tlog.Hash { return edge[i] })}
	client, err := NewClient(serve(t, l.handler(t)), testClient)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tr, err := openTree(t.Context(), client, head, false, stop)
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(0); n <= size/tlog.TileWidth; n++ {
		hashes, err := tr.hashes(t.Context(), 0, n, stop)
		if err != nil || !hashes.sound || hashes.list[0][0] != 0 || hashes.list[0][1] != byte(n) {
			t.Fatalf("tile %d: %v", n, err)
		}
	}
	if want := int64(274 + 2 + 1); tr.tiles != want {
		t.Errorf("%d tiles verified, want %d", tr.tiles, want)
	}
	if _, err := tr.hashes(t.Context(), 0, size/tlog.TileWidth+1, stop); err == nil {
		t.Error("tile beyond the tree was read")
	}
	flip("tile/1/000", 32*9)(t, l)
	tr2, err := openTree(t.Context(), client, head, false, stop)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tr2.hashes(t.Context(), 0, 9, stop)
	wantFault(t, nil, err, "tile/1/000", -1, "does not hash to hash 0 of tile/2/000.p/1")
}

func TestInfo(t *testing.T) {
	info, err := ReadInfo(t.Context(), takenClient(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Origin != "rome.harness.example/2027h1" || !info.Start.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || !info.Limit.Equal(time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("info %+v", info)
	}
}

func takenClient(t *testing.T) *Client {
	t.Helper()
	c, err := NewClient(serve(t, takenLog(t).handler(t)), testClient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestIdentify: what the caller knows comes first, then what the log says, and
// a development log is named by its checkpoint.
func TestIdentify(t *testing.T) {
	l := ownLog(t)
	prefix := serve(t, l.handler(t))
	c, err := NewClient(prefix, testClient)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check := func(origin string, key []byte, wantOrigin string, wantKey []byte) {
		t.Helper()
		info, err := c.Identify(t.Context(), origin, key)
		if err != nil || info.Origin != wantOrigin || !bytes.Equal(info.Key, wantKey) || info.LogID != sha256.Sum256(wantKey) {
			t.Errorf("origin %q, key %x, %v; want %q, %x", info.Origin, info.Key, err, wantOrigin, wantKey)
		}
	}
	key := l.signer.PublicKey()
	check("", nil, "log.example/2027h1", key)
	check("other", nil, "other", key)
	check("", []byte("other"), "log.example/2027h1", []byte("other"))
	for _, host := range []string{"127.0.0.1:4000", "127.8.0.1", "[::1]:80"} {
		l.write(t, "log.v3.json", bytes.ReplaceAll(l.read(t, "log.v3.json"), []byte("https://log.example/2027h1/"), []byte("http://"+host+"/")))
		check("", nil, "log.example/2027h1", key)
		mustVerify(t, prefix, Options{})
		l.write(t, "log.v3.json", bytes.ReplaceAll(l.read(t, "log.v3.json"), []byte("http://"+host+"/"), []byte("https://log.example/2027h1/")))
	}
	l.write(t, "log.v3.json", []byte("nonsense"))
	check("mine", []byte("mine"), "mine", []byte("mine"))
	l.remove(t, "log.v3.json")
	check("mine", []byte("mine"), "mine", []byte("mine"))
	if _, err := c.Identify(t.Context(), "mine", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("without key and log.v3.json: %v", err)
	}
}
