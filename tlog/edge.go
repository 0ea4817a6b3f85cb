package tlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
)

// ErrMismatch means that tiles do not hash to the tree head they belong to.
var ErrMismatch = errors.New("tiles do not match the tree head")

// ErrNoTile is what a read function given to [LoadEdge] returns for a names
// tile that does not exist.
var ErrNoTile = errors.New("no such tile")

// Edge is the right edge of a tree: all that is needed to append to it. It is
// immutable; [Edge.Append] returns a new one.
type Edge struct {
	tree Tree
	// hashes[l] holds the hashes of the partial tile at level l: (size >> 8l)
	// mod 256 of them. Hashes of full tiles stand in the level above.
	hashes [maxLevel + 1][]Hash
	data   buffer // TileLeaf structures of the partial data tile
	names  buffer // lines of the partial names tile
	// Compressed forms of data and names, as the last partial tiles hold them;
	// empty after loading.
	dataStream, namesStream stream
}

// Growth is what an append yields: the new tree head and the exact objects to
// write, in an order in which every object comes after those it vouches for:
// data and names tiles, then hash tiles from the lowest level up. The same
// edge and leaves give the same bytes. (A partial data tile's bytes depend on
// the rounds that it grew in, and so on the edge; its content does not.)
type Growth struct {
	Tree    Tree
	Objects []Object
}

// NewEdge returns the edge of the empty tree.
func NewEdge() *Edge { return &Edge{tree: Tree{N: 0, Hash: EmptyRoot}} }

// LoadEdge reads the right edge of the given tree and verifies it: the hash
// tiles must hash to the root, the leaves of the last data tile to the hashes of
// the last tile at level 0, and the partial names tile must have a line for each
// of them. read returns a tile as served, with data
// and names tiles uncompressed; LoadEdge calls it for O(log size) tiles. Where
// read returns ErrNoTile for the partial names tile, which is an optional
// extension, its lines are made anew by names, which returns what
// [NewX509Entry] takes as names.
//
// It returns ErrMismatch, wrapped, when something does not verify.
func LoadEdge(tree Tree, read func(Tile) ([]byte, error), names func(*Entry) []byte) (*Edge, error) {
	e := &Edge{tree: tree}
	if tree.N < 0 || tree.N > maxLeafIndex {
		return nil, fmt.Errorf("%w: size %d is out of range", ErrMismatch, tree.N)
	}
	for _, t := range HashTiles(tree.N) {
		b, err := read(t)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", t.Path(), err)
		}
		if e.hashes[t.L], err = ParseHashTile(t, b); err != nil {
			return nil, err
		}
	}
	if root := e.root(); root != tree.Hash {
		return nil, fmt.Errorf("%w: the right edge of size %d hashes to %v, not to the root %v", ErrMismatch, tree.N, root, tree.Hash)
	}
	if tree.N == 0 {
		return e, nil
	}
	if err := e.loadLeaves(read, names); err != nil {
		return nil, err
	}
	return e, nil
}

// loadLeaves reads the last data tile, full or partial, and compares it with
// the verified hashes.
func (e *Edge) loadLeaves(read func(Tile) ([]byte, error), names func(*Entry) []byte) error {
	last := Tile{L: 0, N: (e.tree.N - 1) / TileWidth, W: int((e.tree.N-1)%TileWidth) + 1}
	hashes := e.hashes[0]
	if last.W == TileWidth {
		b, err := read(last)
		if err != nil {
			return fmt.Errorf("reading %s: %w", last.Path(), err)
		}
		if hashes, err = ParseHashTile(last, b); err != nil {
			return err
		}
		// The tile's own hash is the last one of the lowest level with a
		// partial tile, or below it in a chain of full tiles.
		if want, err := e.lastFullTile(read); err != nil {
			return err
		} else if got := tileRoot(hashes); got != want {
			return fmt.Errorf("%w: %s hashes to %v, not to %v", ErrMismatch, last.Path(), got, want)
		}
	}
	dataTile := Tile{L: DataLevel, N: last.N, W: last.W}
	data, err := read(dataTile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", dataTile.Path(), err)
	}
	leaves, err := CheckDataTile(dataTile, data, hashes)
	if err != nil {
		return err
	}
	if last.W == TileWidth {
		return nil
	}
	e.data = newBuffer(data)
	namesTile := Tile{L: NamesLevel, N: last.N, W: last.W}
	lines, err := read(namesTile)
	switch {
	case errors.Is(err, ErrNoTile):
		lines = nil
		for _, l := range leaves {
			named := *l.Entry
			named.names = names(l.Entry)
			lines = Leaf{&named, l.Position}.AppendNamesLine(lines)
		}
	case err != nil:
		return fmt.Errorf("reading %s: %w", namesTile.Path(), err)
	default:
		if err := checkNames(namesTile, lines, leaves); err != nil {
			return err
		}
	}
	e.names = newBuffer(lines)
	return nil
}

