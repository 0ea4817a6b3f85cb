package conformance

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha1" // signatures of old certificates
	"crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"errors"
	"fmt"
)

// extension is an extension of a certificate. id is the whole OID element.
type extension struct {
	raw, id, value []byte
	critical       bool
	head           []byte // id and critical as they stand in raw
}

// certificate is what is read of a certificate. All slices are parts of raw.
type certificate struct {
	raw, tbs []byte
	// The fields of the TBSCertificate, whole elements. before holds those in
	// front of the issuer, uniqueIDs those between key and extensions.
	before, issuer, validity, subject, spki, uniqueIDs []byte
	innerAlgorithm, outerAlgorithm                     []byte
	signature                                          []byte // without the octet of unused bits
	unusedBits                                         byte
	extensions                                         []extension
	hasExtensions                                      bool
}

// readCertificate reads the structure of a certificate and nothing else.
func readCertificate(b []byte) (*certificate, error) {
	whole, err := readOne(b, tagSequence)
	if err != nil {
		return nil, err
	}
	parts, err := readAll(whole.content)
	if err != nil {
		return nil, err
	}
	if len(parts) != 3 || parts[0].tag != tagSequence || parts[1].tag != tagSequence || parts[2].tag != tagBitString || len(parts[2].content) == 0 {
		return nil, errors.New("a certificate has three parts")
	}
	c := &certificate{raw: b, tbs: parts[0].raw, outerAlgorithm: parts[1].raw, unusedBits: parts[2].content[0], signature: parts[2].content[1:]}
	return c, c.readTBS(parts[0].content)
}

func (c *certificate) readTBS(b []byte) error {
	fields, err := readAll(b)
	if err != nil {
		return err
	}
	start := 0
	if len(fields) > 0 && fields[0].tag == tagVersion {
		start = 1
	}
	if len(fields) < start+6 {
		return errors.New("TBSCertificate is too short")
	}
	f := fields[start:]
	c.before = joinRaw(fields[:start+2])
	c.innerAlgorithm, c.issuer, c.validity, c.subject, c.spki = f[1].raw, f[2].raw, f[3].raw, f[4].raw, f[5].raw
	rest := f[6:]
	if n := len(rest); n > 0 && rest[n-1].tag == tagExtensions {
		c.hasExtensions = true
		if err := c.readExtensions(rest[n-1].content); err != nil {
			return err
		}
		rest = rest[:n-1]
	}
	c.uniqueIDs = joinRaw(rest)
	return nil
}

func (c *certificate) readExtensions(b []byte) error {
	list, err := readOne(b, tagSequence)
	if err != nil {
		return err
	}
	elements, err := readAll(list.content)
	if err != nil {
		return err
	}
	for _, e := range elements {
		parts, err := readAll(e.content)
		if err != nil {
			return err
		}
		n := len(parts)
		if e.tag != tagSequence || n < 2 || n > 3 || parts[0].tag != tagOID || parts[n-1].tag != tagOctets {
			return errors.New("malformed extension")
		}
		x := extension{raw: e.raw, id: parts[0].raw, value: parts[n-1].content, head: joinRaw(parts[:n-1])}
		x.critical = n == 3 && len(parts[1].content) == 1 && parts[1].content[0] != 0
		c.extensions = append(c.extensions, x)
	}
	return nil
}

func joinRaw(list []element) []byte {
	var b []byte
	for _, e := range list {
		b = append(b, e.raw...)
	}
	return b
}

func (c *certificate) extension(id []byte) *extension {
	for i := range c.extensions {
		if bytes.Equal(c.extensions[i].id, id) {
			return &c.extensions[i]
		}
	}
	return nil
}

// isPrecert reports whether c has a proper poison extension (RFC 6962 section
// 3.1).
func (c *certificate) isPrecert() bool {
	x := c.extension(oidPoison)
	return x != nil && x.critical && bytes.Equal(x.value, []byte{tagNull, 0})
}

// isPrecertSigner reports whether c is a Precertificate Signing Certificate.
func (c *certificate) isPrecertSigner() bool {
	x := c.extension(oidEKU)
	return x != nil && bytes.Contains(x.value, oidPreSigning)
}

func (c *certificate) fingerprint() [32]byte   { return sha256.Sum256(c.raw) }
func (c *certificate) issuerKeyHash() [32]byte { return sha256.Sum256(c.spki) }

// without returns the TBSCertificate of c without the extension id, and, if
// signer is not nil, with the issuer and the AuthorityKeyIdentifier of signer
// (RFC 6962 section 3.2). All other bytes are kept.
func (c *certificate) without(id []byte, signer *certificate) ([]byte, error) {
	issuer := c.issuer
	if signer != nil {
		issuer = signer.issuer
		if (c.extension(oidAKI) == nil) != (signer.extension(oidAKI) == nil) {
			return nil, errors.New("only one of precertificate and signing certificate has an AuthorityKeyIdentifier")
		}
	}
	var list [][]byte
	for _, x := range c.extensions {
		switch {
		case bytes.Equal(x.id, id):
		case signer != nil && bytes.Equal(x.id, oidAKI):
			list = append(list, sequence(x.head, der(tagOctets, signer.extension(oidAKI).value)))
		default:
			list = append(list, x.raw)
		}
	}
	var extensions []byte
	if len(list) > 0 {
		extensions = der(tagExtensions, sequence(list...))
	}
	return sequence(c.before, issuer, c.validity, c.subject, c.spki, c.uniqueIDs, extensions), nil
}

