package tlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// EntryType is the LogEntryType of RFC 6962 section 3.1.
type EntryType uint16

// The entry types of a CT log.
const (
	X509Entry    EntryType = 0
	PrecertEntry EntryType = 1
)

func (t EntryType) String() string {
	switch t {
	case X509Entry:
		return "x509"
	case PrecertEntry:
		return "precert"
	}
	return fmt.Sprintf("EntryType(%d)", uint16(t))
}

// Key identifies an entry: it is the full SHA-256 over entry_type and
// signed_entry as they stand in a TimestampedEntry (RFC 6962 section 3.4). Equal keys mean the same entry.
type Key [sha256.Size]byte

// Fingerprint is the SHA-256 of a DER certificate.
type Fingerprint [sha256.Size]byte

const (
	maxCertificate = 1<<24 - 1                      // ASN.1Cert<1..2^24-1>
	maxChain       = math.MaxUint16 / sha256.Size   // Fingerprint certificate_chain<0..2^16-1>
	maxLeafIndex   = 1<<40 - 1                      // uint40 of the leaf_index extension
	extensionsSize = 1 + 2 + 5                      // one leaf_index extension
	leafOverhead   = 8 + 2 + 3 + 2 + extensionsSize // TimestampedEntry of an x509_entry
)

// Entry is what was submitted, before it has a place in the log. It is
// immutable once built, and safe for concurrent use.
type Entry struct {
	typ            EntryType
	issuerKeyHash  [32]byte // zero for x509
	certificate    []byte   // DER certificate, or the TBSCertificate without poison
	precertificate []byte   // nil for x509
	chain          []Fingerprint
	names          []byte // JSON object without Timestamp
	key            Key
}

// NewX509Entry returns the entry of a final certificate. chain holds the
// fingerprints of every issuer up to and including the accepted root.
//
// names is the certificate's JSON object of the names-tiles extension, without
// its Timestamp; it may be nil, which stands for {}.
//
// The slices are kept and must not be modified afterwards.
func NewX509Entry(certificate []byte, chain []Fingerprint, names []byte) (*Entry, error) {
	return newEntry(&Entry{typ: X509Entry, certificate: certificate, chain: chain, names: names})
}

// NewPrecertEntry returns the entry of a precertificate (RFC 6962 section
// 3.2): tbs is the TBSCertificate with the poison removed and, if a
// Precertificate Signing Certificate issued it, the issuer replaced;
// issuerKeyHash is the SHA-256 of the final issuer's SubjectPublicKeyInfo;
// precertificate is the DER as submitted. The rest is as in [NewX509Entry].
func NewPrecertEntry(tbs []byte, issuerKeyHash [32]byte, precertificate []byte, chain []Fingerprint, names []byte) (*Entry, error) {
	if len(precertificate) == 0 || len(precertificate) > maxCertificate {
		return nil, fmt.Errorf("precertificate of %d bytes does not fit an entry", len(precertificate))
	}
	return newEntry(&Entry{typ: PrecertEntry, issuerKeyHash: issuerKeyHash, certificate: tbs,
		precertificate: precertificate, chain: chain, names: names})
}

func newEntry(e *Entry) (*Entry, error) {
	if len(e.certificate) == 0 || len(e.certificate) > maxCertificate {
		return nil, fmt.Errorf("certificate of %d bytes does not fit an entry", len(e.certificate))
	}
	if len(e.chain) > maxChain {
		return nil, fmt.Errorf("chain of %d certificates does not fit an entry", len(e.chain))
	}
	h := sha256.New()
	head := make([]byte, 0, 2+32+3)
	head = binary.BigEndian.AppendUint16(head, uint16(e.typ))
	if e.typ == PrecertEntry {
		head = append(head, e.issuerKeyHash[:]...)
	}
	h.Write(appendUint24(head, len(e.certificate)))
	h.Write(e.certificate)
	h.Sum(e.key[:0])
	return e, nil
}

// Type returns the LogEntryType.
func (e *Entry) Type() EntryType { return e.typ }

// Key returns the entry's identity.
func (e *Entry) Key() Key { return e.key }

// Certificate returns the DER certificate of an x509 entry, or the
// TBSCertificate of a precert entry. It must not be modified.
func (e *Entry) Certificate() []byte { return e.certificate }

// Precertificate returns the submitted precertificate, nil for x509 entries.
// It must not be modified.
func (e *Entry) Precertificate() []byte { return e.precertificate }

// IssuerKeyHash returns the issuer_key_hash of a precert entry.
func (e *Entry) IssuerKeyHash() [32]byte { return e.issuerKeyHash }

// Chain returns the fingerprints of the issuers, root last. It must not be
// modified.
func (e *Entry) Chain() []Fingerprint { return e.chain }