// checkNames makes sure that a names tile has a line for each leaf, with its
// timestamp. The names themselves are not compared: programs write them in
// different ways. But a tile of other entries would be carried on for good.
func checkNames(t Tile, lines []byte, leaves []Leaf) error {
	for i, l := range leaves {
		line, rest, ok := bytes.Cut(lines, []byte("\n"))
		if !ok {
			return fmt.Errorf("%w: %s has %d lines, not %d", ErrMismatch, t.Path(), i, len(leaves))
		}
		var of struct{ Timestamp int64 }
		if err := json.Unmarshal(line, &of); err != nil {
			return fmt.Errorf("%w: %s, line %d: %w", ErrMismatch, t.Path(), i+1, err)
		}
		if of.Timestamp != l.Timestamp {
			return fmt.Errorf("%w: %s, line %d is of an entry of timestamp %d, not %d", ErrMismatch, t.Path(), i+1, of.Timestamp, l.Timestamp)
		}
		lines = rest
	}
	if len(lines) > 0 {
		return fmt.Errorf("%w: %s goes on after %d lines", ErrMismatch, t.Path(), len(leaves))
	}
	return nil
}

// lastFullTile returns the hash of the last tile at level 0 of a tree whose
// size is a multiple of the tile width, reading full tiles above it where the
// tree fills them, too.
func (e *Edge) lastFullTile(read func(Tile) ([]byte, error)) (Hash, error) {
	level := 1
	for len(e.hashes[level]) == 0 {
		level++
	}
	want := e.hashes[level][len(e.hashes[level])-1]
	for level--; level > 0; level-- {
		t := Tile{L: level, N: e.tree.N>>(TileHeight*(level+1)) - 1, W: TileWidth}
		b, err := read(t)
		if err != nil {
			return Hash{}, fmt.Errorf("reading %s: %w", t.Path(), err)
		}
		hashes, err := ParseHashTile(t, b)
		if err != nil {
			return Hash{}, err
		}
		if got := tileRoot(hashes); got != want {
			return Hash{}, fmt.Errorf("%w: %s hashes to %v, not to %v", ErrMismatch, t.Path(), got, want)
		}
		want = hashes[TileWidth-1]
	}
	return want, nil
}

// Tree returns the edge's tree head.
func (e *Edge) Tree() Tree { return e.tree }

