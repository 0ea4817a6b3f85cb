package sequencer

import (
	"context"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
)

// turnstile is a lock with one privileged party, the sequencer. Submitters pass
// the gate one by one and then queue for the lock; the sequencer queues for the
// lock at once. So at most two submitters, the one inside and the one admitted
// through the gate, get the lock before a waiting sequencer, however many queue
// at the gate.
//
// It relies on channels handing a freed slot to senders in the order of their
// arrival. A sync.Mutex would let newcomers barge in.
type turnstile struct {
	gate chan struct{} // held by the one submitter that waits for the lock
	lock chan struct{} // held by the party inside
}

func newTurnstile() *turnstile {
	return &turnstile{gate: make(chan struct{}, 1), lock: make(chan struct{}, 1)}
}

// enter takes the lock for a submitter. It returns ErrBusy when that takes
// longer than bound, or the context's error.
func (t *turnstile) enter(ctx context.Context, bound time.Duration) error {
	if incident.Off(incident.Turnstile) {
		timer := time.NewTimer(bound)
		defer timer.Stop()
		return t.queue(ctx, timer)
	}
	select {
	case t.gate <- struct{}{}:
		select {
		case t.lock <- struct{}{}: // nobody else is here: no timer needed
			<-t.gate
			return nil
		default:
		}
		timer := time.NewTimer(bound)
		defer timer.Stop()
		return t.pass(ctx, timer)
	default:
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case t.gate <- struct{}{}:
		return t.pass(ctx, timer)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return ErrBusy
	}
}

// pass waits for the lock while holding the gate, and gives the gate back.
func (t *turnstile) pass(ctx context.Context, timer *time.Timer) error {
	defer func() { <-t.gate }()
	return t.queue(ctx, timer)
}

// queue waits for the lock.
func (t *turnstile) queue(ctx context.Context, timer *time.Timer) error {
	select {
	case t.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return ErrBusy
	}
}

// enterFirst takes the lock for the sequencer. There is one sequencer, and its
// wait is bounded by two insertions.
func (t *turnstile) enterFirst() { t.lock <- struct{}{} }

// leave gives the lock to the party that waits longest for it.
func (t *turnstile) leave() { <-t.lock }
