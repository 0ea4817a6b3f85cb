package cert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // for crypto.Hash
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func algorithmID(oid string, parameters ...[]byte) []byte {
	return seq(append([][]byte{tlv(6, []byte(oid))}, parameters...)...)
}

// signedBy returns a certificate with the given algorithm, whose signature is
// made by sign over the TBSCertificate.
func signedBy(t testing.TB, alg []byte, sign func(tbs []byte) []byte) *Certificate {
	t.Helper()
	s := leafSpec(t)
	s.innerAlg, s.outerAlg = alg, alg
	s.signature = bitString(sign(s.tbs()))
	return s.parse(t)
}

func signer(t testing.TB, key crypto.Signer, opts crypto.SignerOpts) func([]byte) []byte {
	return func(tbs []byte) []byte {
		t.Helper()
		if h := opts.HashFunc(); h != 0 {
			d := h.New()
			d.Write(tbs)
			tbs = d.Sum(nil)
		}
		sig, err := key.Sign(rand.Reader, tbs, opts)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

func issuerWithKey(t testing.TB, spki []byte) *Certificate {
	s := caSpec(t)
	s.spki = spki
	return s.parse(t)
}

// pssParameters are the RSASSA-PSS-params for one hash (RFC 4055 section 3.1).
func pssParameters(hash, mask string, salt, trailer byte) []byte {
	parts := [][]byte{
		tlv(0xa0, algorithmID(hash, tlv(5))),
		tlv(0xa1, algorithmID("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x08", algorithmID(mask, tlv(5)))),
		tlv(0xa2, tlv(2, []byte{salt})),
	}
	if trailer != 0 {
		parts = append(parts, tlv(0xa3, tlv(2, []byte{trailer})))
	}
	return seq(parts...)
}

const (
	pkcs1Arc = "\x2a\x86\x48\x86\xf7\x0d\x01\x01"
	ecdsaArc = "\x2a\x86\x48\xce\x3d\x04"
	pssOID   = pkcs1Arc + "\x0a"
	sha256ID = "\x60\x86\x48\x01\x65\x03\x04\x02\x01"
	sha384ID = "\x60\x86\x48\x01\x65\x03\x04\x02\x02"
	sha512ID = "\x60\x86\x48\x01\x65\x03\x04\x02\x03"
)

// checkSignature has c verified by issuer, and tells changed signatures and
// certificates and other issuers of the same kind from it.
func checkSignature(t *testing.T, c, issuer, other *Certificate) {
	t.Helper()
	if err := c.CheckSignatureFrom(issuer); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSignatureFrom(other); !errors.Is(err, ErrBadSignature) {
		t.Errorf("another key: %v", err)
	}
	for i := 0; i < len(c.signature); i += 1 + len(c.signature)/16 {
		bad := &Certificate{RawTBS: c.RawTBS, rawSigAlg: c.rawSigAlg, signature: slices.Clone(c.signature)}
		bad.signature[i] ^= 1
		if err := bad.CheckSignatureFrom(issuer); !errors.Is(err, ErrBadSignature) {
			t.Fatalf("octet %d of the signature changed: %v", i, err)
		}
	}
	bad := &Certificate{RawTBS: slices.Clone(c.RawTBS), rawSigAlg: c.rawSigAlg, signature: c.signature}
	bad.RawTBS[len(bad.RawTBS)/2] ^= 1
	if err := bad.CheckSignatureFrom(issuer); !errors.Is(err, ErrBadSignature) {
		t.Errorf("TBSCertificate changed: %v", err)
	}
	for label, sig := range map[string][]byte{
		"octet added": append(slices.Clone(c.signature), 0), "octet before": append([]byte{0}, c.signature...),
		"octet missing": c.signature[:len(c.signature)-1], "none": nil,
	} {
		bad := &Certificate{RawTBS: c.RawTBS, rawSigAlg: c.rawSigAlg, signature: sig}
		if err := bad.CheckSignatureFrom(issuer); !errors.Is(err, ErrBadSignature) {
			t.Errorf("signature with %s: %v", label, err)
		}
	}
}

func TestSignaturesECDSA(t *testing.T) {
	hashes := []struct {
		oid  string
		hash crypto.Hash
	}{{"\x01", crypto.SHA1}, {"\x03\x01", crypto.SHA224}, {"\x03\x02", crypto.SHA256}, {"\x03\x03", crypto.SHA384}, {"\x03\x04", crypto.SHA512}}
	for _, curve := range []elliptic.Curve{elliptic.P224(), elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		var keys [2]*ecdsa.PrivateKey
		var issuers [2]*Certificate
		for i := range keys {
			key, err := ecdsa.GenerateKey(curve, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			keys[i], issuers[i] = key, issuerWithKey(t, marshalSPKI(t, key.Public()))
		}
		for _, h := range hashes {
			t.Run(curve.Params().Name+" "+h.hash.String(), func(t *testing.T) {
				c := signedBy(t, algorithmID(ecdsaArc+h.oid), signer(t, keys[0], h.hash))
				checkSignature(t, c, issuers[0], issuers[1])
			})
		}
	}
}

func TestSignaturesRSA(t *testing.T) {
	var keys [2]*rsa.PrivateKey
	var issuers [2]*Certificate
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 1024+i*1024)
		if err != nil {
			t.Fatal(err)
		}
		keys[i], issuers[i] = key, issuerWithKey(t, marshalSPKI(t, key.Public()))
	}
	pss := func(h crypto.Hash) crypto.SignerOpts {
		return &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: h}
	}
	null := tlv(5)
	for label, c := range map[string]struct {
		alg  []byte
		opts crypto.SignerOpts
	}{
		"SHA-1":           {algorithmID(pkcs1Arc+"\x05", null), crypto.SHA1},
		"SHA-1 of OIW":    {algorithmID("\x2b\x0e\x03\x02\x1d", null), crypto.SHA1},
		"SHA-224":         {algorithmID(pkcs1Arc+"\x0e", null), crypto.SHA224},
		"SHA-256":         {algorithmID(pkcs1Arc+"\x0b", null), crypto.SHA256},
		"SHA-256 no NULL": {algorithmID(pkcs1Arc + "\x0b"), crypto.SHA256},
		"SHA-384":         {algorithmID(pkcs1Arc+"\x0c", null), crypto.SHA384},
		"SHA-512":         {algorithmID(pkcs1Arc+"\x0d", null), crypto.SHA512},
		"PSS SHA-256":     {algorithmID(pssOID, pssParameters(sha256ID, sha256ID, 32, 1)), pss(crypto.SHA256)},
		"PSS SHA-256, trailer by default": {algorithmID(pssOID, pssParameters(sha256ID, sha256ID, 32, 0)),
			pss(crypto.SHA256)},
	} {
		t.Run(label, func(t *testing.T) {
			checkSignature(t, signedBy(t, c.alg, signer(t, keys[0], c.opts)), issuers[0], issuers[1])
		})
	}
	// A modulus of 1024 bits is too small for PSS with SHA-512.
	for label, c := range map[string]struct {
		alg  []byte
		hash crypto.Hash
	}{
		"PSS SHA-384": {algorithmID(pssOID, pssParameters(sha384ID, sha384ID, 48, 0)), crypto.SHA384},
		"PSS SHA-512": {algorithmID(pssOID, pssParameters(sha512ID, sha512ID, 64, 0)), crypto.SHA512},
	} {
		t.Run(label, func(t *testing.T) {
			checkSignature(t, signedBy(t, c.alg, signer(t, keys[1], pss(c.hash))), issuers[1], issuers[0])
		})
	}
}