// Append grows the tree by leaves, whose indexes must continue it. Neither the
// edge nor the leaves are changed. With no leaves the growth has no objects.
func (e *Edge) Append(leaves []Leaf) (*Edge, *Growth, error) {
	if e.tree.N+int64(len(leaves)) > maxLeafIndex {
		return nil, nil, fmt.Errorf("tree of %d leaves has no room for %d more", e.tree.N, len(leaves))
	}
	n := &Edge{tree: e.tree, dataStream: e.dataStream, namesStream: e.namesStream}
	for l := range e.hashes {
		n.hashes[l] = append([]Hash(nil), e.hashes[l]...)
	}
	size := tileSize(leaves, int(e.tree.N%TileWidth))
	data, dataShared := e.data.extended(size)
	names, namesShared := e.names.extended(min(len(leaves), TileWidth) * namesLineSize)
	var leafTiles, hashTiles []Object
	hasher := sha256.New()
	for _, leaf := range leaves {
		if leaf.Index != n.tree.N {
			return nil, nil, fmt.Errorf("leaf with index %d cannot follow %d leaves", leaf.Index, n.tree.N)
		}
		start := len(data)
		data = leaf.AppendTileLeaf(data)
		names = leaf.AppendNamesLine(names)
		n.hashes[0] = append(n.hashes[0], hashTileLeaf(hasher, leaf.Entry, data[start:]))
		n.tree.N++
		if n.tree.N%TileWidth == 0 {
			leafTiles = append(leafTiles,
				Object{Name: Tile{L: DataLevel, N: n.tree.N/TileWidth - 1, W: TileWidth}.Path(), Data: Compress(data)},
				Object{Name: Tile{L: NamesLevel, N: n.tree.N/TileWidth - 1, W: TileWidth}.Path(), Data: Compress(names)})
			data, names = next(data, dataShared, size), next(names, namesShared, 0)
			dataShared, namesShared, n.dataStream, n.namesStream = false, false, stream{}, stream{}
			hashTiles = n.closeHashTiles(hashTiles, e)
		}
	}
	n.data, n.names = newBuffer(data), newBuffer(names)
	for _, t := range HashTiles(n.tree.N) {
		if changed := n.tree.N>>(TileHeight*t.L) != e.tree.N>>(TileHeight*t.L); !changed {
			continue
		}
		if t.L == 0 {
			leafTiles = append(leafTiles, n.openTiles(t, e)...)
		}
		hashTiles = append(hashTiles, e.hashTile(t, n.hashes[t.L]))
	}
	n.tree.Hash = n.root()
	return n, &Growth{Tree: n.tree, Objects: append(leafTiles, hashTiles...)}, nil
}

// openTiles returns the partial data and names tile of an edge that grew from
// before, with the width and index of hash tile t.
func (e *Edge) openTiles(t Tile, before *Edge) []Object {
	tile := func(level int, open *stream, old stream, content []byte) Object {
		*open = open.extended(content)
		o := Object{Name: Tile{L: level, N: t.N, W: t.W}.Path(), Data: open.gzip()}
		if w := before.tree.N % TileWidth; old.size > 0 && before.tree.N/TileWidth == t.N && w > 0 {
			o.Base, o.Prefix = Tile{L: level, N: t.N, W: int(w)}.Path(), len(gzipHeader)+len(old.blocks.b)
		}
		return o
	}
	return []Object{
		tile(DataLevel, &e.dataStream, before.dataStream, e.data.b),
		tile(NamesLevel, &e.namesStream, before.namesStream, e.names.b),
	}
}

// hashTile returns hash tile t of a tree that grew from e.
func (e *Edge) hashTile(t Tile, hashes []Hash) Object {
	o := Object{Name: t.Path(), Data: encodeHashTile(hashes)}
	n := e.tree.N >> (TileHeight * t.L)
	if w := n % TileWidth; n/TileWidth == t.N && w > 0 {
		o.Base, o.Prefix = Tile{L: t.L, N: t.N, W: int(w)}.Path(), int(w)*sha256.Size
	}
	return o
}

// closeHashTiles moves the hashes of full tiles one level up. The edge grew from
// before.
func (e *Edge) closeHashTiles(objects []Object, before *Edge) []Object {
	for l := 0; l < maxLevel && len(e.hashes[l]) == TileWidth; l++ {
		t := Tile{L: l, N: e.tree.N>>(TileHeight*(l+1)) - 1, W: TileWidth}
		objects = append(objects, before.hashTile(t, e.hashes[l]))
		e.hashes[l+1] = append(e.hashes[l+1], tileRoot(e.hashes[l]))
		e.hashes[l] = nil
	}
	return objects
}

// root folds the roots of the perfect subtrees on the edge, which stand in
// order of size: by level from the highest, within a level from the largest
// power of two.
func (e *Edge) root() Hash {
	var subtrees []Hash
	for l := maxLevel; l >= 0; l-- {
		for h := e.hashes[l]; len(h) > 0; {
			n := 1
			for n*2 <= len(h) {
				n *= 2
			}
			subtrees = append(subtrees, tileRoot(h[:n]))
			h = h[n:]
		}
	}
	if len(subtrees) == 0 {
		return EmptyRoot
	}
	root := subtrees[len(subtrees)-1]
	for i := len(subtrees) - 2; i >= 0; i-- {
		root = NodeHash(subtrees[i], root)
	}
	return root
}

