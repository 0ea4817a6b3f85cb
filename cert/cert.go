// Package cert reads X.509 certificates the way a CT log must: it takes what
// strict parsers refuse, keeps every submitted byte, and judges only what
// admission needs.
package cert

import (
	"errors"
	"time"
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
// be modified. It is safe for concurrent use.
type Certificate struct {
	Raw         []byte
	Fingerprint [32]byte // SHA-256 of Raw

	RawTBS     []byte // TBSCertificate, with its header
	RawIssuer  []byte // Name, with its header
	RawSubject []byte // Name, with its header
	RawSPKI    []byte // SubjectPublicKeyInfo, with its header

	NotBefore, NotAfter time.Time

	HasBasicConstraints bool
	IsCA                bool
	HasKeyUsage         bool
	KeyCertSign         bool
	HasEKU              bool // extended key usage extension is present
	ServerAuth          bool // EKU lists serverAuth or anyExtendedKeyUsage
	PrecertSigning      bool // EKU lists the Precertificate Signing purpose
	Poison              Poison
	HasSCTList          bool // final certificate with embedded SCTs
}

// Parse parses one DER certificate. The input is kept.
func Parse(der []byte) (*Certificate, error) { return nil, errors.New("not written yet") }

// IssuerKeyHash is the SHA-256 of the SubjectPublicKeyInfo (RFC 6962 section 3.2).
func (c *Certificate) IssuerKeyHash() [32]byte { return [32]byte{} }

// CheckSignatureFrom verifies that issuer's key signed c. It does not look at
// names, dates or constraints.
func (c *Certificate) CheckSignatureFrom(issuer *Certificate) error {
	return errors.New("not written yet")
}

// PrecertTBS returns the TBSCertificate of the precertificate c that is signed
// into the log (RFC 6962 section 3.2): with the poison extension cut out and,
// if signer, a Precertificate Signing Certificate, is not nil, with the issuer
// and the AuthorityKeyIdentifier of signer.
func (c *Certificate) PrecertTBS(signer *Certificate) ([]byte, error) {
	return nil, errors.New("not written yet")
}

// NamesJSON returns the JSON object of the names-tiles extension, without its
// Timestamp: {"Subject":{...},"DNS":[...],"IP":[...]}, empty members omitted.
func (c *Certificate) NamesJSON() []byte { return nil }
