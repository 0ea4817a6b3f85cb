package conformance

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Issuer is a CA to issue chains with: an accepted root and its private key.
type Issuer struct {
	cert *certificate
	key  crypto.Signer
}

// NewIssuer reads a certificate and its key, both PEM. The key is PKCS #8 or
// SEC 1; it is an ECDSA or RSA one.
func NewIssuer(certPEM, keyPEM []byte) (*Issuer, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the issuer has no PEM block of type CERTIFICATE")
	}
	c, err := readCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the issuer: %w", err)
	}
	block, _ = pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("the issuer's key has no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if ec, ecErr := x509.ParseECPrivateKey(block.Bytes); ecErr == nil {
		key, err = ec, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the issuer's key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the issuer's key is a %T", key)
	}
	if spki, err := x509.MarshalPKIXPublicKey(signer.Public()); err != nil || string(spki) != string(c.spki) {
		return nil, errors.New("the key is not that of the issuer's certificate")
	}
	return &Issuer{c, signer}, nil
}

func newECKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err) // only for a curve that is none
	}
	return key
}

func newRSAKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err) // not for this size
	}
	return key
}

func spkiOf(key crypto.Signer) []byte {
	b, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err) // all key types here are known
	}
	return b
}

// algorithmOf returns the AlgorithmIdentifier for signatures of a key.
func algorithmOf(key crypto.Signer, hash crypto.Hash) []byte {
	switch key.(type) {
	case *rsa.PrivateKey:
		last := map[crypto.Hash]int{crypto.SHA1: 5, crypto.SHA256: 11}[hash]
		return sequence(oid(1, 2, 840, 113549, 1, 1, last), []byte{tagNull, 0})
	case ed25519.PrivateKey:
		return sequence(oid(1, 3, 101, 112))
	}
	if hash == crypto.SHA1 {
		return sequence(oid(1, 2, 840, 10045, 4, 1))
	}
	return sequence(oid(1, 2, 840, 10045, 4, 3, map[crypto.Hash]int{crypto.SHA256: 2, crypto.SHA384: 3, crypto.SHA512: 4}[hash]))
}

func signWith(key crypto.Signer, hash crypto.Hash, message []byte) []byte {
	opts := crypto.SignerOpts(hash)
	if _, ok := key.(ed25519.PrivateKey); ok {
		opts = crypto.Hash(0)
	} else {
		h := hash.New()
		h.Write(message)
		message = h.Sum(nil)
	}
	signature, err := key.Sign(rand.Reader, message, opts)
	if err != nil {
		panic(fmt.Errorf("conformance: signing with a %T: %w", key, err)) // the key was checked
	}
	return signature
}

// spec is a certificate to be made. Each field that is empty has what is
// ordinary in its place.
type spec struct {
	version, serial, subject, issuer, validity, spki []byte // elements
	notBefore, notAfter                              time.Time
	extensions                                       [][]byte
	hash                                             crypto.Hash
	outer                                            []byte // AlgorithmIdentifier
	signature                                        func([]byte) []byte
	unusedBits                                       byte
}

// tbs returns the TBSCertificate.
func (i *Issuer) tbs(s spec) []byte {
	var extensions []byte
	if len(s.extensions) > 0 {
		extensions = der(tagExtensions, sequence(s.extensions...))
	}
	issuer := s.issuer
	if issuer == nil {
		issuer = i.cert.subject
	}
	validity := s.validity
	if validity == nil {
		validity = sequence(derTime(s.notBefore), derTime(s.notAfter))
	}
	version := s.version
	if version == nil {
		version = der(tagVersion, []byte{tagInteger, 1, 2})
	}
	return sequence(version, s.serial, algorithmOf(i.key, s.digest()), issuer, validity, s.subject, s.spki, extensions)
}

func (s *spec) digest() crypto.Hash {
	if s.hash == 0 {
		return crypto.SHA256
	}
	return s.hash
}

// issue makes the certificate.
func (i *Issuer) issue(s spec) []byte { return i.sign(i.tbs(s), s) }

