package cert

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// insert returns extensions with x at index i.
func insert(extensions [][]byte, i int, x []byte) [][]byte {
	return slices.Insert(slices.Clone(extensions), i, x)
}

// TestPrecertTBS puts the poison at each place, among extensions of sizes that
// cross those at which length headers grow, and compares with a
// TBSCertificate that never had it.
func TestPrecertTBS(t *testing.T) {
	for _, filler := range []int{0, 20, 60, 100, 120, 127, 128, 200, 250, 255, 256, 300, 400, 65000, 65300, 65500, 65535, 65536, 70000} {
		for jitter := range 24 {
			final := leafSpec(t)
			final.extensions = append(final.extensions, extn("\x2a\x03", make([]byte, filler+jitter)))
			want := final.tbs()
			for i := 0; i <= len(final.extensions); i += 1 + filler/1000 {
				precert := final.clone()
				precert.extensions = insert(final.extensions, i, extPoison)
				precert.signature = bitString(nil)
				c := precert.parse(t)
				if c.Poison != ValidPoison {
					t.Fatalf("Poison = %v, %v", c.Poison, c.PoisonProblem())
				}
				got, err := c.PrecertTBS(nil)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) || cap(got) != len(got) {
					t.Fatalf("filler %d, poison at %d: TBS differs (%d bytes, capacity %d, not %d)", filler+jitter, i, len(got), cap(got), len(want))
				}
			}
		}
	}
}

// TestPrecertTBSKeepsBytes cuts around encodings that re-encoding would mend.
func TestPrecertTBSKeepsBytes(t *testing.T) {
	for label, change := range map[string]func(*spec){
		"explicit critical FALSE": func(s *spec) {
			s.extensions[1] = seq(tlv(6, []byte("\x55\x1d\x25")), boolFalse, tlv(4, seq()))
		},
		"critical TRUE as 01":    func(s *spec) { s.extensions[1] = seq(tlv(6, []byte{42}), tlv(1, []byte{1}), tlv(4)) },
		"BER lengths":            func(s *spec) { s.extensions[0], s.subject = longForm(s.extensions[0]), longForm(s.subject) },
		"duplicate extension":    func(s *spec) { s.extensions = append(s.extensions, extSAN) },
		"extension with more":    func(s *spec) { s.extensions[0] = seq(tlv(6, []byte{42}), tlv(4), tlv(5)) },
		"version 1":              func(s *spec) { s.version = nil },
		"non-minimal serial":     func(s *spec) { s.serial = tlv(2, []byte{0, 0, 1}) },
		"unique identifiers":     func(s *spec) { s.uniqueIDs = tlv(0x82, []byte{0, 1}) },
		"field of a later X.509": func(s *spec) { s.extra = tlv(0xa4, tlv(5)) },
		"SCT list":               func(s *spec) { s.extensions[0] = extn("\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x02", nil) },
	} {
		final := leafSpec(t)
		change(final)
		precert := final.clone()
		precert.extensions = insert(final.extensions, 1, extPoison)
		c := precert.parse(t)
		if c.HasSCTList {
			t.Errorf("%s: a precertificate counts as a final certificate with SCTs", label)
		}
		got, err := c.PrecertTBS(nil)
		if err != nil {
			t.Errorf("%s: %v", label, err)
		} else if !bytes.Equal(got, final.tbs()) {
			t.Errorf("%s: TBS is %x, not %x", label, got, final.tbs())
		}
	}
}

// pscSpec is a Precertificate Signing Certificate with the given further
// extensions.
func pscSpec(t testing.TB, extensions ...[]byte) *spec {
	s := caSpec(t)
	s.issuer, s.subject = name("The Final Issuer, which has a name longer than that of the signer"), name("Test CA")
	s.extensions = append([][]byte{extCA, extPSC}, extensions...)
	return s
}

// TestPrecertTBSWithSigner builds the TBSCertificate that the final issuer
// would sign, and compares (RFC 6962 section 3.2).
func TestPrecertTBSWithSigner(t *testing.T) {
	for _, filler := range []int{0, 100, 128, 230, 60000} {
		for _, akiSize := range []int{0, 1, 6, 20, 90, 128, 300, 70000} {
			id := strings.Repeat("k", akiSize)
			signer := pscSpec(t, extAKI(id)).parse(t)
			final := leafSpec(t)
			final.issuer = pscSpec(t).issuer
			final.extensions = [][]byte{extSAN, extAKI(id), extServerAuth, extn("\x2a\x03", make([]byte, filler))}
			for i := range len(final.extensions) + 1 {
				precert := final.clone()
				precert.issuer = name("Test CA")
				precert.extensions[1] = extAKI("of the signer's key")
				precert.extensions = insert(precert.extensions, i, extPoison)
				got, err := precert.parse(t).PrecertTBS(signer)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, final.tbs()) || cap(got) != len(got) {
					t.Fatalf("filler %d, AKI of %d, poison at %d: TBS differs", filler, akiSize, i)
				}
			}
		}
	}
}

