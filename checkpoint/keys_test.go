package checkpoint

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/mldsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
)

func testSeed(n byte) []byte { return bytes.Repeat([]byte{n}, SeedSize) }

func testSigner(t testing.TB, origin string) *Signer {
	t.Helper()
	k, err := KeysFromSeed(testSeed(1))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(origin, k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pkcs8(t *testing.T, key any, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestParseKeyPEM(t *testing.T) {
	seeded, err := KeysFromSeed(testSeed(1))
	if err != nil {
		t.Fatal(err)
	}
	file := pkcs8(t, seeded.ECDSA, nil)
	for name, b := range map[string][]byte{"plain": file, "blank lines after": append(file, "\n \r\n"...)} {
		k, err := ParseKey(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !k.ECDSA.Equal(seeded.ECDSA) || k.MLDSA != nil {
			t.Errorf("%s: got another key, or an ML-DSA key from nowhere", name)
		}
	}
}

// TestParseKeyRefuses is clause R3 of RFC 6962 section 2.1.4, as this log
// offers it: P-256 and nothing else, with an error that says so.
func TestParseKeyRefuses(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := pkcs8(t, p256, nil)
	sec1, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	p224, err224 := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	p384, err384 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p521, err521 := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	_, ed, errEd := ed25519.GenerateKey(rand.Reader)
	rsaKey, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	tests := []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "no PEM block in 0 bytes"},
		{"short seed", make([]byte, 31), "no PEM block in 31 bytes"},
		{"seed with newline", make([]byte, 33), "no PEM block in 33 bytes"},
		{"seed in hexadecimal", bytes.Repeat([]byte("ab"), 32), "no PEM block in 64 bytes"},
		{"P-224", pkcs8(t, p224, err224), "on P-224"},
		{"P-384", pkcs8(t, p384, err384), "on P-384"},
		{"P-521", pkcs8(t, p521, err521), "on P-521"},
		{"Ed25519", pkcs8(t, ed, errEd), "ed25519"},
		{"RSA", pkcs8(t, rsaKey, errRSA), "rsa"},
		{"SEC 1", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}), "openssl pkcs8 -topk8 -nocrypt"},
		{"encrypted", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: sec1}), "encrypted"},
		{"public key", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: sec1}), `"PUBLIC KEY"`},
		{"two blocks", append(bytes.Clone(file), file...), "after the first PEM block"},
		{"garbage in the block", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("garbage")}), "malformed PKCS#8"},
	}
	for _, tt := range tests {
		_, err := ParseKey(tt.content)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), acceptedKeys) {
			t.Errorf("%s: error %v, want one with %q that says what is accepted", tt.name, err, tt.want)
		}
	}
}

func TestKeysFromSeedLength(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33, 64} {
		if _, err := KeysFromSeed(make([]byte, n)); err == nil {
			t.Errorf("seed of %d bytes was accepted", n)
		}
	}
}

func TestNewSignerChecksKeys(t *testing.T) {
	good, err := KeysFromSeed(testSeed(1))
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mldsa65, err := mldsa.GenerateKey(mldsa.MLDSA65())
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]Keys{
		"none":      {},
		"zero":      {ECDSA: new(ecdsa.PrivateKey)},
		"P-384":     {ECDSA: p384},
		"ML-DSA-65": {ECDSA: good.ECDSA, MLDSA: mldsa65},
	} {
		if _, err := NewSigner("log.example", k); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
