package sequencer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// oracle reads a whole public log, as a monitor would, and verifies all of it.
type oracle struct {
	head   checkpoint.TreeHead
	leaves []tlog.Leaf
	byKey  map[tlog.Key]tlog.Position // of the first leaf with the key
}

// readPublicLog returns the log that the store shows, or the first thing wrong
// with it.
func readPublicLog(ctx context.Context, store storage.Store, v *checkpoint.Verifier) (*oracle, error) {
	note, err := store.Get(ctx, "checkpoint")
	if err != nil {
		return nil, err
	}
	o := &oracle{byKey: make(map[tlog.Key]tlog.Position)}
	if o.head, err = v.Verify(note); err != nil {
		return nil, err
	}
	size := o.head.Tree.N
	var level []tlog.Hash
	for n := int64(0); n*tlog.TileWidth < size; n++ {
		t := tlog.Tile{L: 0, N: n, W: int(min(tlog.TileWidth, size-n*tlog.TileWidth))}
		hashes, err := readHashTile(ctx, store, t)
		if err != nil {
			return nil, err
		}
		level = append(level, hashes...)
		t.L = tlog.DataLevel
		b, err := readGzip(ctx, store, t)
		if err != nil {
			return nil, err
		}
		leaves, err := tlog.CheckDataTile(t, b, hashes)
		if err != nil {
			return nil, err
		}
		t.L = tlog.NamesLevel
		if _, err := readGzip(ctx, store, t); err != nil {
			return nil, err
		}
		for _, l := range leaves {
			if err := o.add(ctx, store, l); err != nil {
				return nil, err
			}
		}
	}
	return o, o.checkUpperLevels(ctx, store, level)
}

func (o *oracle) add(ctx context.Context, store storage.Store, l tlog.Leaf) error {
	if l.Timestamp > o.head.Timestamp {
		return fmt.Errorf("S5: leaf %d has timestamp %d, after the checkpoint's %d", l.Index, l.Timestamp, o.head.Timestamp)
	}
	for _, fp := range l.Entry.Chain() {
		der, err := store.Get(ctx, fmt.Sprintf("issuer/%x", fp))
		if err != nil {
			return fmt.Errorf("leaf %d: issuer %x: %w", l.Index, fp, err)
		}
		if sha256.Sum256(der) != fp {
			return fmt.Errorf("issuer %x has other bytes", fp)
		}
	}
	if _, ok := o.byKey[l.Entry.Key()]; !ok {
		o.byKey[l.Entry.Key()] = l.Position
	}
	o.leaves = append(o.leaves, l)
	return nil
}

// checkUpperLevels recomputes the levels above the leaf hashes, and the root.
func (o *oracle) checkUpperLevels(ctx context.Context, store storage.Store, level []tlog.Hash) error {
	size := o.head.Tree.N
	subtrees := map[int][]tlog.Hash{0: level}
	for l := 1; size>>(tlog.TileHeight*l) > 0; l++ {
		var up []tlog.Hash
		n := size >> (tlog.TileHeight * l)
		for i := int64(0); i*tlog.TileWidth < n; i++ {
			t := tlog.Tile{L: l, N: i, W: int(min(tlog.TileWidth, n-i*tlog.TileWidth))}
			hashes, err := readHashTile(ctx, store, t)
			if err != nil {
				return err
			}
			for j, h := range hashes {
				from := (int(i)*tlog.TileWidth + j) * tlog.TileWidth
				if got := merkleRoot(subtrees[l-1][from : from+tlog.TileWidth]); got != h {
					return fmt.Errorf("%s, hash %d does not match the tile below", t.Path(), j)
				}
			}
			up = append(up, hashes...)
		}
		subtrees[l] = up
	}
	if got := merkleRoot(level); got != o.head.Tree.Hash {
		return fmt.Errorf("%d leaves hash to %v, the checkpoint says %v", size, got, o.head.Tree.Hash)
	}
	return nil
}

// merkleRoot is MTH of RFC 6962 section 2.1, straight from its definition.
func merkleRoot(leaves []tlog.Hash) tlog.Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(merkleRoot(leaves[:k]), merkleRoot(leaves[k:]))
}

func readHashTile(ctx context.Context, store storage.Store, t tlog.Tile) ([]tlog.Hash, error) {
	b, err := store.Get(ctx, t.Path())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Path(), err)
	}
	return tlog.ParseHashTile(t, b)
}

func readGzip(ctx context.Context, store storage.Store, t tlog.Tile) ([]byte, error) {
	b, err := store.Get(ctx, t.Path())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Path(), err)
	}
	return tlog.Decompress(b, 1<<26)
}

// promise is an answer that a submitter got.
type promise struct {
	key      tlog.Key
	position tlog.Position
}

// keeps verifies that each promise stands in the log.
func (o *oracle) keeps(promises []promise) error {
	for _, p := range promises {
		if p.position.Index >= int64(len(o.leaves)) {
			return fmt.Errorf("promised index %d, the tree has %d leaves", p.position.Index, len(o.leaves))
		}
		if l := o.leaves[p.position.Index]; l.Entry.Key() != p.key || l.Position != p.position {
			return fmt.Errorf("promised %+v, but index %d holds %+v of another entry or time", p.position, p.position.Index, l.Position)
		}
	}
	return nil
}

// extends verifies that two checkpoints of one log do not conflict.
func (o *oracle) extends(earlier checkpoint.TreeHead) error {
	if earlier.Tree.N > o.head.Tree.N {
		return errors.New("the tree has shrunk")
	}
	hashes := make([]tlog.Hash, earlier.Tree.N)
	for i := range hashes {
		hashes[i] = o.leaves[i].Hash()
	}
	if got := merkleRoot(hashes); got != earlier.Tree.Hash {
		return fmt.Errorf("fork: %d leaves hash to %v now, %v was signed", earlier.Tree.N, got, earlier.Tree.Hash)
	}
	return nil
}
