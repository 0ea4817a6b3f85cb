package monitor

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/daybook-ct/daybook/tlog"
)

// Where a hash tile is wrong, the hash that vouches for it says nothing about
// the part that is. Each hash of the tile also follows from the level below, so
// that there are two candidates for it, and the right choice of candidates is
// the one that fits what is known to be right.

// candidate is a hash that may not be known.
type candidate struct {
	hash  tlog.Hash
	known bool
}

// certain returns the candidates that a tile itself has for its width hashes:
// none if it could not be read.
func certain(list []tlog.Hash, width int) []candidate {
	c := make([]candidate, width)
	for i := range list {
		c[i] = candidate{list[i], true}
	}
	return c
}

// maxDoubts bounds the hashes with two candidates, of which all combinations
// are tried.
const maxDoubts = 12

// mend chooses between the stored and the derived candidates such that the
// choice fits. wrong lists the stored ones that were not chosen.
func mend(stored, derived []candidate, fits func([]tlog.Hash) bool) (list []tlog.Hash, wrong []int, ok bool) {
	list = make([]tlog.Hash, len(stored))
	var doubts []int
	for i := range stored {
		switch {
		case !stored[i].known && !derived[i].known:
			return nil, nil, false
		case !derived[i].known:
			list[i] = stored[i].hash
		default:
			list[i] = derived[i].hash
			if stored[i].known && stored[i].hash != derived[i].hash {
				doubts = append(doubts, i)
			}
		}
	}
	// Most often the whole level below is right.
	if fits(list) {
		return list, doubts, true
	}
	if len(doubts) > maxDoubts {
		return nil, nil, false
	}
	for choice := range uint(1) << len(doubts) { // bit set: the stored one is right
		wrong = wrong[:0]
		for b, i := range doubts {
			if choice&(1<<b) != 0 {
				list[i] = stored[i].hash
			} else {
				list[i] = derived[i].hash
				wrong = append(wrong, i)
			}
		}
		if bits.OnesCount(choice) > 0 && fits(list) {
			return list, wrong, true
		}
	}
	return nil, nil, false
}

// mendEdge looks for the hashes on the right edge that are at odds with the
// level below and whose correction gives the right root, and tells those. It
// reports whether it found them.
func (t *tree) mendEdge(ctx context.Context, found Found) (bool, error) {
	tiles := tlog.HashTiles(t.head.N)
	var stored, derived []candidate
	for _, tile := range tiles {
		stored = append(stored, certain(t.edge[tile.L].list, tile.W)...)
		derived = append(derived, t.below(ctx, tile)...)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	list, wrong, ok := mend(stored, derived, func(list []tlog.Hash) bool {
		edge := map[int][]tlog.Hash{}
		for _, tile := range tiles {
			edge[tile.L], list = list[:tile.W], list[tile.W:]
		}
		return edgeRoot(func(l int) []tlog.Hash { return edge[l] }) == t.head.Hash
	})
	if !ok {
		return false, nil
	}
	first := 0
	for _, tile := range tiles {
		name := t.edge[tile.L].name
		t.edge[tile.L] = tileHashes{name, list[first : first+tile.W], true}
		for _, i := range wrong {
			if i < first || i >= first+tile.W {
				continue
			}
			f := entryFault(name, -1, "hash %d is not that of what it stands for", i-first).values(stored[i].hash, list[i])
			if tile.L == 0 {
				f.Entry = tile.N*tlog.TileWidth + int64(i-first)
			}
			if err := found(f); err != nil {
				return true, err
			}
		}
		first += tile.W
	}
	return true, nil
}

// below computes the hashes of a tile from the level below it, unverified, as
// far as that can be read.
func (t *tree) below(ctx context.Context, tile tlog.Tile) []candidate {
	list := make([]candidate, tile.W)
	if tile.L > 0 {
		for i := range list {
			child := tlog.Tile{L: tile.L - 1, N: tile.N*tlog.TileWidth + int64(i), W: tlog.TileWidth}
			if hashes, _, err := readHashTile(ctx, t.src, child); err == nil {
				list[i] = candidate{perfectRoot(hashes), true}
			}
		}
		return list
	}
	b, _, err := readTile(ctx, t.src, tlog.Tile{L: tlog.DataLevel, N: tile.N, W: tile.W}, maxDataTile)
	if err != nil {
		return list
	}
	for i := range list {
		leaf, rest, err := tlog.ReadTileLeaf(b)
		if err != nil {
			break
		}
		list[i], b = candidate{leaf.Hash(), true}, rest
	}
	return list
}

// also adds to the fault of a hash tile which of its hashes are wrong.
func (f *Fault) also(tile tlog.Tile, wrong []int) *Fault {
	if tile.L == 0 && len(wrong) == 1 {
		f.Entry = tile.N*tlog.TileWidth + int64(wrong[0])
	}
	const most = 8
	switch n := len(wrong); {
	case n == 1:
		f.What += fmt.Sprintf(": its hash %d is wrong", wrong[0])
	case n <= most:
		f.What += fmt.Sprintf(": its hashes %d are wrong", slices.Clone(wrong))
	default:
		f.What += fmt.Sprintf(": %d of its hashes are wrong", n)
	}
	return f
}
