package conformance

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

// tileWidth is the number of entries of a full tile.
const tileWidth = 256

var emptyRoot = sha256.Sum256(nil)

func leafHash(leaf []byte) [32]byte { return sha256.Sum256(append([]byte{0}, leaf...)) }

func nodeHash(l, r [32]byte) [32]byte {
	b := make([]byte, 0, 65)
	b = append(b, 1)
	b = append(b, l[:]...)
	return sha256.Sum256(append(b, r[:]...))
}

// merkle returns the Merkle tree hash of a list of hashes (RFC 6962 section
// 2.1), none of which is hashed as a leaf again.
func merkle(h [][32]byte) [32]byte {
	switch len(h) {
	case 0:
		return emptyRoot
	case 1:
		return h[0]
	}
	k := 1
	for k*2 < len(h) {
		k *= 2
	}
	return nodeHash(merkle(h[:k]), merkle(h[k:]))
}

// widthAt returns the number of hashes that level l of a tree of this size has
// in all.
func widthAt(size int64, l int) int64 { return size >> (8 * l) }

// levels returns the number of tile levels of a tree.
func levels(size int64) int {
	l := 0
	for widthAt(size, l) > 0 {
		l++
	}
	return l
}

// hashSource gives hashes of a tree: number i of level l, which is the root of
// the leaves from i * 256^l on.
type hashSource func(l int, i int64) ([32]byte, error)

// rootAt returns the root of the tree with the first size leaves of a tree that
// has at least as many. It takes only hashes of subtrees that are complete, so
// equal roots prove that one tree is the beginning of the other.
func rootAt(size int64, hash hashSource) ([32]byte, error) {
	if size == 0 {
		return emptyRoot, nil
	}
	var peaks [][32]byte // perfect subtrees, the largest first
	for l := levels(size) - 1; l >= 0; l-- {
		end := widthAt(size, l)
		at := end / tileWidth * tileWidth
		for bit := int64(tileWidth / 2); bit > 0; bit /= 2 {
			if end&bit == 0 {
				continue
			}
			list := make([][32]byte, bit)
			for j := range list {
				h, err := hash(l, at+int64(j))
				if err != nil {
					return [32]byte{}, err
				}
				list[j] = h
			}
			peaks = append(peaks, merkle(list))
			at += bit
		}
	}
	root := peaks[len(peaks)-1]
	for i := len(peaks) - 2; i >= 0; i-- {
		root = nodeHash(peaks[i], root)
	}
	return root, nil
}

// tile names a tile: of hashes at a level, or of data if level is dataLevel.
type tile struct {
	level int
	n     int64
	width int
}

const dataLevel = -1

// tileNumber writes the number of a tile in elements of three digits.
func tileNumber(n int64) string {
	s := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		s = fmt.Sprintf("x%03d/%s", n%1000, s)
	}
	return s
}

func (t tile) full() string {
	if t.level == dataLevel {
		return "tile/data/" + tileNumber(t.n)
	}
	return "tile/" + strconv.Itoa(t.level) + "/" + tileNumber(t.n)
}

func (t tile) path() string {
	if t.width == tileWidth {
		return t.full()
	}
	return t.full() + ".p/" + strconv.Itoa(t.width)
}

// edgeTiles returns the partial tiles that a tree of this size implies: one for
// each level with a remainder, and that of data.
func edgeTiles(size int64) []tile {
	var list []tile
	for l := range levels(size) {
		if w := widthAt(size, l) % tileWidth; w > 0 {
			list = append(list, tile{l, widthAt(size, l) / tileWidth, int(w)})
		}
	}
	if w := size % tileWidth; w > 0 {
		list = append(list, tile{dataLevel, size / tileWidth, int(w)})
	}
	return list
}

// tileAt returns the tile of a tree of this size that holds number i of a
// level.
func tileAt(size int64, level int, i int64) tile {
	l := max(level, 0)
	n := i / tileWidth
	return tile{level, n, int(min(tileWidth, widthAt(size, l)-n*tileWidth))}
}

// readHashTile reads the hashes of a tile.
func readHashTile(b []byte, width int) ([][32]byte, error) {
	if len(b) != width*32 {
		return nil, fmt.Errorf("%d bytes, want %d", len(b), width*32)
	}
	list := make([][32]byte, width)
	for i := range list {
		list[i] = [32]byte(b[i*32:])
	}
	return list, nil
}
