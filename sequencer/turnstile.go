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
	gate gate
	lock chan struct{} // held by the party inside
}

func newTurnstile() *turnstile { return &turnstile{lock: make(chan struct{}, 1)} }

// enter takes the lock for a submitter. It returns ErrBusy when that takes
// longer than bound, or is sure to take too long, or the context's error.
func (t *turnstile) enter(ctx context.Context, p party, bound time.Duration) error {
	wait := patience{bound: bound}
	defer wait.stop()
	if incident.Off(incident.Turnstile) {
		return t.queue(ctx, &wait)
	}
	if err := t.gate.take(ctx, p, &wait); err != nil {
		return err
	}
	defer t.gate.give()
	return t.queue(ctx, &wait)
}

// queue waits for the lock.
func (t *turnstile) queue(ctx context.Context, wait *patience) error {
	select {
	case t.lock <- struct{}{}: // nobody else is here: no timer needed
		return nil
	default:
	}
	select {
	case t.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.over():
		return ErrBusy
	}
}

// leave gives the lock of a submitter, who had it for so long, to the party that
// waits longest for it.
func (t *turnstile) leave(stay time.Duration) {
	<-t.lock
	t.gate.left(stay) // outside: nobody who waits for the lock waits for this
}

// enterFirst takes the lock for the sequencer. There is one sequencer, and its
// wait is bounded by two insertions.
func (t *turnstile) enterFirst() { t.lock <- struct{}{} }

// leaveFirst gives the lock of the sequencer away, as leave does.
func (t *turnstile) leaveFirst() { <-t.lock }

// patience is a timer that starts with the first wait: most do not wait.
type patience struct {
	bound time.Duration
	timer *time.Timer
}

func (p *patience) over() <-chan time.Time {
	if p.timer == nil {
		p.timer = time.NewTimer(p.bound)
	}
	return p.timer.C
}

func (p *patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}