// tileRoot returns the root of a perfect tree over a power of two of hashes.
func tileRoot(hashes []Hash) Hash {
	row := append([]Hash(nil), hashes...)
	for len(row) > 1 {
		for i := range len(row) / 2 {
			row[i] = NodeHash(row[2*i], row[2*i+1])
		}
		row = row[:len(row)/2]
	}
	return row[0]
}

// TileHash returns the hash of a full hash tile, which is an entry of the
// level above.
func TileHash(hashes []Hash) (Hash, error) {
	if len(hashes) != TileWidth {
		return Hash{}, fmt.Errorf("tile of %d hashes is not full", len(hashes))
	}
	return tileRoot(hashes), nil
}

// ParseHashTile splits a hash tile into its hashes.
func ParseHashTile(t Tile, b []byte) ([]Hash, error) {
	if len(b) != t.W*sha256.Size {
		return nil, fmt.Errorf("%w: %s has %d bytes, not %d", ErrMismatch, t.Path(), len(b), t.W*sha256.Size)
	}
	hashes := make([]Hash, t.W)
	for i := range hashes {
		copy(hashes[i][:], b[i*sha256.Size:])
	}
	return hashes, nil
}

// CheckDataTile parses an uncompressed data tile and verifies it against the
// hashes of the tile at level 0 with the same index and width. The leaves'
// slices alias b.
func CheckDataTile(t Tile, b []byte, hashes []Hash) ([]Leaf, error) {
	leaves := make([]Leaf, 0, t.W)
	for rest := b; len(rest) > 0; {
		leaf, r, err := ReadTileLeaf(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %s, entry %d: %w", ErrMismatch, t.Path(), len(leaves), err)
		}
		i := len(leaves)
		if i >= len(hashes) || i >= t.W {
			return nil, fmt.Errorf("%w: %s has more than %d entries", ErrMismatch, t.Path(), t.W)
		}
		if want := t.N*TileWidth + int64(i); leaf.Index != want {
			return nil, fmt.Errorf("%w: %s, entry %d has leaf index %d, not %d", ErrMismatch, t.Path(), i, leaf.Index, want)
		}
		if leaf.Hash() != hashes[i] {
			return nil, fmt.Errorf("%w: %s, entry %d does not hash to its leaf hash", ErrMismatch, t.Path(), i)
		}
		leaves, rest = append(leaves, leaf), r
	}
	if len(leaves) != t.W {
		return nil, fmt.Errorf("%w: %s has %d entries, not %d", ErrMismatch, t.Path(), len(leaves), t.W)
	}
	return leaves, nil
}

// hashTileLeaf is Leaf.Hash for a leaf that is encoded already: a TileLeaf starts
// with what a MerkleTreeLeaf ends with.
func hashTileLeaf(hasher hash.Hash, e *Entry, tileLeaf []byte) (h Hash) {
	hasher.Reset()
	hasher.Write(leafHashPrefix)
	hasher.Write(tileLeaf[:e.timestampedSize()])
	hasher.Sum(h[:0])
	return h
}

// leafHashPrefix is the leaf prefix of RFC 6962 section 2.1, then the version and
// leaf_type of a MerkleTreeLeaf.
var leafHashPrefix = []byte{0, 0, 0}

func encodeHashTile(hashes []Hash) []byte {
	b := make([]byte, 0, len(hashes)*sha256.Size)
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}

// namesLineSize is about what a line of a names tile takes; more costs a copy.
const namesLineSize = 256

// tileSize returns how many bytes the leaves add to the data tile that is open
// now, which has width entries, or to the largest of the tiles that follow it.
func tileSize(leaves []Leaf, width int) int {
	size, largest := 0, 0
	for i, l := range leaves {
		size += l.Entry.Size()
		if largest = max(largest, size); (width+i+1)%TileWidth == 0 {
			size = 0
		}
	}
	return largest
}

// next returns an empty array for the tile that follows the one in array: the
// same, unless an edge looks at it.
func next(array []byte, shared bool, size int) []byte {
	if shared {
		return make([]byte, 0, size)
	}
	return array[:0]
}
