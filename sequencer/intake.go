package sequencer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
	"github.com/daybook-ct/daybook/tlog"
)

// Bounds on the wait at the turnstile. A submitter gives up after about two
// seconds, so an answer after one is still worth something.
const (
	highPatience = time.Second
	lowPatience  = 250 * time.Millisecond
)

// Ticket stands for an entry on its way into the log. It is resolved exactly
// once: with a position inside a published checkpoint (S3) or with an error.
// Any number of goroutines may wait for it, and none of them, by giving up,
// takes it from the others.
type Ticket struct {
	sub     Submission
	evicted bool // guarded by the turnstile

	done     chan struct{}
	position tlog.Position
	err      error
}

func newTicket(s *Submission) *Ticket {
	return &Ticket{sub: *s, done: make(chan struct{})}
}

// Wait returns the entry's position once a checkpoint that covers it is
// published.
func (t *Ticket) Wait(ctx context.Context) (tlog.Position, error) {
	select {
	case <-t.done:
		return t.position, t.err
	case <-ctx.Done():
		return tlog.Position{}, context.Cause(ctx)
	}
}

func (t *Ticket) resolve(p tlog.Position) { t.position = p; close(t.done) }

func (t *Ticket) fail(err error) {
	select {
	case <-t.done: // resolved in the step after which the round failed
	default:
		t.err = err
		close(t.done)
	}
}

// closedChan is the done channel of tickets that are born resolved.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Add submits an entry and waits for its position.
func (l *Log) Add(ctx context.Context, s Submission) (tlog.Position, error) {
	t, err := l.Submit(ctx, s)
	if err != nil {
		return tlog.Position{}, err
	}
	return t.Wait(ctx)
}

// Submit is the intake: it joins, refuses or admits an entry. It waits for the
// turnstile (see ErrBusy), never for a round. The errors are those of this
// package, the context's, or, wrapped, what went wrong with the dedup cache or
// with confirming what it said.
func (l *Log) Submit(ctx context.Context, s Submission) (*Ticket, error) {
	if err := l.blocked(); err != nil {
		l.metrics.intake(outcomeBlocked, s.Priority)
		return nil, err
	}
	bound := highPatience
	if s.Priority == Low {
		bound = lowPatience
	}
	if incident.Off(incident.Patience) {
		bound = time.Hour
	}
	start := time.Now()
	err := l.turnstile.enter(ctx, partyOf(s.Priority, s.Submitter), bound)
	entered := time.Now()
	l.metrics.waitSubmitter.Observe(entered.Sub(start).Seconds())
	if err != nil {
		l.metrics.intake(outcomeOf(err), s.Priority)
		return nil, err
	}
	t, outcome, evicted, err := l.intake(ctx, &s)
	stay := time.Since(entered)
	l.turnstile.leave(stay)
	l.metrics.holdSubmitter.Observe(stay.Seconds())
	if outcome == outcomeDuplicate {
		if err = l.confirm(ctx, s.Entry, t.position); err != nil {
			t, outcome = nil, outcomeCacheError
			if errors.Is(err, errContradicted) {
				outcome = outcomeContradicted
			} else if ctx.Err() != nil {
				outcome, err = outcomeCanceled, context.Cause(ctx)
			}
		}
	}
	l.metrics.intake(outcome, s.Priority)
	if evicted != nil {
		l.metrics.intake(outcomeEvicted, evicted.sub.Priority)
		evicted.fail(ErrEvicted)
	}
	return t, err
}

