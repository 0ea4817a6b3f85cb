package cert

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"fmt"
	"math/big"
	"strconv"
)

// Object identifiers of keys.
const (
	oidRSAKey = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01" // 1.2.840.113549.1.1.1
	oidECKey  = "\x2a\x86\x48\xce\x3d\x02\x01"         // 1.2.840.10045.2.1
	oidP224   = "\x2b\x81\x04\x00\x21"                 // 1.3.132.0.33
	oidP256   = "\x2a\x86\x48\xce\x3d\x03\x01\x07"     // 1.2.840.10045.3.1.7
	oidP384   = "\x2b\x81\x04\x00\x22"                 // 1.3.132.0.34
	oidP521   = "\x2b\x81\x04\x00\x23"                 // 1.3.132.0.35
)

// The bounds of RSA moduli in bits: crypto/rsa refuses smaller ones, and the
// cost of a check grows with the square of the size.
const (
	minRSABits = 1024
	maxRSABits = 8192
)

// publicKey returns the certificate's key, which is parsed on first use: a
// leaf's never is.
func (c *Certificate) publicKey() (any, error) {
	c.keyOnce.Do(func() { c.key, c.keyErr = parsePublicKey(c.RawSPKI) })
	return c.key, c.keyErr
}

// parsePublicKey parses a SubjectPublicKeyInfo (RFC 3279 section 2.3, RFC 5480,
// RFC 8410). Errors wrap ErrUnsupportedAlgorithm.
func parsePublicKey(spki []byte) (any, error) {
	var seq, alg, oid, bits element
	if !whole(spki, tagSequence, &seq) {
		return nil, badKey("the SubjectPublicKeyInfo cannot be read")
	}
	cur := seq.cursor()
	if !cur.readTag(spki, tagSequence, &alg) || !cur.readTag(spki, tagBitString, &bits) || !cur.empty() {
		return nil, badKey("the SubjectPublicKeyInfo cannot be read")
	}
	if bits.body == bits.end || spki[bits.body] != 0 {
		return nil, badKey("the key's BIT STRING is empty or has unused bits")
	}
	key := spki[bits.body+1 : bits.end]
	cur = alg.cursor()
	if !cur.readTag(spki, tagOID, &oid) {
		return nil, badKey("the key has no algorithm")
	}
	switch algorithm := spki[oid.body:oid.end]; string(algorithm) {
	case oidRSAKey:
		return parseRSA(key)
	case oidECKey:
		var curve element
		if !cur.readTag(spki, tagOID, &curve) {
			return nil, badKey("the EC key names no curve")
		}
		return parseEC(spki[curve.body:curve.end], key)
	case oidEd25519:
		if len(key) != ed25519.PublicKeySize {
			return nil, badKey(fmt.Sprintf("the Ed25519 key has %d bytes, not %d", len(key), ed25519.PublicKeySize))
		}
		return ed25519.PublicKey(key), nil
	default:
		return nil, badKey("keys of the kind " + oidString(algorithm) + " are not supported")
	}
}

func badKey(problem string) error { return unsupported("issuer's key: " + problem) }

func parseRSA(key []byte) (any, error) {
	var seq, n, e element
	if !whole(key, tagSequence, &seq) {
		return nil, badKey("the RSAPublicKey cannot be read")
	}
	cur := seq.cursor()
	if !cur.readTag(key, tagInteger, &n) || !cur.readTag(key, tagInteger, &e) || !cur.empty() {
		return nil, badKey("the RSAPublicKey cannot be read")
	}
	if n.body == n.end || key[n.body] >= 0x80 || e.body == e.end || key[e.body] >= 0x80 {
		return nil, badKey("the RSA modulus or exponent is not positive")
	}
	if n.end-n.body > maxRSABits/8+8 {
		return nil, badKey(fmt.Sprintf("the RSA modulus has more than %d bits", maxRSABits))
	}
	modulus := new(big.Int).SetBytes(key[n.body:n.end])
	if size := modulus.BitLen(); size < minRSABits || size > maxRSABits {
		return nil, badKey(fmt.Sprintf("the RSA modulus has %d bits, not %d to %d", size, minRSABits, maxRSABits))
	}
	exponent := 0
	for _, octet := range key[e.body:e.end] {
		if exponent = exponent<<8 | int(octet); exponent > 1<<31-1 {
			return nil, badKey("the RSA exponent has more than 31 bits")
		}
	}
	if modulus.Bit(0) == 0 || exponent < 3 || exponent&1 == 0 {
		return nil, badKey("the RSA modulus is even, or the exponent is even or less than 3")
	}
	return &rsa.PublicKey{N: modulus, E: exponent}, nil
}

func parseEC(oid, point []byte) (any, error) {
	var curve elliptic.Curve
	switch string(oid) {
	case oidP224:
		curve = elliptic.P224()
	case oidP256:
		curve = elliptic.P256()
	case oidP384:
		curve = elliptic.P384()
	case oidP521:
		curve = elliptic.P521()
	default:
		return nil, badKey("the curve " + oidString(oid) + " is not supported")
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, badKey("the EC point is not an uncompressed point of " + curve.Params().Name)
	}
	return key, nil
}

// maxOIDString bounds what a message shows of an object identifier.
const maxOIDString = 80

// oidString returns an object identifier in dotted form, for messages.
func oidString(b []byte) string {
	var s []byte
	var arc uint64
	for i, octet := range b {
		if arc>>56 != 0 || len(s) > maxOIDString {
			return string(append(s, "..."...))
		}
		if arc = arc<<7 | uint64(octet&0x7f); octet >= 0x80 {
			if i == len(b)-1 {
				return string(append(s, "..."...))
			}
			continue
		}
		if len(s) == 0 {
			first := min(arc/40, 2)
			s = strconv.AppendUint(s, first, 10)
			arc -= first * 40
		}
		s = append(s, '.')
		s = strconv.AppendUint(s, arc, 10)
		arc = 0
	}
	return string(s)
}
