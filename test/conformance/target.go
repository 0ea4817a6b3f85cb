package conformance

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Target is a log to be judged, and what is known of it.
type Target struct {
	// Submission and Monitoring are the prefixes, with or without the slash at
	// their ends.
	Submission, Monitoring string
	// PublicKey is the log's SubjectPublicKeyInfo, DER.
	PublicKey []byte
	// Origin is what checkpoints must name. Default: the submission prefix
	// without scheme and trailing slashes.
	Origin string
	// VerifierKey is the vkey (c2sp.org/signed-note) of another key that signs
	// the log's checkpoints, if it has one.
	VerifierKey string
	// Roots are the accepted roots in DER. Nil: whatever get-roots says.
	Roots [][]byte
	// WindowStart (inclusive) and WindowLimit (exclusive) are the log's range of
	// NotAfter. Zero: open.
	WindowStart, WindowLimit time.Time

	// Issuer is an accepted root with its key, to issue chains with.
	Issuer *Issuer
	// Cases is the folder of the cases: chains, synthetic, odd. Those chains are
	// submitted whose file of accepted roots has just the log's roots.
	Cases string
	// Resubmit takes chains from the log's own entries if there is no other
	// source.
	Resubmit bool

	// Restart ends the log, in order or by killing it, and starts it again. Nil
	// if that cannot be done from here.
	Restart func(ctx context.Context, kill bool) error
	// Dial connects to the log. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timeout bounds a request, 20 s by default.
	Timeout time.Duration
}

func (t *Target) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return 20 * time.Second
}

// Options say how to judge.
type Options struct {
	// Strict makes a failure of each SHOULD that is not kept.
	Strict bool
	// Only are the IDs of the clauses to judge. Default: all.
	Only []string
	// Entries is how many entries the tree should have for the clauses about
	// full tiles; those missing are submitted. It needs an Issuer.
	Entries int64
	// Scan bounds the entries, from the tree's end, that are read and verified.
	// Default: 20,000.
	Scan int64
	// Idle is how long to watch the log with nothing to do. Chrome's limit, and
	// so the least that says anything, is a minute. Zero leaves it out.
	Idle time.Duration
	// Poll is the time between two looks at the checkpoint, 100 ms by default.
	Poll time.Duration
	// MergeDelay is the log's maximum merge delay, a minute by default.
	MergeDelay time.Duration
	// Decide, if not nil, says which outcome of a case this log has chosen, where
	// the index leaves a choice.
	Decide func(c Case) (accept, known bool)
	// Log gets a line on each phase and on each fault as it is found.
	Log func(string)
}

// Run judges a log. It returns an error only if it could not: the report says
// what is wrong with the log.
//
// It sends some hundred requests, and as many submissions as the log takes,
// with up to eight at a time.
func Run(ctx context.Context, t Target, o Options) (*Report, error) {
	r, err := newRun(t, o)
	if err != nil {
		return nil, err
	}
	defer r.sub.close()
	defer r.mon.close()
	return r.all(ctx)
}

// run is a run in progress.
type run struct {
	t   Target
	o   Options
	rec *recorder
	key *publicKey
	vk  *verifierKey // nil if there is none

	sub, mon *client
	watch    *watcher

	roots [][]byte // as get-roots lists them

	mu       sync.Mutex // guards what parallel submissions append to
	promises []*promise
	bySigner map[bool][]string // accepted or not: chains by way of a Precertificate Signing Certificate
	refusals [][]byte          // leaves that the log refused
	outcomes []Outcome
	odd      []OddOutcomes
}

func newRun(t Target, o Options) (*run, error) {
	if t.Monitoring == "" {
		t.Monitoring = t.Submission
	}
	for _, id := range o.Only {
		if !slices.ContainsFunc(clauses, func(c Clause) bool { return c.ID == id }) {
			return nil, fmt.Errorf("there is no clause %q", id)
		}
	}
	defaults(&o)
	r := &run{t: t, o: o, rec: newRecorder(o.Strict, o.Log), bySigner: make(map[bool][]string)}
	var err error
	if r.key, err = readPublicKey(t.PublicKey); err != nil {
		return nil, err
	}
	if t.VerifierKey != "" {
		if r.vk, err = readVerifierKey(t.VerifierKey); err != nil {
			return nil, err
		}
	}
	if r.sub, err = newClient(t.Submission, &r.t); err != nil {
		return nil, fmt.Errorf("submission prefix: %w", err)
	}
	if r.mon, err = newClient(t.Monitoring, &r.t); err != nil {
		return nil, fmt.Errorf("monitoring prefix: %w", err)
	}
	if r.t.Origin == "" {
		_, r.t.Origin, _ = strings.Cut(r.sub.prefix, "://")
	}
	r.watch = newWatcher(r)
	return r, nil
}

func defaults(o *Options) {
	if o.Scan == 0 {
		o.Scan = 20000
	}
	if o.Poll == 0 {
		o.Poll = 100 * time.Millisecond
	}
	if o.MergeDelay == 0 {
		o.MergeDelay = time.Minute
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
}

// wants reports whether any of the clauses is to be judged.
func (r *run) wants(ids ...string) bool {
	return len(r.o.Only) == 0 || slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(r.o.Only, id) })
}

// wantsPhase reports whether a phase has to run: whether a clause that it
// decides is to be judged.
func (r *run) wantsPhase(p phase) bool {
	for _, c := range clauses {
		if r.wants(c.ID) && slices.Contains(c.phases, p) {
			return true
		}
	}
	return false
}

// all goes through the phases.
func (r *run) all(ctx context.Context) (*Report, error) {
	if err := r.watch.first(ctx); err != nil {
		return nil, err
	}
	if err := r.readRoots(ctx); err != nil {
		return nil, err
	}
	stop := r.watch.start(ctx)
	defer stop()
	phases := []struct {
		phase phase
		do    func(context.Context)
	}{
		{phaseRoots, r.judgeRoots},
		{phaseChains, r.judgeChains},
		{phaseCases, r.judgeCases},
		{phaseOdd, r.judgeOdd},
		{phaseDuplicates, r.judgeDuplicates},
		{phaseRequests, r.judgeRequests},
		{phaseLoad, r.judgeFullTiles},
		{phaseRead, r.judgeReads},
		{phaseRestart, r.judgeRestart},
		{phaseIdle, r.judgeIdle},
	}
	for _, p := range phases {
		always := p.phase == phaseChains || p.phase == phaseCases || p.phase == phaseRestart // others stand on them
		if !always && !r.wantsPhase(p.phase) {
			continue
		}
		r.o.Log("phase " + string(p.phase))
		p.do(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("conformance: in phase %s: %w", p.phase, err)
		}
	}
	r.watch.settle(ctx)
	stop()
	r.o.Log("phase scan")
	r.judgeTree(ctx)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("conformance: while reading the tree: %w", err)
	}
	r.explainSkipped()
	rep := r.rec.report(r.o.Only)
	rep.Outcomes, rep.Odd = r.outcomes, r.odd
	for _, p := range r.promises {
		if p.ids != "" { // the rest just filled tiles
			rep.Promises = append(rep.Promises, p.export(r.key))
		}
	}
	return rep, nil
}
