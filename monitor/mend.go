package monitor

import (
	"context"
	"fmt"
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
// choice fits. wrong lists the stored ones that were not chosen. Where no choice
// fits, what the candidates were derived from may be wrong itself, and deeper
// derives those in doubt from the level below that.
func mend(stored, derived []candidate, deeper func(i int) candidate, fits func([]tlog.Hash) bool) (list []tlog.Hash, wrong []int, ok bool) {
	list, doubts, ok := prefer(stored, derived)
	if !ok {
		return nil, nil, false
	}
	// Most often the whole level below is right.
	if fits(list) {
		return list, doubts, true
	}
	if len(doubts) > maxDoubts {
		return nil, nil, false
	}
	if wrong, ok = choose(list, stored, derived, doubts, fits); ok {
		return list, wrong, true
	}
	derived = slices.Clone(derived)
	again := false
	for _, i := range doubts {
		if c := deeper(i); c.known && c != derived[i] {
			derived[i], again = c, true
		}
	}
	if again {
		wrong, ok = choose(list, stored, derived, doubts, fits)
	}
	return list, wrong, ok
}

// prefer takes each derived candidate that is known, and lists those that are
// not what is stored. It fails if there is a place without any candidate.
func prefer(stored, derived []candidate) (list []tlog.Hash, doubts []int, ok bool) {
	list = make([]tlog.Hash, len(stored))
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
	return list, doubts, true
}

// choose sets the places in doubt in list to one candidate or the other, until
// it fits.
func choose(list []tlog.Hash, stored, derived []candidate, doubts []int, fits func([]tlog.Hash) bool) (wrong []int, ok bool) {
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
		if fits(list) {
			return wrong, true
		}
	}
	return nil, false
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
	deeper := func(at int) candidate {
		for _, tile := range tiles {
			if at < tile.W {
				return t.deeper(ctx, tile, at)
			}
			at -= tile.W
		}
		return candidate{}
	}
	list, wrong, ok := mend(stored, derived, deeper, func(list []tlog.Hash) bool {
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

// deeper computes hash i of a tile from the second level below it.
func (t *tree) deeper(ctx context.Context, tile tlog.Tile, i int) candidate {
	if tile.L == 0 {
		return candidate{}
	}
	var list []tlog.Hash
	for _, c := range t.below(ctx, tlog.Tile{L: tile.L - 1, N: tile.N*tlog.TileWidth + int64(i), W: tlog.TileWidth}) {
		if !c.known {
			return candidate{}
		}
		list = append(list, c.hash)
	}
	return candidate{perfectRoot(list), true}
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
