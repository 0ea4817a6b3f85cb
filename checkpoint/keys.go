package checkpoint

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/mldsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"filippo.io/keygen"
)

// SeedSize is the length in bytes of a seed file.
const SeedSize = 32

// Derivation of a log's keys from its seed. These are the values Sunlight uses,
// so that an operator can bring a log's seed along.
const (
	seedSalt      = "sunlight"
	infoECDSA     = "ECDSA P-256 log key"
	infoMLDSA     = "ML-DSA-44 log key"
	derivedLength = 32 // bytes of HKDF output for either key
)

const acceptedKeys = "a log key is a seed file of exactly 32 bytes or a PKCS#8 PEM file with an ECDSA P-256 key"

// Keys are the private keys of one log.
type Keys struct {
	ECDSA *ecdsa.PrivateKey // P-256; signs SCTs and tree heads
	MLDSA *mldsa.PrivateKey // ML-DSA-44; cosigns tree heads. Nil when the key came from a PEM file
}

// KeysFromSeed derives both keys from a seed of SeedSize bytes: HKDF-SHA256
// with a salt and an info of their own, then c2sp.org/det-keygen for the P-256
// key, and the output as the seed of the ML-DSA-44 key (FIPS 204, KeyGen_internal).
func KeysFromSeed(seed []byte) (Keys, error) {
	if len(seed) != SeedSize {
		return Keys{}, fmt.Errorf("seed has %d bytes, not %d", len(seed), SeedSize)
	}
	secret, err := derive(seed, infoECDSA)
	if err != nil {
		return Keys{}, err
	}
	k, err := keygen.ECDSA(elliptic.P256(), secret)
	if err != nil {
		return Keys{}, fmt.Errorf("deriving the ECDSA key: %w", err)
	}
	if secret, err = derive(seed, infoMLDSA); err != nil {
		return Keys{}, err
	}
	m, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), secret)
	if err != nil {
		return Keys{}, fmt.Errorf("deriving the ML-DSA key: %w", err)
	}
	return Keys{ECDSA: k, MLDSA: m}, nil
}

func derive(seed []byte, info string) ([]byte, error) {
	b, err := hkdf.Key(sha256.New, seed, []byte(seedSalt), info, derivedLength)
	if err != nil {
		return nil, fmt.Errorf("deriving the %s: %w", info, err)
	}
	return b, nil
}

// ParseKey reads the content of a key file: a seed of SeedSize bytes, or a
// PKCS#8 PEM block with an ECDSA P-256 key, which comes without an ML-DSA key.
// RFC 6962 section 2.1.4 allows a log no other ECDSA curve. Errors never quote the content.
func ParseKey(b []byte) (Keys, error) {
	if len(b) == SeedSize {
		return KeysFromSeed(b)
	}
	block, rest := pem.Decode(b)
	if block == nil {
		return Keys{}, fmt.Errorf("no seed and no PEM block in %d bytes: %s", len(b), acceptedKeys)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return Keys{}, fmt.Errorf("content after the first PEM block: %s", acceptedKeys)
	}
	switch block.Type {
	case "PRIVATE KEY":
	case "EC PRIVATE KEY":
		return Keys{}, fmt.Errorf("PEM block is in the older SEC 1 form (convert it with openssl pkcs8 -topk8 -nocrypt): %s", acceptedKeys)
	case "ENCRYPTED PRIVATE KEY":
		return Keys{}, fmt.Errorf("PEM block is encrypted (decrypt it with openssl pkcs8): %s", acceptedKeys)
	default:
		return Keys{}, fmt.Errorf("PEM block is a %q: %s", block.Type, acceptedKeys)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return Keys{}, fmt.Errorf("malformed PKCS#8 key: %s", acceptedKeys)
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return Keys{}, fmt.Errorf("key is a %T: %s", key, acceptedKeys)
	}
	keys := Keys{ECDSA: k}
	return keys, keys.check()
}

func (k Keys) check() error {
	if k.ECDSA == nil || k.ECDSA.Curve == nil {
		return errors.New("no ECDSA key: " + acceptedKeys)
	}
	if k.ECDSA.Curve != elliptic.P256() {
		return fmt.Errorf("ECDSA key is on %s: %s", k.ECDSA.Curve.Params().Name, acceptedKeys)
	}
	return nil
}
