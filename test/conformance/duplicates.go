package conformance

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"
)

// judgeDuplicates submits again what the log has, and one new chain from
// several clients at once.
func (r *run) judgeDuplicates(ctx context.Context) {
	for _, precert := range []bool{false, true} {
		for _, p := range r.promises {
			if p.precert == precert && p.expect == accept {
				r.resubmitThrice(ctx, p)
				break
			}
		}
	}
	if r.t.Issuer != nil && r.wants("E05") {
		r.judgeHangUp(ctx)
	}
}

// resubmitThrice holds a log to Chrome's policy: an existing SCT, or a new
// entry; never an SCT over nothing. The SCT is verified against its leaf with
// the tree.
func (r *run) resubmitThrice(ctx context.Context, p *promise) {
	for range 3 {
		a := r.submit(ctx, p.precert, p.chain)
		if !r.rec.check(a.status == http.StatusOK, "E01 R6", "%s, submitted again: %v", p.name, a) {
			continue
		}
		c := p.chainCase
		c.name, c.ids, c.entry, c.fresh = p.name+", submitted again", "E01 R6", "", false
		q := r.judgePromise(ctx, c, a)
		if q == nil {
			r.rec.fail("E01 R6", "%s: the SCT does not hold together", c.name)
			continue
		}
		again := p.same(q)
		r.rec.check(again || q.index != p.index, "E01 R6", "%s: entry %d has the timestamps %d and %d", c.name, p.index, p.sct.timestamp, q.sct.timestamp)
		if again {
			r.rec.note("R6", "the log returns the same SCT")
		} else {
			r.rec.note("R6", "the log makes a new entry")
		}
	}
}

// judgeHangUp submits one chain ten times at once and hangs up on the first.
func (r *run) judgeHangUp(ctx context.Context) {
	m := newMaker(r)
	c := chainCase{name: "one chain by ten clients", chain: chain(m.inter.issue(m.leaf(m.inter, "ten")), m.inter), ids: "E05", fresh: true}
	body := chainBody(c.chain)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var made []*promise
	first, hangUp := context.WithCancel(ctx)
	wg.Go(func() {
		r.sub.do(first, call{method: http.MethodPost, path: endpoint(false), body: bytes.NewReader(body)})
	})
	r.pause(ctx, 10*time.Millisecond) // so that it is the first
	for range 9 {
		wg.Go(func() {
			p := r.judgeAnswer(ctx, c, r.post(ctx, endpoint(false), body))
			if p != nil {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, p)
			}
		})
	}
	r.pause(ctx, 10*time.Millisecond)
	hangUp()
	wg.Wait()
	r.rec.check(len(made) == 9, "E05", "%d of 9 clients got an SCT after the first hung up", len(made))
	for _, p := range made {
		r.rec.check(p.same(made[0]), "E05", "one chain got entries %d and %d", p.index, made[0].index)
	}
}
