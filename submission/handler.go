package submission

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

// Log is what the handler needs of the log. It must be safe for concurrent use.
type Log interface {
	// Add returns the entry's position once a checkpoint that covers it is
	// published (S3). Errors are those of package sequencer, the context's, or
	// internal ones, of which the client is told nothing.
	Add(ctx context.Context, s sequencer.Submission) (tlog.Position, error)
}

// SCTSigner makes SCTs. It must be safe for concurrent use.
type SCTSigner interface {
	// SignSCT returns the DigitallySigned structure over leaf.SCTInput (RFC
	// 5246 section 4.7): hash and signature algorithm, length, and DER.
	SignSCT(leaf tlog.Leaf) (signature []byte, err error)
	// LogID returns the SHA-256 of the log key's SubjectPublicKeyInfo.
	LogID() [32]byte
}

// Options say which log a Handler serves and by which rules. Log, Signer and
// Roots are required.
type Options struct {
	Log    Log
	Signer SCTSigner
	Roots  *Roots
	Window Window // the log's range of NotAfter

	// AllowAnyEKU takes leaves that are not usable for serverAuth, too.
	AllowAnyEKU bool
	// RefusePrecertSigning refuses precertificates that a Precertificate
	// Signing Certificate issued, as static-ct-api allows.
	RefusePrecertSigning bool

	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Preflight, if not nil, is asked whether an entry of this priority would be
	// refused right now, so that what will be refused anyway costs little: with
	// High before the body is read and again before it is parsed, and with the
	// entry's own priority before signatures are verified. Its errors are
	// those of Log.Add. It must not block.
	Preflight func(from netip.Prefix, p sequencer.Priority) error

	// MaxInFlight bounds the submissions in progress, each of which takes a
	// goroutine and, while it waits, its entry; those beyond it get 503 before
	// their bodies are read. Default: DefaultMaxInFlight.
	MaxInFlight int

	Logger  *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// Handler serves the submission endpoints of one log, add-chain, add-pre-chain
// and get-roots (RFC 6962 section 4), below /ct/v1/; the submission prefix has
// been stripped. It is safe for concurrent use.
type Handler struct {
	o         Options
	validator *validator
	metrics   *metrics
	// validating and signing are apart, so that SCTs, which are promises
	// already, do not queue behind new requests.
	validating, signing slots
	// low holds those of low priority that are validating, to half of the slots.
	low         slots
	submissions atomic.Int64 // in progress
	top         topSubmitters
	sctHead     []byte // the JSON of an SCT up to its timestamp
}

// DefaultMaxInFlight allows for a round of several thousand entries and their
// duplicates. With entries of ordinary size it bounds memory to about 100 MiB.
const DefaultMaxInFlight = 8192

// NewHandler returns a Handler, whose metrics it registers.
func NewHandler(o Options) (*Handler, error) {
	if o.Log == nil || o.Signer == nil || o.Roots == nil {
		return nil, errors.New("submission: Log, Signer and Roots are required")
	}
	if !o.Window.Start.IsZero() && !o.Window.Limit.IsZero() && !o.Window.Start.Before(o.Window.Limit) {
		return nil, errors.New("submission: the NotAfter window " + o.Window.String() + " is empty")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Preflight == nil {
		o.Preflight = func(netip.Prefix, sequencer.Priority) error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	m, err := newMetrics(o.Metrics, o.Roots)
	if err != nil {
		return nil, err
	}
	id := o.Signer.LogID()
	head := append([]byte(nil), `{"sct_version":0,"id":"`...)
	head = append(base64.StdEncoding.AppendEncode(head, id[:]), `","timestamp":`...)
	return &Handler{
		o: o,
		validator: &validator{
			roots:                o.Roots,
			window:               o.Window,
			anyEKU:               o.AllowAnyEKU,
			refusePrecertSigning: o.RefusePrecertSigning,
			lookup:               m.lookup,
		},
		metrics:    m,
		validating: make(slots, runtime.GOMAXPROCS(0)),
		signing:    make(slots, runtime.GOMAXPROCS(0)),
		low:        make(slots, max(1, runtime.GOMAXPROCS(0)/2)),
		sctHead:    head,
	}, nil
}

type endpoint struct {
	name    string
	method  string
	allow   string
	precert bool
}

// endpoints by path. RFC 6962 section 4 fixes paths and methods.
var endpoints = map[string]*endpoint{
	"/ct/v1/add-chain":     {name: "add-chain", method: http.MethodPost, allow: "POST, OPTIONS"},
	"/ct/v1/add-pre-chain": {name: "add-pre-chain", method: http.MethodPost, allow: "POST, OPTIONS", precert: true},
	"/ct/v1/get-roots":     {name: "get-roots", method: http.MethodGet, allow: "GET, HEAD, OPTIONS"},
}

// event is what the log and the metrics say about one request.
type event struct {
	endpoint string
	from     netip.Prefix
	status   int
	outcome  string
	err      error

	// Of submissions, as far as they came.
	chain    int // certificates submitted
	leaf     [32]byte
	key      tlog.Key
	priority sequencer.Priority
	position tlog.Position
}

// ServeHTTP answers one request. It never panics on what a client sends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	h.metrics.inFlight.Inc()
	defer h.metrics.inFlight.Dec()
	ev := event{endpoint: "other", outcome: outcomeOK, status: http.StatusOK}
	header := w.Header()
	header["Access-Control-Allow-Origin"] = anyOrigin
	if err := h.route(w, r, &ev); err != nil {
		a := answerTo(r.Context(), err)
		ev.err, ev.status, ev.outcome = err, a.status, a.label
		if a.status == statusClientGone && errors.Is(err, errBody) {
			// Who ended just its own side of the connection, within the body,
			// still reads, and must not be told to send the same again.
			a = answerTo(context.WithoutCancel(r.Context()), err)
		}
		writeError(w, a)
	}
	h.metrics.done(ev.endpoint, ev.outcome, start)
	h.log(r.Context(), &ev, start)
}

// anyOrigin and the like are header values, shared between all responses.
var (
	anyOrigin = []string{"*"}
	typeJSON  = []string{"application/json"}
)

func (h *Handler) route(w http.ResponseWriter, r *http.Request, ev *event) error {
	e := endpoints[r.URL.Path]
	if e == nil {
		return errNotFound
	}
	ev.endpoint = e.name
	switch {
	case r.Method == http.MethodOptions:
		header := w.Header()
		header.Set("Allow", e.allow)
		header.Set("Access-Control-Allow-Methods", e.allow)
		header.Set("Access-Control-Allow-Headers", "Content-Type")
		header.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
		ev.status = http.StatusNoContent
		return nil
	case r.Method == http.MethodHead && e.method == http.MethodGet:
	case r.Method != e.method:
		w.Header().Set("Allow", e.allow)
		return errMethod
	}
	if e.method == http.MethodGet {
		writeJSON(w, h.o.Roots.set.Load().json)
		return nil
	}
	ev.from = submitter(r, h.o.TrustedProxies)
	body, err := h.submit(w, r, e.precert, ev)
	h.top.add(ev.from, isPushBack(r.Context(), err))
	if err != nil {
		return err
	}
	writeJSON(w, body)
	return nil
}

// isPushBack reports whether err asks the client to come again later.
func isPushBack(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	status := answerTo(ctx, err).status
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// submit handles add-chain and add-pre-chain and returns the SCT as JSON.
func (h *Handler) submit(w http.ResponseWriter, r *http.Request, precert bool, ev *event) ([]byte, error) {
	ctx := r.Context()
	defer h.submissions.Add(-1)
	if h.submissions.Add(1) > int64(h.o.MaxInFlight) {
		return nil, errOverloaded
	}
	if err := h.o.Preflight(ev.from, sequencer.High); err != nil {
		return nil, err
	}
	s, err := h.admissible(w, r, precert, ev)
	if err != nil {
		return nil, err
	}
	ev.key, ev.priority = s.Entry.Key(), s.Priority
	if ev.position, err = h.o.Log.Add(ctx, s); err != nil {
		return nil, err
	}
	return h.sct(ctx, tlog.Leaf{Entry: s.Entry, Position: ev.position})
}

// admissible reads the request and makes of it what goes to the log.
func (h *Handler) admissible(w http.ResponseWriter, r *http.Request, precert bool, ev *event) (sequencer.Submission, error) {
	s := getScratch()
	defer putScratch(s)
	if err := s.readBody(w, r); err != nil {
		// A client that hangs up ends the context, and that is the reason.
		return sequencer.Submission{}, errors.Join(err, r.Context().Err())
	}
	waiting := time.Now()
	turn := turn{validating: h.validating, low: h.low}
	if err := turn.begin(r.Context()); err != nil {
		return sequencer.Submission{}, err
	}
	defer turn.end()
	// The pool may have filled up while this request waited.
	if err := h.o.Preflight(ev.from, sequencer.High); err != nil {
		return sequencer.Submission{}, err
	}
	start := time.Now()
	h.metrics.slotWait.Observe(start.Sub(waiting).Seconds())
	defer func() { h.metrics.validation.Observe(time.Since(start).Seconds()) }()

	if err := s.decode(); err != nil {
		return sequencer.Submission{}, err
	}
	ev.chain = len(s.chain)
	p, err := h.validator.validate(s.chain, precert, func(leaf *cert.Certificate) error {
		p := priority(leaf, start)
		if err := h.o.Preflight(ev.from, p); err != nil || p == sequencer.High {
			return err
		}
		return turn.stepBack(r.Context())
	})
	if err != nil {
		return sequencer.Submission{}, err
	}
	ev.leaf = p.leaf.Fingerprint
	return p.submission(precert, start, ev.from)
}

// sct signs the leaf and returns the response of RFC 6962 section 4.1.
func (h *Handler) sct(ctx context.Context, leaf tlog.Leaf) ([]byte, error) {
	// The entry is in the tree: this wait has no bound but the client's.
	if err := h.signing.take(ctx, math.MaxInt64); err != nil {
		return nil, err
	}
	defer h.signing.give()
	signature, err := h.o.Signer.SignSCT(leaf)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(h.sctHead)+256)
	b = append(b, h.sctHead...)
	b = strconv.AppendInt(b, leaf.Timestamp, 10)
	b = append(b, `,"extensions":"`...)
	b = base64.StdEncoding.AppendEncode(b, tlog.AppendExtensions(nil, leaf.Index))
	b = append(b, `","signature":"`...)
	b = base64.StdEncoding.AppendEncode(b, signature)
	return append(b, `"}`...), nil
}

func writeJSON(w http.ResponseWriter, body []byte) {
	header := w.Header()
	header["Content-Type"] = typeJSON
	header.Set("Content-Length", strconv.Itoa(len(body)))
	// A client that is gone by now has lost its answer; nothing is to be done.
	_, _ = w.Write(body)
}

// writeError answers with one plain sentence.
func writeError(w http.ResponseWriter, a answer) {
	if a.status == statusClientGone {
		// Should somebody be there after all, it must not read as a success.
		a.status = http.StatusServiceUnavailable
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests {
		// Client libraries sleep this long inside their caller's patience, so
		// no more is ever asked for.
		header.Set("Retry-After", "1")
	}
	body := a.sentence + "\n"
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(body))
}

// log writes one event a request: at Debug, or at Error if the fault is ours
// and nobody else has reported it.
func (h *Handler) log(ctx context.Context, ev *event, start time.Time) {
	level := slog.LevelDebug
	if ev.outcome == outcomeInternal {
		level = slog.LevelError
	}
	if !h.o.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("endpoint", ev.endpoint),
		slog.Int("status", ev.status),
		slog.String("outcome", ev.outcome),
		slog.Duration("duration", time.Since(start)),
	}
	if ev.from.IsValid() {
		attrs = append(attrs, slog.String("submitter", ev.from.String()))
	}
	if ev.chain > 0 {
		attrs = append(attrs, slog.Int("chain", ev.chain))
	}
	if ev.leaf != [32]byte{} {
		attrs = append(attrs, slog.String("leaf", hex.EncodeToString(ev.leaf[:])))
	}
	if ev.key != (tlog.Key{}) {
		attrs = append(attrs, slog.String("key", hex.EncodeToString(ev.key[:])), slog.Bool("low_priority", ev.priority == sequencer.Low))
	}
	if ev.position.Timestamp != 0 {
		attrs = append(attrs, slog.Int64("index", ev.position.Index), slog.Int64("timestamp", ev.position.Timestamp))
	}
	if ev.err != nil {
		attrs = append(attrs, slog.String("error", ev.err.Error()))
	}
	h.o.Logger.LogAttrs(ctx, level, "submission", attrs...)
}
