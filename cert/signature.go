package cert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
)

// scheme is a kind of signature, by the kind of key it needs.
type scheme int

const (
	schemePKCS1 scheme = iota + 1
	schemePSS
	schemeECDSA
	schemeEd25519
)

// algorithm is a signature algorithm. A hash of zero is that of Ed25519, which
// takes the message itself.
type algorithm struct {
	scheme scheme
	hash   crypto.Hash
}

// Object identifiers of signature algorithms.
const (
	oidMD2WithRSA      = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x02" // 1.2.840.113549.1.1.2
	oidMD5WithRSA      = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04" // 1.2.840.113549.1.1.4
	oidSHA1WithRSA     = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05" // 1.2.840.113549.1.1.5
	oidPSS             = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a" // 1.2.840.113549.1.1.10
	oidSHA256WithRSA   = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b" // 1.2.840.113549.1.1.11
	oidSHA384WithRSA   = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c" // 1.2.840.113549.1.1.12
	oidSHA512WithRSA   = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d" // 1.2.840.113549.1.1.13
	oidSHA224WithRSA   = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0e" // 1.2.840.113549.1.1.14
	oidOIWSHA1WithRSA  = "\x2b\x0e\x03\x02\x1d"                 // 1.3.14.3.2.29
	oidOIWMD5WithRSA   = "\x2b\x0e\x03\x02\x03"                 // 1.3.14.3.2.3
	oidECDSAWithSHA1   = "\x2a\x86\x48\xce\x3d\x04\x01"         // 1.2.840.10045.4.1
	oidECDSAWithSHA224 = "\x2a\x86\x48\xce\x3d\x04\x03\x01"     // 1.2.840.10045.4.3.1
	oidECDSAWithSHA256 = "\x2a\x86\x48\xce\x3d\x04\x03\x02"     // 1.2.840.10045.4.3.2
	oidECDSAWithSHA384 = "\x2a\x86\x48\xce\x3d\x04\x03\x03"     // 1.2.840.10045.4.3.3
	oidECDSAWithSHA512 = "\x2a\x86\x48\xce\x3d\x04\x03\x04"     // 1.2.840.10045.4.3.4
	oidEd25519         = "\x2b\x65\x70"                         // 1.3.101.112

	oidMGF1   = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08" // 1.2.840.113549.1.1.8
	oidSHA256 = "\x60\x86\x48\x01\x65\x03\x04\x02\x01" // 2.16.840.1.101.3.4.2.1
	oidSHA384 = "\x60\x86\x48\x01\x65\x03\x04\x02\x02" // 2.16.840.1.101.3.4.2.2
	oidSHA512 = "\x60\x86\x48\x01\x65\x03\x04\x02\x03" // 2.16.840.1.101.3.4.2.3
)

// CheckSignatureFrom verifies that issuer's key signed c. It does not look at
// names, dates or constraints.
//
// It verifies RSA PKCS #1 v1.5 with SHA-1 and SHA-2, RSA-PSS with SHA-256, 384
// and 512 and the parameters of RFC 4055 section 3.1 for them (MGF1 with the
// same hash, salt as long as it), ECDSA on P-224 to P-521 with SHA-1 and SHA-2,
// and Ed25519; RSA keys of 1024 to 8192 bits.
//
// Errors wrap ErrUnsupportedAlgorithm or ErrBadSignature.
func (c *Certificate) CheckSignatureFrom(issuer *Certificate) error {
	alg, err := parseAlgorithm(c.rawSigAlg)
	if err != nil {
		return err
	}
	key, err := issuer.publicKey()
	if err != nil {
		return err
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if alg.scheme != schemeECDSA {
			return wrongKey("an ECDSA")
		}
		if !isDERSignature(c.signature) {
			return fmt.Errorf("%w: the ECDSA signature is not DER", ErrBadSignature)
		}
		var buf [sha512.Size]byte
		if !ecdsa.VerifyASN1(key, alg.digest(&buf, c.RawTBS), c.signature) {
			return badSignature()
		}
	case *rsa.PublicKey:
		var buf [sha512.Size]byte
		switch alg.scheme {
		case schemePKCS1:
			err = rsa.VerifyPKCS1v15(key, alg.hash, alg.digest(&buf, c.RawTBS), c.signature)
		case schemePSS:
			opts := rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
			err = rsa.VerifyPSS(key, alg.hash, alg.digest(&buf, c.RawTBS), c.signature, &opts)
		default:
			return wrongKey("an RSA")
		}
		if err != nil {
			// crypto/rsa says for odd keys, too, no more than that it failed.
			return badSignature()
		}
	case ed25519.PublicKey:
		if alg.scheme != schemeEd25519 {
			return wrongKey("an Ed25519")
		}
		if !ed25519.Verify(key, c.RawTBS, c.signature) {
			return badSignature()
		}
	}
	return nil
}

func badSignature() error {
	return fmt.Errorf("%w: it was not made with the issuer's key over this certificate", ErrBadSignature)
}

func wrongKey(kind string) error {
	return fmt.Errorf("%w: the signature algorithm does not go with the issuer's key, which is %s key", ErrBadSignature, kind)
}

func unsupported(problem string) error {
	return fmt.Errorf("%w: %s", ErrUnsupportedAlgorithm, problem)
}

// digest hashes b into buf.
func (a algorithm) digest(buf *[sha512.Size]byte, b []byte) []byte {
	switch a.hash {
	case crypto.SHA1:
		sum := sha1.Sum(b)
		return buf[:copy(buf[:], sum[:])]
	case crypto.SHA224:
		sum := sha256.Sum224(b)
		return buf[:copy(buf[:], sum[:])]
	case crypto.SHA256:
		sum := sha256.Sum256(b)
		return buf[:copy(buf[:], sum[:])]
	case crypto.SHA384:
		sum := sha512.Sum384(b)
		return buf[:copy(buf[:], sum[:])]
	default:
		*buf = sha512.Sum512(b)
		return buf[:]
	}
}

