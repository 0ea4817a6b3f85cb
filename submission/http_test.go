package submission

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
)

// TestMethodsAndPaths: 405 with Allow, 404, and CORS on everything, over a real
// connection.
func TestMethodsAndPaths(t *testing.T) {
	s := newSite(t, Options{})
	server := httptest.NewServer(s)
	defer server.Close()
	const posts, gets = "POST, OPTIONS", "GET, HEAD, OPTIONS"
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/ct/v1/add-chain", 405, posts},
		{"HEAD", "/ct/v1/add-pre-chain", 405, posts},
		{"PUT", "/ct/v1/add-pre-chain", 405, posts},
		{"DELETE", "/ct/v1/add-chain", 405, posts},
		{"BREW", "/ct/v1/add-chain", 405, posts},
		{"POST", "/ct/v1/get-roots", 405, gets},
		{"PUT", "/ct/v1/get-roots", 405, gets},
		{"GET", "/ct/v1/get-roots", 200, ""},
		{"HEAD", "/ct/v1/get-roots", 200, ""},
		{"OPTIONS", "/ct/v1/get-roots", 204, gets},
		{"OPTIONS", "/ct/v1/add-chain", 204, posts},
		{"OPTIONS", "/ct/v1/add-pre-chain", 204, posts},
		{"POST", "/ct/v1/add-chain/", 404, ""},
		{"POST", "//ct/v1/add-chain", 404, ""},
		{"POST", "/ct/v1/ADD-CHAIN", 404, ""},
		{"GET", "/ct/v1/get-sth", 404, ""},
		{"GET", "/", 404, ""},
		{"OPTIONS", "/ct/v1/get-sth", 404, ""},
		{"GET", "/ct/v1/get-roots?x=1", 200, ""},
	} {
		req, err := http.NewRequest(c.method, server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		name := c.method + " " + c.path
		h := resp.Header
		if resp.StatusCode != c.status || h.Get("Allow") != c.allow || h.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: status %d, headers %v; want %d, Allow %q", name, resp.StatusCode, h, c.status, c.allow)
		}
		if c.status == 204 && (h.Get("Access-Control-Allow-Methods") != c.allow || h.Get("Access-Control-Allow-Headers") != "Content-Type" || h.Get("Access-Control-Max-Age") == "") {
			t.Errorf("%s: headers %v", name, h)
		}
		if c.status >= 400 && c.method != "HEAD" {
			checkSentence(t, name, string(body))
		}
		if c.status == 200 && (h.Get("Content-Type") != "application/json" || resp.ContentLength != int64(len(s.o.Roots.set.Load().json))) {
			t.Errorf("%s: headers %v, length %d", name, h, resp.ContentLength)
		}
	}
	if n := s.outcomes(t, "other", "not-found"); n != 6 {
		t.Errorf("%v requests are counted as not found, want 6", n)
	}
}

// TestBodyTooLarge: 413 for what is announced, what lies, and what never ends,
// and the server goes on.
func TestBodyTooLarge(t *testing.T) {
	s := newSite(t, Options{})
	server := httptest.NewServer(s)
	defer server.Close()
	send := func(body io.Reader) int {
		t.Helper()
		resp, err := http.Post(server.URL+"/ct/v1/add-chain", "", body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		checkSentence(t, "body", string(text))
		return resp.StatusCode
	}
	chunked := func(r io.Reader) io.Reader { return struct{ io.Reader }{r} }
	blanks := func(n int64) io.Reader { return io.LimitReader(endless{}, n) }
	for name, c := range map[string]struct {
		body   io.Reader
		status int
	}{
		"512 KiB":                  {bytes.NewReader(bytes.Repeat([]byte(" "), maxBody)), 400},
		"512 KiB, chunked":         {chunked(blanks(maxBody)), 400},
		"512 KiB and one":          {bytes.NewReader(bytes.Repeat([]byte(" "), maxBody+1)), 413},
		"512 KiB and one, chunked": {chunked(blanks(maxBody + 1)), 413},
	} {
		if status := send(c.body); status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
		}
	}
	// The client may see the connection close under its endless body, or the
	// answer; the server counts it.
	if resp, err := http.Post(server.URL+"/ct/v1/add-pre-chain", "", endless{}); err == nil {
		_ = resp.Body.Close()
	}
	if w := post(s, "add-chain", s.chain(t, 1, testca.Leaf{}).Body()); w.Code != 200 {
		t.Errorf("a good chain after all that: status %d", w.Code)
	}
	if n := s.outcomes(t, "add-chain", "too-large"); n != 2 {
		t.Errorf("%v requests counted as too large, want 2", n)
	}
}

// endless is a body of blanks.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestLargeCertificates: a body just under the limit with a valid chain is
// accepted.
func TestLargeCertificates(t *testing.T) {
	s := newSite(t, Options{})
	var names []string
	for i := range 10000 {
		names = append(names, fmt.Sprintf("name-number-%d.example.com", i))
	}
	c := s.chain(t, 1, testca.Leaf{Names: names})
	if n := len(c.Body()); n < maxBody/3 || n > maxBody {
		t.Fatalf("the body has %d bytes", n)
	}
	if w := post(s, "add-chain", c.Body()); w.Code != 200 {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestAnswerWithContextOver: what the log decided is told even if the context
// is over meanwhile.
func TestAnswerWithContextOver(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := newSite(t, Options{})
	s.log.err = sequencer.ErrFull
	c := s.chain(t, 1, testca.Leaf{})
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/"+c.Endpoint(), bytes.NewReader(c.Body())).WithContext(ctx))
	if n := s.outcomes(t, "add-chain", "full"); n != 1 {
		t.Errorf("counted: %v", s.series(t, "daybook_submission_requests_total"))
	}
}

// TestHangUpInBody: a client that is gone before its body ended is counted as
// that, and one that sends too little as its own fault. Either may still read
// the answer, which asks nobody to try again.
func TestHangUpInBody(t *testing.T) {
	s := newSite(t, Options{})
	for label, gone := range map[string]bool{"client-gone": true, "body": false} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if gone {
			cancel()
		}
		r := httptest.NewRequest("POST", "/ct/v1/add-chain", io.MultiReader(strings.NewReader(`{"chain":[`), iotest.ErrReader(io.ErrUnexpectedEOF)))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(ctx))
		if n := s.outcomes(t, "add-chain", label); n != 1 {
			t.Errorf("%s: counted %v", label, s.series(t, "daybook_submission_requests_total"))
		}
		if w.Code != http.StatusBadRequest || w.Header().Get("Retry-After") != "" {
			t.Errorf("%s: status %d, Retry-After %q, want 400 and none", label, w.Code, w.Header().Get("Retry-After"))
		}
	}
}
