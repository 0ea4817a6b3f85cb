package cert

import (
	"crypto"
	"errors"
	"path/filepath"
	"testing"

	"github.com/daybook-ct/daybook/internal/cases"
)

// addSeeds adds the generator's certificates and, where they are at hand, the
// cases', which Go's fuzzer then mutates.
func addSeeds(f *testing.F, add func(der []byte)) {
	for _, der := range malformations(f) {
		add(der)
	}
	s := leafSpec(f)
	add(s.der(f))
	for i := range len(s.extensions) + 1 {
		precert := s.clone()
		precert.extensions = insert(s.extensions, i, extPoison)
		add(precert.der(f))
	}
	add(caSpec(f).der(f))
	add(pscSpec(f, extAKI("x")).der(f))
	odd := leafSpec(f)
	odd.subject = seq(rdn("\x55\x04\x03", 30, "\xd8\x3d\xdd\x12\x00a"), rdn("\x55\x04\x0a", 20, "\xff"), rdn("\x55\x04\x0b", 28, "\x00\x01\xf5\x12"))
	odd.extensions = [][]byte{longForm(extSAN), extSAN, extPoison, extAKI("a"), extAKI("b")}
	odd.version, odd.uniqueIDs, odd.extra = nil, tlv(0x81, []byte{0, 1}), tlv(0xa4, tlv(5))
	odd.validity = validity(generalized("2027040112Z"), generalized("20270401123456.5+0100"))
	add(odd.der(f))

	dir, err := cases.Find("open")
	if err != nil {
		return // the other seeds will do
	}
	for _, pattern := range []string{"synthetic/*.pem", "odd/odd.pem"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			for i, der := range cases.ReadPEM(f, file) {
				if (i == 0 || filepath.Base(file) == "odd.pem") && len(der) < 4096 {
					add(der)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	addSeeds(f, func(der []byte) { f.Add(der) })
	f.Fuzz(func(t *testing.T, der []byte) {
		c, err := Parse(der)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || c != nil {
				t.Fatalf("Parse returns a certificate (%v), error %v", c != nil, err)
			}
			return
		}
		checkProperties(t, c)
	})
}

// FuzzPrecertTBS mutates extensions, so that what comes out parses and has its
// poison more often than with FuzzParse.
func FuzzPrecertTBS(f *testing.F) {
	f.Add([]byte{}, uint8(0), []byte("signer"), false)
	f.Add(extSAN, uint8(1), []byte{}, true)
	f.Add(append(longForm(extSAN), extAKI("key")...), uint8(2), []byte{0x30, 0}, true)
	f.Add(extn("\x2a\x03", make([]byte, 100)), uint8(0), make([]byte, 128), true)
	f.Add(append(seq(tlv(6, []byte("\x55\x1d\x23")), boolFalse, tlv(4), tlv(5)), extServerAuth...), uint8(9), []byte{}, true)
	base := leafSpec(f)
	base.signature = bitString(nil)
	f.Fuzz(func(t *testing.T, extensions []byte, at uint8, aki []byte, hasSigner bool) {
		s := base.clone()
		s.extensions = [][]byte{extensions}
		withPoison, err := Parse(s.der(t))
		if err != nil {
			return
		}
		// The fuzzer's bytes are a list of extensions: put the poison among them.
		list := elements(extensions)
		i := int(at) % (len(list) + 1)
		s.extensions = insert(list, i, extPoison)
		c, err := Parse(s.der(t))
		if err != nil {
			t.Fatalf("with a poison added: %v", err)
		}
		checkProperties(t, c)
		var signer *Certificate
		issuer := c.RawIssuer
		if hasSigner {
			signer = pscSpec(t, extn("\x55\x1d\x23", aki)).parse(t)
			issuer = signer.RawIssuer
		}
		tbs, err := c.PrecertTBS(signer)
		if err != nil {
			if !errors.Is(err, ErrPoison) && !errors.Is(err, ErrPrecertTBS) {
				t.Fatal(err)
			}
			if len(list) > 0 && withPoison.Poison == NoPoison && !hasSigner {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		want := s.clone()
		want.issuer, want.extensions = issuer, list
		if hasSigner {
			want.extensions = replaceAKI(list, aki)
		}
		if string(tbs) != string(want.tbs()) {
			t.Fatalf("TBS is %x, not %x", tbs, want.tbs())
		}
	})
}

// replaceAKI puts value into the AuthorityKeyIdentifier extension.
func replaceAKI(extensions [][]byte, value []byte) [][]byte {
	out := make([][]byte, 0, len(extensions))
	for _, x := range extensions {
		if parts := elements(elementBody(x)); string(elementBody(parts[0])) == "\x55\x1d\x23" {
			for i := range parts {
				if parts[i][0] == 0x04 {
					parts[i] = tlv(0x04, value)
					break
				}
			}
			x = seq(parts...)
		}
		out = append(out, x)
	}
	return out
}

// FuzzNamesJSON mutates a subject and a SubjectAltName.
func FuzzNamesJSON(f *testing.F) {
	f.Add(elementBody(name("a.example")), []byte("a.example"), uint8(12))
	f.Add(elementBody(seq(rdn("\x55\x04\x0a", 20, "\xff"))), []byte("\xff\xfe<>"), uint8(30))
	f.Add([]byte{}, []byte("\x00\x01\xf5\x12"), uint8(28))
	base := leafSpec(f)
	base.signature = bitString(nil)
	f.Fuzz(func(t *testing.T, subject, san []byte, tag uint8) {
		s := base.clone()
		s.subject = seq(subject, rdn("\x55\x04\x03", tag&0xdf, string(san)))
		s.extensions = [][]byte{sanWith(san), sanWith(tlv(0x82, san), tlv(0x87, san)), extn("\x55\x1d\x11", san)}
		checkProperties(t, s.parse(t))
	})
}

// FuzzSignature mutates the parts that a signature check looks at.
func FuzzSignature(f *testing.F) {
	tbs := []byte("signed bytes")
	ec := testKey(f, "ca")
	sign := signer(f, ec, crypto.SHA256)
	f.Add(marshalSPKI(f, ec.Public()), algECDSASHA256, sign(tbs))
	f.Add(rsaSPKI(append([]byte{0, 0xff}, append(make([]byte, 126), 1)...), []byte{3}), algorithmID(pkcs1Arc+"\x05"), make([]byte, 128))
	f.Add(rsaSPKI(append([]byte{0, 0xff}, append(make([]byte, 126), 1)...), []byte{1, 0, 1}), algorithmID(pssOID, pssParameters(sha256ID, sha256ID, 32, 1)), make([]byte, 128))
	f.Add(seq(algorithmID("\x2b\x65\x70"), bitString(make([]byte, 32))), algorithmID("\x2b\x65\x70"), make([]byte, 64))
	f.Add([]byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, spki, alg, sig []byte) {
		issuer := &Certificate{RawSPKI: spki}
		err := (&Certificate{RawTBS: tbs, rawSigAlg: alg, signature: sig}).CheckSignatureFrom(issuer)
		if err != nil {
			if !errors.Is(err, ErrBadSignature) && !errors.Is(err, ErrUnsupportedAlgorithm) {
				t.Fatal(err)
			}
			return
		}
		// A signature that verifies has no other form of its length, nor a
		// longer or shorter one.
		for _, other := range [][]byte{append(sig[:len(sig):len(sig)], 0), sig[:len(sig)-1], append([]byte{0}, sig...)} {
			if (&Certificate{RawTBS: tbs, rawSigAlg: alg, signature: other}).CheckSignatureFrom(issuer) == nil {
				t.Fatalf("%x verifies, and so does %x", sig, other)
			}
		}
	})
}
