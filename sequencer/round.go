package sequencer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	// clockPatience bounds the wait for a clock that stands behind the last
	// checkpoint. A step of that size is ordinary; more needs an operator.
	clockPatience = 10 * time.Second

	// refusalsPerLine is how many refused rounds in a row share a line in the log.
	refusalsPerLine = 300

	// maxStored bounds the memory of issuers known to be stored. Forgetting
	// one costs an equal re-put.
	maxStored = 50_000
)

// applyBackoff spaces the retries of apply and publish. Past commit there is
// nothing to return to, so a passing fault is waited out before halting.
var applyBackoff = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 3 * time.Second}

// round is one turn of the sequencer. Its fields are filled step by step.
type round struct {
	started   time.Time
	waited    time.Duration // for the turnstile
	pool      *pool
	tickets   []*Ticket
	timestamp int64
	leaves    []tlog.Leaf
	issuers   []tlog.Fingerprint // stored with this round
	edge      *tlog.Edge
	growth    *tlog.Growth
	objects   []storage.Object // of the growth, and new issuers
	signing   signing
	head      []byte
	wal       storage.WAL
	steps     StepDurations
	putTook   time.Duration // both of StepRemember
	walTook   time.Duration
}

// refusal is a failure of a round that changed nothing: its entries are
// refused, and the log goes on.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

// round runs one round. A non-nil error is fatal; see the package comment for
// what each failure leads to. Caller cancellation is ignored throughout: before
// commit a round is short, past it there is no way back (S10).
func (l *Log) round(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	r := &round{started: time.Now()}
	err := l.sequence(ctx, r)
	_, _ = r.signing.wait() // it is not to outlive a round that failed before
	return l.finish(ctx, r, err)
}

// sequence is the round as a list of its steps.
func (l *Log) sequence(ctx context.Context, r *round) error {
	for _, s := range []struct {
		step Step
		run  func(context.Context, *round) error
	}{
		{StepClose, l.closePool},
		{StepAssign, l.assign},
		{StepGrow, l.grow},
		{StepStage, l.stage},
		{StepSign, l.sign},
		{StepCommit, l.commit},
		{StepApply, func(ctx context.Context, r *round) error { return l.apply(ctx, r.objects) }},
		{StepPublish, func(ctx context.Context, r *round) error { return l.publish(ctx, r.growth.Tree, r.timestamp, r.head) }},
		{StepResolve, l.resolve},
		{StepRemember, l.remember},
		{StepDiscard, l.discard},
	} {
		start := time.Now()
		err := l.runStep(ctx, r, s.step, s.run)
		r.steps[s.step] = time.Since(start)
		l.metrics.steps[s.step].Observe(r.steps[s.step].Seconds())
		if err != nil {
			return fmt.Errorf("%s: %w", s.step, err)
		}
	}
	return nil
}

func (l *Log) runStep(ctx context.Context, r *round, s Step, run func(context.Context, *round) error) error {
	if l.c.hook == nil {
		return run(ctx, r)
	}
	if err := l.c.hook(s, false); err != nil {
		return err
	}
	if err := run(ctx, r); err != nil {
		return err
	}
	return l.c.hook(s, true)
}

// closePool swaps pools. The keys of the closed one stay answerable in
// l.inFlight (S6).
func (l *Log) closePool(_ context.Context, r *round) error {
	r.waited = l.privileged(func() {
		r.pool = l.openPool()
		l.inFlight = r.pool
	})
	r.tickets = r.pool.tickets()
	return nil
}

// openPool puts an empty pool in the place of the open one, which it returns.
// The caller is inside the turnstile.
func (l *Log) openPool() (closed *pool) {
	l.poolMu.Lock()
	defer l.poolMu.Unlock()
	closed, l.pool = l.pool, newPool(l.c.PoolSize)
	return closed
}

// privileged runs f inside the turnstile as the sequencer; f must not block. It
// returns how long it had to wait.
func (l *Log) privileged(f func()) time.Duration {
	start := time.Now()
	l.turnstile.enterFirst()
	entered := time.Now()
	f()
	l.turnstile.leaveFirst()
	l.metrics.waitSequencer.Observe(entered.Sub(start).Seconds())
	l.metrics.holdSequencer.Observe(time.Since(entered).Seconds())
	return entered.Sub(start)
}

// assign gives the round its timestamp, strictly greater than the last one
// (S5), and each entry its index.
func (l *Log) assign(ctx context.Context, r *round) error {
	if err := l.checkClock(ctx); err != nil {
		return err
	}
	now, err := waitForClock(l.c.wall, l.timestamp)
	if err != nil {
		return err
	}
	r.timestamp = now
	next := l.edge.Tree().N
	r.leaves = make([]tlog.Leaf, len(r.tickets))
	for i, t := range r.tickets {
		r.leaves[i] = tlog.Leaf{Entry: t.sub.Entry, Position: tlog.Position{Index: next + int64(i), Timestamp: r.timestamp}}
	}
	return nil
}

// waitForClock returns the time of a wall clock in milliseconds once it is past
// last.
func waitForClock(wall func() time.Time, last int64) (int64, error) {
	deadline := time.Now().Add(clockPatience) // monotonic: not moved by clock steps
	for {
		now := wall()
		if ms := now.UnixMilli(); ms > last {
			return ms, nil
		} else if time.Now().After(deadline) {
			return 0, fmt.Errorf("the clock stands at %s, before the last checkpoint of %s: set it right, or wait until it has caught up",
				now.UTC().Format(time.RFC3339), time.UnixMilli(last).UTC().Format(time.RFC3339))
		}
		time.Sleep(min(time.Duration(last-now.UnixMilli()+1)*time.Millisecond, 100*time.Millisecond))
	}
}