func TestSignaturesEd25519(t *testing.T) {
	var issuers [2]*Certificate
	var key ed25519.PrivateKey
	for i := range issuers {
		pub, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key, issuers[i] = private, issuerWithKey(t, marshalSPKI(t, pub))
	}
	checkSignature(t, signedBy(t, algorithmID("\x2b\x65\x70"), signer(t, key, crypto.Hash(0))), issuers[1], issuers[0])
}

// rsaSPKI returns a SubjectPublicKeyInfo with the given INTEGER contents.
func rsaSPKI(modulus, exponent []byte) []byte {
	return seq(algorithmID(pkcs1Arc+"\x01", tlv(5)), bitString(seq(tlv(2, modulus), tlv(2, exponent))))
}

// TestSignatureRSA8192 makes a modulus of many small primes, as two large ones
// take seconds to find.
func TestSignatureRSA8192(t *testing.T) {
	const bits = 8192
	n, phi, one := big.NewInt(1), big.NewInt(1), big.NewInt(1)
	e := big.NewInt(65537)
	for try := 0; n.BitLen() < bits; try++ {
		size := 256
		if rest := bits - n.BitLen(); rest < 512 {
			size = rest + try%2 // the product may be one bit short
		}
		p, err := rand.Prime(rand.Reader, size)
		if err != nil {
			t.Fatal(err)
		}
		order := new(big.Int).Sub(p, one)
		next := new(big.Int).Mul(n, p)
		if n.BitLen()+512 > bits && next.BitLen() != bits || new(big.Int).GCD(nil, nil, order, e).Cmp(one) != 0 {
			continue
		}
		n, phi = next, phi.Mul(phi, order)
	}
	d := new(big.Int).ModInverse(e, phi)
	digestInfo := []byte("\x30\x31\x30\x0d\x06\x09" + sha256ID + "\x05\x00\x04\x20")
	c := signedBy(t, algorithmID(pkcs1Arc+"\x0b", tlv(5)), func(tbs []byte) []byte {
		h := crypto.SHA256.New()
		h.Write(tbs)
		tail := append(slices.Clone(digestInfo), h.Sum(nil)...)
		em := slices.Concat([]byte{0, 1}, slices.Repeat([]byte{0xff}, bits/8-3-len(tail)), []byte{0}, tail)
		return new(big.Int).Exp(new(big.Int).SetBytes(em), d, n).FillBytes(make([]byte, bits/8))
	})
	if err := c.CheckSignatureFrom(issuerWithKey(t, rsaSPKI(append([]byte{0}, n.Bytes()...), []byte{1, 0, 1}))); err != nil {
		t.Error(err)
	}
}

