package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// tileLeaf is an entry of a data tile (static-ct-api, Merkle Tree).
type tileLeaf struct {
	timestamp  int64
	entry      signedEntry
	extensions []byte
	precert    []byte // the precertificate as it was submitted
	chain      [][32]byte
	leaf       []byte // MerkleTreeLeaf, made from its fields
}

// der returns the certificate or precertificate that was submitted.
func (l *tileLeaf) der() []byte {
	if l.entry.precert {
		return l.precert
	}
	return l.entry.data
}

// cursor reads big-endian structures. After an error it reads nothing.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) take(n int, what string) []byte {
	if c.err != nil {
		return nil
	}
	if n > len(c.b) {
		c.err = fmt.Errorf("it ends within the %s", what)
		return nil
	}
	b := c.b[:n:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) number(size int, what string) int {
	n := 0
	for _, x := range c.take(size, what) {
		n = n<<8 | int(x)
	}
	return n
}

// readTileLeaf reads the first TileLeaf of b.
func readTileLeaf(b []byte) (l *tileLeaf, rest []byte, err error) {
	c := &cursor{b: b}
	l = new(tileLeaf)
	if t := c.take(8, "timestamp"); t != nil {
		l.timestamp = int64(binary.BigEndian.Uint64(t))
	}
	switch kind := c.number(2, "entry_type"); {
	case c.err != nil:
		return nil, nil, c.err
	case kind == 1:
		l.entry.precert = true
		copy(l.entry.issuerKeyHash[:], c.take(32, "issuer_key_hash"))
	case kind != 0:
		return nil, nil, fmt.Errorf("entry_type is %d", kind)
	}
	l.entry.data = c.take(c.number(3, "length of signed_entry"), "signed_entry")
	l.extensions = c.take(c.number(2, "length of extensions"), "extensions")
	if l.entry.precert {
		l.precert = c.take(c.number(3, "length of pre_certificate"), "pre_certificate")
	}
	size := c.number(2, "length of certificate_chain")
	chain := c.take(size, "certificate_chain")
	if c.err != nil {
		return nil, nil, c.err
	}
	if size%32 != 0 {
		return nil, nil, fmt.Errorf("certificate_chain has %d bytes, which are no whole fingerprints", size)
	}
	for ; len(chain) > 0; chain = chain[32:] {
		l.chain = append(l.chain, [32]byte(chain))
	}
	l.leaf = appendTimestampedEntry([]byte{0, 0}, l.timestamp, l.entry, l.extensions)
	return l, c.b, nil
}

// readDataTile reads a data tile of width entries, to its last byte.
func readDataTile(b []byte, width int) ([]*tileLeaf, error) {
	var list []*tileLeaf
	for len(b) > 0 {
		if len(list) == width {
			return list, fmt.Errorf("%d bytes are left after the %d entries", len(b), width)
		}
		l, rest, err := readTileLeaf(b)
		if err != nil {
			return list, fmt.Errorf("entry %d of the tile: %w", len(list), err)
		}
		list, b = append(list, l), rest
	}
	if len(list) < width {
		return list, errors.New(plural(len(list), "entry", "entries") + ", want " + fmt.Sprint(width))
	}
	return list, nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