func TestPrecertTBSKeepsAKIExtension(t *testing.T) {
	aki := func(value []byte, critical ...[]byte) []byte {
		return seq(append(append([][]byte{tlv(6, []byte("\x55\x1d\x23"))}, critical...), tlv(4, value), tlv(5))...)
	}
	for label, critical := range map[string][]byte{"critical": boolTrue, "explicit FALSE": boolFalse, "absent": nil} {
		final := leafSpec(t)
		final.issuer = pscSpec(t).issuer
		final.extensions = [][]byte{aki([]byte("any bytes"), critical), extSAN}
		precert := final.clone()
		precert.issuer = name("Test CA")
		precert.extensions = [][]byte{aki(seq(tlv(0x80, []byte("signer"))), critical), extSAN, extPoison}
		signer := pscSpec(t, extn("\x55\x1d\x23", []byte("any bytes"))).parse(t)
		got, err := precert.parse(t).PrecertTBS(signer)
		if err != nil {
			t.Errorf("%s: %v", label, err)
		} else if !bytes.Equal(got, final.tbs()) {
			t.Errorf("%s: TBS is %x, not %x", label, got, final.tbs())
		}
	}
	// Neither has one: only the issuer changes.
	final := leafSpec(t)
	final.issuer = pscSpec(t).issuer
	final.extensions = [][]byte{extSAN}
	precert := final.clone()
	precert.issuer = name("Test CA")
	precert.extensions = [][]byte{extPoison, extSAN}
	got, err := precert.parse(t).PrecertTBS(pscSpec(t).parse(t))
	if err != nil || !bytes.Equal(got, final.tbs()) {
		t.Errorf("no AKI anywhere: %x, %v, not %x", got, err, final.tbs())
	}
}

func TestPrecertTBSRefuses(t *testing.T) {
	poison := "\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x03"
	plain := pscSpec(t).parse(t)
	withAKI := pscSpec(t, extAKI("final issuer")).parse(t)
	twoAKIs := pscSpec(t, extAKI("final issuer"), extAKI("another")).parse(t)
	for _, c := range []struct {
		label      string
		extensions [][]byte
		signer     *Certificate
		sentinel   error
		message    string
	}{
		{"no poison", [][]byte{extSAN}, nil, ErrPoison, "not a precertificate"},
		{"no extensions", nil, nil, ErrPoison, "not a precertificate"},
		{"not critical", [][]byte{extSAN, extn(poison, []byte{5, 0})}, nil, ErrPoison, "not critical"},
		{"critical FALSE", [][]byte{extSAN, seq(tlv(6, []byte(poison)), boolFalse, tlv(4, tlv(5)))}, nil, ErrPoison, "not critical"},
		{"empty value", [][]byte{extSAN, criticalExtn(poison, nil)}, nil, ErrPoison, "not NULL"},
		{"value 05 00 00", [][]byte{extSAN, criticalExtn(poison, []byte{5, 0, 0})}, nil, ErrPoison, "not NULL"},
		{"value 05 81 00", [][]byte{extSAN, criticalExtn(poison, []byte{5, 0x81, 0})}, nil, ErrPoison, "not NULL"},
		{"more after the value", [][]byte{extSAN, seq(tlv(6, []byte(poison)), boolTrue, tlv(4, tlv(5)), tlv(5))}, nil, ErrPoison, "after its value"},
		{"twice", [][]byte{extPoison, extSAN, extPoison}, nil, ErrPoison, "more than once"},
		{"once right, once wrong", [][]byte{extPoison, extSAN, extn(poison, nil)}, nil, ErrPoison, "more than once"},
		{"only extension", [][]byte{extPoison}, nil, ErrPrecertTBS, "only extension"},
		{"AKI, signer without", [][]byte{extPoison, extAKI("x")}, plain, ErrPrecertTBS, "none to replace it"},
		{"no AKI, signer with", [][]byte{extPoison, extSAN}, withAKI, ErrPrecertTBS, "has no AuthorityKeyIdentifier"},
		{"two AKIs", [][]byte{extPoison, extAKI("x"), extAKI("x")}, withAKI, ErrPrecertTBS, "more than one"},
		{"AKI, signer with two", [][]byte{extPoison, extAKI("x")}, twoAKIs, ErrPrecertTBS, "more than one"},
		{"AKI in BER", [][]byte{extPoison, longForm(extAKI("x"))}, withAKI, ErrPrecertTBS, "not DER"},
		{"AKI value in BER", [][]byte{extPoison, seq(tlv(6, []byte("\x55\x1d\x23")), longForm(tlv(4)))}, withAKI, ErrPrecertTBS, "not DER"},
	} {
		s := leafSpec(t)
		s.extensions = c.extensions
		p := s.parse(t)
		tbs, err := p.PrecertTBS(c.signer)
		if tbs != nil || !errors.Is(err, c.sentinel) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: PrecertTBS = %x, %v", c.label, tbs, err)
		}
		bad := c.sentinel == ErrPoison && c.message != "not a precertificate"
		if problem := p.PoisonProblem(); bad != (problem != nil) || bad != (p.Poison == InvalidPoison) {
			t.Errorf("%s: Poison = %v, PoisonProblem = %v", c.label, p.Poison, problem)
		}
	}
	for label, extensions := range map[string][]byte{
		"[3] in BER":      longForm(tlv(0xa3, seq(extSAN, extPoison))),
		"SEQUENCE in BER": tlv(0xa3, longForm(seq(extSAN, extPoison))),
	} {
		s := leafSpec(t)
		s.extensions, s.extra = nil, extensions
		if _, err := s.parse(t).PrecertTBS(nil); !errors.Is(err, ErrPrecertTBS) {
			t.Errorf("%s: %v", label, err)
		}
	}
}