// TestSignatureForms tells apart the encodings of one ECDSA signature: (r, s)
// and (r, n-s) are two signatures, every other variant is refused.
func TestSignatureForms(t *testing.T) {
	issuer := caSpec(t).parse(t)
	s := leafSpec(t)
	der := elementBody(s.signed(t))[1:]
	var sig struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		t.Fatal(err)
	}
	r, sv := tlv(2, signedInteger(sig.R)), tlv(2, signedInteger(sig.S))
	negated := new(big.Int).Sub(elliptic.P256().Params().N, sig.S)
	padded := func(b []byte) []byte { return tlv(2, []byte{0}, elementBody(b)) }
	for label, c := range map[string]struct {
		sig []byte
		ok  bool
	}{
		"as made":                     {seq(r, sv), true},
		"(r, n-s)":                    {seq(r, tlv(2, signedInteger(negated))), true},
		"r padded":                    {seq(padded(r), sv), false},
		"s padded":                    {seq(r, padded(sv)), false},
		"octet after the SEQUENCE":    {append(seq(r, sv), 0), false},
		"third element":               {seq(r, sv, tlv(5)), false},
		"long form of the SEQUENCE":   {longForm(seq(r, sv)), false},
		"long form of r":              {seq(longForm(r), sv), false},
		"r+n":                         {seq(tlv(2, signedInteger(new(big.Int).Add(sig.R, elliptic.P256().Params().N))), sv), false},
		"zeroes":                      {seq(tlv(2, []byte{0}), tlv(2, []byte{0})), false},
		"empty integers":              {seq(tlv(2), tlv(2)), false},
		"SET":                         {tlv(0x31, r, sv), false},
		"r || s as octets":            {slices.Concat(sig.R.FillBytes(make([]byte, 32)), sig.S.FillBytes(make([]byte, 32))), false},
		"BIT STRINGs in the SEQUENCE": {seq(tlv(3, elementBody(r)), sv), false},
	} {
		changed := s.clone()
		changed.signature = bitString(c.sig)
		err := changed.parse(t).CheckSignatureFrom(issuer)
		if c.ok && err != nil || !c.ok && !errors.Is(err, ErrBadSignature) {
			t.Errorf("%s: %v", label, err)
		}
		if !c.ok && label != "r+n" && !strings.Contains(err.Error(), "not DER") {
			t.Errorf("%s: error is %q", label, err)
		}
	}
}

