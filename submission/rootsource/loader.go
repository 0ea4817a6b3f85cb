package rootsource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/submission"
)

// Defaults of Options.
const (
	DefaultInterval = 24 * time.Hour
	DefaultTimeout  = 30 * time.Second
	DefaultMaxSize  = 32 << 20 // CCADB's largest report of roots has some 3 MB
)

const (
	// retryAfter is when a source that has failed is read again, unless that
	// would be due anyway.
	retryAfter = time.Hour
	// maxParallel bounds the sources that are read at the same time.
	maxParallel = 4
	// maxLines and maxLineBytes bound what one reading of a source can write
	// to the log about single certificates.
	maxLines     = 20
	maxLineBytes = 1000
)

// Options of a Loader. The zero value is usable.
type Options struct {
	Interval  time.Duration     // between two readings of a URL; default DefaultInterval
	Timeout   time.Duration     // of one URL, redirects and body included; default DefaultTimeout
	MaxSize   int64             // of one source in bytes; default DefaultMaxSize
	UserAgent string            // default "daybook"
	Transport http.RoundTripper // default: one that honours the proxy of the environment

	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// Loader reads sources, each once for all logs of a process. It is safe for
// concurrent use.
type Loader struct {
	o       Options
	client  *http.Client
	metrics *metrics

	mu    sync.Mutex
	known map[[32]byte]*cert.Certificate // all that were parsed, so that logs share them
	read  map[Source]*reading
}

// reading is what is known of one source.
type reading struct {
	source Source

	mu      sync.Mutex // held while the source is read
	due     time.Time  // when to read it again; zero if it was not read yet, never if not by itself
	err     error      // of the last time; nil if it went well
	content content    // of the last time that it went well, without its files
	digest  [32]byte   // of those
	roots   []*cert.Certificate
}

// never is a time that does not come.
var never = time.Unix(1<<40, 0)

// New returns a Loader, whose metrics it registers.
func New(o Options) (*Loader, error) {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.UserAgent == "" {
		o.UserAgent = "daybook"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Loader{o: o, client: newClient(o.Transport), metrics: m,
		known: make(map[[32]byte]*cert.Certificate), read: make(map[Source]*reading)}, nil
}

// parse is a parser that parses each certificate once in the process's life.
func (l *Loader) parse(der []byte) (*cert.Certificate, error) {
	fingerprint := sha256.Sum256(der)
	l.mu.Lock()
	c := l.known[fingerprint]
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := submission.ParseRoot(der)
	if err != nil {
		return c, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.known[fingerprint]; first != nil {
		return first, nil
	}
	l.known[fingerprint] = c
	return c, nil
}

func (l *Loader) readings(sources []Source) []*reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*reading
	for _, s := range sources {
		r := l.read[s]
		if r == nil {
			r = &reading{source: s}
			l.read[s] = r
			l.metrics.announce(s)
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// load reads those sources for which want says so, and waits for all of them.
// How it went is kept in their readings. The error is that of ctx.
func (l *Loader) load(ctx context.Context, sources []Source, want func(*reading) bool) error {
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for _, r := range l.readings(sources) {
		g.Go(func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if want(r) && ctx.Err() == nil {
				l.reload(ctx, r)
			}
			return nil
		})
	}
	_ = g.Wait() // they return no errors
	return ctx.Err()
}

// reload reads a source, whose lock is held.
func (l *Loader) reload(ctx context.Context, r *reading) {
	start := time.Now()
	outcome, err := l.try(ctx, r)
	if ctx.Err() != nil {
		return // the process ends, which says nothing about the source
	}
	r.err, r.due = err, never
	switch {
	case err != nil:
		r.due = start.Add(min(retryAfter, l.o.Interval))
		l.o.Logger.ErrorContext(ctx, "accepted roots could not be read from a source; those known stay accepted",
			"source", r.source.String(), "outcome", outcome, "cause", clip(err.Error()))
	case r.source.remote():
		r.due = start.Add(l.o.Interval)
	}
	if err == nil {
		l.o.Logger.InfoContext(ctx, "accepted roots read", "source", r.source.String(), "outcome", outcome,
			"roots", len(r.roots), "took", time.Since(start).Round(time.Millisecond))
	}
	l.metrics.done(r, outcome, start)
}

// try reads a source and, if all is well, keeps what it has.
func (l *Loader) try(ctx context.Context, r *reading) (outcome string, err error) {
	c, err := l.content(ctx, r)
	if err != nil {
		if errors.Is(err, errUnusable) {
			return outcomeUnusable, err
		}
		return outcomeUnreadable, err
	}
	if c.unchanged {
		return outcomeUnchanged, nil
	}
	digest := c.digest()
	if r.roots != nil && digest == r.digest {
		r.content.etag, r.content.modified = c.etag, c.modified
		return outcomeUnchanged, nil
	}
	roots, skipped, err := l.roots(r.source, c)
	l.logSkipped(ctx, r.source.String(), skipped)
	if err != nil {
		return outcomeUnusable, err
	}
	l.metrics.skipped.WithLabelValues(r.source.String()).Set(float64(len(skipped)))
	c.files = nil
	r.content, r.digest, r.roots = c, digest, roots
	return outcomeOK, nil
}

func (l *Loader) content(ctx context.Context, r *reading) (content, error) {
	switch r.source.kind {
	case builtin:
		return content{files: []file{{text: []byte(mergeDelayMonitorRoot)}}}, nil
	case ccadbURL:
		ctx, cancel := context.WithTimeout(ctx, l.o.Timeout)
		defer cancel()
		return fetch(ctx, l.client, r.source.location, l.o.UserAgent, r.content.etag, r.content.modified, l.o.MaxSize)
	}
	return readPath(r.source.location, r.source.kind == pemFile, l.o.MaxSize)
}

// digest tells contents apart.
func (c content) digest() [32]byte {
	h := sha256.New()
	for _, f := range c.files {
		message := ""
		if f.err != nil {
			message = f.err.Error()
		}
		_, _ = fmt.Fprintf(h, "%q %q %d\n", f.name, message, len(f.text)) // never fails
		h.Write(f.text)
	}
	return [32]byte(h.Sum(nil))
}

// roots returns the roots that a source lists, each once.
func (l *Loader) roots(s Source, c content) (roots []*cert.Certificate, skipped []error, err error) {
	if s.kind == ccadbFile || s.kind == ccadbURL {
		rep, err := parseCCADB(c.files[0].text, l.parse)
		return rep.roots, rep.skipped, err
	}
	for _, f := range c.files {
		list, left, err := submission.ParseRootsPEMWith(f.text, l.parse)
		if f.err != nil {
			err = f.err
		}
		for _, e := range left {
			skipped = append(skipped, inFile(f.name, e))
		}
		switch {
		case err == nil:
			roots = append(roots, list...)
		case f.name == "":
			return nil, skipped, fmt.Errorf("%w: %w", errUnusable, err)
		default:
			skipped = append(skipped, inFile(f.name, err)) // the other files count all the same
		}
	}
	if len(roots) == 0 {
		return nil, skipped, fmt.Errorf("%w: %w in its files", errUnusable, submission.ErrNoRoots)
	}
	return distinct(roots), skipped, nil
}

func inFile(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func distinct(list []*cert.Certificate) []*cert.Certificate {
	seen := make(map[[32]byte]bool)
	return slices.DeleteFunc(list, func(c *cert.Certificate) bool {
		if seen[c.Fingerprint] {
			return true
		}
		seen[c.Fingerprint] = true
		return false
	})
}

// logSkipped names what was left out of a source.
func (l *Loader) logSkipped(ctx context.Context, source string, skipped []error) {
	for _, err := range skipped[:min(len(skipped), maxLines)] {
		l.o.Logger.WarnContext(ctx, "a root was left out", "source", source, "cause", clip(err.Error()))
	}
	if more := len(skipped) - maxLines; more > 0 {
		l.o.Logger.WarnContext(ctx, "more roots were left out", "source", source, "more", more)
	}
}

// clip bounds a text that others have influence on.
func clip(s string) string {
	if len(s) <= maxLineBytes {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:maxLineBytes]), nil)) + "..."
}
