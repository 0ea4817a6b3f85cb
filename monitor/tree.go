package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/daybook-ct/daybook/tlog"
)

// maxUpperTiles bounds the verified tiles above level 0 that are kept, 8 KiB
// each. Tiles are visited in order, so that few are needed at a time.
const maxUpperTiles = 512

// tree reads the hash tiles of one tree head. It is safe for concurrent use.
type tree struct {
	src      Source
	head     tlog.Tree
	thorough bool               // see CheckerOptions
	edge     map[int]tileHashes // partial tiles on the right edge, by level

	mu    sync.Mutex
	upper map[tlog.Tile]*tileCall
	order []tlog.Tile // keys of upper, oldest first
	tiles int64       // verified so far
}

// tileHashes are the hashes of a tile.
type tileHashes struct {
	name  string      // of the object that was read
	list  []tlog.Hash // nil if they are not known
	sound bool        // verified up to the root; false only after a fault was told
}

// tileCall is a tile that is or was read once for all who want it.
type tileCall struct {
	done   chan struct{}
	hashes tileHashes
	err    error
}

// openTree reads the right edge of a tree and verifies it against the root.
func openTree(ctx context.Context, src Source, head tlog.Tree, thorough bool, found Found) (*tree, error) {
	t := &tree{src: src, head: head, thorough: thorough, edge: map[int]tileHashes{}, upper: map[tlog.Tile]*tileCall{}}
	var names []string
	whole := true
	for _, tile := range tlog.HashTiles(head.N) {
		hashes, name, err := readHashTile(ctx, src, tile)
		if err := tell(err, found); err != nil {
			return nil, err
		}
		if err != nil {
			name, whole = tile.Path(), false
		} else {
			t.tiles++
		}
		t.edge[tile.L] = tileHashes{name, hashes, false}
		names = append(names, name)
	}
	root := t.edgeRoot()
	if whole && root == head.Hash {
		for l, e := range t.edge {
			e.sound = true
			t.edge[l] = e
		}
		return t, nil
	}
	if len(names) == 0 {
		return t, found(fault("checkpoint", "root of the empty tree is wrong").values(head.Hash, root))
	}
	mended, err := t.mendEdge(ctx, found)
	if err != nil || mended || !whole {
		return t, err
	}
	return t, found(fault("checkpoint", "right edge of the tree of size %d (%s) does not hash to the root", head.N, strings.Join(names, ", ")).values(root, head.Hash))
}

func (t *tree) edgeRoot() tlog.Hash {
	return edgeRoot(func(l int) []tlog.Hash { return t.edge[l].list })
}

// full reports whether tile n of a level is full.
func (t *tree) full(level int, n int64) bool {
	return n < t.head.N>>(tlog.TileHeight*(level+1))
}

// hashes returns the hashes of tile n of a level.
func (t *tree) hashes(ctx context.Context, level int, n int64, found Found) (tileHashes, error) {
	if !t.full(level, n) {
		e, ok := t.edge[level]
		if !ok || n != t.head.N>>(tlog.TileHeight*(level+1)) {
			return tileHashes{}, fmt.Errorf("tile %d of level %d is beyond a tree of size %d", n, level, t.head.N)
		}
		return e, nil
	}
	tile := tlog.Tile{L: level, N: n, W: tlog.TileWidth}
	if level == 0 { // each is needed once
		return t.read(ctx, tile, found)
	}
	t.mu.Lock()
	call, ok := t.upper[tile]
	if !ok {
		call = &tileCall{done: make(chan struct{})}
		t.upper[tile] = call
		t.order = append(t.order, tile)
		if len(t.order) > maxUpperTiles {
			delete(t.upper, t.order[0])
			t.order = slices.Delete(t.order, 0, 1)
		}
	}
	t.mu.Unlock()
	if !ok {
		call.hashes, call.err = t.read(ctx, tile, found)
		close(call.done)
	}
	select {
	case <-call.done:
		return call.hashes, call.err
	case <-ctx.Done():
		return tileHashes{}, ctx.Err()
	}
}

// read reads a full tile and verifies it against the level above.
func (t *tree) read(ctx context.Context, tile tlog.Tile, found Found) (tileHashes, error) {
	above, err := t.hashes(ctx, tile.L+1, tile.N/tlog.TileWidth, found)
	if err != nil {
		return tileHashes{}, err
	}
	list, name, err := readHashTile(ctx, t.src, tile)
	var f *Fault
	switch {
	case errors.As(err, &f):
		name = tile.Path()
	case err != nil:
		return tileHashes{}, err
	case above.list == nil: // which has been told
		return tileHashes{name, list, false}, nil
	}
	i := tile.N % tlog.TileWidth
	if f == nil {
		got := perfectRoot(list)
		if got == above.list[i] {
			t.mu.Lock()
			t.tiles++
			t.mu.Unlock()
			return tileHashes{name, list, above.sound}, nil
		}
		f = fault(name, "does not hash to hash %d of %s", i, above.name).values(got, above.list[i])
	}
	if !t.thorough || above.list == nil {
		return tileHashes{name, list, false}, found(f)
	}
	deeper := func(i int) candidate { return t.deeper(ctx, tile, i) }
	mended, wrong, ok := mend(certain(list, tile.W), t.below(ctx, tile), deeper, func(list []tlog.Hash) bool { return perfectRoot(list) == above.list[i] })
	if !ok {
		return tileHashes{name, list, false}, found(f)
	}
	if len(wrong) > 0 {
		f = f.also(tile, wrong)
	}
	return tileHashes{name, mended, above.sound}, found(f)
}

// rootAt returns the root that this tree had at an earlier size, from hashes
// that are verified against the present root. It does not know it where those
// are damaged.
func (t *tree) rootAt(ctx context.Context, size int64, found Found) (root tlog.Hash, known bool, err error) {
	edge := map[int][]tlog.Hash{}
	for _, tile := range tlog.HashTiles(size) {
		hashes, err := t.hashes(ctx, tile.L, tile.N, found)
		if err != nil || !hashes.sound {
			return tlog.Hash{}, false, err
		}
		edge[tile.L] = hashes.list[:tile.W]
	}
	return edgeRoot(func(l int) []tlog.Hash { return edge[l] }), true, nil
}

// edgeRoot computes a root from the partial tiles of each level (RFC 6962
// section 2.1): the perfect subtrees that they hold, from the largest at the
// top level down, are folded from the right.
func edgeRoot(level func(int) []tlog.Hash) tlog.Hash {
	const top = 5 // 256^5 leaves are 2^40
	root, any := tlog.EmptyRoot, false
	for l := 0; l <= top; l++ {
		hashes := level(l)
		for size := 1; len(hashes) > 0; size *= 2 {
			if len(hashes)&size == 0 {
				continue
			}
			subtree := perfectRoot(hashes[len(hashes)-size:])
			hashes = hashes[:len(hashes)-size]
			if !any {
				root, any = subtree, true
				continue
			}
			root = tlog.NodeHash(subtree, root)
		}
	}
	return root
}

// perfectRoot returns the root over a power of two of hashes.
func perfectRoot(hashes []tlog.Hash) tlog.Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := len(hashes) / 2
	return tlog.NodeHash(perfectRoot(hashes[:half]), perfectRoot(hashes[half:]))
}