// errUnknownAlgorithm means that a signature is of a kind that is not checked
// here, which says nothing about it.
var errUnknownAlgorithm = errors.New("signature algorithm is not known")

var signatureHashes = []struct {
	id   []byte
	hash crypto.Hash
}{
	{oid(1, 2, 840, 113549, 1, 1, 5), crypto.SHA1}, {oid(1, 2, 840, 113549, 1, 1, 11), crypto.SHA256},
	{oid(1, 2, 840, 113549, 1, 1, 12), crypto.SHA384}, {oid(1, 2, 840, 113549, 1, 1, 13), crypto.SHA512},
	{oid(1, 2, 840, 10045, 4, 1), crypto.SHA1}, {oid(1, 2, 840, 10045, 4, 3, 2), crypto.SHA256},
	{oid(1, 2, 840, 10045, 4, 3, 3), crypto.SHA384}, {oid(1, 2, 840, 10045, 4, 3, 4), crypto.SHA512},
	{oid(1, 3, 101, 112), 0}, // Ed25519
}

// checkSignature verifies that parent certifies c: names and signature.
func (c *certificate) checkSignature(parent *certificate) error {
	if !bytes.Equal(c.issuer, parent.subject) {
		return errors.New("names do not match")
	}
	algorithm, err := readOne(c.outerAlgorithm, tagSequence)
	if err != nil {
		return err
	}
	key, err := x509.ParsePKIXPublicKey(parent.spki)
	if err != nil {
		return errUnknownAlgorithm
	}
	for _, a := range signatureHashes {
		if !bytes.HasPrefix(algorithm.content, a.id) {
			continue
		}
		digest := c.tbs
		if a.hash != 0 {
			h := a.hash.New()
			h.Write(c.tbs)
			digest = h.Sum(nil)
		}
		return verifyDigest(key, a.hash, digest, c.signature)
	}
	return errUnknownAlgorithm
}

func verifyDigest(key crypto.PublicKey, hash crypto.Hash, digest, signature []byte) error {
	ok := false
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		ok = ecdsa.VerifyASN1(k, digest, signature)
	case *rsa.PublicKey:
		ok = rsa.VerifyPKCS1v15(k, hash, digest, signature) == nil
	case ed25519.PublicKey:
		ok = ed25519.Verify(k, digest, signature)
	default:
		return errUnknownAlgorithm
	}
	if !ok {
		return errors.New("signature does not verify")
	}
	return nil
}

// chainPath is a submitted chain with what a log must make of it.
type chainPath struct {
	leaf    *certificate
	issuers []*certificate // up to and including an accepted root
}

// completePath reads a chain that a log has accepted and adds the root, from
// those given, if it was left out.
func completePath(chain, roots [][]byte) (*chainPath, error) {
	leaf, err := readCertificate(chain[0])
	if err != nil {
		return nil, err
	}
	p := &chainPath{leaf: leaf}
	last := leaf
	for _, b := range chain[1:] {
		if last, err = readCertificate(b); err != nil {
			return nil, err
		}
		p.issuers = append(p.issuers, last)
	}
	for _, r := range roots {
		if bytes.Equal(r, last.raw) {
			return p, nil
		}
	}
	for _, r := range roots {
		root, err := readCertificate(r)
		if err == nil && last.checkSignature(root) == nil {
			p.issuers = append(p.issuers, root)
			return p, nil
		}
	}
	return nil, errors.New("no accepted root certifies the end of the chain")
}

// signedEntry is what an SCT is over (RFC 6962 section 3.2).
type signedEntry struct {
	precert       bool
	issuerKeyHash [32]byte // of precertificates
	data          []byte   // the certificate, or the TBSCertificate
}

// entry returns the signed entry that the chain makes at an endpoint.
func (p *chainPath) entry(precert bool) (signedEntry, error) {
	if !precert {
		return signedEntry{data: p.leaf.raw}, nil
	}
	if len(p.issuers) == 0 {
		return signedEntry{}, errors.New("a precertificate without issuer")
	}
	issuer := p.issuers[0]
	var signer *certificate
	if issuer.isPrecertSigner() {
		if len(p.issuers) < 2 {
			return signedEntry{}, errors.New("a Precertificate Signing Certificate without issuer")
		}
		signer, issuer = issuer, p.issuers[1]
	}
	tbs, err := p.leaf.without(oidPoison, signer)
	if err != nil {
		return signedEntry{}, fmt.Errorf("making the TBSCertificate: %w", err)
	}
	return signedEntry{precert: true, issuerKeyHash: issuer.issuerKeyHash(), data: tbs}, nil
}
