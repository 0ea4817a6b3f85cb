package cert

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// layout is where in Raw the parts stand that later steps cut at.
type layout struct {
	tbs           element
	issuer        element
	subject       element
	explicit      element // [3] around the extensions; tag zero if there is none
	extensions    element // the SEQUENCE inside it
	count         int     // of extensions
	poison        element // a poison extension, whole
	poisons       int
	poisonProblem string

	akiExtension element // the first one, whole
	aki          element // its OCTET STRING
	akis         int
	ski          element // OCTET STRING of the first one
	san          element // OCTET STRING of the first one
	sans         int
}

// Parse parses one DER certificate (RFC 5280 section 4.1). The input is kept.
// It allocates nothing but the Certificate.
//
// Errors wrap ErrMalformed. Besides broken structure they are raised for
// anything outside the signed bytes that is not DER, and for a NotAfter that
// cannot be read, as the log's window depends on it.
func Parse(der []byte) (*Certificate, error) {
	c := &Certificate{Raw: der}
	var outer, tbs, alg, sig element
	cur := cursor{end: len(der)}
	if !cur.readTag(der, tagSequence, &outer) {
		if bytes.HasPrefix(der, []byte("-----BEGIN")) {
			return nil, malformed("PEM text instead of DER")
		}
		return nil, malformed("not an ASN.1 SEQUENCE, or cut off")
	}
	if !outer.minimal {
		return nil, malformed("the length of the outer SEQUENCE is not DER")
	}
	if !cur.empty() {
		return nil, malformed("trailing data after the certificate")
	}
	cur = outer.cursor()
	if !cur.readTag(der, tagSequence, &tbs) || !tbs.minimal {
		return nil, malformed("the TBSCertificate is missing or its header is not DER")
	}
	if !cur.readTag(der, tagSequence, &alg) || !alg.minimal {
		return nil, malformed("the outer signatureAlgorithm is missing or its header is not DER")
	}
	if !cur.readTag(der, tagBitString, &sig) || !sig.minimal {
		return nil, malformed("the signature BIT STRING is missing or its header is not DER")
	}
	if !cur.empty() {
		return nil, malformed("the outer SEQUENCE has elements after the signature")
	}
	if sig.body == sig.end {
		return nil, malformed("the signature BIT STRING has no unused bits octet")
	}
	if der[sig.body] != 0 {
		return nil, malformed("the signature BIT STRING has unused bits")
	}
	c.lay.tbs = tbs
	c.RawTBS = der[tbs.start:tbs.end]
	c.rawSigAlg = der[alg.start:alg.end]
	c.signature = der[sig.body+1 : sig.end]
	if err := c.parseTBS(tbs); err != nil {
		return nil, err
	}
	c.Fingerprint = sha256.Sum256(der)
	return c, nil
}

func malformed(problem string) error { return fmt.Errorf("%w: %s", ErrMalformed, problem) }

// Tags of the fields of a TBSCertificate that have tags of their own.
const (
	tagVersion         = 0xa0
	tagIssuerUniqueID  = 0x81
	tagSubjectUniqueID = 0x82
	tagExtensions      = 0xa3
	tagConstructed     = 0x20
)

func (c *Certificate) parseTBS(tbs element) error {
	der, cur := c.Raw, tbs.cursor()
	var e, validity, spki element
	if cur.peek(der) == tagVersion && !cur.read(der, &e) {
		return malformed("the version cannot be read")
	}
	if !cur.readTag(der, tagInteger, &e) {
		return malformed("the serial number is missing")
	}
	if !cur.readTag(der, tagSequence, &e) {
		return malformed("the signature algorithm in the TBSCertificate is missing")
	}
	if !bytes.Equal(der[e.start:e.end], c.rawSigAlg) {
		return malformed("the outer signatureAlgorithm differs from the signed one in the TBSCertificate")
	}
	if !cur.readTag(der, tagSequence, &c.lay.issuer) {
		return malformed("the issuer name is missing")
	}
	if !cur.readTag(der, tagSequence, &validity) {
		return malformed("the validity is missing")
	}
	if !cur.readTag(der, tagSequence, &c.lay.subject) {
		return malformed("the subject name is missing")
	}
	if !cur.readTag(der, tagSequence, &spki) {
		return malformed("the SubjectPublicKeyInfo is missing")
	}
	c.RawIssuer = der[c.lay.issuer.start:c.lay.issuer.end]
	c.RawSubject = der[c.lay.subject.start:c.lay.subject.end]
	c.RawSPKI = der[spki.start:spki.end]
	if err := c.parseValidity(validity); err != nil {
		return err
	}
	for _, tag := range [...]byte{tagIssuerUniqueID, tagSubjectUniqueID} {
		if cur.peek(der)&^tagConstructed == tag && !cur.read(der, &e) {
			return malformed("a unique identifier cannot be read")
		}
	}
	if cur.peek(der) == tagExtensions {
		if !cur.read(der, &c.lay.explicit) {
			return malformed("the extensions cannot be read")
		}
		if err := c.parseExtensions(); err != nil {
			return err
		}
	}
	return skipUnknownFields(der, cur)
}

// skipUnknownFields takes fields that a later version of X.509 might append,
// but none that could be meant as, or hide, a known one.
func skipUnknownFields(der []byte, cur cursor) error {
	var e element
	for !cur.empty() {
		if !cur.read(der, &e) {
			return malformed("trailing data in the TBSCertificate")
		}
		if e.tag&0xc0 == 0x80 && e.tag&^(0xc0|tagConstructed) <= 3 {
			return malformed("fields of the TBSCertificate come twice or out of order")
		}
	}
	return nil
}

func (c *Certificate) parseValidity(validity element) error {
	der, cur := c.Raw, validity.cursor()
	var before, after element
	if !cur.read(der, &before) || !cur.read(der, &after) {
		return malformed("the validity has not two times")
	}
	// An odd NotBefore hides nothing and is needed for nothing but priority.
	c.NotBefore, _ = parseTime(before.tag, der[before.body:before.end])
	var ok bool
	if c.NotAfter, ok = parseTime(after.tag, der[after.body:after.end]); !ok {
		return malformed("the NotAfter time cannot be read")
	}
	return nil
}
