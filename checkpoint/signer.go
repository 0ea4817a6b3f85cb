package checkpoint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/mldsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"filippo.io/torchwood"

	"github.com/daybook-ct/daybook/tlog"
)

// Note signature type of RFC 6962 tree heads (c2sp.org/static-ct-api, Checkpoints).
const sigTypeRFC6962 = 0x05

// maxOrigin is the length limit in bytes of a name in a cosigned message.
const maxOrigin = 255

// Signer signs the tree heads and SCTs of one origin. It is immutable and safe
// for concurrent use.
type Signer struct {
	keys       Keys
	spki       []byte
	verifier   *Verifier
	cosignerID uint32 // key ID of the ML-DSA-44 cosignature
	vkey       string
}

// NewSigner returns the signer of the log with this origin, which is the log's
// submission prefix without scheme and trailing slash (c2sp.org/static-ct-api).
func NewSigner(origin string, k Keys) (*Signer, error) {
	if err := CheckOrigin(origin); err != nil {
		return nil, err
	}
	if err := k.check(); err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(k.ECDSA.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	s := &Signer{keys: k, spki: spki}
	if s.verifier, err = NewVerifier(origin, spki); err != nil {
		return nil, err
	}
	if k.MLDSA != nil {
		v, err := torchwood.NewCosignatureVerifierFromKey(origin, k.MLDSA.PublicKey())
		if err != nil {
			return nil, fmt.Errorf("cosignature key of %q: %w", origin, err)
		}
		s.cosignerID, s.vkey = v.KeyHash(), v.String()
	}
	return s, nil
}

// CheckOrigin reports what is wrong with the origin of a log that is to be
// run. It must be a schema-less URL without trailing slash (c2sp.org/tlog-checkpoint),
// and a key name (c2sp.org/signed-note: no spaces, no plus).
func CheckOrigin(origin string) error {
	fault := ""
	switch {
	case origin == "":
		fault = "is empty"
	case len(origin) > maxOrigin:
		fault = fmt.Sprintf("is longer than %d bytes", maxOrigin)
	case !utf8.ValidString(origin):
		fault = "is not valid UTF-8"
	case strings.ContainsRune(origin, '+'):
		fault = "has a plus sign"
	case strings.IndexFunc(origin, unicode.IsSpace) >= 0:
		fault = "has a space"
	case strings.IndexFunc(origin, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0:
		fault = "has a control or invisible character"
	case strings.Contains(origin, "://"):
		fault = "has a scheme; leave it out"
	case strings.HasPrefix(origin, "/"):
		fault = "starts with a slash"
	case strings.HasSuffix(origin, "/"):
		fault = "ends with a slash; leave it out"
	default:
		return nil
	}
	return fmt.Errorf("origin %q %s: it is the submission prefix without scheme and trailing slash", origin, fault)
}

// Origin returns the log's origin, which is also its key name.
func (s *Signer) Origin() string { return s.verifier.origin }

// LogID returns the SHA-256 of the log's SubjectPublicKeyInfo (RFC 6962 section 3.2).
func (s *Signer) LogID() [32]byte { return s.verifier.logID }

// PublicKey returns the log's SubjectPublicKeyInfo in DER. The caller owns it.
func (s *Signer) PublicKey() []byte { return append([]byte(nil), s.spki...) }

// Verifier returns the verifier of what s signs.
func (s *Signer) Verifier() *Verifier { return s.verifier }

// MLDSAVerifierKey returns the vkey (c2sp.org/signed-note) of the log's
// ML-DSA-44 cosignatures, or "" if the log has no such key.
func (s *Signer) MLDSAVerifierKey() string { return s.vkey }

// SignTreeHead returns the checkpoint of the given tree: a signed note with
// an RFC 6962 signature, an ML-DSA-44 cosignature if the log has that key, and
// two signatures nobody can verify, in no fixed order. The timestamp is in
// milliseconds since the Unix epoch; the cosignature has it in seconds, rounded
// down. The note is a function of the arguments and the keys.
//
// The RFC 6962 signature is verified before the note is returned: one wrong
// bit would otherwise be published, or, as signing is deterministic, leak the key.
func (s *Signer) SignTreeHead(tree tlog.Tree, timestamp int64) ([]byte, error) {
	if timestamp <= 0 {
		return nil, fmt.Errorf("tree head timestamp %d is not positive", timestamp)
	}
	if tree.N < 0 || tree.N == 0 && tree.Hash != tlog.EmptyRoot {
		return nil, fmt.Errorf("tree head of size %d with root %v is not one", tree.N, tree.Hash)
	}
	origin := s.verifier.origin
	ct, err := s.digitallySigned(treeHeadInput(tree, timestamp))
	if err != nil {
		return nil, fmt.Errorf("signing the tree head: %w", err)
	}
	body := append(binary.BigEndian.AppendUint64(nil, uint64(timestamp)), ct...)
	lines := []signature{{origin, s.verifier.keyID, body}}
	if s.keys.MLDSA != nil {
		seconds := uint64(timestamp / 1000)
		sig, err := s.keys.MLDSA.SignDeterministic(cosignedMessage(origin, seconds, tree), &mldsa.Options{})
		if err != nil {
			return nil, fmt.Errorf("cosigning the tree head: %w", err)
		}
		body := append(binary.BigEndian.AppendUint64(nil, seconds), sig...)
		lines = append(lines, signature{origin, s.cosignerID, body})
	}
	text := appendText(make([]byte, 0, 4096), origin, tree)
	note := appendNote(text, s.greased(lines, text, timestamp))
	if _, err := s.verifier.Verify(note); err != nil {
		return nil, fmt.Errorf("checking the signed tree head: %w", err)
	}
	return note, nil
}

// SignSCT returns the digitally-signed signature of the leaf's SCT (RFC 6962
// section 3.2). The same leaf always gets the same signature (RFC 6979).
func (s *Signer) SignSCT(leaf tlog.Leaf) ([]byte, error) {
	sig, err := s.digitallySigned(leaf.SCTInput())
	if err != nil {
		return nil, fmt.Errorf("signing the SCT: %w", err)
	}
	return sig, nil
}

// SCT returns the signed SCT of the leaf.
func (s *Signer) SCT(leaf tlog.Leaf) (SCT, error) {
	sig, err := s.SignSCT(leaf)
	if err != nil {
		return SCT{}, err
	}
	return SCT{
		LogID:      s.verifier.logID,
		Timestamp:  leaf.Timestamp,
		Extensions: tlog.AppendExtensions(nil, leaf.Index),
		Signature:  sig,
	}, nil
}

// digitallySigned signs message with ECDSA and SHA-256 (RFC 5246 section 4.7).
func (s *Signer) digitallySigned(message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	// Without a source of randomness the signature follows RFC 6979.
	der, err := s.keys.ECDSA.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(signatureAlgorithm)+2+len(der))
	b = append(b, signatureAlgorithm...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(der)))
	return append(b, der...), nil
}

