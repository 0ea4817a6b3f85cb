package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/tlog"
)

// warmUp is how many rounds of each size do not count.
const warmUp = 5

// roundsResult is what rounds on a tree of one size take.
type roundsResult struct {
	open    time.Duration
	took    samples
	steps   map[sequencer.Step]samples
	put     samples // both of step remember
	walBack samples
	size    int64 // of the tree at the end
}

// measureRounds runs rounds of new entries on logs of every size, with their real
// store, lock and cache.
func measureRounds(ctx context.Context, o *options) error {
	entries, err := makeEntries(max(tlog.TileWidth, (o.rounds+warmUp)*batch))
	if err != nil {
		return err
	}
	var results []*roundsResult
	for _, n := range o.sizes {
		r, err := measureTree(ctx, o, n, entries)
		if err != nil {
			return fmt.Errorf("tree of %s entries: %w", thousands(n), err)
		}
		o.say("tree of %s entries: opened in %s, rounds of %d entries %v", thousands(n), short(r.open), batch, r.took)
		results = append(results, r)
	}
	t := &table{head: []string{"tree of"}}
	for _, n := range o.sizes {
		t.head = append(t.head, thousands(n))
	}
	row := func(name string, f func(*roundsResult) string) {
		cells := []string{name}
		for _, r := range results {
			cells = append(cells, f(r))
		}
		t.add(cells...)
	}
	row("opening it", func(r *roundsResult) string { return short(r.open) })
	row("round", func(r *roundsResult) string { return r.took.String() })
	// Steps are numbered from 0 on.
	for s := sequencer.StepClose; s <= sequencer.StepDiscard; s++ {
		row(s.String(), func(r *roundsResult) string { return short(r.steps[s].quantile(0.5)) })
	}
	row("of remember: put", func(r *roundsResult) string { return short(r.put.quantile(0.5)) })
	row("of remember: WAL checkpoint", func(r *roundsResult) string { return short(r.walBack.quantile(0.5)) })
	return t.print(o.out, fmt.Sprintf("Rounds of %d new entries by the size of the tree, with a dedup cache of as many rows: median / 99th percentile, or [worst] of fewer than 100, and medians of the steps.", batch))
}

// makeEntries makes entries as a submission handler does.
func makeEntries(n int) ([]sequencer.Submission, error) {
	ca, err := testca.New(testca.Options{})
	if err != nil {
		return nil, err
	}
	var chain []tlog.Fingerprint
	for _, der := range ca.Issuers() {
		chain = append(chain, sha256.Sum256(der))
	}
	entries := make([]sequencer.Submission, n)
	now := time.Now()
	for i := range entries {
		c, err := ca.Make(uint64(i), testca.Leaf{Precert: true, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 3, 0)})
		if err != nil {
			return nil, err
		}
		parsed, err := cert.Parse(c.Certificates[0])
		if err != nil {
			return nil, err
		}
		e, err := tlog.NewPrecertEntry(c.SignedEntry, ca.IssuerKeyHash(), c.Certificates[0], chain, parsed.NamesJSON())
		if err != nil {
			return nil, err
		}
		entries[i] = sequencer.Submission{Entry: e, Issuers: ca.Issuers(),
			Submitter: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 20)}), 32)}
	}
	return entries, nil
}

func measureTree(ctx context.Context, o *options, n int64, entries []sequencer.Submission) (r *roundsResult, err error) {
	rows, err := database(ctx, o, n)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.dir, "log-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var closers []func() error
	defer func() {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
	}()
	if err := copyFile(rows, filepath.Join(dir, "cache.db")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		return nil, err
	}
	store, err := posix.Open(filepath.Join(dir, "data"), posix.Options{})
	if err != nil {
		return nil, err
	}
	closers = append(closers, store.Close)
	lock, err := sqlitelock.Open(filepath.Join(dir, "lock.db"), sqlitelock.Options{Create: true})
	if err != nil {
		return nil, err
	}
	closers = append(closers, lock.Close)
	dedup, err := cache.Open(filepath.Join(dir, "cache.db"), cache.Options{})
	if err != nil {
		return nil, err
	}
	closers = append(closers, dedup.Close)
	signer, err := newSigner()
	if err != nil {
		return nil, err
	}
	run := &roundRun{entries: entries, left: o.rounds + warmUp, result: &roundsResult{steps: make(map[sequencer.Step]samples)}}
	c := sequencer.Config{Interval: time.Millisecond, Signer: signer, Store: store, Lock: lock, Cache: dedup, Record: run.record}
	if err := makeTree(ctx, c, n, entries); err != nil {
		return nil, err
	}
	start := time.Now()
	if run.log, err = sequencer.Open(ctx, c); err != nil {
		return nil, err
	}
	run.result.open = time.Since(start)
	return run.result, run.do(ctx)
}

// roundRun is a run of a log whose rounds are measured. All of it belongs to the
// goroutine in do.
type roundRun struct {
	log     *sequencer.Log
	entries []sequencer.Submission // not submitted yet
	rounds  int
	left    int
	stop    context.CancelFunc
	result  *roundsResult
	err     error
}

// do runs the log until all rounds are done.
func (r *roundRun) do(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.fill()
	err := errors.Join(r.err, r.log.Run(ctx))
	if err == nil && r.left > 0 {
		return context.Cause(ctx)
	}
	return err
}

// fill admits the entries of the next round.
func (r *roundRun) fill() {
	for _, s := range r.entries[:batch] {
		if _, err := r.log.Submit(context.Background(), s); err != nil {
			r.err = errors.Join(r.err, err)
			r.stop()
			return
		}
	}
	r.entries = r.entries[batch:]
}

// record takes note of a round, between two rounds, and prepares the next one.
func (r *roundRun) record(rr sequencer.RoundRecord) {
	if r.left == 0 || r.err != nil {
		return // the last one, which is empty
	}
	if rr.Entries != batch || rr.Outcome != sequencer.RoundOK {
		r.err = errors.Join(fmt.Errorf("a round of %d entries ended with %s", rr.Entries, rr.Outcome), rr.Cause)
		r.stop()
		return
	}
	r.result.size = rr.Size
	if r.rounds++; r.rounds > warmUp {
		r.note(rr)
	}
	if r.left--; r.left == 0 {
		r.stop()
		return
	}
	r.fill()
}

func (r *roundRun) note(rr sequencer.RoundRecord) {
	o := r.result
	o.took = append(o.took, rr.Took)
	o.put, o.walBack = append(o.put, rr.Put), append(o.walBack, rr.WALCheckpoint)
	for s, took := range rr.Steps {
		o.steps[sequencer.Step(s)] = append(o.steps[sequencer.Step(s)], took)
	}
}
