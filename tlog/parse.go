package tlog

import (
	"errors"
	"math"

	"golang.org/x/crypto/cryptobyte"
)

var errTileLeaf = errors.New("malformed TileLeaf")

// ReadTileLeaf reads the first TileLeaf of an uncompressed data tile and
// returns the bytes that follow it. The leaf's slices alias tile, and its
// entry has no names. Only what [Leaf.AppendTileLeaf] writes is accepted, so
// re-encoding gives back the same bytes.
func ReadTileLeaf(tile []byte) (l Leaf, rest []byte, err error) {
	s := cryptobyte.String(tile)
	var timestamp uint64
	var typ uint16
	if !s.ReadUint64(&timestamp) || timestamp > math.MaxInt64 || !s.ReadUint16(&typ) {
		return Leaf{}, nil, errTileLeaf
	}
	e := &Entry{typ: EntryType(typ)}
	var certificate, precertificate, extensions, chain cryptobyte.String
	switch e.typ {
	case X509Entry:
		if !s.ReadUint24LengthPrefixed(&certificate) || !s.ReadUint16LengthPrefixed(&extensions) {
			return Leaf{}, nil, errTileLeaf
		}
	case PrecertEntry:
		if !s.CopyBytes(e.issuerKeyHash[:]) || !s.ReadUint24LengthPrefixed(&certificate) ||
			!s.ReadUint16LengthPrefixed(&extensions) || !s.ReadUint24LengthPrefixed(&precertificate) ||
			len(precertificate) == 0 {
			return Leaf{}, nil, errTileLeaf
		}
		e.precertificate = precertificate
	default:
		return Leaf{}, nil, errTileLeaf
	}
	if !s.ReadUint16LengthPrefixed(&chain) || len(chain)%len(Fingerprint{}) != 0 {
		return Leaf{}, nil, errTileLeaf
	}
	if len(extensions) != extensionsSize {
		return Leaf{}, nil, errExtensions
	}
	index, err := ParseExtensions(extensions)
	if err != nil {
		return Leaf{}, nil, err
	}
	e.certificate = certificate
	e.chain = make([]Fingerprint, len(chain)/len(Fingerprint{}))
	for i := range e.chain {
		chain.CopyBytes(e.chain[i][:])
	}
	if e, err = newEntry(e); err != nil {
		return Leaf{}, nil, err
	}
	return Leaf{e, Position{Index: index, Timestamp: int64(timestamp)}}, s, nil
}
