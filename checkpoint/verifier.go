package checkpoint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/daybook-ct/daybook/tlog"
)

// MaxNoteSize is the length in bytes of the largest note that a Verifier
// reads, and thus the most that a client needs to fetch. It has room for more than 200
// ML-DSA-44 cosignatures; at most 100 signatures are accepted.
const MaxNoteSize = 1 << 20

var (
	errSignature       = errors.New("signature does not verify")
	errDigitallySigned = errors.New("malformed digitally-signed structure")
)

// TreeHead is a verified checkpoint.
type TreeHead struct {
	Origin    string
	Tree      tlog.Tree
	Timestamp int64 // milliseconds since the Unix epoch
}

// Verifier verifies the checkpoints and SCTs of one log by its ECDSA P-256
// key. It is immutable and safe for concurrent use.
type Verifier struct {
	origin string
	key    *ecdsa.PublicKey
	logID  [32]byte
	keyID  uint32
}

// NewVerifier returns the verifier of the log with this origin, which need not
// look like a URL, and this DER SubjectPublicKeyInfo, which is kept.
func NewVerifier(origin string, spki []byte) (*Verifier, error) {
	pub, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, fmt.Errorf("public key of %q: %w", origin, err)
	}
	key, ok := pub.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("public key of %q is not an ECDSA P-256 key", origin)
	}
	v := &Verifier{origin: origin, key: key, logID: sha256.Sum256(spki)}
	v.keyID = keyID(origin, v.logID)
	return v, nil
}

// Origin returns the log's origin.
func (v *Verifier) Origin() string { return v.origin }

// LogID returns the SHA-256 of the log's SubjectPublicKeyInfo (RFC 6962 section 3.2).
func (v *Verifier) LogID() [32]byte { return v.logID }

// Verify reads a checkpoint and verifies its RFC 6962 signature. As
// c2sp.org/signed-note asks, signatures of other names or key IDs are ignored,
// and a failing one of this name and key ID is an error. Extension lines are
// refused, as the signature does not cover them (c2sp.org/static-ct-api).
func (v *Verifier) Verify(signed []byte) (TreeHead, error) {
	th, err := v.verify(signed)
	if err != nil {
		return TreeHead{}, fmt.Errorf("checkpoint of %s: %w", v.origin, err)
	}
	return th, nil
}

func (v *Verifier) verify(signed []byte) (TreeHead, error) {
	if len(signed) > MaxNoteSize {
		return TreeHead{}, fmt.Errorf("%d bytes are more than %d", len(signed), MaxNoteSize)
	}
	n, err := note.Open(signed, note.VerifierList((*noteVerifier)(v)))
	if unverified := (*note.UnverifiedNoteError)(nil); errors.As(err, &unverified) {
		return TreeHead{}, fmt.Errorf("no signature with the log's key (name %q, key ID %08x): is this the right public key and origin?", v.origin, v.keyID)
	}
	if err != nil {
		return TreeHead{}, err
	}
	c, err := torchwood.ParseCheckpoint(n.Text)
	if err != nil {
		return TreeHead{}, err
	}
	if c.Origin != v.origin {
		return TreeHead{}, fmt.Errorf("origin is %q", c.Origin)
	}
	if c.Extension != "" {
		return TreeHead{}, errors.New("extension lines are not covered by an RFC 6962 signature")
	}
	if c.String() != n.Text {
		return TreeHead{}, errors.New("text is not in its canonical form")
	}
	raw, err := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
	if err != nil {
		return TreeHead{}, err
	}
	timestamp := binary.BigEndian.Uint64(raw[4:]) // noteVerifier saw 4+8 bytes and the range
	return TreeHead{Origin: c.Origin, Tree: c.Tree, Timestamp: int64(timestamp)}, nil
}

// noteVerifier is a Verifier as a note.Verifier.
type noteVerifier Verifier

func (v *noteVerifier) Name() string    { return v.origin }
func (v *noteVerifier) KeyHash() uint32 { return v.keyID }

func (v *noteVerifier) Verify(text, sig []byte) bool {
	if len(sig) < 8 || binary.BigEndian.Uint64(sig) > math.MaxInt64 {
		return false
	}
	c, err := torchwood.ParseCheckpoint(string(text))
	if err != nil {
		return false
	}
	timestamp := int64(binary.BigEndian.Uint64(sig))
	return verifyDigitallySigned(v.key, treeHeadInput(c.Tree, timestamp), sig[8:]) == nil
}

// VerifySCT verifies the signature of the SCT of a leaf that has no extension
// but its leaf_index.
func (v *Verifier) VerifySCT(leaf tlog.Leaf, signature []byte) error {
	if err := verifyDigitallySigned(v.key, leaf.SCTInput(), signature); err != nil {
		return fmt.Errorf("SCT of %s: %w", v.origin, err)
	}
	return nil
}

// CheckSCT verifies an SCT that was received for an entry, and returns the
// position it promises. Unknown SCT extensions are tolerated, and signed.
func (v *Verifier) CheckSCT(sct SCT, entry *tlog.Entry) (tlog.Position, error) {
	if sct.LogID != v.logID {
		return tlog.Position{}, fmt.Errorf("SCT is of another log, with ID %s", base64.StdEncoding.EncodeToString(sct.LogID[:]))
	}
	index, err := sct.Index()
	if err != nil {
		return tlog.Position{}, fmt.Errorf("SCT of %s: %w", v.origin, err)
	}
	p := tlog.Position{Index: index, Timestamp: sct.Timestamp}
	// The input ends with the extensions and their length (RFC 6962 section 3.2).
	input := tlog.Leaf{Entry: entry, Position: p}.SCTInput()
	input = input[:len(input)-len(tlog.AppendExtensions(nil, index))-2]
	input = binary.BigEndian.AppendUint16(input, uint16(len(sct.Extensions)))
	input = append(input, sct.Extensions...)
	if err := verifyDigitallySigned(v.key, input, sct.Signature); err != nil {
		return tlog.Position{}, fmt.Errorf("SCT of %s: %w", v.origin, err)
	}
	return p, nil
}
