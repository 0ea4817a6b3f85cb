package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

// answers keeps the answers with SCTs and verifies them after the run, so as
// not to disturb it. When too many wait, one worker begins to verify.
type answers struct {
	plan     *plan
	verifier *checkpoint.Verifier
	limit    int64 // bytes that may wait

	mu       sync.Mutex
	changed  sync.Cond
	waiting  []pending
	bytes    int64
	catchUp  bool // the first worker is to verify until half the limit is free
	hurry    bool // all workers are to verify
	ended    bool
	promises map[uint64]monitor.Promise // by chain number
	moved    []monitor.Promise          // further ones for the same entry
	first    error
	failures int64

	verified atomic.Int64
	workers  sync.WaitGroup
}

type pending struct {
	n      uint64
	answer []byte
}

func newAnswers(p *plan, v *checkpoint.Verifier, memory int64) *answers {
	a := &answers{plan: p, verifier: v, limit: memory, promises: map[uint64]monitor.Promise{}}
	a.changed.L = &a.mu
	for i := range runtime.GOMAXPROCS(0) {
		a.workers.Go(func() { a.work(i == 0) })
	}
	return a
}

// pendingSize is what a pending answer takes beside its bytes.
const pendingSize = 64

func (a *answers) add(q request, body []byte) {
	p := pending{q.n, append([]byte(nil), body...)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, p)
	if a.bytes += int64(len(body)) + pendingSize; a.bytes > a.limit && !a.catchUp {
		a.catchUp = true
		a.changed.Broadcast()
	}
}

// work verifies answers when it is time to: all workers after the run, the
// first one also when too many wait.
func (a *answers) work(first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if a.bytes <= a.limit/2 {
			a.catchUp = false
		}
		for len(a.waiting) == 0 || !(a.hurry || (first && a.catchUp)) {
			if a.ended {
				return
			}
			a.changed.Wait()
		}
		p := a.waiting[len(a.waiting)-1]
		a.waiting = a.waiting[:len(a.waiting)-1]
		a.bytes -= int64(len(p.answer)) + pendingSize
		a.mu.Unlock()
		promise, err := a.verify(p)
		a.verified.Add(1)
		a.mu.Lock()
		a.note(p.n, promise, err)
	}
}

// note keeps the promise, and the first error. a.mu is held.
func (a *answers) note(n uint64, promise monitor.Promise, err error) {
	if err != nil {
		a.failures++
		if a.first == nil {
			a.first = err
		}
		return
	}
	if was, ok := a.promises[n]; ok {
		if was != promise { // both must be kept: a log may log an entry twice
			a.moved = append(a.moved, promise)
		}
		return
	}
	a.promises[n] = promise
}

// verify checks one SCT against the submission, made again from its number.
func (a *answers) verify(p pending) (monitor.Promise, error) {
	var sct checkpoint.SCT
	if err := json.Unmarshal(p.answer, &sct); err != nil {
		return monitor.Promise{}, fmt.Errorf("answer to chain %d is no SCT: %w", p.n, err)
	}
	entry, err := a.plan.entry(p.n)
	if err != nil {
		return monitor.Promise{}, err
	}
	position, err := a.verifier.CheckSCT(sct, entry)
	if err != nil {
		return monitor.Promise{}, fmt.Errorf("chain %d: %w", p.n, err)
	}
	return monitor.Promise{Key: entry.Key(), Position: position}, nil
}

// entry returns the entry that chain n must become.
func (p *plan) entry(n uint64) (*tlog.Entry, error) {
	_, l := p.leaf(n)
	signed, err := p.ca.SignedEntry(n, l)
	if err != nil {
		return nil, err
	}
	if l.Precert {
		// The precertificate itself is neither signed nor part of the key.
		return tlog.NewPrecertEntry(signed, p.ca.IssuerKeyHash(), signed, nil, nil)
	}
	return tlog.NewX509Entry(signed, nil, nil)
}

// finish verifies all that waits.
func (a *answers) finish(progress func(done, total int64)) {
	a.mu.Lock()
	a.hurry = true
	total := a.verified.Load() + int64(len(a.waiting))
	a.changed.Broadcast()
	a.mu.Unlock()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a.mu.Lock()
		left := len(a.waiting)
		a.mu.Unlock()
		if left == 0 {
			break
		}
		<-tick.C
		progress(a.verified.Load(), total)
	}
	a.stop()
}

// stop ends the workers; each finishes what it has in hand.
func (a *answers) stop() {
	a.mu.Lock()
	a.ended = true
	a.changed.Broadcast()
	a.mu.Unlock()
	a.workers.Wait()
}

