package tune

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
)

// Rounds is what whole rounds take: of a log with a real store, lock and cache,
// one after the other, while the checks and signatures of as many requests as the
// rounds are to take go on beside them.
type Rounds struct {
	Sizes []RoundSize `json:"sizes"` // from the smallest
	// Cost is the line through all rounds, and Fitted whether there were enough
	// of them to draw it.
	Cost   Cost `json:"cost"`
	Fitted bool `json:"fitted"`
}

// RoundSize is what rounds of one number of entries take.
type RoundSize struct {
	Entries int               `json:"entries"`
	Took    Timing            `json:"took"`
	Fsyncs  int64             `json:"fsyncs"` // of the storage, in the last of them
	Steps   []rounds.PartTime `json:"steps"`
}

// Cost is [rounds.Cost] for JSON.
type Cost struct {
	Fixed    rounds.Duration `json:"fixed_seconds"`
	PerEntry rounds.Duration `json:"per_entry_seconds"`
	Spread   rounds.Duration `json:"p99_above_line_seconds"`
}

func (c Cost) line() rounds.Cost {
	return rounds.Cost{Fixed: time.Duration(c.Fixed), PerEntry: time.Duration(c.PerEntry), Spread: time.Duration(c.Spread)}
}

// tooSlow is how many intervals a round may take for its size to be measured on.
const tooSlow = 2

// sizes returns the numbers of entries to measure: around the size of the pool.
func (t *tuner) sizes() []int {
	pool := t.o.PoolSize
	if pool == 0 {
		pool = defaultBatch
	}
	sizes := []int{max(1, pool/4), max(1, pool/2), pool, 2 * pool, 4 * pool}
	return slices.Compact(sizes)
}

