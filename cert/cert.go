// Package cert reads X.509 certificates the way a CT log must: it takes what
// strict parsers refuse, keeps every submitted byte, and judges only what
// admission needs.
//
// What lies inside the TBSCertificate is covered by the issuer's signature,
// so it is read leniently: odd serial numbers, versions, times, names, keys
// and duplicate, broken or wrongly critical extensions are all kept as they
// are. What lies outside is not covered, and anyone could mint endless
// variants of one certificate there; so it must be DER to the last bit, and
// the outer signature algorithm must repeat the inner one byte for byte.
//
// Nothing here recurses, and every function takes time and memory linear in
// the size of the certificate, except for the signature check itself.
package cert

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// Errors of this package wrap one of these. Their text, and the text of what
// wraps them, is meant to be shown to whoever sent the certificate.
var (
	// ErrMalformed means that the bytes are not one certificate in a form
	// that the log can take.
	ErrMalformed = errors.New("malformed certificate")
	// ErrPoison means that the poison extension is not what RFC 6962 section
	// 3.1 asks for, or that there is none where one is needed.
	ErrPoison = errors.New("bad precertificate poison")
	// ErrPrecertTBS means that the TBSCertificate to be logged cannot be made
	// from the precertificate.
	ErrPrecertTBS = errors.New("precertificate cannot be logged")
	// ErrUnsupportedAlgorithm means that a signature cannot be verified,
	// because its algorithm or the issuer's kind of key is not supported.
	ErrUnsupportedAlgorithm = errors.New("unsupported signature algorithm or key")
	// ErrBadSignature means that the signature was not made by the issuer's
	// key over this certificate.
	ErrBadSignature = errors.New("signature does not verify")
)

// Poison says how the CT poison extension (RFC 6962 section 3.1) stands in a
// certificate.
type Poison int

// The values of Poison.
const (
	NoPoison      Poison = iota
	ValidPoison          // present once, critical, with the value NULL: a precertificate
	InvalidPoison        // present, but twice, not critical or with another value
)

// Certificate is a parsed certificate. All byte slices alias Raw and must not
// be modified. It is safe for concurrent use. It must not be copied.
//
// Extensions that admission does not depend on are not looked into. Of those
// it does depend on, one that cannot be read or comes twice is taken in the
// most restrictive way for an issuer (no CA, no keyCertSign), while extended
// key usages are collected from all that can be read.
type Certificate struct {
	Raw         []byte
	Fingerprint [32]byte // SHA-256 of Raw

	RawTBS     []byte // TBSCertificate, with its header
	RawIssuer  []byte // Name, with its header
	RawSubject []byte // Name, with its header
	RawSPKI    []byte // SubjectPublicKeyInfo, with its header

	NotBefore time.Time // UTC; zero if it cannot be read
	NotAfter  time.Time // UTC

	HasBasicConstraints bool
	IsCA                bool
	HasKeyUsage         bool
	KeyCertSign         bool
	HasEKU              bool // extended key usage extension is present
	ServerAuth          bool // EKU lists serverAuth or anyExtendedKeyUsage
	AnyEKUOnly          bool // ServerAuth holds by anyExtendedKeyUsage alone
	PrecertSigning      bool // EKU lists the Precertificate Signing purpose
	Poison              Poison
	HasSCTList          bool // final certificate with embedded SCTs

	rawSigAlg []byte // AlgorithmIdentifier, with its header
	signature []byte // of the signature BIT STRING, without the unused bits octet
	lay       layout

	keyOnce sync.Once
	key     any // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	keyErr  error
}

// IssuerKeyHash is the SHA-256 of the SubjectPublicKeyInfo (RFC 6962 section
// 3.2): of the certificate it is called on, which is the issuer.
func (c *Certificate) IssuerKeyHash() [32]byte { return sha256.Sum256(c.RawSPKI) }

// IssuerIs reports whether the issuer's subject is the name that c gives as
// its issuer, compared byte for byte. It is not a signature check.
func (c *Certificate) IssuerIs(issuer *Certificate) bool {
	return bytes.Equal(c.RawIssuer, issuer.RawSubject)
}

// SelfIssued reports whether issuer and subject are the same name, byte for
// byte.
func (c *Certificate) SelfIssued() bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// IsPrecertSigner reports whether c is a Precertificate Signing Certificate
// (RFC 6962 section 3.1): a CA with that extended key usage.
func (c *Certificate) IsPrecertSigner() bool { return c.IsCA && c.PrecertSigning }

// AuthorityKeyID returns the value of the AuthorityKeyIdentifier extension,
// undecoded, and whether there is one. With several, it is the first.
func (c *Certificate) AuthorityKeyID() (value []byte, ok bool) {
	return c.Raw[c.lay.aki.body:c.lay.aki.end], c.lay.akis > 0
}

// SubjectKeyID returns the value of the SubjectKeyIdentifier extension,
// undecoded, and whether there is one. With several, it is the first.
func (c *Certificate) SubjectKeyID() (value []byte, ok bool) {
	return c.Raw[c.lay.ski.body:c.lay.ski.end], c.lay.ski.tag != 0
}
