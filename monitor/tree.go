package monitor

import (
	"context"
	"crypto/sha256"
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

// tree reads the hash tiles of one tree head. Every tile that it returns is
// verified up to the root. It is safe for concurrent use.
type tree struct {
	client *Client
	head   tlog.Tree
	edge   map[int]edgeTile // partial tiles on the right edge, by level

	mu    sync.Mutex
	upper map[tlog.Tile]*tileCall
	order []tlog.Tile // keys of upper, oldest first
	tiles int64       // verified so far
}

type edgeTile struct {
	name   string // of the object that was read
	hashes []tlog.Hash
}

// tileCall is a tile that is or was read once for all who want it.
type tileCall struct {
	done   chan struct{}
	hashes []tlog.Hash
	err    error
}

// openTree reads the right edge of a tree and verifies it against the root.
func openTree(ctx context.Context, c *Client, head tlog.Tree) (*tree, error) {
	t := &tree{client: c, head: head, edge: map[int]edgeTile{}, upper: map[tlog.Tile]*tileCall{}}
	var names []string
	for _, tile := range tlog.HashTiles(head.N) {
		hashes, name, err := c.hashTile(ctx, tile)
		if err != nil {
			return nil, err
		}
		t.edge[tile.L] = edgeTile{name, hashes}
		t.tiles++
		names = append(names, name)
	}
	root := edgeRoot(func(l int) []tlog.Hash { return t.edge[l].hashes })
	if root == head.Hash {
		return t, nil
	}
	if len(names) == 0 {
		return nil, fault("checkpoint", "root of the empty tree is wrong").values(head.Hash, root)
	}
	if f := t.findGuilty(ctx); f != nil {
		return nil, f
	}
	return nil, fault("checkpoint", "right edge of the tree of size %d (%s) does not hash to the root", head.N, strings.Join(names, ", ")).values(root, head.Hash)
}

// tile reads a tile, and instead of a partial tile that is gone the full one
// (static-ct-api, Merkle Tree). name is the object that was read.
func (c *Client) tile(ctx context.Context, t tlog.Tile, limit int64) (b []byte, name string, err error) {
	b, err = c.Get(ctx, t.Path(), limit)
	if !errors.Is(err, ErrNotFound) {
		return b, t.Path(), err
	}
	if t.W == tlog.TileWidth {
		return nil, "", missing(t.Path(), "")
	}
	full := t
	full.W = tlog.TileWidth
	b, err = c.Get(ctx, full.Path(), limit)
	if errors.Is(err, ErrNotFound) {
		return nil, "", missing(t.Path(), ", nor is the full tile")
	}
	return b, full.Path(), err
}

// hashTile reads a hash tile, unverified but for its length.
func (c *Client) hashTile(ctx context.Context, t tlog.Tile) (hashes []tlog.Hash, name string, err error) {
	b, name, err := c.tile(ctx, t, tlog.TileWidth*sha256.Size)
	if err != nil {
		return nil, "", err
	}
	want := t.W * sha256.Size
	if name != t.Path() {
		want = tlog.TileWidth * sha256.Size
	}
	if len(b) != want {
		return nil, "", fault(name, "wrong length in bytes").values(len(b), want)
	}
	hashes, err = tlog.ParseHashTile(t, b[:t.W*sha256.Size])
	if err != nil {
		return nil, "", fault(name, "%v", err)
	}
	return hashes, name, nil
}

// full reports whether tile n of a level is full.
func (t *tree) full(level int, n int64) bool {
	return n < t.head.N>>(tlog.TileHeight*(level+1))
}

// hashes returns the hashes of tile n of a level, verified, and the name of
// the object that they were read from.
func (t *tree) hashes(ctx context.Context, level int, n int64) ([]tlog.Hash, string, error) {
	if !t.full(level, n) {
		e, ok := t.edge[level]
		if !ok || n != t.head.N>>(tlog.TileHeight*(level+1)) {
			return nil, "", fmt.Errorf("tile %d of level %d is beyond a tree of size %d", n, level, t.head.N)
		}
		return e.hashes, e.name, nil
	}
	tile := tlog.Tile{L: level, N: n, W: tlog.TileWidth}
	if level == 0 { // each is needed once
		hashes, err := t.read(ctx, tile)
		return hashes, tile.Path(), err
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
		call.hashes, call.err = t.read(ctx, tile)
		close(call.done)
	}
	select {
	case <-call.done:
		return call.hashes, tile.Path(), call.err
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// read reads a full tile and verifies it against the level above.
func (t *tree) read(ctx context.Context, tile tlog.Tile) ([]tlog.Hash, error) {
	above, aboveName, err := t.hashes(ctx, tile.L+1, tile.N/tlog.TileWidth)
	if err != nil {
		return nil, err
	}
	hashes, name, err := t.client.hashTile(ctx, tile)
	if err != nil {
		return nil, err
	}
	got, err := tlog.TileHash(hashes)
	if err != nil {
		return nil, err
	}
	if i := tile.N % tlog.TileWidth; got != above[i] {
		return nil, fault(name, "does not hash to hash %d of %s", i, aboveName).values(got, above[i])
	}
	t.mu.Lock()
	t.tiles++
	t.mu.Unlock()
	return hashes, nil
}

// rootAt returns the root that this tree had at an earlier size, from hashes
// that are verified against the present root.
func (t *tree) rootAt(ctx context.Context, size int64) (tlog.Hash, error) {
	edge := map[int][]tlog.Hash{}
	for _, tile := range tlog.HashTiles(size) {
		hashes, _, err := t.hashes(ctx, tile.L, tile.N)
		if err != nil {
			return tlog.Hash{}, err
		}
		edge[tile.L] = hashes[:tile.W]
	}
	return edgeRoot(func(l int) []tlog.Hash { return edge[l] }), nil
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

// findGuilty looks for the one hash on the right edge that is at odds with
// the level below it and whose correction gives the right root. It returns nil
// if there is no such hash.
func (t *tree) findGuilty(ctx context.Context) *Fault {
	for _, tile := range tlog.HashTiles(t.head.N) {
		e := t.edge[tile.L]
		below, err := t.below(ctx, tile)
		if err != nil {
			continue
		}
		for i, want := range below {
			got := e.hashes[i]
			if got == want {
				continue
			}
			e.hashes[i] = want
			fixed := edgeRoot(func(l int) []tlog.Hash { return t.edge[l].hashes }) == t.head.Hash
			e.hashes[i] = got
			if fixed {
				index := int64(-1)
				if tile.L == 0 {
					index = tile.N*tlog.TileWidth + int64(i)
				}
				return entryFault(e.name, index, "hash %d is not that of what it stands for", i).values(got, want)
			}
		}
	}
	return nil
}

// below computes the hashes of a tile from the level below it, unverified.
func (t *tree) below(ctx context.Context, tile tlog.Tile) ([]tlog.Hash, error) {
	var below []tlog.Hash
	if tile.L > 0 {
		for i := range tile.W {
			child := tlog.Tile{L: tile.L - 1, N: tile.N*tlog.TileWidth + int64(i), W: tlog.TileWidth}
			hashes, _, err := t.client.hashTile(ctx, child)
			if err != nil {
				return nil, err
			}
			below = append(below, perfectRoot(hashes))
		}
		return below, nil
	}
	b, _, err := t.client.tile(ctx, tlog.Tile{L: tlog.DataLevel, N: tile.N, W: tile.W}, maxDataTile)
	if err != nil {
		return nil, err
	}
	for range tile.W {
		leaf, rest, err := tlog.ReadTileLeaf(b)
		if err != nil {
			return nil, err
		}
		below, b = append(below, leaf.Hash()), rest
	}
	return below, nil
}
