package tlog

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// TileHeight is the number of tree levels in a hash tile.
	TileHeight = 8
	// TileWidth is the number of hashes in a full hash tile, and of entries
	// in a full data or names tile.
	TileWidth = 1 << TileHeight

	// DataLevel is the level of data tiles, "tile/data/...".
	DataLevel = -1
	// NamesLevel is the level of names tiles, "tile/names/...".
	NamesLevel = -2

	maxLevel = 5 // 256^5 leaves are 2^40
)

// Tile names a tile of a log: level, index within the level, and width, which
// is TileWidth for a full tile and less for a partial one.
type Tile struct {
	L int
	N int64
	W int
}

// Path returns the tile's path below the monitoring prefix
// (c2sp.org/static-ct-api, Merkle Tree).
func (t Tile) Path() string {
	b := make([]byte, 0, 32)
	b = append(b, "tile/"...)
	switch t.L {
	case DataLevel:
		b = append(b, "data"...)
	case NamesLevel:
		b = append(b, "names"...)
	default:
		b = strconv.AppendInt(b, int64(t.L), 10)
	}
	div := int64(1)
	for t.N/div >= 1000 {
		div *= 1000
	}
	for ; div > 1; div /= 1000 {
		b = fmt.Appendf(b, "/x%03d", t.N/div%1000)
	}
	b = fmt.Appendf(b, "/%03d", t.N%1000)
	if t.W != TileWidth {
		b = fmt.Appendf(b, ".p/%d", t.W)
	}
	return string(b)
}

// ParseTilePath parses what [Tile.Path] returns, and nothing else.
func ParseTilePath(path string) (Tile, error) {
	t, ok := parseTilePath(path)
	if !ok || t.Path() != path {
		return Tile{}, fmt.Errorf("malformed tile path %q", path)
	}
	return t, nil
}

func parseTilePath(path string) (t Tile, ok bool) {
	if len(path) > 64 {
		return t, false
	}
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok {
		return t, false
	}
	level, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return t, false
	}
	switch level {
	case "data":
		t.L = DataLevel
	case "names":
		t.L = NamesLevel
	default:
		if len(level) != 1 || level[0] < '0' || level[0] > '0'+maxLevel {
			return t, false
		}
		t.L = int(level[0] - '0')
	}
	t.W = TileWidth
	if full, width, ok := strings.Cut(rest, ".p/"); ok {
		w, err := strconv.ParseUint(width, 10, 16)
		if err != nil || w < 1 || w >= TileWidth {
			return t, false
		}
		rest, t.W = full, int(w)
	}
	for elem := range strings.SplitSeq(rest, "/") {
		elem = strings.TrimPrefix(elem, "x")
		n, err := strconv.ParseUint(elem, 10, 16)
		if err != nil || n > 999 || t.N > maxLeafIndex {
			return t, false
		}
		t.N = t.N*1000 + int64(n)
	}
	return t, t.N <= maxLeafIndex
}

// HashTiles returns the tiles on the right edge of a tree of the given size,
// lowest level first: for each level the partial tile, if there is one
// (static-ct-api: partial tiles have floor(s/256^l) mod 256 entries).
func HashTiles(size int64) []Tile {
	var tiles []Tile
	for l := 0; l <= maxLevel; l++ {
		n := size >> (TileHeight * l)
		if w := int(n % TileWidth); w > 0 {
			tiles = append(tiles, Tile{L: l, N: n / TileWidth, W: w})
		}
	}
	return tiles
}