// Preflight returns the error with which Submit would refuse an entry of this
// priority from this network now, before anything is known of the entry, or nil.
// It waits for nobody and reads no cache, so what is refused for lack of room, or
// for the length of the queue at the gate, costs next to nothing. It is advice:
// Submit may decide otherwise a moment later.
//
// An entry that the full pool holds already would be joined by Submit; its
// resubmission is refused here like any other.
func (l *Log) Preflight(from netip.Prefix, p Priority) error {
	if err := l.halted.Load(); err != nil {
		l.metrics.intake(outcomeHalted, p)
		return ErrHalted
	}
	if l.sunset() {
		l.metrics.intake(outcomeSunset, p)
		return ErrSunset
	}
	if err := l.blocked(); err != nil {
		l.metrics.intake(outcomeBlocked, p)
		return err
	}
	if incident.Off(incident.EarlyRefusal) {
		return nil
	}
	l.poolMu.Lock()
	_, ok := l.pool.room(p, from)
	l.poolMu.Unlock()
	if !ok {
		l.metrics.intake(outcomeFullEarly, p)
		return ErrFull
	}
	if l.turnstile.gate.crowded(partyOf(p, from)) {
		l.metrics.intake(outcomeBusyEarly, p)
		return ErrBusy
	}
	return nil
}

func partyOf(p Priority, from netip.Prefix) party {
	if incident.Off(incident.Fairness) {
		return party{}
	}
	return party{priority: p, submitter: from}
}

// sunset reports whether the log is read-only. Clients take that for final, so a
// clock that has jumped does not decide it.
func (l *Log) sunset() bool {
	return !l.c.Sunset.IsZero() && !l.trusted.Load().now().Before(l.c.Sunset)
}

// intake decides about one entry, in the order of the design: closed, known in
// memory, full, known in the cache, admitted. It runs inside the turnstile, so
// nothing in it may block but the cache get (S9), and a refusal for lack of
// room must not cost one.
func (l *Log) intake(ctx context.Context, s *Submission) (t *Ticket, o outcome, evicted *Ticket, err error) {
	if l.closed != nil {
		return nil, outcomeOf(l.closed), nil, l.closed
	}
	if l.sunset() {
		return nil, outcomeSunset, nil, ErrSunset
	}
	key := s.Entry.Key()
	if t := l.known(key); t != nil {
		if err := l.limitDuplicate(s); err != nil {
			return nil, outcomeLimited, nil, err
		}
		return t, outcomeJoined, nil, nil
	}
	victim, ok := l.pool.room(s.Priority, s.Submitter)
	if !ok && !incident.Off(incident.PoolCheck) {
		return nil, outcomeFull, nil, ErrFull
	}
	position, hit, err := l.c.Cache.Get(ctx, key)
	if err != nil {
		if ctx.Err() != nil {
			return nil, outcomeCanceled, nil, context.Cause(ctx)
		}
		// Not a miss: the entry may well be in the log.
		return nil, outcomeCacheError, nil, fmt.Errorf("looking up the dedup cache: %w", err)
	}
	if hit {
		if err := l.limitDuplicate(s); err != nil {
			return nil, outcomeLimited, nil, err
		}
		return &Ticket{done: closedChan, position: position}, outcomeDuplicate, nil, nil
	}
	if !ok { // only with that remedy off
		return nil, outcomeFull, nil, ErrFull
	}
	t = newTicket(s)
	l.poolMu.Lock()
	if victim != nil {
		l.pool.evict(victim)
	}
	l.pool.admit(t)
	l.poolMu.Unlock()
	return t, outcomeAdmitted, victim, nil
}

// known returns the ticket of an entry that memory answers for (S6).
func (l *Log) known(key tlog.Key) *Ticket {
	if t := l.pool.byKey[key]; t != nil {
		return t
	}
	if l.inFlight != nil {
		if t := l.inFlight.byKey[key]; t != nil {
			return t
		}
	}
	if p, ok := l.unremembered[key]; ok {
		return &Ticket{done: closedChan, position: p}
	}
	return nil
}

// limitDuplicate returns ErrLimited if the entry, which is known, is one too many
// of its submitter. The caller is inside the turnstile.
func (l *Log) limitDuplicate(s *Submission) error {
	if s.Priority != Low || l.exempt.covers(s.Submitter) || l.limiter.allow(s.Submitter, time.Now()) {
		return nil
	}
	return ErrLimited
}
