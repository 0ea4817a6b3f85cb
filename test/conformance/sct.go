package conformance

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
)

// publicKey is a log's key.
type publicKey struct {
	spki  []byte
	key   crypto.PublicKey
	logID [32]byte
	// algorithm is the SignatureAndHashAlgorithm of RFC 5246 section 7.4.1.4.1.
	algorithm [2]byte
}

// readPublicKey reads a key that may sign for a log (RFC 6962 section 2.1.4).
func readPublicKey(spki []byte) (*publicKey, error) {
	key, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, fmt.Errorf("reading the log's key: %w", err)
	}
	k := &publicKey{spki: spki, key: key, logID: sha256.Sum256(spki)}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().Name != "P-256" {
			return nil, fmt.Errorf("the log's key is on %s, RFC 6962 allows only P-256", key.Curve.Params().Name)
		}
		k.algorithm = [2]byte{4, 3}
	case *rsa.PublicKey:
		if key.N.BitLen() < 2048 {
			return nil, fmt.Errorf("the log's RSA key has %d bits, RFC 6962 asks for 2048", key.N.BitLen())
		}
		k.algorithm = [2]byte{4, 1}
	default:
		return nil, fmt.Errorf("the log's key is a %T, RFC 6962 allows ECDSA P-256 and RSA", key)
	}
	return k, nil
}

// ReadKey reads a SubjectPublicKeyInfo in base64.
func ReadKey(s string) ([]byte, error) {
	der, err := base64.StdEncoding.DecodeString(s)
	if err == nil {
		_, err = readPublicKey(der)
	}
	return der, err
}

// digitallySigned is a DigitallySigned structure (RFC 5246 section 4.7).
type digitallySigned struct {
	algorithm [2]byte
	signature []byte
}

func readDigitallySigned(b []byte) (d digitallySigned, err error) {
	if len(b) < 4 || int(binary.BigEndian.Uint16(b[2:4])) != len(b)-4 {
		return d, errors.New("it is not a DigitallySigned: two octets of algorithm, two of length, the signature")
	}
	return digitallySigned{[2]byte(b[:2]), b[4:]}, nil
}

// form checks what can be told of a signature without its message: the
// algorithm of the key, and for ECDSA a DER SEQUENCE of two INTEGERs.
func (k *publicKey) form(d digitallySigned) error {
	if d.algorithm != k.algorithm {
		return fmt.Errorf("the algorithm is %x, the key's is %x", d.algorithm, k.algorithm)
	}
	if _, ok := k.key.(*ecdsa.PublicKey); ok {
		_, _, err := readECDSASignature(d.signature)
		return err
	}
	return nil
}

func readECDSASignature(b []byte) (r, s *big.Int, err error) {
	e, err := readOne(b, tagSequence)
	if err != nil {
		return nil, nil, errors.New("the ECDSA signature is not a DER SEQUENCE")
	}
	list, err := readAll(e.content)
	if err != nil || len(list) != 2 || list[0].tag != tagInteger || list[1].tag != tagInteger {
		return nil, nil, errors.New("the ECDSA signature is not a SEQUENCE of two INTEGERs")
	}
	return new(big.Int).SetBytes(list[0].content), new(big.Int).SetBytes(list[1].content), nil
}

// verify checks a DigitallySigned over a message.
func (k *publicKey) verify(d digitallySigned, message []byte) error {
	if err := k.form(d); err != nil {
		return err
	}
	digest := sha256.Sum256(message)
	return verifyDigest(k.key, crypto.SHA256, digest[:], d.signature)
}

// sct is the answer to a submission.
type sct struct {
	version    int
	id         []byte
	timestamp  int64
	extensions []byte
	signature  []byte

	rawExtensions string // as it stands in the JSON
}

// readSCT reads the JSON of RFC 6962 section 4.1. Its errors are about form
// alone.
func readSCT(body []byte) (*sct, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	s := new(sct)
	number := func(name string) (int64, error) {
		n, err := strconv.ParseInt(string(fields[name]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is %s, not a whole number", name, orAbsent(fields[name]))
		}
		return n, nil
	}
	text := func(name string) (string, []byte, error) {
		var t string
		if err := json.Unmarshal(fields[name], &t); err != nil {
			return "", nil, fmt.Errorf("%q is %s, not a string", name, orAbsent(fields[name]))
		}
		b, err := base64.StdEncoding.Strict().DecodeString(t)
		if err != nil || base64.StdEncoding.EncodeToString(b) != t {
			return t, b, fmt.Errorf("%q is not standard base64 with padding: %q", name, t)
		}
		return t, b, nil
	}
	version, err := number("sct_version")
	s.version = int(version)
	var errs [4]error
	s.timestamp, errs[0] = number("timestamp")
	_, s.id, errs[1] = text("id")
	s.rawExtensions, s.extensions, errs[2] = text("extensions")
	_, s.signature, errs[3] = text("signature")
	return s, errors.Join(append(errs[:], err)...)
}

func orAbsent(b []byte) string {
	if len(b) == 0 {
		return "absent"
	}
	return string(b)
}

// index returns the leaf_index of SCT extensions (static-ct-api, SCT
// Extension), which are a list without duplicates.
func readExtensionList(b []byte) (index int64, types []byte, err error) {
	index = -1
	for len(b) > 0 {
		if len(b) < 3 || len(b)-3 < int(binary.BigEndian.Uint16(b[1:3])) {
			return index, types, errors.New("the list of extensions ends early")
		}
		typ, n := b[0], int(binary.BigEndian.Uint16(b[1:3]))
		data := b[3 : 3+n]
		b = b[3+n:]
		if bytes.IndexByte(types, typ) >= 0 {
			return index, types, fmt.Errorf("extension type %d is there twice", typ)
		}
		types = append(types, typ)
		if typ != 0 {
			continue
		}
		if n != 5 {
			return index, types, fmt.Errorf("leaf_index has %d bytes, not 5", n)
		}
		index = 0
		for _, c := range data {
			index = index<<8 | int64(c)
		}
	}
	return index, types, nil
}

// appendTimestampedEntry appends what SCT and MerkleTreeLeaf share: timestamp,
// entry_type, signed_entry and extensions (RFC 6962 sections 3.2 and 3.4).
func appendTimestampedEntry(b []byte, timestamp int64, e signedEntry, extensions []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(timestamp))
	if e.precert {
		b = append(b, 0, 1)
		b = append(b, e.issuerKeyHash[:]...)
	} else {
		b = append(b, 0, 0)
	}
	n := len(e.data)
	b = append(b, byte(n>>16), byte(n>>8), byte(n))
	b = append(b, e.data...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(extensions)))
	return append(b, extensions...)
}

// message returns what the SCT's signature is over.
func (s *sct) message(e signedEntry) []byte {
	return appendTimestampedEntry([]byte{0, 0}, s.timestamp, e, s.extensions) // v1, certificate_timestamp
}

// merkleTreeLeaf returns the leaf that the SCT promises.
func (s *sct) merkleTreeLeaf(e signedEntry) []byte {
	return appendTimestampedEntry([]byte{0, 0}, s.timestamp, e, s.extensions) // v1, timestamped_entry
}

// serialized returns the SCT as certificates embed it (RFC 6962 section 3.3).
func (s *sct) serialized() []byte {
	b := append([]byte{byte(s.version)}, s.id...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.timestamp))
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.extensions)))
	b = append(b, s.extensions...)
	return append(b, s.signature...)
}