// grow computes the new tree and lists every object that it needs, issuers
// first.
func (l *Log) grow(_ context.Context, r *round) (err error) {
	if r.edge, r.growth, err = l.edge.Append(r.leaves); err != nil {
		return err
	}
	inRound := make(map[tlog.Fingerprint]bool)
	for _, t := range r.tickets {
		for i, fp := range t.sub.Entry.Chain() {
			if _, ok := l.stored[fp]; ok || inRound[fp] {
				continue
			}
			if i >= len(t.sub.Issuers) || sha256.Sum256(t.sub.Issuers[i]) != fp {
				return fmt.Errorf("entry %x was submitted without its issuer %x", t.sub.Entry.Key(), fp)
			}
			inRound[fp] = true
			r.issuers = append(r.issuers, fp)
			r.objects = append(r.objects, storage.Object{Name: fmt.Sprintf("issuer/%x", fp), Data: t.sub.Issuers[i]})
		}
	}
	r.objects = append(r.objects, r.growth.Objects...)
	return nil
}

// stage makes everything the round will write durable in one object, before
// the lock promises it (S2). Meanwhile the tree head is signed, which takes about as
// long as an fsync; nobody has seen it before commit.
func (l *Log) stage(ctx context.Context, r *round) error {
	if err := l.checkRoom(r); err != nil {
		return err
	}
	r.signing.start(func() ([]byte, error) { return l.c.Signer.SignTreeHead(r.growth.Tree, r.timestamp) })
	if len(r.objects) == 0 {
		return nil
	}
	if err := l.mendIssuers(ctx, r.objects); errors.Is(err, storage.ErrNotDurable) {
		return err
	} else if err != nil {
		return refusal{err}
	}
	err := l.c.Store.Put(ctx, storage.Object{Name: bundleName(r.growth.Tree), Data: encodeBundle(l.edge.Tree(), r.objects)})
	switch {
	case errors.Is(err, storage.ErrNotDurable):
		return err
	case err != nil:
		l.leftover = append(l.leftover, bundleName(r.growth.Tree))
		return refusal{err}
	}
	return nil
}

// sign waits for the signatures.
func (l *Log) sign(_ context.Context, r *round) (err error) {
	r.head, err = r.signing.wait()
	return err
}

// signing is the making of signatures beside something that waits. The zero value
// is one that was not started.
type signing struct {
	wg   sync.WaitGroup
	head []byte
	err  error
}

func (s *signing) start(sign func() ([]byte, error)) {
	s.wg.Go(func() { s.head, s.err = sign() })
}

func (s *signing) wait() ([]byte, error) {
	s.wg.Wait()
	return s.head, s.err
}

// commit is the moment from which the new tree is promised. An error of any
// kind halts the log: either another process owns it, or the outcome is
// unknown (S4).
func (l *Log) commit(ctx context.Context, r *round) error {
	err := l.c.Lock.Swap(ctx, l.c.Signer.LogID(), l.head, r.head)
	switch {
	case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("another process has written this log's lock: %w", err)
	case err != nil:
		return fmt.Errorf("the outcome of the lock swap is unknown: %w", err)
	}
	l.edge, l.head, l.timestamp = r.edge, r.head, r.timestamp
	return nil
}

// apply puts a committed round's objects in their places. They are durable only
// once the store is synced, which comes before their bundle is discarded (S2).
// Recovery runs it, too, any number of times (S11).
func (l *Log) apply(ctx context.Context, objects []storage.Object) error {
	if len(objects) == 0 {
		return nil
	}
	return l.persist(ctx, StepApply, objects...)
}

// publish makes the checkpoint public, which the lock holds already (S1).
func (l *Log) publish(ctx context.Context, tree tlog.Tree, timestamp int64, head []byte) error {
	if err := l.persist(ctx, StepPublish, storage.Object{Name: "checkpoint", Data: head}); err != nil {
		return err
	}
	l.metrics.size.Set(float64(tree.N))
	l.metrics.timestamp.Set(float64(timestamp) / 1e3)
	l.setStatus(func(s *Status) { s.Tree, s.Published = tree, time.UnixMilli(timestamp) })
	return nil
}

// persist shows objects, with retries except where retrying cannot help.
func (l *Log) persist(ctx context.Context, s Step, objects ...storage.Object) error {
	for try := 0; ; try++ {
		err := l.c.Store.Show(ctx, objects...)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, storage.ErrNotDurable), errors.Is(err, storage.ErrChanged), errors.Is(err, storage.ErrInvalidName),
			try == len(applyBackoff):
			return err
		}
		l.log.WarnContext(ctx, "storage failed past commit, trying again", "step", s, "try", try+1, "cause", err)
		time.Sleep(applyBackoff[try])
	}
}

// resolve tells everybody who waits where their entry stands (S3).
func (l *Log) resolve(_ context.Context, r *round) error {
	for i, t := range r.tickets {
		t.resolve(r.leaves[i].Position)
	}
	for _, fp := range r.issuers {
		if len(l.stored) >= maxStored {
			clear(l.stored)
		}
		l.stored[fp] = struct{}{}
	}
	l.metrics.entries.Add(float64(len(r.tickets)))
	return nil
}

// refuse answers the tickets of a round that committed nothing. They leave the
// index first, so that a resubmission gets a fresh chance.
func (l *Log) refuse(r *round) {
	l.privileged(func() { l.inFlight = nil })
	for _, t := range r.tickets {
		t.fail(ErrRound)
	}
}