// check holds the log to what it promised.
func (r *run) check(ctx context.Context) error {
	r.answers.finish(func(done, total int64) {
		r.o.Progress(Progress{Phase: Verifying, Done: done, Total: total, Accepted: r.result.Accepted})
	})
	a := r.answers
	r.result.SCTs, r.result.Moved, r.result.Distinct = a.verified.Load()-a.failures, int64(len(a.moved)), int64(len(a.promises))
	promises := slices.AppendSeq(a.moved, maps.Values(a.promises))
	var errs []error
	if a.failures > 0 {
		errs = append(errs, fmt.Errorf("%d of %d answers have no valid SCT, the first: %w", a.failures, r.result.Accepted, a.first))
	}
	if r.result.Unexpected > 0 {
		errs = append(errs, fmt.Errorf("%d unexpected answers, the first: %s", r.result.Unexpected, r.result.FirstError))
	}
	if r.ages.invalid != nil {
		errs = append(errs, fmt.Errorf("while sending: %w", r.ages.invalid))
	}
	if r.result.Accepted == 0 {
		what := "nothing was accepted"
		if r.result.FirstError != "" {
			what += ": " + r.result.FirstError
		}
		return errors.Join(append(errs, errors.New(what))...)
	}
	return errors.Join(append(errs, r.parity(ctx, promises))...)
}

// parity finds every promised entry through the monitoring prefix, and makes
// sure that the log has moved.
func (r *run) parity(ctx context.Context, promises []monitor.Promise) error {
	head, err := r.head(ctx)
	if err != nil {
		return fmt.Errorf("reading the checkpoint after the run: %w", err)
	}
	r.result.TreeAfter = head.Tree.N
	if grown := r.result.TreeAfter - r.result.TreeBefore; grown < r.result.Distinct {
		err = fmt.Errorf("the tree grew by %d entries, from %d to %d, although %d new ones were promised", grown, r.result.TreeBefore, r.result.TreeAfter, r.result.Distinct)
	}
	if r.o.SkipParity {
		return err
	}
	report, perr := monitor.Verify(ctx, monitor.Options{
		Client: r.client, Origin: r.verifier.Origin(), Key: r.key,
		Promises: promises, PromisesOnly: true, Known: r.ages.known,
		Progress: func(p monitor.Progress) {
			r.o.Progress(Progress{Phase: Reading, Done: p.Tiles, Total: p.TotalTiles, Accepted: r.result.Accepted})
		},
	})
	r.result.Parity = report
	return errors.Join(err, perr)
}

// ages samples the published checkpoint while a run goes on: its age, and that
// it only moves forward. It keeps some checkpoints, to be held against the tree
// later.
type ages struct {
	client      *monitor.Client
	verifier    *checkpoint.Verifier
	quit, ended chan struct{}

	seen    []time.Duration
	known   [][]byte
	last    checkpoint.TreeHead
	failed  int64 // reads that failed
	invalid error // the first checkpoint that was wrong
}

const (
	samplePeriod = 100 * time.Millisecond // in the mean
	maxKnown     = 64
)

func watchAges(ctx context.Context, prefix string, v *checkpoint.Verifier) (*ages, error) {
	client, err := monitor.NewClient(prefix, monitor.ClientOptions{Retries: -1, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	a := &ages{client: client, verifier: v, quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		defer client.Close()
		for {
			// At random times: a fixed period would beat with the log's own.
			timer := time.NewTimer(rand.N(2 * samplePeriod))
			select {
			case <-a.quit:
				timer.Stop()
				return
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
				a.sample(ctx)
			}
		}
	}()
	return a, nil
}

func (a *ages) sample(ctx context.Context) {
	signed, err := a.client.Get(ctx, "checkpoint", checkpoint.MaxNoteSize)
	if err != nil {
		a.failed++
		return
	}
	head, err := a.verifier.Verify(signed)
	if err == nil && (head.Timestamp < a.last.Timestamp || head.Tree.N < a.last.Tree.N || (head.Timestamp == a.last.Timestamp && head != a.last)) {
		err = fmt.Errorf("checkpoint went back from size %d at %d to size %d at %d", a.last.Tree.N, a.last.Timestamp, head.Tree.N, head.Timestamp)
	}
	if err != nil {
		if a.invalid == nil {
			a.invalid = err
		}
		return
	}
	a.last = head
	a.seen = append(a.seen, time.Since(time.UnixMilli(head.Timestamp)))
	// The more checkpoints, the sparser those that are kept.
	if n := len(a.seen); n%(1+n/maxKnown) == 0 {
		if len(a.known) == maxKnown {
			a.known = append(a.known[:0], a.known[maxKnown/2:]...)
		}
		a.known = append(a.known, signed)
	}
}

func (a *ages) stop() Latency {
	close(a.quit)
	<-a.ended
	return latency(a.seen)
}
