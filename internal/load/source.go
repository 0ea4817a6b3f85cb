package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/internal/testca"
)

// Class is a kind of submission, by which results are told apart.
type Class int

// The classes. Fresh and Old are new entries; logs prefer fresh ones.
const (
	Fresh     Class = iota
	Old             // a precertificate with NotBefore three days ago
	Duplicate       // of an entry that was accepted before in the same run
	classes
)

var classNames = [...]string{"fresh", "old", "duplicate"}

func (c Class) String() string { return classNames[c] }

// oldAge is the age of Old precertificates; from two days on a log may put
// them last.
const oldAge = 72 * time.Hour

// plan says what number n is. It is a pure function, so that a submission is
// described by its number alone.
type plan struct {
	ca                  *testca.CA
	target              *target
	seed                uint64
	duplicates          float64 // share of requests
	old                 float64 // share of new entries
	precerts            float64 // share of fresh entries
	notBefore, notAfter time.Time
}

// shares draws three numbers in [0, 1) for n, with splitmix64.
func (p *plan) shares(n uint64) (a, b, c float64) {
	state := p.seed ^ n*0xd1342543de82ef95
	next := func() float64 {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11) / (1 << 53)
	}
	return next(), next(), next()
}

// leaf returns the class of new entry n, and the leaf to make.
func (p *plan) leaf(n uint64) (Class, testca.Leaf) {
	_, old, precert := p.shares(n)
	l := testca.Leaf{NotBefore: p.notBefore, NotAfter: p.notAfter, Precert: precert < p.precerts, IncludeRoot: n%8 == 0}
	if old < p.old {
		l.Precert, l.NotBefore = true, p.notBefore.Add(-oldAge)
		return Old, l
	}
	return Fresh, l
}

// isDuplicate tells whether request i repeats an earlier one.
func (p *plan) isDuplicate(i uint64) bool {
	d, _, _ := p.shares(^i)
	return d < p.duplicates
}

// request is a submission, ready to be sent.
type request struct {
	n     uint64 // chain number
	class Class
	bytes []byte // head and body
}

func (p *plan) make(n uint64) (request, error) {
	class, l := p.leaf(n)
	c, err := p.ca.Make(n, l)
	if err != nil {
		return request{}, err
	}
	body := c.Body()
	b := make([]byte, 0, len(body)+256)
	b = append(p.target.appendHead(b, c.Endpoint(), len(body)), body...)
	return request{n: n, class: class, bytes: b}, nil
}

// source makes requests ahead of their use, as many as fit its memory.
type source struct {
	plan  *plan
	limit uint64 // number of new entries, 0 for no limit
	ready chan request
	next  atomic.Uint64
	owner sync.WaitGroup
	// calm makes the workers wait until half of what was made is used up, so
	// that a run that fits is not disturbed by them.
	calm atomic.Bool

	mu  sync.Mutex
	err error
}

// meanRequest is the size in bytes of a request, for the memory bound.
const meanRequest = 3000

// newSource starts workers that run until limit requests are made or ctx is
// done.
func newSource(ctx context.Context, p *plan, limit uint64, memory int64, workers int) *source {
	capacity := uint64(max(memory/meanRequest, 16))
	if limit > 0 {
		capacity = min(capacity, limit)
	}
	s := &source{plan: p, limit: limit, ready: make(chan request, capacity)}
	for range workers {
		s.owner.Go(func() { s.work(ctx) })
	}
	go func() { // ends with the workers
		s.owner.Wait()
		close(s.ready)
	}()
	return s
}

func (s *source) work(ctx context.Context) {
	for {
		for s.calm.Load() && len(s.ready) > cap(s.ready)/2 {
			if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
				return
			}
		}
		n := s.next.Add(1) - 1
		if s.limit > 0 && n >= s.limit {
			return
		}
		r, err := s.plan.make(n)
		if err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			return
		}
		select {
		case s.ready <- r:
		case <-ctx.Done():
			return
		}
	}
}

// failed returns the error that stopped a worker.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// full waits until as many requests are ready as can be, and lets the workers
// rest.
func (s *source) full(ctx context.Context, progress func(done, total int64)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(s.ready) < cap(s.ready) {
		if err := s.failed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			progress(int64(len(s.ready)), int64(cap(s.ready)))
		}
	}
	s.calm.Store(true)
	return nil
}
