package obs

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/testlog"
)

// TestConnectionLimit: a connection above the limit is served as soon as another
// one has nothing to do, and a listener that is full can be closed.
func TestConnectionLimit(t *testing.T) {
	const limit = 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}, 10), make(chan struct{})
	var said testlog.Lines
	s := ServeHTTP(l, HTTPOptions{Connections: limit, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				entered <- struct{}{}
				<-release
			}
		})})
	get := func(path string) error {
		// A transport of its own is a connection of its own, which stays open.
		c := http.Client{Transport: &http.Transport{}}
		resp, err := c.Get("http://" + s.Addr().String() + path)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for range 3 * limit { // idle ones make way
		if err := get("/"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Open(); n > limit {
		t.Errorf("%d connections are open", n)
	}
	answers := make(chan error, limit+1)
	for range limit + 1 {
		go func() { answers <- get("/slow") }()
	}
	for range limit {
		<-entered
	}
	select {
	case <-entered:
		t.Error("a request was served above the limit")
	case <-time.After(100 * time.Millisecond): // it would have been there long ago
	}
	close(release)
	for range limit + 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if text := said.String(); strings.Count(text, "all connections are taken") != 1 {
		t.Errorf("what was said: %s", text)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseFullListener: an Accept that waits for a slot ends with the listener,
// and so does the connection that it has.
func TestCloseFullListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	l := limit(inner, 1, sync.OnceFunc(func() { close(waiting) }), slog.New(slog.DiscardHandler))
	var dialed [2]net.Conn
	for i := range dialed {
		if dialed[i], err = net.Dial("tcp", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dialed[i].Close() }()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { _, err := l.Accept(); ended <- err }()
	<-waiting
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended with %v", err)
	}
	if n, err := dialed[1].Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes on a connection that was not served", n)
	}
	for range 2 { // a slot is given back once
		_ = first.Close()
	}
	if n := len(l.slots); n != 0 {
		t.Errorf("%d slots are taken", n)
	}
}
