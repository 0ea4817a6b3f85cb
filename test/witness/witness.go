package witness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
)

// Options are what differs between suites.
type Options struct {
	Chains *Chains
	// HTTP submits, and reads checkpoints. The caller owns it, and bounds by it
	// how long an answer may take.
	HTTP *http.Client
	// Monitor is how Verify reads the log.
	Monitor monitor.ClientOptions
	// Pause is the wait before a submission that failed is tried again.
	Pause time.Duration
	// AtOnce is how many submissions All and Resubmit have in flight.
	AtOnce int
}

// Witness is clients of one log who share what they know. It is safe for
// concurrent use.
type Witness struct {
	log Log
	o   Options

	mu       sync.Mutex
	rand     *rand.Rand
	next     uint64 // chain that was not submitted yet
	promised map[uint64]promise
	fresh    []uint64            // promised since VerifyFresh
	open     map[uint64]struct{} // submitted, and never answered with an SCT
	mayMove  bool
	moved    []monitor.Promise // of entries that got another SCT since
	repeated int
	statuses map[int]int

	last        checkpoint.TreeHead // the newest seen
	checkpoints int                 // distinct ones seen
	seen        [][]byte            // those of different trees, in their order
	checked     int                 // of seen, by VerifyFresh

	faults []error
}

// promise is an SCT that reached a client.
type promise struct {
	monitor.Promise
	sct []byte // as it was answered
}

// New returns a witness who knows nothing of a log.
func New(l Log, o Options, r *rand.Rand) *Witness {
	return &Witness{log: l, o: o, rand: r, promised: map[uint64]promise{}, open: map[uint64]struct{}{}, statuses: map[int]int{}}
}

// Fork returns another witness who knows the same at this moment, with a client
// of its own. Its counts of answers start anew.
func (w *Witness) Fork(client *http.Client, r *rand.Rand) *Witness {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := New(w.log, w.o, r)
	f.o.HTTP = client
	f.next, f.mayMove = w.next, w.mayMove
	f.promised, f.open = maps.Clone(w.promised), maps.Clone(w.open)
	f.fresh, f.moved = slices.Clone(w.fresh), slices.Clone(w.moved)
	f.last, f.checkpoints, f.seen, f.checked = w.last, w.checkpoints, slices.Clone(w.seen), w.checked
	return f
}

// Adopt adds what a witness of another process of the same log knows.
func (w *Witness) Adopt(other *Witness) {
	promises, seen := other.Promises(), other.trees()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = append(w.moved, promises...)
	w.seen = append(w.seen, seen...)
}

// MayMove says that the log may have lost its cache: an entry that comes again
// may be logged anew. Both places must be kept then (S8).
func (w *Witness) MayMove(may bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mayMove = may
}

// Submit submits chain n. ok tells whether an SCT came back; if none did for want
// of an answer, status is 0.
func (w *Witness) Submit(ctx context.Context, addr string, n uint64) (status int, ok bool) {
	c, entry, err := w.o.Chains.Make(n)
	if err != nil {
		w.Fault(err)
		return 0, false
	}
	w.mu.Lock()
	if !w.known(n) {
		w.open[n] = struct{}{}
	}
	w.mu.Unlock()
	status, body, err := w.ask(ctx, http.MethodPost, w.url(addr, c.Endpoint()), c.Body())
	w.count(status)
	if err != nil || status != http.StatusOK {
		return status, false
	}
	var sct checkpoint.SCT
	if err := json.Unmarshal(body, &sct); err != nil {
		w.Fault(fmt.Errorf("answer to chain %d is no SCT: %w", n, err))
		return status, false
	}
	position, err := w.log.Verifier.CheckSCT(sct, entry)
	if err != nil {
		w.Fault(fmt.Errorf("chain %d: %w", n, err))
		return status, false
	}
	w.keep(n, promise{monitor.Promise{Key: entry.Key(), Position: position}, body})
	return status, true
}

func (w *Witness) count(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statuses[status]++
}

// keep notes an SCT. The same one must come for the same entry, unless it may move.
func (w *Witness) keep(n uint64, p promise) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.promised[n]
	switch {
	case known && bytes.Equal(before.sct, p.sct):
		w.repeated++
		return
	case known && !w.mayMove:
		w.faults = append(w.faults, fmt.Errorf("chain %d was promised at %+v and again at %+v", n, before.Position, p.Position))
		return
	case known:
		w.moved = append(w.moved, before.Promise)
	}
	delete(w.open, n)
	w.promised[n] = p
	w.fresh = append(w.fresh, n)
}

func (w *Witness) url(addr, name string) string { return "http://" + addr + w.log.Path + name }

// ask returns status 0 and the error if no whole answer came.
func (w *Witness) ask(ctx context.Context, method, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := w.o.HTTP.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, answer, nil
}

// NotServed asks for files that must not be served, and returns how many the log
// has denied. It ends with the first that is not answered.
func (w *Witness) NotServed(ctx context.Context, addr string, names []string) (denied int, err error) {
	for _, name := range names {
		status, _, err := w.ask(ctx, http.MethodGet, w.url(addr, name), nil)
		if err != nil {
			return denied, err
		}
		if status == http.StatusNotFound {
			denied++
		} else {
			w.Fault(fmt.Errorf("%s is served: status %d", name, status))
		}
	}
	return denied, nil
}

// Fault notes what else is wrong with the log.
func (w *Witness) Fault(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, err)
}

// Err returns what went wrong since the last call, the first ten of it.
func (w *Witness) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.faults
	if w.faults = nil; len(faults) > 10 {
		faults = append(faults[:10], fmt.Errorf("and %d more", len(faults)-10))
	}
	return errors.Join(faults...)
}

// Counts are what a witness has seen.
type Counts struct {
	Promised    int         // entries
	Repeated    int         // resubmissions that were answered with the same SCT
	Moved       int         // promises of entries that got another SCT since
	Statuses    map[int]int // of answers to submissions; 0 is none
	Checkpoints int         // distinct ones
	Trees       int         // distinct ones
}

// Counts returns them as they are now.
func (w *Witness) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Counts{Promised: len(w.promised), Repeated: w.repeated, Moved: len(w.moved), Statuses: maps.Clone(w.statuses),
		Checkpoints: w.checkpoints, Trees: len(w.seen)}
}
