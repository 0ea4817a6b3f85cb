// Package testca makes the certificate chains that tests, the demo and the load
// generator submit: a test root, intermediates under it, and precertificates
// and final certificates by the thousand a second.
//
// What it makes is deterministic where that helps: leaf number n of a CA with
// a seed always has the same names and serial number, and with the same root
// key the same bytes, so that a submission can be described by its number
// instead of being kept.
package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"

	"filippo.io/keygen"
)

// KeyType is the type of a CA's key.
type KeyType int

// The key types.
const (
	P256 KeyType = iota
	P384
	RSA2048
	RSA4096
)

// Options describe a CA. The zero value is a P-256 root with one P-256
// intermediate.
type Options struct {
	// Name stands in the CA certificates' names. Default "Daybook Test".
	Name string
	// Direct makes the root issue leaves itself: there are no intermediates.
	Direct bool
	// Intermediates is the length of the path between root and leaf, default 1.
	Intermediates int
	// RootKey is used by New alone; Load takes the key that it is given.
	RootKey         KeyType
	IntermediateKey KeyType
	// Seed decides the leaves' names and serial numbers.
	Seed uint64
	// NotBefore and NotAfter bound the root made by New. Default: from
	// 2020-01-01 to 2050-01-01. Intermediates have their root's.
	NotBefore, NotAfter time.Time
}

// CA makes chains. It is immutable, and safe for concurrent use.
type CA struct {
	seed    uint64
	root    *x509.Certificate
	rootKey crypto.Signer
	issuers []*x509.Certificate // signs the leaf first, root last
	leafKey *ecdsa.PrivateKey   // of every leaf
	signer  leafSigner
	parts   leafParts
	body    chainBody
}

// New makes a CA with a new random root key.
func New(o Options) (*CA, error) {
	key, err := newKey(o.RootKey)
	if err != nil {
		return nil, fmt.Errorf("making the root key: %w", err)
	}
	if o.NotBefore.IsZero() {
		o.NotBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	template := caTemplate(o.name()+" Root", key.Public(), o.NotBefore, o.NotAfter)
	root, err := createCertificate(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the root: %w", err)
	}
	return newCA(root, key, o)
}

// Load makes a CA of an existing root and its private key, both PEM. The key
// is PKCS #8 or SEC 1. ECDSA intermediates are derived from the root key, so
// that the same root and options give the same intermediates.
func Load(rootPEM, keyPEM []byte, o Options) (*CA, error) {
	block, _ := pem.Decode(rootPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("root has no PEM block of type CERTIFICATE")
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the root: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if pub, ok := root.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(key.Public()) {
		return nil, errors.New("root key does not belong to the root certificate")
	}
	return newCA(root, key, o)
}

func parseKey(keyPEM []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("root key has no PEM block")
	}
	if block.Type == "EC PRIVATE KEY" {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing the root key: %w", err)
		}
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the root key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("root key of type %T cannot sign", key)
	}
	return signer, nil
}

func newCA(root *x509.Certificate, rootKey crypto.Signer, o Options) (*CA, error) {
	ca := &CA{seed: o.Seed, root: root, rootKey: rootKey, issuers: []*x509.Certificate{root}}
	secret, err := x509.MarshalPKCS8PrivateKey(rootKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the root key: %w", err)
	}
	n := max(o.Intermediates, 1)
	if o.Direct {
		n = 0
	}
	key := rootKey
	for i := range n {
		parent := ca.issuers[0]
		next, err := deriveKey(o.IntermediateKey, secret, fmt.Sprintf("intermediate %d", i+1))
		if err != nil {
			return nil, fmt.Errorf("making the key of intermediate %d: %w", i+1, err)
		}
		template := caTemplate(fmt.Sprintf("%s E%d", o.name(), i+1), next.Public(), root.NotBefore, root.NotAfter)
		cert, err := createCertificate(template, parent, next.Public(), key)
		if err != nil {
			return nil, fmt.Errorf("making intermediate %d: %w", i+1, err)
		}
		ca.issuers, key = append([]*x509.Certificate{cert}, ca.issuers...), next
	}
	leafKey, err := deriveKey(P256, secret, "leaves")
	if err != nil {
		return nil, fmt.Errorf("making the leaf key: %w", err)
	}
	ca.leafKey = leafKey.(*ecdsa.PrivateKey)
	if ca.signer, err = newLeafSigner(key); err != nil {
		return nil, err
	}
	if ca.parts, err = newLeafParts(ca.issuers[0], ca.leafKey.Public()); err != nil {
		return nil, err
	}
	ca.body = newChainBody(ca.issuers)
	return ca, nil
}

func (o Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	return "Daybook Test"
}

// RootPEM returns the root certificate.
func (ca *CA) RootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.root.Raw})
}

// RootKeyPEM returns the root's private key, PKCS #8.
func (ca *CA) RootKeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(ca.rootKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the root key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Issuers returns the DER certificates of the path from the leaf's issuer up to
// and including the root.
func (ca *CA) Issuers() [][]byte {
	var ders [][]byte
	for _, c := range ca.issuers {
		ders = append(ders, c.Raw)
	}
	return ders
}

// IssuerKeyHash returns the issuer_key_hash of the CA's precertificates (RFC
// 6962 section 3.2).
func (ca *CA) IssuerKeyHash() [32]byte {
	return sha256.Sum256(ca.issuers[0].RawSubjectPublicKeyInfo)
}

func caTemplate(name string, pub crypto.PublicKey, notBefore, notAfter time.Time) *x509.Certificate {
	serial := make([]byte, 16)
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err == nil {
		h := sha256.Sum256(append([]byte(name), spki...))
		copy(serial, h[:])
	}
	serial[0] = serial[0]&0x7f | 0x40 // positive, and of full length
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               pkix.Name{Country: []string{"XX"}, Organization: []string{"Daybook Test Authority"}, CommonName: name},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		PolicyIdentifiers:     nil,
	}
}

func createCertificate(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, deterministic{key})
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// deterministic signs without randomness: RFC 6979 for ECDSA, PKCS #1 v1.5 for RSA.
type deterministic struct{ crypto.Signer }

func (d deterministic) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return d.Signer.Sign(nil, digest, opts)
}

func newKey(t KeyType) (crypto.Signer, error) {
	switch t {
	case P256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case P384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case RSA2048:
		return rsa.GenerateKey(rand.Reader, 2048)
	case RSA4096:
		return rsa.GenerateKey(rand.Reader, 4096)
	}
	return nil, fmt.Errorf("key type %d is not known", t)
}

// deriveKey derives an ECDSA key from secret; RSA keys are new ones.
func deriveKey(t KeyType, secret []byte, info string) (crypto.Signer, error) {
	curve := elliptic.P256()
	switch t {
	case P256:
	case P384:
		curve = elliptic.P384()
	default:
		return newKey(t)
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "daybook testca "+info, 32)
	if err != nil {
		return nil, err
	}
	return keygen.ECDSA(curve, seed)
}

// stream returns the pseudo-random numbers that leaf n of a seed is made from.
func stream(seed, n uint64) *source {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], seed)
	binary.BigEndian.PutUint64(b[8:], n)
	h := sha256.Sum256(b[:])
	return &source{state: binary.BigEndian.Uint64(h[:8]), serial: [16]byte(h[16:])}
}

// source is a splitmix64 generator; serial is drawn from the same hash.
type source struct {
	state  uint64
	serial [16]byte
}

func (s *source) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s *source) below(n int) int { return int(s.next() % uint64(n)) }