// signedInteger returns the minimal content of a positive INTEGER.
func signedInteger(i *big.Int) []byte {
	b := i.Bytes()
	if b[0] >= 0x80 {
		return append([]byte{0}, b...)
	}
	return b
}

func TestSignatureUnsupported(t *testing.T) {
	rsaKey := rsaSPKI(slices.Concat([]byte{0, 0xff}, make([]byte, 254), []byte{1}), []byte{1, 0, 1})
	ecKey := marshalSPKI(t, testKey(t, "ca").Public())
	point := elementBody(elements(elementBody(ecKey))[1])[1:]
	ec := func(curve string, point []byte) []byte {
		return seq(algorithmID("\x2a\x86\x48\xce\x3d\x02\x01", tlv(6, []byte(curve))), bitString(point))
	}
	const p256 = "\x2a\x86\x48\xce\x3d\x03\x01\x07"
	pkcs1 := algorithmID(pkcs1Arc+"\x0b", tlv(5))
	modulus := func(bits int) []byte {
		return append([]byte{0}, new(big.Int).SetBit(big.NewInt(1), bits-1, 1).Bytes()...)
	}
	for _, c := range []struct {
		label     string
		alg, spki []byte
		sentinel  error
		message   string
	}{
		{"MD5", algorithmID(pkcs1Arc+"\x04", tlv(5)), rsaKey, ErrUnsupportedAlgorithm, "MD5"},
		{"MD2", algorithmID(pkcs1Arc+"\x02", tlv(5)), rsaKey, ErrUnsupportedAlgorithm, "MD2"},
		{"DSA", algorithmID("\x2a\x86\x48\xce\x38\x04\x03"), rsaKey, ErrUnsupportedAlgorithm, "1.2.840.10040.4.3"},
		{"no OID", seq(), rsaKey, ErrUnsupportedAlgorithm, "no OBJECT IDENTIFIER"},
		{"PSS without parameters", algorithmID(pssOID), rsaKey, ErrUnsupportedAlgorithm, "SHA-1"},
		{"PSS SHA-1", algorithmID(pssOID, seq()), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},
		{"PSS other mask", algorithmID(pssOID, pssParameters(sha256ID, sha384ID, 32, 1)), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},
		{"PSS other salt", algorithmID(pssOID, pssParameters(sha256ID, sha256ID, 20, 1)), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},
		{"PSS other trailer", algorithmID(pssOID, pssParameters(sha256ID, sha256ID, 32, 2)), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},
		{"PSS junk", algorithmID(pssOID, seq(tlv(5))), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},
		{"PSS cut off", algorithmID(pssOID, seq(pssParameters(sha256ID, sha256ID, 32, 1), []byte{0xa3})), rsaKey, ErrUnsupportedAlgorithm, "RSA-PSS"},

		{"RSA algorithm, EC key", pkcs1, ecKey, ErrBadSignature, "an ECDSA key"},
		{"ECDSA algorithm, RSA key", algECDSASHA256, rsaKey, ErrBadSignature, "an RSA key"},
		{"Ed25519 algorithm, RSA key", algorithmID("\x2b\x65\x70"), rsaKey, ErrBadSignature, "an RSA key"},
		{"RSA algorithm, Ed25519 key", pkcs1, seq(algorithmID("\x2b\x65\x70"), bitString(make([]byte, 32))), ErrBadSignature, "an Ed25519 key"},

		{"RSA-1023", pkcs1, rsaSPKI(modulus(1023), []byte{3}), ErrUnsupportedAlgorithm, "1023 bits"},
		{"RSA-1024", pkcs1, rsaSPKI(modulus(1024), []byte{3}), ErrBadSignature, "not made with"},
		{"RSA-8192", pkcs1, rsaSPKI(modulus(8192), []byte{3}), ErrBadSignature, "not made with"},
		{"RSA-8193", pkcs1, rsaSPKI(modulus(8193), []byte{3}), ErrUnsupportedAlgorithm, "8193 bits"},
		{"RSA-100000", pkcs1, rsaSPKI(modulus(100000), []byte{3}), ErrUnsupportedAlgorithm, "more than 8192 bits"},
		{"RSA modulus even", pkcs1, rsaSPKI(append(modulus(2040), 0), []byte{3}), ErrUnsupportedAlgorithm, "even"},
		{"RSA modulus negative", pkcs1, rsaSPKI(modulus(2048)[1:], []byte{3}), ErrUnsupportedAlgorithm, "not positive"},
		{"RSA modulus empty", pkcs1, rsaSPKI(nil, []byte{3}), ErrUnsupportedAlgorithm, "not positive"},
		{"RSA exponent 1", pkcs1, rsaSPKI(modulus(2048), []byte{1}), ErrUnsupportedAlgorithm, "exponent"},
		{"RSA exponent 4", pkcs1, rsaSPKI(modulus(2048), []byte{4}), ErrUnsupportedAlgorithm, "exponent"},
		{"RSA exponent empty", pkcs1, rsaSPKI(modulus(2048), nil), ErrUnsupportedAlgorithm, "not positive"},
		{"RSA exponent padded", pkcs1, rsaSPKI(modulus(2048), []byte{0, 0, 0, 0, 0, 3}), ErrBadSignature, "not made with"},
		{"RSA exponent of 32 bits", pkcs1, rsaSPKI(modulus(2048), []byte{0, 0x80, 0, 0, 1}), ErrUnsupportedAlgorithm, "31 bits"},
		{"RSA exponent of 31 bits", pkcs1, rsaSPKI(modulus(2048), []byte{0x7f, 0xff, 0xff, 0xff}), ErrBadSignature, "not made with"},
		{"RSA key no SEQUENCE", pkcs1, seq(algorithmID(pkcs1Arc+"\x01"), bitString([]byte{5, 0})), ErrUnsupportedAlgorithm, "RSAPublicKey"},
		{"RSA key with more", pkcs1, seq(algorithmID(pkcs1Arc+"\x01"), bitString(seq(tlv(2), tlv(2), tlv(2)))), ErrUnsupportedAlgorithm, "RSAPublicKey"},

		{"EC point off the curve", algECDSASHA256, ec(p256, append(slices.Clone(point[:64]), point[64]^1)), ErrUnsupportedAlgorithm, "P-256"},
		{"EC point compressed", algECDSASHA256, ec(p256, append([]byte{2}, point[1:33]...)), ErrUnsupportedAlgorithm, "P-256"},
		{"EC point empty", algECDSASHA256, ec(p256, nil), ErrUnsupportedAlgorithm, "P-256"},
		{"EC point at infinity", algECDSASHA256, ec(p256, []byte{0}), ErrUnsupportedAlgorithm, "P-256"},
		{"EC point of another curve", algECDSASHA256, ec("\x2b\x81\x04\x00\x22", point), ErrUnsupportedAlgorithm, "P-384"},
		{"secp256k1", algECDSASHA256, ec("\x2b\x81\x04\x00\x0a", point), ErrUnsupportedAlgorithm, "1.3.132.0.10"},
		{"EC parameters", algECDSASHA256, seq(algorithmID("\x2a\x86\x48\xce\x3d\x02\x01", seq()), bitString(point)), ErrUnsupportedAlgorithm, "no curve"},
		{"Ed25519 of 31 octets", algorithmID("\x2b\x65\x70"), seq(algorithmID("\x2b\x65\x70"), bitString(make([]byte, 31))), ErrUnsupportedAlgorithm, "31 bytes"},
		{"ML-DSA-44 key", algECDSASHA256, seq(algorithmID("\x60\x86\x48\x01\x65\x03\x04\x03\x11"), bitString(nil)), ErrUnsupportedAlgorithm, "2.16.840.1.101.3.4.3.17"},
		{"key with unused bits", algECDSASHA256, seq(algorithmID(pkcs1Arc+"\x01"), tlv(3, []byte{1, 0})), ErrUnsupportedAlgorithm, "unused bits"},
		{"key without octets", algECDSASHA256, seq(algorithmID(pkcs1Arc+"\x01"), tlv(3)), ErrUnsupportedAlgorithm, "unused bits"},
		{"key without OID", algECDSASHA256, seq(seq(), bitString(nil)), ErrUnsupportedAlgorithm, "no algorithm"},
		{"key with more", algECDSASHA256, seq(algorithmID(pkcs1Arc+"\x01"), bitString(nil), tlv(5)), ErrUnsupportedAlgorithm, "cannot be read"},
		{"empty key", algECDSASHA256, seq(), ErrUnsupportedAlgorithm, "cannot be read"},
	} {
		cert := signedBy(t, c.alg, func([]byte) []byte { return make([]byte, 256) })
		issuer := issuerWithKey(t, c.spki)
		if bytes.Equal(c.alg, algECDSASHA256) && c.sentinel == ErrUnsupportedAlgorithm {
			cert = leafSpec(t).parse(t)
		}
		for range 2 { // the second time from the remembered key
			err := cert.CheckSignatureFrom(issuer)
			if !errors.Is(err, c.sentinel) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %v", c.label, err)
			}
		}
	}
}

