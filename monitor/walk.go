package monitor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/daybook-ct/daybook/tlog"
)

// walk visits the data tiles, several at a time. Tiles are handed out in
// order and a fault stops only those behind it, so that the fault returned is
// always the first one.
func (v *verification) walk(ctx context.Context) error {
	total, tile := v.plan()
	workers := v.o.Workers
	if workers <= 0 {
		workers = 4
	}
	var (
		mu     sync.Mutex
		next   int64
		failed = total // the first position that failed
		err    error
		done   int64
	)
	take := func() (i int64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= failed || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	finish := func(i int64, e error) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			if i < failed {
				failed, err = i, e
			}
			return
		}
		done++
		if v.o.Progress != nil {
			v.o.Progress(Progress{Tiles: done, TotalTiles: total, Entries: v.visited(), Bytes: v.client.bytes.Load()})
		}
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				finish(i, v.checkTile(ctx, tile(i)))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// plan returns the number of data tiles to visit, and the index of each.
func (v *verification) plan() (total int64, tile func(int64) int64) {
	if !v.o.PromisesOnly {
		return v.checker.Tiles(), func(i int64) int64 { return i }
	}
	var tiles []int64
	for _, p := range v.promises {
		if n := p.Index / tlog.TileWidth; len(tiles) == 0 || tiles[len(tiles)-1] != n {
			tiles = append(tiles, n)
		}
	}
	return int64(len(tiles)), func(i int64) int64 { return tiles[i] }
}

func (v *verification) visited() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.report.Entries
}

// add adds a tile to the report.
func (v *verification) add(r *TileResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Entries += int64(len(r.Leaves))
	v.report.Precerts += r.Precerts
	v.report.Signatures += r.Signatures
	if r.Names {
		v.report.NamesTiles++
	}
	v.report.DataTiles++
}

// checkTile verifies data tile n, and the promises that it must keep.
func (v *verification) checkTile(ctx context.Context, n int64) error {
	r, err := v.checker.Tile(ctx, n, stop)
	if err != nil {
		return err
	}
	if err := v.checkPromises(n, r.name, r.Leaves); err != nil {
		return err
	}
	v.add(r)
	return nil
}

// checkPromises compares the promised entries of tile n with those there.
func (v *verification) checkPromises(n int64, name string, leaves []tlog.Leaf) error {
	first, _ := slices.BinarySearchFunc(v.promises, n*tlog.TileWidth, func(p Promise, i int64) int { return int(p.Index - i) })
	for _, p := range v.promises[first:] {
		i := p.Index - n*tlog.TileWidth
		if i >= int64(len(leaves)) {
			break
		}
		leaf := leaves[i]
		if got := leaf.Entry.Key(); got != p.Key {
			return entryFault(name, p.Index, "is not the promised entry").values(fmt.Sprintf("key %x", got), fmt.Sprintf("%x", p.Key))
		}
		if leaf.Timestamp != p.Timestamp {
			return entryFault(name, p.Index, "does not have the promised timestamp").values(leaf.Timestamp, p.Timestamp)
		}
	}
	return nil
}
