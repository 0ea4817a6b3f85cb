package cert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"testing"
)

// The generator of these tests writes certificates element by element, so that
// any of them can be odd. It shares no code with the reader.

// tlv returns a DER element.
func tlv(tag byte, parts ...[]byte) []byte {
	content := bytes.Join(parts, nil)
	n := len(content)
	var head []byte
	switch {
	case n < 1<<7:
		head = []byte{tag, byte(n)}
	case n < 1<<8:
		head = []byte{tag, 0x81, byte(n)}
	case n < 1<<16:
		head = []byte{tag, 0x82, byte(n >> 8), byte(n)}
	default:
		head = []byte{tag, 0x83, byte(n >> 16), byte(n >> 8), byte(n)}
	}
	return append(head, content...)
}

func seq(parts ...[]byte) []byte { return tlv(0x30, parts...) }

// longForm re-encodes an element of less than 64 KiB with a length of three
// octets, which is BER only.
func longForm(element []byte) []byte {
	body := elementBody(element)
	n := len(body)
	return append([]byte{element[0], 0x83, byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

// elementBody returns the content of the one element in b.
func elementBody(b []byte) []byte {
	head := 2
	if b[1] > 0x80 {
		head += int(b[1] - 0x80)
	}
	return b[head:]
}

// elements splits the content of a constructed element. Lengths may be BER. A
// rest that is no element is returned as the last one.
func elements(b []byte) [][]byte {
	var out [][]byte
	for len(b) > 1 {
		n, head := int(b[1]), 2
		if n > 0x80 && n <= 0x84 && len(b) >= 2+n-0x80 {
			head += n - 0x80
			n = 0
			for _, octet := range b[2:head] {
				n = n<<8 | int(octet)
			}
		}
		if n > len(b)-head {
			break
		}
		out = append(out, b[:head+n])
		b = b[head+n:]
	}
	if len(b) > 0 {
		out = append(out, b)
	}
	return out
}

var (
	algECDSASHA256 = seq(tlv(0x06, []byte("\x2a\x86\x48\xce\x3d\x04\x03\x02")))
	boolTrue       = tlv(0x01, []byte{0xff})
	boolFalse      = tlv(0x01, []byte{0})
)

func name(cn string) []byte { return seq(rdn("\x55\x04\x03", 0x0c, cn)) }

func rdn(oid string, tag byte, value string) []byte {
	return tlv(0x31, seq(tlv(0x06, []byte(oid)), tlv(tag, []byte(value))))
}

func extn(oid string, value []byte) []byte {
	return seq(tlv(0x06, []byte(oid)), tlv(0x04, value))
}

func criticalExtn(oid string, value []byte) []byte {
	return seq(tlv(0x06, []byte(oid)), boolTrue, tlv(0x04, value))
}

var (
	extPoison     = criticalExtn("\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x03", []byte{5, 0})
	extSAN        = extn("\x55\x1d\x11", seq(tlv(0x82, []byte("a.example")), tlv(0x87, []byte{192, 0, 2, 1})))
	extServerAuth = extn("\x55\x1d\x25", seq(tlv(0x06, []byte("\x2b\x06\x01\x05\x05\x07\x03\x01"))))
	extCA         = criticalExtn("\x55\x1d\x13", seq(boolTrue))
	extCertSign   = criticalExtn("\x55\x1d\x0f", tlv(0x03, []byte{1, 0x06}))
	extPSC        = extn("\x55\x1d\x25", seq(tlv(0x06, []byte("\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x04"))))
)

func extAKI(id string) []byte { return extn("\x55\x1d\x23", seq(tlv(0x80, []byte(id)))) }
func extSKI(id string) []byte { return extn("\x55\x1d\x0e", tlv(0x04, []byte(id))) }

// spec is a certificate in pieces, each with its header.
type spec struct {
	version, serial, innerAlg, issuer, validity, subject, spki []byte
	uniqueIDs                                                  []byte
	extensions                                                 [][]byte // none: the field is absent
	extra                                                      []byte   // at the end of the TBSCertificate
	outerAlg                                                   []byte
	signature                                                  []byte // whole BIT STRING; nil: signed with key
	key                                                        *ecdsa.PrivateKey
}

func validity(times ...[]byte) []byte { return seq(times...) }

func utc(s string) []byte         { return tlv(0x17, []byte(s)) }
func generalized(s string) []byte { return tlv(0x18, []byte(s)) }

// leafSpec returns an ordinary final certificate, issued by the CA of caSpec.
func leafSpec(t testing.TB) *spec {
	return &spec{
		version: tlv(0xa0, tlv(2, []byte{2})), serial: tlv(2, []byte{0x12, 0x34}),
		innerAlg: algECDSASHA256, outerAlg: algECDSASHA256,
		issuer: name("Test CA"), subject: name("leaf"),
		validity:   validity(utc("270101000000Z"), utc("270401000000Z")),
		spki:       marshalSPKI(t, testKey(t, "leaf").Public()),
		extensions: [][]byte{extSAN, extServerAuth, extAKI("ca key"), extSKI("leaf key")},
		key:        testKey(t, "ca"),
	}
}

// caSpec returns a self-signed CA.
func caSpec(t testing.TB) *spec {
	s := leafSpec(t)
	s.subject = s.issuer
	s.spki = marshalSPKI(t, s.key.Public())
	s.extensions = [][]byte{extCA, extCertSign, extSKI("ca key")}
	return s
}

func (s *spec) clone() *spec {
	c := *s
	c.extensions = slices.Clone(s.extensions)
	return &c
}

func (s *spec) tbs() []byte {
	parts := [][]byte{s.version, s.serial, s.innerAlg, s.issuer, s.validity, s.subject, s.spki, s.uniqueIDs}
	if len(s.extensions) > 0 {
		parts = append(parts, tlv(0xa3, seq(s.extensions...)))
	}
	return seq(append(parts, s.extra)...)
}

func (s *spec) der(t testing.TB) []byte {
	return seq(s.tbs(), s.outerAlg, s.signed(t))
}

func (s *spec) signed(t testing.TB) []byte {
	t.Helper()
	if s.signature != nil {
		return s.signature
	}
	digest := sha256.Sum256(s.tbs())
	sig, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return bitString(sig)
}

func bitString(b []byte) []byte { return tlv(0x03, []byte{0}, b) }

func (s *spec) parse(t testing.TB) *Certificate {
	t.Helper()
	c, err := Parse(s.der(t))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

// testKey returns a P-256 key that depends on its label alone.
func testKey(t testing.TB, label string) *ecdsa.PrivateKey {
	t.Helper()
	scalar := sha256.Sum256([]byte("daybook cert test key " + label))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func marshalSPKI(t testing.TB, pub crypto.PublicKey) []byte {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return spki
}