// sign makes a certificate of a TBSCertificate.
func (i *Issuer) sign(tbs []byte, s spec) []byte {
	signature := signWith(i.key, s.digest(), tbs)
	if s.signature != nil {
		signature = s.signature(signature)
	}
	outer := s.outer
	if outer == nil {
		outer = algorithmOf(i.key, s.digest())
	}
	return sequence(tbs, outer, bitString(s.unusedBits, signature))
}

func derTime(t time.Time) []byte {
	t = t.UTC()
	if y := t.Year(); y >= 1950 && y < 2050 {
		return der(tagUTCTime, []byte(t.Format("060102150405Z")))
	}
	return der(tagTime, []byte(t.Format("20060102150405Z")))
}

// name returns a Name with a common name of one string type.
func name(tag byte, common string) []byte {
	return sequence(der(tagSet, sequence(oidCommonName, der(tag, []byte(common)))))
}

func extend(id []byte, critical bool, value []byte) []byte {
	if critical {
		return sequence(id, []byte{tagBoolean, 1, 0xff}, der(tagOctets, value))
	}
	return sequence(id, der(tagOctets, value))
}

func randomSerial() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] = b[0]&0x7f | 0x40
	return der(tagInteger, b)
}

func keyIdentifier(spki []byte) []byte {
	sum := sha256.Sum256(spki)
	return sum[:20]
}

// authorityKeyID returns the extension that points to the issuer's key, empty
// if the issuer has no SubjectKeyIdentifier.
func (i *Issuer) authorityKeyID() []byte {
	x := i.cert.extension(oidSKI)
	if x == nil {
		return nil
	}
	id, err := readOne(x.value, tagOctets)
	if err != nil {
		return nil
	}
	return extend(oidAKI, false, sequence(der(0x80, id.content)))
}

// authority makes a CA below i, changed by change if that is not nil.
func (i *Issuer) authority(common string, key crypto.Signer, change func(*spec)) *Issuer {
	spki := spkiOf(key)
	s := spec{
		serial: randomSerial(), subject: name(tagUTF8, common), spki: spki,
		notBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), notAfter: time.Date(2049, 1, 1, 0, 0, 0, 0, time.UTC),
		extensions: [][]byte{
			extend(oidBasic, true, sequence([]byte{tagBoolean, 1, 0xff})),
			extend(oidKeyUsage, true, bitString(1, []byte{0x06})), // keyCertSign, cRLSign
			extend(oidSKI, false, der(tagOctets, keyIdentifier(spki))),
		},
	}
	if aki := i.authorityKeyID(); aki != nil {
		s.extensions = append(s.extensions, aki)
	}
	if change != nil {
		change(&s)
	}
	c, err := readCertificate(i.issue(s))
	if err != nil {
		panic(err) // it was just made
	}
	return &Issuer{c, key}
}

// selfSigned makes a root, with the name and key given.
func selfSigned(subject []byte, key crypto.Signer) *Issuer {
	i := &Issuer{cert: &certificate{subject: subject}, key: key}
	return i.authority("", key, func(s *spec) { s.subject = subject })
}

// negated returns the other ECDSA signature that verifies: (r, n-s).
func negated(curve elliptic.Curve) func([]byte) []byte {
	return func(b []byte) []byte {
		r, s, err := readECDSASignature(b)
		if err != nil {
			panic(err) // it was just made
		}
		s.Sub(curve.Params().N, s)
		return sequence(derInteger(r), derInteger(s))
	}
}

func derInteger(n *big.Int) []byte {
	b := n.Bytes()
	if len(b) == 0 || b[0]&0x80 != 0 {
		b = append([]byte{0}, b...)
	}
	return der(tagInteger, b)
}

// NewRoot makes a root with a new key, and its certificate in PEM.
func NewRoot(common string) (*Issuer, []byte) {
	root := selfSigned(name(tagUTF8, common), newECKey(elliptic.P256()))
	return root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.cert.raw})
}

// Certificate returns the issuer's certificate in DER.
func (i *Issuer) Certificate() []byte { return i.cert.raw }
