package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha1" // subject key identifiers (RFC 5280 section 4.2.1.2)
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// Leaf says what kind of leaf to make.
type Leaf struct {
	// Precert makes a precertificate, with the poison extension.
	Precert bool
	// SCTs are serialized SCTs (RFC 6962 section 3.2) to embed in a final
	// certificate; there is no SCT list when it is empty.
	SCTs [][]byte
	// NotBefore and NotAfter bound the leaf's validity, in whole seconds.
	NotBefore, NotAfter time.Time
	// IncludeRoot adds the root to the chain.
	IncludeRoot bool
	// Names replace the names that the leaf's number would give it.
	Names []string
}

// Chain is a chain to submit.
type Chain struct {
	Precert bool
	// Certificates are DER, the leaf first, as they are submitted.
	Certificates [][]byte
	// SignedEntry is what the log must sign (RFC 6962 section 3.2): the
	// certificate, or the precertificate's TBSCertificate without poison.
	SignedEntry []byte

	body *chainBody
	root bool
}

// Make returns chain number n. It is a pure function of the CA, n and l, except
// that intermediates with RSA keys differ from CA to CA.
func (ca *CA) Make(n uint64, l Leaf) (Chain, error) {
	if l.Precert && len(l.SCTs) > 0 {
		return Chain{}, errors.New("a precertificate has no embedded SCTs")
	}
	kind := plain
	switch {
	case l.Precert:
		kind = poisoned
	case len(l.SCTs) > 0:
		kind = withSCTs
	}
	tbs, err := ca.tbs(n, l, kind)
	if err != nil {
		return Chain{}, fmt.Errorf("making leaf %d: %w", n, err)
	}
	der, err := ca.sign(tbs)
	if err != nil {
		return Chain{}, fmt.Errorf("signing leaf %d: %w", n, err)
	}
	c := Chain{Precert: l.Precert, Certificates: [][]byte{der}, SignedEntry: der, body: &ca.body, root: l.IncludeRoot}
	if l.Precert {
		if c.SignedEntry, err = ca.tbs(n, l, plain); err != nil {
			return Chain{}, fmt.Errorf("making leaf %d: %w", n, err)
		}
	}
	for i, issuer := range ca.issuers {
		if i < len(ca.issuers)-1 || l.IncludeRoot {
			c.Certificates = append(c.Certificates, issuer.Raw)
		}
	}
	return c, nil
}

// SignedEntry returns the SignedEntry of chain number n. For a precertificate
// this takes no signature, and a fraction of the time of Make.
func (ca *CA) SignedEntry(n uint64, l Leaf) ([]byte, error) {
	if l.Precert {
		return ca.tbs(n, l, plain)
	}
	c, err := ca.Make(n, l)
	return c.SignedEntry, err
}

// Endpoint returns the path of the submission endpoint for the chain, below
// the submission prefix.
func (c Chain) Endpoint() string {
	if c.Precert {
		return "ct/v1/add-pre-chain"
	}
	return "ct/v1/add-chain"
}

// Body returns the body of the submission request, {"chain":[...]}.
func (c Chain) Body() []byte { return c.AppendBody(nil) }

// AppendBody appends what [Chain.Body] returns.
func (c Chain) AppendBody(b []byte) []byte {
	tail := c.body.withoutRoot
	if c.root {
		tail = c.body.withRoot
	}
	if need := len(`{"chain":["`) + base64.StdEncoding.EncodedLen(len(c.Certificates[0])) + len(tail); b == nil {
		b = make([]byte, 0, need)
	}
	b = append(b, `{"chain":["`...)
	b = base64.StdEncoding.AppendEncode(b, c.Certificates[0])
	return append(b, tail...)
}

// chainBody holds the encoded issuers, the same in every request.
type chainBody struct{ withoutRoot, withRoot string }

func newChainBody(issuers []*x509.Certificate) chainBody {
	var b chainBody
	tail := `"`
	for i, c := range issuers {
		if i == len(issuers)-1 {
			b.withoutRoot = tail + `]}`
		}
		tail += `,"` + base64.StdEncoding.EncodeToString(c.Raw) + `"`
	}
	b.withRoot = tail + `]}`
	return b
}

