package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/tlog"
)

// CheckerOptions say what a Checker looks at. The zero value verifies entries
// and issuers.
type CheckerOptions struct {
	// Names compares the names tiles from FirstNames on, which must be there.
	Names      bool
	FirstNames int64
	// Signatures verifies the signatures of all chains.
	Signatures bool
	// LeavesOnly verifies that the entries are the ones in the tree, and
	// nothing about them.
	LeavesOnly bool
	// Thorough finds out, where two objects contradict each other, which one of
	// them is wrong, at the cost of reading more of them, and goes on with what
	// the right one says.
	Thorough bool
	// Issuers bounds the parsed issuers that are kept; default maxIssuers. Logs
	// have some thousands; beyond it, some are read again.
	Issuers int
}

// Checker verifies the tiles of one tree, all of them up to its root. It is safe
// for concurrent use.
type Checker struct {
	o       CheckerOptions
	src     Source
	head    checkpoint.TreeHead
	tree    *tree
	issuers *issuers
}

// NewChecker reads the right edge of the tree and verifies it. head is trusted.
func NewChecker(ctx context.Context, src Source, head checkpoint.TreeHead, o CheckerOptions, found Found) (*Checker, error) {
	t, err := openTree(ctx, src, head.Tree, o.Thorough, found)
	if err != nil {
		return nil, err
	}
	if o.Issuers <= 0 {
		o.Issuers = maxIssuers
	}
	return &Checker{o: o, src: src, head: head, tree: t, issuers: newIssuers(src, o.Issuers)}, nil
}

// Tiles returns the number of data tiles.
func (c *Checker) Tiles() int64 { return (c.head.Tree.N + tlog.TileWidth - 1) / tlog.TileWidth }

// HashTiles returns the number of hash tiles that were verified so far.
func (c *Checker) HashTiles() int64 {
	c.tree.mu.Lock()
	defer c.tree.mu.Unlock()
	return c.tree.tiles
}

// Issuers returns the number of issuers that were read and verified so far.
func (c *Checker) Issuers() int { return c.issuers.count() }

// Consistent verifies that the tree has grown from an earlier one (RFC 6962
// section 2.1.2, by the tree's own hashes instead of a proof).
func (c *Checker) Consistent(ctx context.Context, earlier checkpoint.TreeHead, found Found) error {
	root, known, err := c.tree.rootAt(ctx, earlier.Tree.N, found)
	if err != nil || !known || root == earlier.Tree.Hash {
		return err
	}
	return found(fault("checkpoint", "tree of size %d is not consistent with the checkpoint of size %d and %s: the log shows two histories",
		c.head.Tree.N, earlier.Tree.N, stamp(earlier.Timestamp)).values(root, earlier.Tree.Hash))
}

// TileResult tells what was verified of a data tile.
type TileResult struct {
	// Leaves are those that were verified up to the root, in order of index.
	// Without a fault they are all of the tile.
	Leaves     []tlog.Leaf
	Precerts   int64
	Signatures int64 // of certificates
	Names      bool  // the names tile was there

	name string // of the data tile
}

// leafSlot is the place of one leaf in a data tile.
type leafSlot struct {
	leaf  tlog.Leaf
	right bool              // nothing is wrong with it
	cert  *cert.Certificate // nil if it was not looked at
}

// Tile verifies data tile n: the hash tiles above it, the leaves, the entries,
// their issuers, and the names tile.
func (c *Checker) Tile(ctx context.Context, n int64, found Found) (*TileResult, error) {
	hashes, err := c.tree.hashes(ctx, 0, n, found)
	if err != nil {
		return nil, err
	}
	t := c.leafTile(tlog.DataLevel, n)
	data, name, err := readTile(ctx, c.src, t, maxDataTile)
	if err := tell(err, found); err != nil {
		return nil, err
	}
	slots := make([]leafSlot, t.W)
	if err == nil {
		if err := c.leaves(t, name, data, hashes, slots, found); err != nil {
			return nil, err
		}
	}
	r := &TileResult{name: name}
	for i := range slots {
		s := &slots[i]
		if !s.right {
			continue
		}
		if hashes.sound {
			r.Leaves = append(r.Leaves, s.leaf)
		}
		if c.o.LeavesOnly {
			continue
		}
		var signatures int64
		if s.cert, signatures, err = c.checkEntry(ctx, name, s.leaf, found); err != nil {
			return nil, err
		}
		r.Signatures += signatures
		if s.leaf.Entry.Type() == tlog.PrecertEntry {
			r.Precerts++
		}
	}
	if c.o.Names && n >= c.o.FirstNames && !c.o.LeavesOnly {
		if r.Names, err = c.checkNames(ctx, n, slots, found); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// leaves parses a data tile and verifies it against the hashes of its leaves.
func (c *Checker) leaves(t tlog.Tile, name string, data []byte, hashes tileHashes, slots []leafSlot, found Found) error {
	if bytes.HasPrefix(data, gzipMagic) { // as a timestamp: the year 72,000
		return found(fault(name, "is gzip-compressed but served without Content-Encoding: gzip"))
	}
	for i := range t.W {
		want := t.N*tlog.TileWidth + int64(i)
		if len(data) == 0 {
			return found(fault(name, "ends early").values(fmt.Sprintf("%d entries", i), t.W))
		}
		leaf, rest, err := tlog.ReadTileLeaf(data)
		if err != nil {
			return found(entryFault(name, want, "%v", err))
		}
		data = rest
		if f := c.leafFault(name, want, leaf, hashes); f != nil {
			if err := found(f); err != nil {
				return err
			}
			continue
		}
		slots[i] = leafSlot{leaf: leaf, right: true}
	}
	if len(data) > 0 && name == t.Path() {
		return found(fault(name, "goes on after %d entries, with %d bytes", t.W, len(data)))
	}
	return nil
}

// leafFault returns what is wrong with a leaf in its place.
func (c *Checker) leafFault(name string, index int64, leaf tlog.Leaf, hashes tileHashes) *Fault {
	if leaf.Index != index {
		return entryFault(name, index, "wrong leaf_index").values(leaf.Index, index)
	}
	if hashes.list != nil {
		if got, want := leaf.Hash(), hashes.list[index%tlog.TileWidth]; got != want {
			return entryFault(name, index, "leaf does not have the hash in %s", hashes.name).values(got, want)
		}
	}
	if leaf.Timestamp > c.head.Timestamp {
		return entryFault(name, index, "timestamp is after the checkpoint's").values(stamp(leaf.Timestamp), "at most "+stamp(c.head.Timestamp))
	}
	return nil
}

// leafTile returns data or names tile n as the tree head implies it.
func (c *Checker) leafTile(level int, n int64) tlog.Tile { return leafTile(c.head.Tree.N, level, n) }

func leafTile(size int64, level int, n int64) tlog.Tile {
	return tlog.Tile{L: level, N: n, W: int(min(size-n*tlog.TileWidth, tlog.TileWidth))}
}

// OffersNames tells whether a log has names tiles, which are optional: it does
// if it has the first or the last one.
func OffersNames(ctx context.Context, src Source, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	for _, n := range []int64{(size - 1) / tlog.TileWidth, 0} {
		var f *Fault
		_, _, err := readTile(ctx, src, leafTile(size, tlog.NamesLevel, n), maxNamesTile)
		switch {
		case errors.Is(err, ErrNotFound):
		case err == nil, errors.As(err, &f): // a broken one is there, too
			return true, nil
		default:
			return false, err
		}
	}
	return false, nil
}
