package fsck

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

// outcome is what came of one tile.
type outcome struct {
	counts Counts
	found  []Finding
}

// ahead bounds how far workers may be before the first tile that is not done.
const ahead = 64

// saveEvery is the time between two states.
const saveEvery = 5 * time.Second

// tiles checks all data tiles from the one on that the state names. Outcomes are
// put together in the order of the tiles, so that the state is always that of
// a run that has checked all before Next and nothing behind.
func (r *run) tiles(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &walk{run: r, cancel: cancel, next: r.state.Next, total: r.checker.Tiles(), done: map[int64]*outcome{}, saved: time.Now()}
	w.room = sync.NewCond(&w.mu)
	w.put = w.next
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.room.Broadcast()
	})()
	var workers sync.WaitGroup
	for range r.o.Workers {
		workers.Go(func() {
			for {
				n, ok := w.take(ctx)
				if !ok {
					return
				}
				o, err := r.tile(ctx, n)
				if err == nil {
					err = w.finish(n, o)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// walk hands out tiles and takes their outcomes.
type walk struct {
	*run
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	room  *sync.Cond // put has moved on, or the context has ended
	next  int64      // to hand out
	put   int64      // all before are put together
	total int64
	done  map[int64]*outcome // from put on
	saved time.Time
}

func (w *walk) take(ctx context.Context) (int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.next-w.put >= ahead && ctx.Err() == nil {
		w.room.Wait()
	}
	if w.next >= w.total || ctx.Err() != nil {
		return 0, false
	}
	w.next++
	return w.next - 1, true
}

func (w *walk) finish(n int64, o *outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[n] = o
	for o := w.done[w.put]; o != nil; o = w.done[w.put] {
		delete(w.done, w.put)
		w.put++
		w.state.Next = w.put
		w.report.add(o.counts)
		for _, f := range o.found {
			w.inTiles.add(f)
			w.found.add(f)
		}
	}
	w.room.Broadcast()
	w.progress("tiles", w.put, w.total)
	if time.Since(w.saved) < saveEvery {
		return nil
	}
	w.saved = time.Now()
	return w.saveState()
}

// tile checks one tile, and the rows of its leaves.
func (r *run) tile(ctx context.Context, n int64) (*outcome, error) {
	o := &outcome{}
	found := newFindings(nil)
	t, err := r.checker.Tile(ctx, n, found.fault)
	if err != nil {
		return nil, err
	}
	o.counts = Counts{DataTiles: 1, Entries: int64(len(t.Leaves)), Precerts: t.Precerts, Signatures: t.Signatures}
	if t.Names {
		o.counts.NamesTiles = 1
	}
	if r.cache != nil && r.o.All {
		rows := &leafRows{get: r.cache.get, leaves: r.leaves, size: r.head.Tree.N, until: r.start.Add(r.o.Grace)}
		for _, leaf := range t.Leaves {
			if err := rows.check(ctx, leaf, &o.counts, found); err != nil {
				return nil, err
			}
		}
	}
	o.found = found.all()
	return o, nil
}

// leafReader reads single leaves, verified. It is safe for concurrent use.
type leafReader struct {
	head    checkpoint.TreeHead
	checker *monitor.Checker

	mu    sync.Mutex
	tiles []keptTile // the last used one last
}

type keptTile struct {
	n      int64
	leaves []tlog.Leaf // those that could be verified
}

// keptTiles bounds the tiles that a leafReader keeps, at some 2 MiB each.
const keptTiles = 8

func newLeafReader(ctx context.Context, src monitor.Source, head checkpoint.TreeHead) (*leafReader, error) {
	c, err := monitor.NewChecker(ctx, src, head, monitor.CheckerOptions{LeavesOnly: true, Thorough: true}, ignore)
	if err != nil {
		return nil, err
	}
	return &leafReader{head: head, checker: c}, nil
}

// ignore is the monitor.Found of who visits tiles for another reason.
func ignore(*monitor.Fault) error { return nil }

// tile returns the leaves of a data tile that can be verified.
func (l *leafReader) tile(ctx context.Context, n int64) ([]tlog.Leaf, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.tiles, func(t keptTile) bool { return t.n == n }); i >= 0 {
		t := l.tiles[i]
		l.tiles = append(slices.Delete(l.tiles, i, i+1), t)
		return t.leaves, nil
	}
	r, err := l.checker.Tile(ctx, n, ignore)
	if err != nil {
		return nil, err
	}
	if len(l.tiles) >= keptTiles {
		l.tiles = slices.Delete(l.tiles, 0, 1)
	}
	l.tiles = append(l.tiles, keptTile{n, r.Leaves})
	return r.Leaves, nil
}

// leaf returns the leaf with this index. ok is false if its tile is damaged.
func (l *leafReader) leaf(ctx context.Context, index int64) (leaf tlog.Leaf, ok bool, err error) {
	if index < 0 || index >= l.head.Tree.N {
		return leaf, false, fmt.Errorf("there is no entry %d in a tree of %d", index, l.head.Tree.N)
	}
	leaves, err := l.tile(ctx, index/tlog.TileWidth)
	if err != nil {
		return leaf, false, err
	}
	i, ok := slices.BinarySearchFunc(leaves, index, func(l tlog.Leaf, i int64) int { return int(l.Index - i) })
	if !ok {
		return leaf, false, nil
	}
	return leaves[i], true, nil
}