// leafParts are the encoded parts that all leaves of a CA share.
type leafParts struct {
	issuer, spki        []byte
	extensions          []byte // those before the names
	policies, crlPrefix []byte
}

type variant int

const (
	plain variant = iota
	poisoned
	withSCTs
)

var (
	oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidKeyUsage   = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidEKU        = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidBasic      = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidSKI        = asn1.ObjectIdentifier{2, 5, 29, 14}
	oidAKI        = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidSAN        = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidPolicies   = asn1.ObjectIdentifier{2, 5, 29, 32}
	oidCRL        = asn1.ObjectIdentifier{2, 5, 29, 31}
	oidAIA        = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}
	oidCAIssuers  = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 2}
	oidServerAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	oidDV         = asn1.ObjectIdentifier{2, 23, 140, 1, 2, 1}
	oidPoison     = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 3}
	oidSCTs       = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
)

const uriTag = cbasn1.Tag(6) | 0x80 // GeneralName uniformResourceIdentifier

func newLeafParts(issuer *x509.Certificate, leafKey crypto.PublicKey) (leafParts, error) {
	spki, err := x509.MarshalPKIXPublicKey(leafKey)
	if err != nil {
		return leafParts{}, fmt.Errorf("encoding the leaf key: %w", err)
	}
	var b cryptobyte.Builder
	ski := sha1.Sum(spki)
	addExtension(&b, oidKeyUsage, true, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.BIT_STRING, func(b *cryptobyte.Builder) { b.AddBytes([]byte{7, 0x80}) }) // digitalSignature
	})
	addExtension(&b, oidEKU, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidServerAuth) })
	})
	addExtension(&b, oidBasic, true, func(b *cryptobyte.Builder) { b.AddASN1(cbasn1.SEQUENCE, func(*cryptobyte.Builder) {}) })
	addExtension(&b, oidSKI, false, func(b *cryptobyte.Builder) { b.AddASN1OctetString(ski[:]) })
	addExtension(&b, oidAKI, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.Tag(0).ContextSpecific(), func(b *cryptobyte.Builder) { b.AddBytes(issuer.SubjectKeyId) })
		})
	})
	addExtension(&b, oidAIA, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oidCAIssuers)
				b.AddASN1(uriTag, func(b *cryptobyte.Builder) { b.AddBytes([]byte("http://e1.i.daybook.example/")) })
			})
		})
	})
	extensions, err := b.Bytes()
	if err != nil {
		return leafParts{}, fmt.Errorf("encoding extensions: %w", err)
	}
	var p cryptobyte.Builder
	addExtension(&p, oidPolicies, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(oidDV) })
		})
	})
	policies, err := p.Bytes()
	if err != nil {
		return leafParts{}, fmt.Errorf("encoding extensions: %w", err)
	}
	return leafParts{issuer: issuer.RawSubject, spki: spki, extensions: extensions, policies: policies,
		crlPrefix: []byte("http://e1.c.daybook.example/")}, nil
}

func addExtension(b *cryptobyte.Builder, oid asn1.ObjectIdentifier, critical bool, value cryptobyte.BuilderContinuation) {
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oid)
		if critical {
			b.AddASN1Boolean(true)
		}
		b.AddASN1(cbasn1.OCTET_STRING, value)
	})
}

// tbs builds the TBSCertificate of leaf n, with its header.
func (ca *CA) tbs(n uint64, l Leaf, kind variant) ([]byte, error) {
	random := stream(ca.seed, n)
	names := l.Names
	if len(names) == 0 {
		names = random.names(n)
	}
	b := cryptobyte.NewBuilder(make([]byte, 0, 2048))
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes([]byte{0xa0, 3, 2, 1, 2}) // version 3
		b.AddASN1(cbasn1.INTEGER, func(b *cryptobyte.Builder) {
			serial := random.serial
			serial[0] = serial[0]&0x7f | 0x40 // positive, and of full length
			b.AddBytes(serial[:])
		})
		b.AddBytes(ca.signer.algorithm)
		b.AddBytes(ca.parts.issuer)
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			addTime(b, l.NotBefore)
			addTime(b, l.NotAfter)
		})
		addCommonName(b, names[0])
		b.AddBytes(ca.parts.spki)
		b.AddASN1(cbasn1.Tag(3).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddBytes(ca.parts.extensions)
				ca.addVaryingExtensions(b, n, names)
				addCTExtension(b, l, kind)
			})
		})
	})
	return b.Bytes()
}

