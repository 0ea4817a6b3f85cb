package rootsource

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/submission"
)

// object is where a log keeps its accepted roots.
const object = "_roots.pem"

// LogOptions say what one log accepts. Store is required.
type LogOptions struct {
	Sources []Source
	Store   storage.Store // of the log, for _roots.pem

	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none; should have a label for the log
}

// Accepted are the accepted roots of one log. Update must not be called
// concurrently.
type Accepted struct {
	loader *Loader
	o      LogOptions
	roots  *submission.Roots
	text   []byte // _roots.pem as it stands in the store
	// failures counts updates that the store did not take.
	failures prometheus.Counter
	unlisted prometheus.Gauge
	// known is how many roots were unlisted when it was last said.
	known int
}

// Open returns the accepted roots of a log: those it has in its storage, and
// those that its sources list. It reads the sources that were not read yet, but
// URLs only if the log has no roots in its storage; [Loader.Run] reads the rest.
//
// With no roots in the storage and none from any source, it returns an error
// with the reasons of all sources that wraps submission.ErrNoRoots. The built-in
// root does not count as a source if there are others.
func (l *Loader) Open(ctx context.Context, o LogOptions) (*Accepted, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	a := &Accepted{loader: l, o: o,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "daybook_roots_store_failures_total",
			Help: "Times that new accepted roots could not be kept in the log's storage, so that they are not accepted yet.",
		}),
		unlisted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "daybook_roots_unlisted",
			Help: "Accepted roots that no source lists any more; they stay accepted.",
		}),
	}
	for _, c := range []prometheus.Collector{a.failures, a.unlisted} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	kept, err := a.kept(ctx)
	if err != nil {
		return nil, err
	}
	var now []Source
	for _, s := range o.Sources {
		if len(kept) == 0 || !s.remote() {
			now = append(now, s)
		}
	}
	if err := l.load(ctx, now, func(r *reading) bool { return r.due.IsZero() }); err != nil {
		return nil, err
	}
	listed, reasons := a.listed()
	if len(kept) == 0 {
		if a.nothing() {
			return nil, fmt.Errorf("the log has no accepted roots in its storage yet, and its sources gave none: %w",
				errors.Join(append(reasons, submission.ErrNoRoots)...))
		}
		kept = distinct(listed)
		if err := a.keep(ctx, kept); err != nil {
			return nil, err
		}
		// A new log does not have to name them all.
		o.Logger.InfoContext(ctx, "the accepted roots have changed", "roots", len(kept), "added", len(kept))
	}
	if a.roots, err = submission.NewRoots(kept); err != nil {
		return nil, err
	}
	return a, a.Update(ctx)
}

// Roots returns the set, which is the same for the life of the log.
func (a *Accepted) Roots() *submission.Roots { return a.roots }

// Update accepts what the sources, as they were last read, list and the log
// does not accept yet. It keeps those roots in the storage first, and accepts
// none of them if it cannot. Submissions go on meanwhile; if nothing is new,
// nothing is written and nothing that was learned of issuers is forgotten.
func (a *Accepted) Update(ctx context.Context) error {
	listed, reasons := a.listed()
	missing := a.roots.Missing(listed)
	if reasons == nil {
		a.sayUnlisted(ctx, a.roots.Len()+len(missing)-len(distinct(listed)))
	}
	if len(missing) == 0 {
		return nil
	}
	if err := a.keep(ctx, missing); err != nil {
		if ctx.Err() == nil {
			a.failures.Inc()
			a.o.Logger.ErrorContext(ctx, "new accepted roots could not be kept in the storage, and are not accepted yet",
				"roots", len(missing), "cause", err)
		}
		return err
	}
	a.roots.Union(missing)
	a.o.Logger.InfoContext(ctx, "the accepted roots have changed", "roots", a.roots.Len(), "added", len(missing))
	for _, c := range missing[:min(len(missing), maxLines)] {
		a.o.Logger.InfoContext(ctx, "a root is accepted from now on", "sha256", hex.EncodeToString(c.Fingerprint[:]), "names", clip(string(c.NamesJSON())))
	}
	return nil
}

// sayUnlisted tells whoever took a root out of a source that it is accepted all
// the same.
func (a *Accepted) sayUnlisted(ctx context.Context, unlisted int) {
	a.unlisted.Set(float64(unlisted))
	if unlisted > 0 && unlisted != a.known {
		a.o.Logger.InfoContext(ctx, "accepted roots that no source lists stay accepted; removing one takes a stop of the log and an edit of "+object, "roots", unlisted)
	}
	a.known = unlisted
}

// keep appends roots to _roots.pem. What stands there is left as it is, even
// what cannot be read.
func (a *Accepted) keep(ctx context.Context, roots []*cert.Certificate) error {
	text := bytes.Clone(a.text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(text, submission.EncodeRootsPEM(roots)...)
	if err := a.o.Store.Put(ctx, storage.Object{Name: object, Data: text}); err != nil {
		return fmt.Errorf("writing %s: %w", object, err)
	}
	a.text = text
	return nil
}

// kept returns the roots that the storage has, nil if it never had any.
func (a *Accepted) kept(ctx context.Context) ([]*cert.Certificate, error) {
	text, err := a.o.Store.Get(ctx, object)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	a.text = text
	roots, skipped, err := submission.ParseRootsPEMWith(text, a.loader.parse)
	for _, e := range skipped[:min(len(skipped), maxLines)] {
		a.o.Logger.ErrorContext(ctx, "a root of the log's storage cannot be accepted", "object", object, "cause", clip(e.Error()))
	}
	if err != nil {
		return nil, fmt.Errorf("the log's storage has a %s from which no root can be read; put a copy of it back, or remove it to begin with what the sources list: %w", object, err)
	}
	return roots, nil
}

// listed returns what the sources listed when they were last read well, and
// why it may not be all: the failures of the last readings, and sources that
// were not read yet.
func (a *Accepted) listed() (roots []*cert.Certificate, reasons []error) {
	for _, r := range a.loader.readings(a.o.Sources) {
		r.mu.Lock()
		roots = append(roots, r.roots...)
		switch {
		case r.err != nil:
			reasons = append(reasons, fmt.Errorf("%s: %w", r.source, r.err))
		case r.due.IsZero():
			reasons = append(reasons, fmt.Errorf("%s: not read yet", r.source))
		}
		r.mu.Unlock()
	}
	return roots, reasons
}

// nothing reports whether no source gave anything. The built-in root, which
// cannot fail, counts only where there is nothing else: a log with that alone
// would refuse all who wait for it.
func (a *Accepted) nothing() bool {
	others := false
	for _, r := range a.loader.readings(a.o.Sources) {
		r.mu.Lock()
		has := len(r.roots) > 0
		r.mu.Unlock()
		if r.source.kind != builtin {
			others = true
			if has {
				return false
			}
		}
	}
	return others || len(a.o.Sources) == 0
}