// TestKeyIsParsedOnce has one issuer asked by many at a time.
func TestKeyIsParsedOnce(t *testing.T) {
	c, issuer := leafSpec(t).parse(t), caSpec(t).parse(t)
	keys := make([]any, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			if err := c.CheckSignatureFrom(issuer); err != nil {
				t.Error(err)
			}
			keys[i], _ = issuer.publicKey()
		})
	}
	wg.Wait()
	for _, key := range keys {
		if key == nil || key != keys[0] {
			t.Fatalf("keys differ: %v", keys)
		}
	}
}

func TestOIDString(t *testing.T) {
	for in, want := range map[string]string{
		"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b": "1.2.840.113549.1.1.11",
		"\x00":                                 "0.0", "\x27": "0.39", "\x28": "1.0", "\x50": "2.0", "\x88\x37": "2.999",
		"": "", "\x2a\x86": "1.2...", "\x2a" + strings.Repeat("\xff", 20) + "\x01": "1.2...",
	} {
		if got := oidString([]byte(in)); got != want {
			t.Errorf("oidString(%x) = %s, not %s", in, got, want)
		}
	}
	if got := oidString([]byte(strings.Repeat("\x01", 1000))); len(got) > maxOIDString+8 {
		t.Errorf("a long OID takes %d characters", len(got))
	}
}

// TestStandardLibraryChain takes certificates as crypto/x509 makes them.
func TestStandardLibraryChain(t *testing.T) {
	key := testKey(t, "std")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "std"}, DNSNames: []string{"std.example"},
		NotBefore: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2055, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(der)
	if err != nil {
		t.Fatal(err)
	}
	if !c.NotAfter.Equal(template.NotAfter) || !c.IsCA || !c.KeyCertSign || !c.ServerAuth || !c.SelfIssued() {
		t.Errorf("misread: %+v", c.lay)
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		t.Error(err)
	}
}
