package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// watcher looks at the checkpoint all through a run. Whoever needs the newest
// one asks it, so that every checkpoint that was ever seen is judged, in the
// order in which they came.
type watcher struct {
	r *run

	mu      sync.Mutex // held while the checkpoint is fetched and judged
	last    []byte
	head    *treeHead // of last
	heads   []*treeHead
	partial map[tile]bool
	idle    bool  // tells that ages count
	down    bool  // the log is being restarted
	grown   int64 // the size at the first look
}

func newWatcher(r *run) *watcher { return &watcher{r: r, partial: make(map[tile]bool)} }

// first reads a first checkpoint. It fails only if the log cannot be reached.
func (w *watcher) first(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.r.mon.get(ctx, "checkpoint")
	if a.err != nil {
		return fmt.Errorf("conformance: reading %s/checkpoint: %w", w.r.mon.prefix, a.err)
	}
	w.judge(ctx, a)
	if w.head != nil {
		w.grown = w.head.size
	}
	return nil
}

// start looks at the checkpoint until the returned function is called, which
// waits for the end.
func (w *watcher) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(w.r.o.Poll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				w.look(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// look fetches the checkpoint and judges it if it is a new one. It returns the
// last one that could be read.
func (w *watcher) look(ctx context.Context) *treeHead {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return w.head
	}
	a := w.r.mon.get(ctx, "checkpoint")
	if ctx.Err() != nil {
		return w.head
	}
	w.judge(ctx, a)
	return w.head
}

// pause and resume bracket a restart.
func (w *watcher) pause(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// setIdle says whether the log has nothing to do, so that it must sign by
// itself.
func (w *watcher) setIdle(idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = idle
}

// judge judges an answer for the checkpoint.
func (w *watcher) judge(ctx context.Context, a answer) {
	rec := w.r.rec
	if !rec.check(a.status == 200, "S9 S11", "GET checkpoint: %v", a) {
		return
	}
	if !bytes.Equal(a.body, w.last) {
		w.last = a.body
		w.r.judgeCheckpointHeaders(a)
		if h := w.r.judgeCheckpoint(a.body); h != nil {
			w.accept(ctx, h)
		}
	}
	if w.head == nil {
		return
	}
	age := time.Since(time.UnixMilli(w.head.timestamp))
	if limit := w.r.o.MergeDelay; age > limit || w.idle {
		rec.check(age <= limit, "R29 D12", "the checkpoint is %v old", age.Round(time.Second/10))
	}
}

// accept takes a new, well-formed checkpoint.
func (w *watcher) accept(ctx context.Context, h *treeHead) {
	rec, old := w.r.rec, w.head
	if old != nil {
		rec.check(h.timestamp > old.timestamp, "R28", "a checkpoint of %d ms came after one of %d ms", h.timestamp, old.timestamp)
		same := h.size != old.size || h.root == old.root
		rec.check(same, "K6 D13", "two roots for size %d: %x and %x", h.size, old.root, h.root)
		if w.idle && same {
			rec.check(h.size == old.size, "D12", "an idle log grew from %d to %d", old.size, h.size)
		}
	}
	w.head = h
	w.heads = append(w.heads, h)
	if !w.r.wants("S24", "T5", "G14", "S23") {
		return
	}
	for _, t := range edgeTiles(h.size) {
		if !w.partial[t] {
			w.partial[t] = true
			w.r.judgeEdgeTile(ctx, t, "S24")
		}
	}
}

// judgeEdgeTile fetches a partial tile that a checkpoint implies.
func (r *run) judgeEdgeTile(ctx context.Context, t tile, ids string) {
	a := r.mon.get(ctx, t.path())
	if ctx.Err() != nil {
		return
	}
	what := t.path()
	if a.status == 404 {
		// The tree may have grown past it.
		what = t.full()
		a = r.mon.get(ctx, what)
		r.rec.check(a.status == 200, ids+" T5 G14", "%s: it is gone, and %s: %v", t.path(), what, a)
		return
	}
	if ctx.Err() != nil || !r.rec.check(a.status == 200, ids, "%s: %v", what, a) {
		return
	}
	r.rec.pass("T5 G14")
	b, err := a.decoded()
	if err == nil {
		if t.level == dataLevel {
			_, err = readDataTile(b, t.width)
		} else {
			_, err = readHashTile(b, t.width)
		}
	}
	r.rec.noError(err, ids+" S23", "%s", what)
}

// newest returns the last checkpoint that could be read, nil if there is none.
func (w *watcher) newest() *treeHead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// seen returns all checkpoints that could be read.
func (w *watcher) seen() []*treeHead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heads
}

// waitFor looks until the tree has the entry with this index, or the merge
// delay is over.
func (w *watcher) waitFor(ctx context.Context, index int64) bool {
	limit := time.Now().Add(w.r.o.MergeDelay)
	for {
		h := w.look(ctx)
		if h != nil && h.size > index {
			return true
		}
		if time.Now().After(limit) || ctx.Err() != nil {
			return false
		}
		w.r.pause(ctx, w.r.o.Poll)
	}
}

// settle waits until a second checkpoint has been seen, so that there is
// something to compare, but not longer than the merge delay.
func (w *watcher) settle(ctx context.Context) {
	limit := time.Now().Add(w.r.o.MergeDelay)
	for len(w.seen()) == 1 && time.Now().Before(limit) && ctx.Err() == nil && w.r.wants("R28") {
		w.look(ctx)
		w.r.pause(ctx, w.r.o.Poll)
	}
	w.look(ctx)
	h := w.newest()
	if h == nil {
		return
	}
	if slices.ContainsFunc(w.r.promises, func(p *promise) bool { return p.fresh }) {
		w.r.rec.check(h.size > w.grown, "R26", "entries were promised, and the tree still has %d", h.size)
	}
	w.mu.Lock()
	tiles := slices.Collect(maps.Keys(w.partial))
	w.mu.Unlock()
	for _, t := range tiles {
		w.r.judgeEdgeTile(ctx, t, "S24")
	}
}

// pause waits, but not past the end of ctx.
func (r *run) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