// parseAlgorithm reads an AlgorithmIdentifier with its header. Parameters other
// than those of RSA-PSS are not looked at: they are signed, so they offer
// nobody a choice, and CAs have put NULL, nothing and more there.
func parseAlgorithm(raw []byte) (algorithm, error) {
	var seq, oid element
	if !whole(raw, tagSequence, &seq) {
		return algorithm{}, unsupported("the signature algorithm cannot be read")
	}
	cur := seq.cursor()
	if !cur.readTag(raw, tagOID, &oid) {
		return algorithm{}, unsupported("the signature algorithm has no OBJECT IDENTIFIER")
	}
	switch string(raw[oid.body:oid.end]) {
	case oidSHA1WithRSA, oidOIWSHA1WithRSA:
		return algorithm{schemePKCS1, crypto.SHA1}, nil
	case oidSHA224WithRSA:
		return algorithm{schemePKCS1, crypto.SHA224}, nil
	case oidSHA256WithRSA:
		return algorithm{schemePKCS1, crypto.SHA256}, nil
	case oidSHA384WithRSA:
		return algorithm{schemePKCS1, crypto.SHA384}, nil
	case oidSHA512WithRSA:
		return algorithm{schemePKCS1, crypto.SHA512}, nil
	case oidPSS:
		return parsePSS(raw, cur)
	case oidECDSAWithSHA1:
		return algorithm{schemeECDSA, crypto.SHA1}, nil
	case oidECDSAWithSHA224:
		return algorithm{schemeECDSA, crypto.SHA224}, nil
	case oidECDSAWithSHA256:
		return algorithm{schemeECDSA, crypto.SHA256}, nil
	case oidECDSAWithSHA384:
		return algorithm{schemeECDSA, crypto.SHA384}, nil
	case oidECDSAWithSHA512:
		return algorithm{schemeECDSA, crypto.SHA512}, nil
	case oidEd25519:
		return algorithm{scheme: schemeEd25519}, nil
	case oidMD5WithRSA, oidOIWMD5WithRSA:
		return algorithm{}, unsupported("signatures with MD5 prove nothing and are not accepted")
	case oidMD2WithRSA:
		return algorithm{}, unsupported("signatures with MD2 prove nothing and are not accepted")
	}
	return algorithm{}, unsupported("the signature algorithm " + oidString(raw[oid.body:oid.end]) + " cannot be verified")
}

// parsePSS reads RSASSA-PSS-params (RFC 4055 section 3.1) at cur.
func parsePSS(raw []byte, cur cursor) (algorithm, error) {
	var e, params element
	if !cur.readTag(raw, tagSequence, &params) {
		return algorithm{}, unsupported("RSA-PSS without parameters, which means SHA-1")
	}
	var hash, mask string // object identifiers
	salt, trailer := 20, 1
	cur = params.cursor()
	for cur.read(raw, &e) {
		in := e.cursor()
		ok := true
		switch e.tag {
		case 0xa0:
			hash, ok = readAlgorithmOID(raw, &in)
		case 0xa1:
			var mgf, oid element
			if ok = in.readTag(raw, tagSequence, &mgf); ok {
				in = mgf.cursor()
				ok = in.readTag(raw, tagOID, &oid) && string(raw[oid.body:oid.end]) == oidMGF1
			}
			if ok {
				mask, ok = readAlgorithmOID(raw, &in)
			}
		case 0xa2:
			salt, ok = readSmallInteger(raw, &in)
		case 0xa3:
			trailer, ok = readSmallInteger(raw, &in)
		default:
			ok = false
		}
		if !ok {
			return algorithm{}, unsupported("the RSA-PSS parameters cannot be read")
		}
	}
	alg := algorithm{scheme: schemePSS}
	switch hash {
	case oidSHA256:
		alg.hash = crypto.SHA256
	case oidSHA384:
		alg.hash = crypto.SHA384
	case oidSHA512:
		alg.hash = crypto.SHA512
	}
	if !cur.empty() || alg.hash == 0 || mask != hash || salt != alg.hash.Size() || trailer != 1 {
		return algorithm{}, unsupported("RSA-PSS is verified only with SHA-256, 384 or 512, the same hash in MGF1, a salt as long as the hash and trailer field 1")
	}
	return alg, nil
}

func readAlgorithmOID(raw []byte, cur *cursor) (string, bool) {
	var seq, oid element
	if !cur.readTag(raw, tagSequence, &seq) {
		return "", false
	}
	in := seq.cursor()
	if !in.readTag(raw, tagOID, &oid) {
		return "", false
	}
	return string(raw[oid.body:oid.end]), true
}

func readSmallInteger(raw []byte, cur *cursor) (int, bool) {
	var e element
	if !cur.readTag(raw, tagInteger, &e) || e.end-e.body != 1 || raw[e.body] >= 0x80 {
		return 0, false
	}
	return int(raw[e.body]), true
}

// isDERSignature reports whether b is an ECDSA-Sig-Value of two minimal
// positive integers and nothing else, so that a signature has one encoding.
func isDERSignature(b []byte) bool {
	var seq element
	if !whole(b, tagSequence, &seq) || !seq.minimal {
		return false
	}
	cur := seq.cursor()
	for range 2 {
		var e element
		if !cur.readTag(b, tagInteger, &e) || !e.minimal || e.body == e.end {
			return false
		}
		v := b[e.body:e.end]
		if v[0] >= 0x80 || v[0] == 0 && (len(v) == 1 || v[1] < 0x80) {
			return false
		}
	}
	return cur.empty()
}
