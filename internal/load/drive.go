package load

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// driver sends the requests of a run.
type driver struct {
	run      *run
	source   *source
	sending  context.Context // done when no more requests are to begin
	requests context.Context // done when those under way are to end
	index    atomic.Uint64   // of the next request
	workers  sync.WaitGroup
	// exhausted is set when the source has nothing more.
	exhausted atomic.Bool
}

// take returns the next request, false when there is none.
func (d *driver) take() (request, bool) {
	i := d.index.Add(1) - 1
	if c := d.run.o.Count; c > 0 && i >= uint64(c) {
		return request{}, false
	}
	if d.run.plan.isDuplicate(i) {
		if q, ok := d.run.recent.pick(); ok {
			q.class = Duplicate
			return q, true
		}
	}
	select {
	case q, ok := <-d.source.ready:
		if !ok {
			d.exhausted.Store(true)
		}
		return q, ok
	case <-d.sending.Done():
		return request{}, false
	}
}

// closed runs clients that each wait for their answer.
func (d *driver) closed() {
	for i := range d.run.o.Clients {
		d.workers.Go(func() {
			w := d.worker(i)
			defer w.end()
			for d.sending.Err() == nil {
				q, ok := d.take()
				if !ok {
					return
				}
				w.submit(q, time.Now())
			}
		})
	}
	d.workers.Wait()
}

// open sends at a fixed rate. Latency counts from the time at which a request
// was due, so that a slow answer cannot hide those behind it.
func (d *driver) open() {
	due := make(chan time.Time)
	defer d.workers.Wait()
	defer close(due)
	start, n := time.Now(), 0
	for i := 0; ; i++ {
		at := start.Add(time.Duration(float64(i) / d.run.o.Rate * float64(time.Second)))
		if !sleepUntil(d.sending, at) || d.exhausted.Load() || (d.run.o.Count > 0 && int64(i) >= d.run.o.Count) {
			return
		}
		select {
		case due <- at:
			continue
		default:
		}
		if n == d.run.o.Clients {
			d.run.sent.unsent.Add(1)
			continue
		}
		client := n
		n++
		d.workers.Go(func() {
			w := d.worker(client)
			defer w.end()
			for at := range prepend(at, due) {
				if q, ok := d.take(); ok {
					w.submit(q, at)
				}
			}
		})
	}
}

// prepend yields first, and then what comes from c.
func prepend(first time.Time, c <-chan time.Time) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		if !yield(first) {
			return
		}
		for t := range c {
			if !yield(t) {
				return
			}
		}
	}
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// worker is one client.
type worker struct {
	d     *driver
	conn  *conn
	stats *stats
}

func (d *driver) worker(i int) *worker {
	return &worker{d: d, conn: &conn{target: d.run.plan.target, source: d.run.sourceAddress(i)}, stats: newStats()}
}

func (w *worker) end() {
	w.conn.close()
	r := w.d.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.merge(w.stats)
}

// submit sends a request, again if it was put off and retries are left, and
// notes the outcome.
func (w *worker) submit(q request, start time.Time) {
	r := w.d.run
	for attempt := 0; ; attempt++ {
		a, err := w.conn.do(w.d.requests, q.bytes)
		if err != nil {
			if w.d.requests.Err() == nil {
				w.stats.failed(err)
				r.sent.answered.Add(1)
			}
			return
		}
		w.stats.statuses[a.status]++
		again := a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests
		if again && attempt < r.o.Retries {
			w.stats.retries++
			wait := max(a.retryAfter, 50*time.Millisecond)
			if sleepUntil(w.d.requests, time.Now().Add(wait+rand.N(wait/2))) {
				continue
			}
			return
		}
		took := time.Since(start)
		r.sent.answered.Add(1)
		switch {
		case a.status == http.StatusOK:
			w.stats.done(q.class, accepted, took)
			r.sent.accepted.Add(1)
			r.answers.add(q, a.body)
			if q.class != Duplicate && r.o.Duplicates > 0 {
				r.recent.add(q)
			}
		case again:
			w.stats.done(q.class, refused, took)
			r.sent.refused.Add(1)
		default:
			w.stats.unexpected(a)
		}
		return
	}
}

// counters are read while the run goes on.
type counters struct{ answered, accepted, refused, unsent atomic.Int64 }

// recent holds some requests that were accepted, to be repeated. The zero
// value is ready for use.
type recent struct {
	mu   sync.Mutex
	ring []request
	next int
}

const maxRecent = 4096

func (r *recent) add(q request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < maxRecent {
		r.ring = append(r.ring, q)
		return
	}
	r.ring[r.next] = q
	r.next = (r.next + 1) % maxRecent
}

func (r *recent) pick() (request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) == 0 {
		return request{}, false
	}
	return r.ring[rand.IntN(len(r.ring))], true
}
