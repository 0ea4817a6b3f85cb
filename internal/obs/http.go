package obs

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// The bounds of one connection. They are wide enough for a submission of 512
// KiB or a full data tile over a slow line, and end clients that do nothing.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 10 * time.Second // headers and body: who sends a byte a second is shed
	writeTimeout      = time.Minute      // from the end of the headers to that of the answer
	idleTimeout       = 2 * time.Minute
	maxHeader         = 16 << 10 // bytes

	// A profile or an execution trace takes as long as its client asks for.
	adminWriteTimeout = 10 * time.Minute
)

// HTTPOptions configure an HTTP server.
type HTTPOptions struct {
	Handler http.Handler
	Logger  *slog.Logger
	Admin   bool // for the operator: answers may take minutes
	// Connections is how many may be open; further ones wait to be accepted,
	// and connections on which nothing happens make way for them. 0 is no limit.
	Connections int
}

// HTTP is an HTTP server that runs on one listener.
type HTTP struct {
	server   http.Server
	listener net.Listener
	open     atomic.Int64
	lame     atomic.Bool
	done     chan struct{}
	err      error // why it ended, set before done is closed
}

// faults writes what package net/http complains about. Our own faults are
// errors; the rest is what clients do.
type faults struct{ log *slog.Logger }

func (f faults) Write(b []byte) (int, error) {
	text, level := strings.TrimSpace(string(b)), slog.LevelDebug
	if strings.HasPrefix(text, "http: panic serving") || strings.HasPrefix(text, "http: Accept error") {
		level = slog.LevelError
	}
	f.log.Log(context.Background(), level, "HTTP server", "cause", text)
	return len(b), nil
}

// ServeHTTP runs a server on l, which it closes in the end, in a goroutine that
// [HTTP.Shutdown] waits for.
func ServeHTTP(l net.Listener, o HTTPOptions) *HTTP {
	h := &HTTP{listener: l, done: make(chan struct{})}
	h.server = http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(faults{o.Logger}, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				h.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				h.open.Add(-1)
			}
		},
	}
	if o.Admin {
		h.server.WriteTimeout = adminWriteTimeout
	}
	if o.Connections > 0 {
		l = limit(l, o.Connections, h.closeIdle, o.Logger)
	}
	go func() {
		defer close(h.done)
		if err := h.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.err = fmt.Errorf("serving HTTP on %s: %w", l.Addr(), err)
		}
	}()
	return h
}

// Addr returns the address that the server listens on.
func (h *HTTP) Addr() net.Addr { return h.listener.Addr() }

// Open returns the number of open connections.
func (h *HTTP) Open() int64 { return h.open.Load() }

// Done is closed when the server takes no more connections. Err then says why.
func (h *HTTP) Done() <-chan struct{} { return h.done }

// Err returns why the server ended before Shutdown, nil if it did not.
func (h *HTTP) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Lame makes the server close each connection after its next answer, so that
// clients go elsewhere.
func (h *HTTP) Lame() {
	h.lame.Store(true)
	h.server.SetKeepAlivesEnabled(false)
}

// closeIdle closes the connections that wait for a next request.
func (h *HTTP) closeIdle() {
	h.server.SetKeepAlivesEnabled(false)
	h.server.SetKeepAlivesEnabled(true)
	if h.lame.Load() { // or became so meanwhile
		h.server.SetKeepAlivesEnabled(false)
	}
}

// Shutdown takes no more connections, waits for the requests in progress until
// ctx is done, and then cuts them. It returns ctx's error if any were cut.
func (h *HTTP) Shutdown(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("cutting %d connections on %s: %w", h.Open(), h.Addr(), err), h.server.Close())
	}
	<-h.done
	return err
}
