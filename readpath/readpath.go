// Package readpath serves a log's storage directory to monitors: the
// monitoring interface of c2sp.org/static-ct-api, read-only.
//
// A name is served only if it is the canonical name of a public object
// ([storage.KindOf]); all else, staging bundles, temporary and foreign files
// included, is 404. Tiles and issuers may be cached for long, the checkpoint
// and errors not at all.
package readpath

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	// maxWhole bounds the objects that are read into memory to be served:
	// all but data and names tiles.
	maxWhole = 32 << 20
	// maxIdentity bounds the data and names tiles that are decompressed for
	// clients that refuse gzip, and maxDecompressing how many at a time.
	maxIdentity      = 256 << 20
	maxDecompressing = 4

	// statusClientGone counts as the client's error and is read by nobody.
	statusClientGone = 499
)

// Options configure a Handler. The zero value is usable.
type Options struct {
	// Prefix is the path of the monitoring prefix, "/" by default. Requests
	// outside of it are 404.
	Prefix string
	// Log gets what goes wrong on the server's side.
	Log *slog.Logger
	// Registerer gets the metrics; the caller adds labels for the log.
	Registerer prometheus.Registerer
}

// Handler serves one log. It must not stand behind an http.ServeMux pattern
// that redirects unclean paths, since those are 404 here. It is safe for
// concurrent use.
type Handler struct {
	root    *os.Root
	prefix  string
	log     *slog.Logger
	metrics *metrics
	// decompressing has room for each decompression that may run at once.
	decompressing chan struct{}
}

// New returns a Handler for the storage directory dir. Close releases it.
func New(dir string, o Options) (*Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening storage directory: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Handler{
		root:          root,
		prefix:        "/" + strings.TrimPrefix(strings.TrimSuffix(o.Prefix, "/")+"/", "/"),
		log:           o.Log,
		metrics:       m,
		decompressing: make(chan struct{}, maxDecompressing),
	}, nil
}

// Close releases the directory. Requests that come later are answered 500.
func (h *Handler) Close() error { return h.root.Close() }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// No canonical name needs escaping, so an escaped path names nothing.
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), h.prefix)
	kind := storage.Invalid
	if ok {
		kind = storage.KindOf(name)
	}
	if !kind.Public() {
		kind = storage.Invalid
	}
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer h.metrics.observe(kind, rec, time.Now())
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()

	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case kind == storage.Invalid:
		notFound(rec)
	case r.Method == http.MethodOptions:
		preflight(rec)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		rec.Header().Set("Allow", methods)
		refuse(rec, http.StatusMethodNotAllowed, "only GET and HEAD are possible here")
	case kind.Gzip():
		h.serveGzip(rec, r, name, kind)
	default:
		h.serveWhole(rec, r, name, kind)
	}
}

const methods = "GET, HEAD, OPTIONS"

func preflight(w http.ResponseWriter) {
	w.Header().Set("Allow", methods)
	w.Header().Set("Access-Control-Allow-Methods", methods)
	w.Header().Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match, Range")
	w.Header().Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

func notFound(w http.ResponseWriter) { refuse(w, http.StatusNotFound, "no such object in this log") }

// refuse answers with one plain sentence and without the headers of an object.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client may be gone; there is nobody else to tell.
	_, _ = io.WriteString(w, why+"\n")
}

// open returns the regular file behind name.
func (h *Handler) open(name string) (*os.File, int64, error) {
	// O_NONBLOCK: a pipe in the place of an object must not hold the request.
	f, err := h.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// fail answers a request whose object could not be read. Only an object that
// is known to be absent is 404.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, name string, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		notFound(w)
	case r.Context().Err() != nil: // the client is gone
		refuse(w, statusClientGone, "request was cancelled")
	default:
		h.log.LogAttrs(r.Context(), slog.LevelError, "cannot read object", slog.String("name", name), slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, "object cannot be read")
	}
}

// serveWhole serves an object that is stored as it is sent.
func (h *Handler) serveWhole(w http.ResponseWriter, r *http.Request, name string, kind storage.Kind) {
	b, err := h.read(name)
	if err != nil {
		h.fail(w, r, name, err)
		return
	}
	sum := sha256.Sum256(b)
	serve(w, r, kind, hex.EncodeToString(sum[:16]), bytes.NewReader(b))
}

func (h *Handler) read(name string) (b []byte, err error) {
	f, size, err := h.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size > maxWhole {
		return nil, fmt.Errorf("%d bytes are too many", size)
	}
	b = make([]byte, size)
	_, err = io.ReadFull(f, b)
	return b, err
}

// serveGzip serves an object that is stored compressed: as it is where the
// client takes gzip, decompressed otherwise.
func (h *Handler) serveGzip(w *recorder, r *http.Request, name string, kind storage.Kind) {
	f, size, err := h.open(name)
	if err != nil {
		h.fail(w, r, name, err)
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	// The trailer has the CRC-32 and length of the content; with the stored
	// length it tells apart all that a log ever writes under one name.
	var trailer [8]byte
	if _, err := f.ReadAt(trailer[:], max(size-8, 0)); err != nil {
		h.fail(w, r, name, fmt.Errorf("reading gzip trailer: %w", err))
		return
	}
	tag := fmt.Sprintf("%x-%x", trailer, size)
	w.Header().Set("Vary", "Accept-Encoding")
	if acceptsGzip(r.Header["Accept-Encoding"]) {
		w.Header().Set("Content-Encoding", "gzip")
		w.whole = size
		serve(w, r, kind, tag+"-gzip", f)
		return
	}
	b, err := h.decompress(r.Context(), f, size)
	if err != nil {
		w.Header().Del("Vary")
		h.fail(w, r, name, err)
		return
	}
	serve(w, r, kind, tag, bytes.NewReader(b))
}

func (h *Handler) decompress(ctx context.Context, f *os.File, size int64) ([]byte, error) {
	select {
	case h.decompressing <- struct{}{}:
		defer func() { <-h.decompressing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if size > maxIdentity {
		return nil, fmt.Errorf("%d bytes are too many", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return tlog.Decompress(b, maxIdentity)
}

// serve sends content with the headers of its kind. Ranges and conditions are
// left to net/http.
func serve(w http.ResponseWriter, r *http.Request, kind storage.Kind, tag string, content io.ReadSeeker) {
	w.Header().Set("Content-Type", kind.ContentType())
	w.Header().Set("Cache-Control", kind.CacheControl())
	w.Header().Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, content)
}
