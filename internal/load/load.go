// Package load submits generated chains to a Static CT log, measures what comes
// back, and then holds the log to its word: every SCT must verify, and every
// entry promised must be found at its place through the monitoring prefix.
//
// A run in which nothing moved fails, whatever was measured.
package load

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/monitor"
)

// Options of a run. Submission, Monitoring and CA are required, and one of
// Count and Duration.
type Options struct {
	Submission string // prefix, http or https
	Monitoring string // prefix

	// Origin and Key, a DER SubjectPublicKeyInfo, are taken from the log's
	// log.v3.json where they are not given.
	Origin string
	Key    []byte

	// CA makes the chains. Its seed should be new in each run, or all
	// entries are duplicates.
	CA *testca.CA

	Count    int64         // requests to send; 0 for no limit
	Duration time.Duration // of sending; 0 for no limit

	// Rate is the number of requests a second that are sent whatever becomes
	// of those before them (open loop). With 0, each client sends its next
	// request when the one before was answered (closed loop).
	Rate float64
	// Clients is the number of connections, default 20. With Rate it is the
	// most that are opened; a request for which none is free is not sent and
	// counted as such.
	Clients int
	// Sources spreads the clients over so many loopback addresses, 127.0.0.1
	// and up, which a log takes for different submitters. Default 1.
	Sources int
	// FirstSource is the last number of the first of these addresses; 0 stands
	// for 1. It keeps two runs at one time apart.
	FirstSource int
	// Timeout of one request, default 60 s.
	Timeout time.Duration
	// Retries of a submission that was answered 503 or 429, after the wait that
	// the log asks for, or a short one.
	Retries int

	Duplicates float64 // share of requests that repeat an accepted entry
	Precerts   float64 // share of precertificates in fresh entries, 0 for the default of one half; negative for none
	Old        float64 // share of new entries that are old precertificates

	// NotBefore and NotAfter of the leaves. Default: from one hour ago to 90
	// days ahead, or within the window in log.v3.json.
	NotBefore, NotAfter time.Time

	// Memory in bytes for requests made ahead, and for answers that wait to be
	// verified, each. Default 256 MiB.
	Memory int64
	// PID is the server's process, whose CPU time and memory are reported. 0 for none.
	PID int
	// SkipParity leaves the check through the monitoring prefix out.
	SkipParity bool

	// Progress, if not nil, is called a few times a second by one goroutine.
	Progress func(Progress)
}

// Progress tells how far a run is.
type Progress struct {
	Phase       string
	Done, Total int64 // Total is 0 if it is not known
	Accepted    int64
	Refused     int64
}

// The phases of a run, in their order.
const (
	Making    = "making" // requests, ahead of their use
	Sending   = "sending"
	Verifying = "verifying" // SCTs
	Reading   = "reading"   // the tree
)

func (o *Options) setDefaults() error {
	switch {
	case o.CA == nil:
		return errors.New("a CA is required")
	case o.Count <= 0 && o.Duration <= 0:
		return errors.New("one of count and duration is required")
	case o.Duplicates < 0 || o.Duplicates > 1 || o.Old < 0 || o.Old > 1 || o.Precerts > 1:
		return errors.New("shares are numbers from 0 to 1")
	case o.FirstSource < 0 || o.Sources+max(o.FirstSource, 1) > 251:
		return errors.New("at most 250 source addresses are possible, 127.0.0.1 to 127.0.0.250")
	case o.Rate < 0:
		return errors.New("the rate must not be negative")
	}
	if o.Clients <= 0 {
		o.Clients = 20
		if o.Rate > 0 { // enough for answers of one second, or refusals of any rate
			o.Clients = max(64, min(int(o.Rate), 4000))
		}
	}
	o.Sources, o.FirstSource = max(o.Sources, 1), max(o.FirstSource, 1)
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Memory <= 0 {
		o.Memory = 256 << 20
	}
	if o.Precerts == 0 {
		o.Precerts = 0.5
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return nil
}

// Run makes a run. The result is complete as far as the run came, also with an
// error. The error says what did not verify, or that nothing moved.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	r := &run{o: o, result: &Result{}, stats: newStats()}
	return r.result, r.do(ctx)
}

// run is one run.
type run struct {
	o        Options
	plan     *plan
	client   *monitor.Client
	verifier *checkpoint.Verifier
	result   *Result
	key      []byte // SubjectPublicKeyInfo of verifier
	recent   recent
	sent     counters
	answers  *answers
	ages     *ages

	mu    sync.Mutex
	stats *stats // of workers that have ended
}

func (r *run) do(ctx context.Context) error {
	var err error
	if r.client, err = monitor.NewClient(r.o.Monitoring, monitor.ClientOptions{}); err != nil {
		return err
	}
	defer r.client.Close()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	before, err := r.head(ctx)
	if err != nil {
		return fmt.Errorf("reading the checkpoint before the run: %w", err)
	}
	r.result.TreeBefore = before.Tree.N
	r.answers = newAnswers(r.plan, r.verifier, r.o.Memory)
	defer r.answers.stop()
	err = r.send(ctx)
	r.stats.fill(r.result)
	r.result.Unsent = r.sent.unsent.Load()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil && r.sent.accepted.Load() == 0 {
		return err
	}
	// What was promised is checked even if the sending was cut off.
	return r.check(context.WithoutCancel(ctx))
}

