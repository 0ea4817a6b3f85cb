package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

// submitters submit to one log through all its lives, and keep what it
// promised. A chain is its number.
type submitters struct {
	l    *logDir
	http *http.Client

	mu       sync.Mutex
	rand     *rand.Rand
	next     uint64
	promised map[uint64]promise
	fresh    []uint64            // promised since the last check
	open     map[uint64]struct{} // submitted, and never answered with an SCT
	statuses map[int]int
	repeated int  // resubmissions that were answered with the same SCT
	moves    bool // the cache was taken away: a resubmission may be logged anew
	moved    []promise
	faults   []error
}

// promise is an SCT that reached a client.
type promise struct {
	monitor.Promise
	sct []byte // as it was answered
}

func newSubmitters(t testing.TB, l *logDir) *submitters {
	s := &submitters{
		l:    l,
		rand: newRand(t.Name()), promised: map[uint64]promise{}, open: map[uint64]struct{}{}, statuses: map[int]int{},
		http: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second}},
	}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// chain returns chain n and the entry that it must become.
func chain(n uint64) (testca.Chain, *tlog.Entry, error) {
	c, err := ca.Make(n, testca.Leaf{Precert: n%2 == 0, NotBefore: started.Add(-time.Hour), NotAfter: started.Add(90 * 24 * time.Hour)})
	if err != nil {
		return c, nil, err
	}
	var e *tlog.Entry
	if c.Precert {
		e, err = tlog.NewPrecertEntry(c.SignedEntry, ca.IssuerKeyHash(), c.SignedEntry, nil, nil)
	} else {
		e, err = tlog.NewX509Entry(c.SignedEntry, nil, nil)
	}
	return c, e, err
}

// submit submits chain n. ok tells whether an SCT came back; if none did for
// want of an answer, status is 0.
func (s *submitters) submit(ctx context.Context, addr string, n uint64) (status int, ok bool) {
	c, entry, err := chain(n)
	if err != nil {
		s.fault(err)
		return 0, false
	}
	s.mu.Lock()
	if _, ok := s.promised[n]; !ok {
		s.open[n] = struct{}{}
	}
	s.mu.Unlock()
	status, body, err := s.post(ctx, "http://"+addr+logPath+c.Endpoint(), c.Body())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.statuses[status]++; err != nil || status != http.StatusOK {
		return status, false
	}
	var sct checkpoint.SCT
	if err := json.Unmarshal(body, &sct); err != nil {
		s.faults = append(s.faults, fmt.Errorf("answer to chain %d is no SCT: %w", n, err))
		return status, false
	}
	position, err := s.l.verifier.CheckSCT(sct, entry)
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("chain %d: %w", n, err))
		return status, false
	}
	s.keep(n, promise{monitor.Promise{Key: entry.Key(), Position: position}, bytes.Clone(body)})
	return status, true
}

// keep notes an SCT. The same one must come for the same entry. s.mu is held.
func (s *submitters) keep(n uint64, p promise) {
	before, known := s.promised[n]
	switch {
	case known && bytes.Equal(before.sct, p.sct):
		s.repeated++
	case known && !s.moves:
		s.faults = append(s.faults, fmt.Errorf("chain %d was promised at %+v and again at %+v", n, before.Position, p.Position))
	case known:
		s.moved = append(s.moved, before) // must be kept, too
		fallthrough
	default:
		delete(s.open, n)
		s.promised[n] = p
		s.fresh = append(s.fresh, n)
	}
}

// post returns status 0 and the error if no whole answer came.
func (s *submitters) post(ctx context.Context, url string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err = io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, answer, nil
}

func (s *submitters) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, err)
}

// pick chooses what to submit next: a new chain, or, one time in ten, one that
// was promised before.
func (s *submitters) pick() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next > 0 && s.rand.IntN(10) == 0 {
		if n := s.rand.Uint64N(s.next); s.known(n) {
			return n
		}
	}
	s.next++
	return s.next - 1
}

func (s *submitters) known(n uint64) bool { _, ok := s.promised[n]; return ok }

// load submits over several connections until ctx is done or the process ends.
func (s *submitters) load(ctx context.Context, p *process, connections int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			for n, next := uint64(0), true; ctx.Err() == nil; {
				if next {
					n = s.pick()
				}
				var status int
				if status, next = s.submit(ctx, p.addr, n); !next && status != 0 {
					select {
					case <-time.After(5 * time.Millisecond): // and then again
					case <-ctx.Done():
					}
				}
			}
		})
	}
	clients.Wait()
}

// fill submits chains until count more are promised.
func (s *submitters) fill(t testing.TB, p *process, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	want := s.count() + count
	go func() {
		for s.count() < want && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	s.load(ctx, p, 100)
	if s.count() < want {
		t.Fatalf("only %d SCTs came, statuses %v\n%s", s.count(), s.statuses, p.out.text())
	}
}

func (s *submitters) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.promised)
}

// resubmit submits some chains again, which must be answered: those never
// answered, and a sample of those promised, the last ones among them.
func (s *submitters) resubmit(t testing.TB, addr string, sample int) {
	t.Helper()
	s.mu.Lock()
	var again []uint64
	for n := range s.open {
		again = append(again, n)
	}
	again = append(again, s.fresh[max(0, len(s.fresh)-sample):]...)
	for range sample {
		if n := s.rand.Uint64N(max(s.next, 1)); s.known(n) {
			again = append(again, n)
		}
	}
	slices.Sort(again)
	again = slices.Compact(again)
	s.mu.Unlock()
	s.all(t, addr, again, func(n uint64, status int) {
		s.fault(fmt.Errorf("resubmission of chain %d: status %d", n, status))
	})
}

// all submits chains, many at a time. failed is told about those that are not
// answered with an SCT.
func (s *submitters) all(t testing.TB, addr string, chains []uint64, failed func(n uint64, status int)) {
	t.Helper()
	var clients sync.WaitGroup
	work := make(chan uint64)
	for range 50 {
		clients.Go(func() {
			for n := range work {
				if status, ok := s.submit(t.Context(), addr, n); !ok {
					failed(n, status)
				}
			}
		})
	}
	for _, n := range chains {
		work <- n
	}
	close(work)
	clients.Wait()
}

// refused submits a new chain, which must be refused with this status.
func (s *submitters) refused(t testing.TB, p *process, want int) {
	t.Helper()
	s.mu.Lock()
	n := s.next
	s.next++
	s.mu.Unlock()
	if status, _ := s.submit(t.Context(), p.addr, n); status != want {
		t.Errorf("submission: status %d, want %d\n%s", status, want, p.out.text())
	}
}

// failed reports what went wrong.
func (s *submitters) failed(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, err := range s.faults {
		if i == 10 {
			t.Errorf("and %d more", len(s.faults)-i)
			break
		}
		t.Error(err)
	}
	s.faults = nil
}

// promises returns the promises made since the last call, and a sample of
// those before; all of them if sample is negative.
func (s *submitters) promises(sample int) []monitor.Promise {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []monitor.Promise
	for _, n := range s.fresh {
		list = append(list, s.promised[n].Promise)
	}
	s.fresh = s.fresh[:0]
	for _, p := range s.moved {
		list = append(list, p.Promise)
	}
	if sample < 0 {
		list = list[:0]
		for _, p := range s.moved {
			list = append(list, p.Promise)
		}
		for _, p := range s.promised {
			list = append(list, p.Promise)
		}
	}
	for range sample {
		if n := s.rand.Uint64N(max(s.next, 1)); s.known(n) {
			list = append(list, s.promised[n].Promise)
		}
	}
	return list
}