// rounds runs rounds of every size in turn for the time of the phase.
func (t *tuner) rounds(ctx context.Context) (r Rounds, err error) {
	dir := filepath.Join(t.places.storage, "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return r, err
	}
	store, err := posix.Open(dir, posix.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	lock, err := sqlitelock.Open(filepath.Join(t.places.lock, "lock.db"), sqlitelock.Options{Create: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	dedup, err := cache.Open(t.cache, cache.Options{PageCache: t.o.PageCache})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dedup.Close()) }()

	run := &roundRun{t: t, phase: t.phase("rounds", shareRounds), store: store, sizes: t.sizes()}
	run.took = make(map[int][]time.Duration)
	// The pool has no limit, and is filled while no round runs, so that each
	// round has as many entries as it is to have.
	c := sequencer.Config{Interval: time.Millisecond, Signer: t.material.signer, Store: store, Lock: lock, Cache: dedup, Record: run.record}
	if err := sequencer.Create(ctx, c); err != nil {
		return r, err
	}
	if run.log, err = sequencer.Open(ctx, c); err != nil {
		return r, err
	}
	if err := run.do(ctx); err != nil {
		return r, err
	}
	return run.result(), nil
}

// roundRun is a run of a log whose rounds are measured. All of it but do belongs
// to the goroutine in the log's Run.
type roundRun struct {
	t       *tuner
	phase   *phase
	store   *posix.Store
	log     *sequencer.Log
	sizes   []int
	ctx     func() error // whether the run is to end early, and why
	stop    context.CancelFunc
	stopped bool
	err     error

	turn       int
	want       atomic.Int64 // entries of the next round
	took       map[int][]time.Duration
	records    []rounds.Record
	fsyncs     int64
	lastFsyncs int64
}

// do runs the log until the time is over, or ctx is done.
func (r *roundRun) do(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.stop = stop
	r.ctx = func() error {
		_, err := r.phase.left(ctx, "")
		return err
	}
	r.fill()
	var beside sync.WaitGroup
	beside.Go(func() { r.requests(running) })
	err := r.log.Run(running)
	stop()
	beside.Wait()
	return errors.Join(r.err, err)
}

// fill admits the entries of the next round.
func (r *roundRun) fill() {
	n := r.sizes[r.turn%len(r.sizes)]
	r.turn++
	r.want.Store(int64(n))
	for range n {
		s, err := r.t.material.entry()
		if err == nil {
			_, err = r.log.Submit(context.Background(), s)
		}
		if err != nil {
			r.fail(err)
			return
		}
	}
}

func (r *roundRun) fail(err error) {
	r.err = errors.Join(r.err, err)
	r.stopped = true
	r.stop()
}

// warmUp is the number of rounds that do not count.
const warmUp = 3

// record takes note of a round and prepares the next one.
func (r *roundRun) record(rr sequencer.RoundRecord) {
	if r.stopped {
		return // the last round, which is empty
	}
	now := r.store.Fsyncs()
	r.fsyncs, r.lastFsyncs = now-r.lastFsyncs, now
	if rr.Entries > 0 && r.turn > warmUp {
		r.took[rr.Entries] = append(r.took[rr.Entries], rr.Took)
		r.records = append(r.records, rounds.FromSequencer("tune", &rr))
		r.records[len(r.records)-1].Fsyncs = r.fsyncs
		r.give(rr.Entries)
	}
	if err := r.ctx(); err != nil {
		r.fail(err)
		return
	}
	if time.Since(r.phase.began) >= r.phase.time && len(r.records) >= len(r.sizes) {
		r.stopped = true
		r.stop()
		return
	}
	r.fill()
}

// give gives up a size whose rounds take far too long: they would use up the
// time, and nobody will want them.
func (r *roundRun) give(size int) {
	took := r.took[size]
	if len(r.sizes) < 3 || len(took) < 3 || slices.Min(took) < tooSlow*r.t.o.Interval {
		return
	}
	r.sizes = slices.DeleteFunc(r.sizes, func(n int) bool { return n == size })
}

// requests does the work of as many requests as the rounds take, until ctx is
// done: it reads a certificate, checks a signature, and makes one.
func (r *roundRun) requests(ctx context.Context) {
	const pause = 5 * time.Millisecond
	m := r.t.material
	digest := sha256.Sum256([]byte("tune"))
	signature, err := ecdsa.SignASN1(nil, m.keys.ECDSA, digest[:])
	if err != nil {
		return // measured before: cannot fail
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	owed := 0.0
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// What is not done in time is left out: a host that cannot keep up is slow
		// enough without.
		owed = min(owed, 1) + float64(r.want.Load())*pause.Seconds()/r.t.o.Interval.Seconds()
		for ; owed >= 1; owed-- {
			_, parseErr := cert.Parse(m.templates[i%templates].precertificate)
			if parseErr != nil || !ecdsa.VerifyASN1(&m.keys.ECDSA.PublicKey, digest[:], signature) {
				return
			}
			if _, err := ecdsa.SignASN1(nil, m.keys.ECDSA, digest[:]); err != nil {
				return
			}
		}
	}
}

func (r *roundRun) result() (out Rounds) {
	points := make([]rounds.Point, 0, len(r.records))
	bySize := make(map[int][]rounds.Record)
	for _, rec := range r.records {
		points = append(points, rounds.Point{Entries: rec.Entries, Took: time.Duration(rec.Took)})
		bySize[rec.Entries] = append(bySize[rec.Entries], rec)
	}
	for n, records := range bySize {
		out.Sizes = append(out.Sizes, RoundSize{Entries: n, Took: timing(r.took[n]), Fsyncs: records[len(records)-1].Fsyncs, Steps: rounds.PartTimes(records)})
	}
	slices.SortFunc(out.Sizes, func(a, b RoundSize) int { return a.Entries - b.Entries })
	cost, fitted := rounds.FitCost(points)
	out.Cost = Cost{rounds.Duration(cost.Fixed), rounds.Duration(cost.PerEntry), rounds.Duration(cost.Spread)}
	out.Fitted = fitted
	return out
}

// String says what rounds cost in one line.
func (c Cost) String() string {
	return fmt.Sprintf("%v + %v an entry, 99 of 100 at most %v more", c.Fixed, c.PerEntry, c.Spread)
}
