package sequencer

import (
	"container/list"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
)

// maxQueue bounds the time that a submitter is expected to spend in the queue at
// the gate; one that would take longer is refused at once. A longer queue gets
// nobody in sooner: it only makes everybody's answer late, refusals too.
const maxQueue = 250 * time.Millisecond

// gate lets submitters to the lock of the turnstile one by one: those of high
// priority first, and within a priority the submitters in turn, however many
// entries each of them has waiting.
//
// It measures how long submitters stay inside, and by that refuses those for whom
// the queue is too long: that is for a slow dedup cache. Where it is fast but the
// CPU is short, a queue stands, too, as each has to be scheduled before the next
// can come in; that is not counted, since to refuse them would save nothing.
type gate struct {
	mu    sync.Mutex
	held  bool // by the one submitter that waits for the lock
	lines [2]line

	stay time.Duration // the running mean of how long they stay inside, see left
}

// line is those of one priority who wait at the gate. It is guarded by gate.mu.
type line struct {
	waiting int
	since   time.Time // when it was last empty; the zero time while it is
	queues  map[netip.Prefix]*queue
	turns   list.List // of the queues, each of which has somebody waiting
}

// queue is those of one submitter in a line.
type queue struct {
	submitter netip.Prefix
	waiters   list.List // of *waiter
	turn      *list.Element
}

// waiter is somebody in a queue.
type waiter struct {
	open  chan struct{} // closed once the gate is the waiter's
	queue *queue        // nil from then on
	place *list.Element
}

// party says who comes to the gate.
type party struct {
	priority  Priority
	submitter netip.Prefix
}

// take takes the gate. It returns ErrBusy, at once if the queue is too long, else
// when the patience is at its end, or the context's error.
func (g *gate) take(ctx context.Context, p party, wait *patience) error {
	g.mu.Lock()
	now := time.Now()
	if !g.held {
		g.held = true
		g.mu.Unlock()
		return nil
	}
	if g.tooLong(p, now) {
		g.mu.Unlock()
		return ErrBusy
	}
	l := &g.lines[p.priority]
	w := l.push(p.submitter, now)
	g.mu.Unlock()

	var err error
	select {
	case <-w.open:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-wait.over():
		err = ErrBusy
	}
	g.mu.Lock()
	passed := w.queue == nil
	if !passed {
		l.remove(w)
	}
	g.mu.Unlock()
	if passed { // in the same moment
		g.give()
	}
	return err
}

// give hands the gate to the next in line. Who had it has the lock now, or has
// given up.
func (g *gate) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.lines {
		if w := g.lines[p].pop(); w != nil {
			close(w.open)
			return
		}
	}
	g.held = false
}

// left notes how long a submitter has stayed inside. A stay far above the mean
// counts for sixteen times the mean, so that single ones, as when a thread is not
// scheduled in time, make no queue too long; where one in sixteen is long, the
// mean follows all the same.
func (g *gate) left(stay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stay += (min(stay, 16*g.stay+50*time.Microsecond) - g.stay) / 128
}

// tooLong reports whether the queue is too long for who comes now: if it has been
// there for a while, and, by how long stays are, there are more before the party than come in
// within maxQueue. Those who come later but go first are not known yet. The caller holds g.mu.
func (g *gate) tooLong(p party, now time.Time) bool {
	if incident.Off(incident.Patience) {
		return false
	}
	before := 0
	standing := false
	for priority := High; priority <= p.priority; priority++ {
		l := &g.lines[priority]
		standing = standing || l.waiting > 0 && now.Sub(l.since) > maxQueue/2
		if priority < p.priority {
			before += l.waiting
		} else {
			before += l.before(p.submitter)
		}
	}
	return standing && time.Duration(before)*g.stay > maxQueue
}

// crowded reports whether take would find the queue too long.
func (g *gate) crowded(p party) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held && g.tooLong(p, time.Now())
}

// before is how many pass before somebody who would come now: all, or those who
// have their turn by the time that the submitter's own are through.
func (l *line) before(submitter netip.Prefix) int {
	own := 0
	if q := l.queues[submitter]; q != nil {
		own = q.waiters.Len()
	}
	return min(l.waiting, (own+1)*l.turns.Len())
}

func (l *line) push(submitter netip.Prefix, now time.Time) *waiter {
	if l.waiting == 0 {
		l.since = now
	}
	l.waiting++
	q := l.queues[submitter]
	if q == nil {
		if l.queues == nil {
			l.queues = make(map[netip.Prefix]*queue)
		}
		q = &queue{submitter: submitter}
		q.turn = l.turns.PushBack(q)
		l.queues[submitter] = q
	}
	w := &waiter{open: make(chan struct{}), queue: q}
	w.place = q.waiters.PushBack(w)
	return w
}

// pop takes the next one out of the line, or returns nil.
func (l *line) pop() *waiter {
	turn := l.turns.Front()
	if turn == nil {
		return nil
	}
	q := turn.Value.(*queue)
	l.turns.MoveToBack(turn)
	w := q.waiters.Front().Value.(*waiter)
	l.remove(w)
	return w
}

func (l *line) remove(w *waiter) {
	q := w.queue
	w.queue = nil
	q.waiters.Remove(w.place)
	if q.waiters.Len() == 0 {
		l.turns.Remove(q.turn)
		delete(l.queues, q.submitter)
	}
	if l.waiting--; l.waiting == 0 {
		l.since = time.Time{}
	}
}
