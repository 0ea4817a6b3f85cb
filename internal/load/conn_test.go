package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// scripted answers each request on each connection with the next script; an
// empty one closes the connection.
func scripted(t *testing.T, scripts ...string) *target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan string, len(scripts))
	for _, s := range scripts {
		next <- s
	}
	close(next)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serveScript(c, next)
		}
	}()
	return mustTarget(t, "http://"+l.Addr().String()+"/prefix", 5*time.Second)
}

func serveScript(c net.Conn, next <-chan string) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		script, ok := <-next
		if !ok || script == "" {
			return
		}
		if _, err := io.WriteString(c, script); err != nil || strings.HasSuffix(script, "END") {
			return
		}
	}
}

func mustTarget(t testing.TB, prefix string, timeout time.Duration) *target {
	t.Helper()
	target, err := newTarget(prefix, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func (t *target) post(body string) []byte {
	return append(t.appendHead(nil, "ct/v1/add-chain", len(body)), body...)
}

func TestConn(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, c := range []struct {
		name    string
		scripts []string
		want    []answer
	}{
		{"kept open", []string{ok, ok}, []answer{{200, 0, []byte("ok")}, {200, 0, []byte("ok")}}},
		{"closed between requests", []string{ok, "", ok}, []answer{{200, 0, []byte("ok")}, {200, 0, []byte("ok")}}},
		{"told to close", []string{"HTTP/1.1 503 Busy\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusyEND", ok}, []answer{{503, time.Second, []byte("busy")}, {200, 0, []byte("ok")}}},
		{"chunked", []string{"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n", ok}, []answer{{200, 0, []byte("abcde")}, {200, 0, []byte("ok")}}},
		{"until closed", []string{"HTTP/1.1 400 Bad\r\n\r\nall of it END", ok}, []answer{{400, 0, []byte("all of it END")}, {200, 0, []byte("ok")}}},
		{"HTTP/1.0", []string{"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", ok}, []answer{{200, 0, nil}, {200, 0, []byte("ok")}}},
		{"100 first", []string{"HTTP/1.1 100 Continue\r\n\r\n" + ok}, []answer{{200, 0, []byte("ok")}}},
		{"no content", []string{"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", ok}, []answer{{204, 0, nil}, {200, 0, []byte("ok")}}},
		{"bare newlines, no reason", []string{"HTTP/1.1 429\nretry-after: 1000000\nContent-length: 1\n\nx"}, []answer{{429, 1000000 * time.Second, []byte("x")}}},
		{"date in Retry-After", []string{"HTTP/1.1 429 X\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n"}, []answer{{429, 0, nil}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := scripted(t, c.scripts...)
			conn := &conn{target: target}
			defer conn.close()
			for i, want := range c.want {
				got, err := conn.do(t.Context(), target.post("{}"))
				if err != nil || got.status != want.status || got.retryAfter != want.retryAfter || string(got.body) != string(want.body) {
					t.Fatalf("request %d: %d %v %q, %v; want %d %v %q", i, got.status, got.retryAfter, got.body, err, want.status, want.retryAfter, want.body)
				}
			}
		})
	}
}

func TestConnErrors(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"not HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n"},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"},
		{"no status", "HTTP/1.1 OK 200\r\n\r\n"},
		{"long status", "HTTP/1.1 2000\r\n\r\n"},
		{"no colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"},
		{"other coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"},
		{"long line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 4000) + "\r\n\r\n"},
		{"many lines", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 101) + "\r\n"},
		{"endless body", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", maxBody+1)},
		{"endless chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat("x", 0x20000)},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxEND"},
		{"cut off in the head", "HTTP/1.1 200 OK\r\nContent-LeEND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := scripted(t, c.script, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			conn := &conn{target: target}
			defer conn.close()
			if a, err := conn.do(t.Context(), target.post("{}")); err == nil || errors.Is(err, errClosed) {
				t.Fatalf("answer %+v, error %v", a, err)
			}
			if a, err := conn.do(t.Context(), target.post("{}")); err != nil || string(a.body) != "ok" {
				t.Fatalf("after the error: %+v, %v", a, err)
			}
		})
	}
	t.Run("always closed", func(t *testing.T) {
		target := scripted(t)
		conn := &conn{target: target}
		if a, err := conn.do(t.Context(), target.post("{}")); !errors.Is(err, errClosed) {
			t.Errorf("answer %+v, error %v", a, err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		conn := &conn{target: mustTarget(t, "http://127.0.0.1:1/", time.Second)}
		if _, err := conn.do(t.Context(), conn.target.post("{}")); err == nil {
			t.Error("connected to port 1")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		conn := &conn{target: scripted(t)}
		if _, err := conn.do(ctx, conn.target.post("{}")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestConnTimeout: a server that never answers does not hold a client for ever.
func TestConnTimeout(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	conn := &conn{target: mustTarget(t, srv.URL, 50*time.Millisecond)}
	_, err := conn.do(t.Context(), conn.target.post("{}"))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v, want a timeout", err)
	}
}

// TestConnServer talks to net/http: head, body and source address are right.
func TestConnServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			t.Error(err)
		}
		if _, err := fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.Path, host, r.Header.Get("Content-Type"), b); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	target := mustTarget(t, srv.URL+"/a/b/", time.Minute)
	conn := &conn{target: target, source: netip.MustParseAddr("127.0.0.7")}
	defer conn.close()
	for range 3 {
		a, err := conn.do(t.Context(), target.post(`{"chain":[]}`))
		if want := `POST /a/b/ct/v1/add-chain 127.0.0.7 application/json {"chain":[]}`; err != nil || string(a.body) != want {
			t.Errorf("%q, %v; want %q", a.body, err, want)
		}
	}
}

func TestConnTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }))
	defer srv.Close()
	target := mustTarget(t, srv.URL, time.Minute)
	if a, err := (&conn{target: target}).do(t.Context(), target.post("{}")); err == nil {
		t.Errorf("certificate of nobody was accepted: %+v", a)
	}
	target.tls.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn := &conn{target: target}
	defer conn.close()
	for range 2 {
		if a, err := conn.do(t.Context(), target.post("{}")); err != nil || a.status != 204 {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

func TestTarget(t *testing.T) {
	for prefix, want := range map[string]string{
		"http://log.example":              "log.example:80 log.example /",
		"https://log.example/2027h1/":     "log.example:443 log.example /2027h1/",
		"https://log.example:8443/2027h1": "log.example:8443 log.example:8443 /2027h1/",
		"http://[::1]:80/a/b//":           "[::1]:80 [::1]:80 /a/b/",
	} {
		target := mustTarget(t, prefix, time.Second)
		if got := target.address + " " + target.host + " " + target.path; got != want {
			t.Errorf("%s: %s, want %s", prefix, got, want)
		}
	}
	for _, prefix := range []string{"", "log.example", "ftp://x/", "http:///x", "http://x:y/"} {
		if _, err := newTarget(prefix, time.Second); err == nil {
			t.Errorf("%q was taken", prefix)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(strings.Repeat("x", 330)))
	}))
	defer srv.Close()
	target := mustTarget(b, srv.URL, time.Minute)
	request := target.post(strings.Repeat("x", 2700))
	c := &conn{target: target}
	defer c.close()
	for b.Loop() {
		if _, err := c.do(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
