package conformance

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// loadClients is how many submissions the filling of tiles has in flight.
const loadClients = 64

// judgeFullTiles submits entries until the tree has as many as asked for, so
// that there are full tiles.
func (r *run) judgeFullTiles(ctx context.Context) {
	head := r.watch.look(ctx)
	if head == nil {
		return
	}
	missing := r.o.Entries - head.size
	if missing <= 0 || r.t.Issuer == nil {
		if head.size < tileWidth {
			r.rec.note("S21 S22", "the tree has no full tile")
		}
		return
	}
	m := newMaker(r)
	work := make(chan int64)
	var wg sync.WaitGroup
	var last int64
	for range loadClients {
		wg.Go(func() {
			for i := range work {
				index := m.fill(ctx, i)
				r.mu.Lock()
				last = max(last, index)
				r.mu.Unlock()
			}
		})
	}
	for i := range missing {
		work <- i
	}
	close(work)
	wg.Wait()
	r.rec.check(r.watch.waitFor(ctx, last), "R7", "entry %d is not in the tree after %v", last, r.o.MergeDelay)
}

// fill submits one chain and returns its index.
func (m *maker) fill(ctx context.Context, i int64) int64 {
	c := chainCase{name: fmt.Sprintf("filling %d", i), chain: chain(m.inter.issue(m.leaf(m.inter, fmt.Sprintf("fill-%d", i))), m.inter)}
	a := m.r.submit(ctx, false, c.chain)
	if ctx.Err() != nil || !m.r.rec.check(a.status == http.StatusOK, "R5", "%s: %v", c.name, a) {
		return 0
	}
	s, err := readSCT(a.body)
	if !m.r.rec.noError(err, "R33", "%s", c.name) {
		return 0
	}
	p := &promise{chainCase: c, sct: s, answer: a}
	p.index = m.r.judgeExtensions(c, s)
	if m.r.judgePath(p) && m.r.judgeSignature(p) && p.index >= 0 {
		m.r.mu.Lock()
		m.r.promises = append(m.r.promises, p)
		m.r.mu.Unlock()
	}
	return p.index
}