// signatureAlgorithm is the SignatureAndHashAlgorithm sha256, ecdsa (RFC 5246 section 7.4.1.4.1).
const signatureAlgorithm = "\x04\x03"

// verifyDigitallySigned undoes digitallySigned.
func verifyDigitallySigned(key *ecdsa.PublicKey, message, signature []byte) error {
	der, err := splitDigitallySigned(signature)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(message)
	if !ecdsa.VerifyASN1(key, digest[:], der) {
		return errSignature
	}
	return nil
}

func splitDigitallySigned(b []byte) (der []byte, err error) {
	const head = len(signatureAlgorithm) + 2
	if len(b) <= head || int(binary.BigEndian.Uint16(b[head-2:])) != len(b)-head {
		return nil, errDigitallySigned
	}
	if string(b[:len(signatureAlgorithm)]) != signatureAlgorithm {
		return nil, fmt.Errorf("signature algorithm is %x, not ECDSA with SHA-256 (%x)", b[:len(signatureAlgorithm)], signatureAlgorithm)
	}
	return b[head:], nil
}

// appendText appends the checkpoint text (c2sp.org/tlog-checkpoint) without extension lines.
func appendText(b []byte, origin string, tree tlog.Tree) []byte {
	b = append(append(b, origin...), '\n')
	b = append(strconv.AppendInt(b, tree.N, 10), '\n')
	return append(base64.StdEncoding.AppendEncode(b, tree.Hash[:]), '\n')
}

// treeHeadInput returns the bytes an RFC 6962 tree head signature covers
// (section 3.5): version, signature_type tree_hash, timestamp, size, root.
func treeHeadInput(tree tlog.Tree, timestamp int64) []byte {
	b := make([]byte, 0, 2+8+8+32)
	b = append(b, 0 /* v1 */, 1 /* tree_hash */)
	b = binary.BigEndian.AppendUint64(b, uint64(timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(tree.N))
	return append(b, tree.Hash[:]...)
}

// cosignedMessage returns the bytes a log's own ML-DSA-44 cosignature covers
// (c2sp.org/tlog-cosignature, cosigned_message), for the whole tree. Torchwood's signer
// would put the wall clock there; a round has one timestamp.
func cosignedMessage(origin string, seconds uint64, tree tlog.Tree) []byte {
	b := make([]byte, 0, 12+2*(1+len(origin))+3*8+32)
	b = append(b, "subtree/v1\n\x00"...)
	b = append(append(b, byte(len(origin))), origin...) // cosigner_name
	b = binary.BigEndian.AppendUint64(b, seconds)
	b = append(append(b, byte(len(origin))), origin...) // log_origin
	b = binary.BigEndian.AppendUint64(b, 0)             // start
	b = binary.BigEndian.AppendUint64(b, uint64(tree.N))
	return append(b, tree.Hash[:]...)
}

// keyID returns the ID of an RFC 6962 note key (c2sp.org/static-ct-api, Checkpoints).
func keyID(name string, logID [32]byte) uint32 {
	b := append([]byte(name), '\n', sigTypeRFC6962)
	sum := sha256.Sum256(append(b, logID[:]...))
	return binary.BigEndian.Uint32(sum[:])
}
