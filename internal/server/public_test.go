package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/server/prefix"
)

// TestFetchCheckpoint: what is not an answer is an error, and no answer is
// read without bound.
func TestFetchCheckpoint(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good/checkpoint":
			_, _ = w.Write([]byte("note"))
		case "/huge/checkpoint":
			_, _ = w.Write([]byte(strings.Repeat("x", 2*checkpoint.MaxNoteSize)))
		default:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	if b, err := fetchCheckpoint(t.Context(), s.Client(), s.URL+"/good/checkpoint"); err != nil || string(b) != "note" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := fetchCheckpoint(t.Context(), s.Client(), s.URL+"/huge/checkpoint"); err != nil || len(b) != checkpoint.MaxNoteSize {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := fetchCheckpoint(t.Context(), s.Client(), s.URL+"/checkpoint"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("503: %v", err)
	}
	s.Close()
	if _, err := fetchCheckpoint(t.Context(), s.Client(), s.URL+"/good/checkpoint"); err == nil {
		t.Error("a server that is gone has a checkpoint")
	}
}

// TestPublicCheckpointOnLoopback: nobody shows a log on loopback but this process,
// which would wait for itself, and nobody has the names of examples. Nothing is
// fetched here.
func TestPublicCheckpointOnLoopback(t *testing.T) {
	for url, want := range map[string]bool{"http://127.0.0.1:8080/": false, "http://localhost/a/": false, "https://mon.example.org/a/": false,
		"https://rome.test/": false, "https://mon.ct-log.net/a/": true, "https://notexample.com/": true} {
		p, err := prefix.Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		l := &openLog{mon: p}
		if got := l.publicCheckpoint() != nil; got != want {
			t.Errorf("%s: looked at %v, want %v", url, got, want)
		}
	}
}