// prepare learns what the log is and plans the submissions.
func (r *run) prepare(ctx context.Context) error {
	info, err := r.client.Identify(ctx, r.o.Origin, r.o.Key)
	if err != nil {
		return err
	}
	r.key = info.Key
	if r.verifier, err = checkpoint.NewVerifier(info.Origin, info.Key); err != nil {
		return err
	}
	target, err := newTarget(r.o.Submission, r.o.Timeout)
	if err != nil {
		return err
	}
	var seed [8]byte
	rand.Read(seed[:]) // never fails
	r.plan = &plan{ca: r.o.CA, target: target, seed: binary.BigEndian.Uint64(seed[:]),
		duplicates: r.o.Duplicates, old: r.o.Old, precerts: r.o.Precerts}
	r.plan.notBefore, r.plan.notAfter = validity(r.o, info, time.Now())
	return nil
}

// validity returns the validity of the leaves: as asked for, or such that
// NotAfter lies in the log's window.
func validity(o Options, info monitor.LogInfo, now time.Time) (notBefore, notAfter time.Time) {
	notBefore, notAfter = o.NotBefore, o.NotAfter
	if notBefore.IsZero() {
		notBefore = now.Add(-time.Hour)
	}
	if notAfter.IsZero() {
		notAfter = now.Add(90 * 24 * time.Hour)
		start, limit := info.Start, info.Limit
		switch {
		case limit.IsZero():
			if notAfter.Before(start) {
				notAfter = start.Add(time.Hour)
			}
		case !notAfter.Before(limit) || notAfter.Before(start):
			notAfter = start.Add(limit.Sub(start) / 2)
		}
	}
	return notBefore.UTC().Truncate(time.Second), notAfter.UTC().Truncate(time.Second)
}

func (r *run) head(ctx context.Context) (checkpoint.TreeHead, error) {
	signed, err := r.client.Get(ctx, "checkpoint", checkpoint.MaxNoteSize)
	if err != nil {
		return checkpoint.TreeHead{}, err
	}
	return r.verifier.Verify(signed)
}

// sourceAddress returns the local address of client i.
func (r *run) sourceAddress(i int) netip.Addr {
	if r.o.Sources == 1 && r.o.FirstSource == 1 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, byte(r.o.FirstSource + i%r.o.Sources)})
}

// send makes requests ahead, then sends until the count or the duration is
// reached.
func (r *run) send(ctx context.Context) error {
	making, stop := context.WithCancel(ctx)
	limit := uint64(0)
	if r.o.Count > 0 {
		for i := range uint64(r.o.Count) {
			if !r.plan.isDuplicate(i) {
				limit++
			}
		}
		// Duplicates before the first answer are new entries.
		limit += min(uint64(r.o.Count)-limit, uint64(2*r.o.Clients))
	}
	if r.o.Rate > 0 && r.o.Duration > 0 && limit == 0 {
		limit = uint64(r.o.Rate*r.o.Duration.Seconds()) + 1 // more will not be due
	}
	src := newSource(making, r.plan, limit, r.ahead(), runtime.GOMAXPROCS(0))
	defer src.owner.Wait()
	defer stop()
	err := src.full(ctx, func(done, total int64) { r.o.Progress(Progress{Phase: Making, Done: done, Total: total}) })
	if err != nil {
		return err
	}
	sending, end := ctx, context.CancelFunc(func() {})
	if r.o.Duration > 0 {
		sending, end = context.WithTimeout(ctx, r.o.Duration)
	}
	defer end()
	if r.ages, err = watchAges(ctx, r.o.Monitoring, r.verifier); err != nil {
		return err
	}
	watch := r.watchProgress()
	meter := startMeter(r.o.PID)
	d := &driver{run: r, source: src, sending: sending, requests: ctx}
	if r.o.Rate > 0 {
		d.open()
	} else {
		d.closed()
	}
	r.result.Took, r.result.Client, r.result.Server, err = meter.read()
	watch()
	r.result.CheckpointAge, r.result.AgeFailures = r.ages.stop(), r.ages.failed
	return errors.Join(err, src.failed())
}

// ahead returns the memory for requests made ahead, which need not be more
// than the duration can use up.
func (r *run) ahead() int64 {
	rate := r.o.Rate
	if rate == 0 {
		rate = 10000 // more than two cores admit
	}
	if r.o.Duration > 0 {
		return min(r.o.Memory, int64(rate*r.o.Duration.Seconds()+1)*meanRequest)
	}
	return r.o.Memory
}

// watchProgress reports now and then until the returned function is called.
func (r *run) watchProgress() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				r.o.Progress(Progress{Phase: Sending, Done: r.sent.answered.Load(), Total: r.o.Count,
					Accepted: r.sent.accepted.Load(), Refused: r.sent.refused.Load()})
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