// Size returns the length in bytes of the entry's TileLeaf, which is also a
// measure of the memory it holds.
func (e *Entry) Size() int {
	n := e.timestampedSize() + 2 + len(e.chain)*sha256.Size
	if e.typ == PrecertEntry {
		n += 3 + len(e.precertificate)
	}
	return n
}

// timestampedSize returns the length in bytes of the TimestampedEntry.
func (e *Entry) timestampedSize() int {
	n := leafOverhead + len(e.certificate)
	if e.typ == PrecertEntry {
		n += 32
	}
	return n
}

// Position is where a leaf stands.
type Position struct {
	Index     int64 // zero-based, below 2^40
	Timestamp int64 // milliseconds since the Unix epoch
}

// Leaf is an entry with its position; the only source of the bytes of
// MerkleTreeLeaf, SCT input and TileLeaf.
type Leaf struct {
	Entry *Entry
	Position
}

// MerkleTreeLeaf returns the structure of RFC 6962 section 3.4 that is hashed
// into the tree.
func (l Leaf) MerkleTreeLeaf() []byte {
	b := make([]byte, 0, 2+l.Entry.Size())
	b = append(b, 0 /* version v1 */, 0 /* leaf_type timestamped_entry */)
	return l.appendTimestampedEntry(b)
}

// SCTInput returns the bytes that the SCT's signature covers (RFC 6962 section
// 3.2). They are those of MerkleTreeLeaf, where signature_type
// certificate_timestamp (0) stands in the place of leaf_type.
func (l Leaf) SCTInput() []byte { return l.MerkleTreeLeaf() }

// Hash returns the leaf's Merkle tree hash.
func (l Leaf) Hash() Hash {
	b := make([]byte, 0, 3+l.Entry.Size())
	b = append(b, 0 /* leaf prefix */, 0, 0)
	return sha256.Sum256(l.appendTimestampedEntry(b))
}

// AppendTileLeaf appends the TileLeaf structure of static-ct-api.
func (l Leaf) AppendTileLeaf(b []byte) []byte {
	b = l.appendTimestampedEntry(b)
	if l.Entry.typ == PrecertEntry {
		b = appendUint24(b, len(l.Entry.precertificate))
		b = append(b, l.Entry.precertificate...)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(l.Entry.chain)*sha256.Size))
	for i := range l.Entry.chain {
		b = append(b, l.Entry.chain[i][:]...)
	}
	return b
}

func (l Leaf) appendTimestampedEntry(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(l.Timestamp))
	b = binary.BigEndian.AppendUint16(b, uint16(l.Entry.typ))
	if l.Entry.typ == PrecertEntry {
		b = append(b, l.Entry.issuerKeyHash[:]...)
	}
	b = appendUint24(b, len(l.Entry.certificate))
	b = append(b, l.Entry.certificate...)
	b = binary.BigEndian.AppendUint16(b, extensionsSize)
	return AppendExtensions(b, l.Index)
}

// AppendNamesLine appends the leaf's line of a names tile, with its newline.
func (l Leaf) AppendNamesLine(b []byte) []byte {
	b = append(b, `{"Timestamp":`...)
	b = fmt.Appendf(b, "%d", l.Timestamp)
	if names := l.Entry.names; len(names) > len("{}") {
		b = append(b, ',')
		return append(append(b, names[1:]...), '\n')
	}
	return append(b, '}', '\n')
}

// AppendExtensions appends the CtExtensions with one leaf_index extension, as
// they stand in the SCT and, length-prefixed, in the leaf.
func AppendExtensions(b []byte, index int64) []byte {
	return append(b, 0 /* leaf_index */, 0, 5,
		byte(index>>32), byte(index>>24), byte(index>>16), byte(index>>8), byte(index))
}

// errExtensions is returned for extensions without exactly one leaf_index.
var errExtensions = errors.New("extensions do not hold exactly one well-formed leaf_index")

// ParseExtensions returns the leaf index in the extensions of an SCT. Unknown
// extensions, in any place, are ignored (static-ct-api, SCT Extension).
func ParseExtensions(b []byte) (index int64, err error) {
	index = -1
	for len(b) > 0 {
		if len(b) < 3 {
			return 0, errExtensions
		}
		typ, n := b[0], int(binary.BigEndian.Uint16(b[1:]))
		b = b[3:]
		if n > len(b) {
			return 0, errExtensions
		}
		if typ == 0 {
			if index >= 0 || n != 5 {
				return 0, errExtensions
			}
			index = int64(b[0])<<32 | int64(binary.BigEndian.Uint32(b[1:]))
		}
		b = b[n:]
	}
	if index < 0 {
		return 0, errExtensions
	}
	return index, nil
}

func appendUint24(b []byte, n int) []byte {
	return append(b, byte(n>>16), byte(n>>8), byte(n))
}