func (ca *CA) addVaryingExtensions(b *cryptobyte.Builder, n uint64, names []string) {
	addExtension(b, oidSAN, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			for _, name := range names {
				b.AddASN1(cbasn1.Tag(2)|0x80, func(b *cryptobyte.Builder) { b.AddBytes([]byte(name)) })
			}
		})
	})
	b.AddBytes(ca.parts.policies)
	addExtension(b, oidCRL, false, func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(cbasn1.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
					b.AddASN1(cbasn1.Tag(0).ContextSpecific().Constructed(), func(b *cryptobyte.Builder) {
						b.AddASN1(uriTag, func(b *cryptobyte.Builder) {
							b.AddBytes(ca.parts.crlPrefix)
							b.AddBytes(fmt.Appendf(nil, "%d.crl", n%128))
						})
					})
				})
			})
		})
	})
}

func addCTExtension(b *cryptobyte.Builder, l Leaf, kind variant) {
	switch kind {
	case poisoned:
		addExtension(b, oidPoison, true, func(b *cryptobyte.Builder) { b.AddBytes([]byte{5, 0}) }) // NULL
	case withSCTs:
		addExtension(b, oidSCTs, false, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.OCTET_STRING, func(b *cryptobyte.Builder) {
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
					for _, sct := range l.SCTs {
						b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(sct) })
					}
				})
			})
		})
	}
}

func addCommonName(b *cryptobyte.Builder, name string) {
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		if len(name) > 64 { // ub-common-name, RFC 5280 appendix A.1
			return
		}
		b.AddASN1(cbasn1.SET, func(b *cryptobyte.Builder) {
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1ObjectIdentifier(oidCommonName)
				b.AddASN1(cbasn1.UTF8String, func(b *cryptobyte.Builder) { b.AddBytes([]byte(name)) })
			})
		})
	})
}

// addTime adds a UTCTime, or a GeneralizedTime from 2050 on (RFC 5280 section
// 4.1.2.5).
func addTime(b *cryptobyte.Builder, t time.Time) {
	t = t.UTC()
	if year := t.Year(); year >= 2050 || year < 1950 {
		b.AddASN1GeneralizedTime(t)
		return
	}
	b.AddASN1UTCTime(t)
}

// leafSigner signs leaves with the key of their issuer.
type leafSigner struct {
	key       crypto.Signer
	hash      crypto.Hash
	algorithm []byte // AlgorithmIdentifier, with its header
}

func newLeafSigner(key crypto.Signer) (leafSigner, error) {
	s := leafSigner{key: key, hash: crypto.SHA256}
	oid := asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2} // ecdsa-with-SHA256
	var null bool
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve.Params().BitSize > 256 {
			s.hash = crypto.SHA384
			oid = asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3} // ecdsa-with-SHA384
		}
	case *rsa.PrivateKey:
		oid, null = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, true // sha256WithRSAEncryption
	default:
		return s, fmt.Errorf("cannot sign leaves with a key of type %T", key)
	}
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(oid)
		if null {
			b.AddASN1NULL()
		}
	})
	var err error
	s.algorithm, err = b.Bytes()
	return s, err
}

// sign makes a certificate of a TBSCertificate.
func (ca *CA) sign(tbs []byte) ([]byte, error) {
	var digest []byte
	if ca.signer.hash == crypto.SHA384 {
		d := sha512.Sum384(tbs)
		digest = d[:]
	} else {
		d := sha256.Sum256(tbs)
		digest = d[:]
	}
	signature, err := ca.signer.key.Sign(nil, digest, ca.signer.hash)
	if err != nil {
		return nil, err
	}
	b := cryptobyte.NewBuilder(make([]byte, 0, len(tbs)+len(signature)+32))
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		b.AddBytes(ca.signer.algorithm)
		b.AddASN1BitString(signature)
	})
	return b.Bytes()
}
