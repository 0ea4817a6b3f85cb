package cert

import (
	"fmt"
	"testing"
)

// benchPrecert is an ordinary precertificate of about 1 kB.
func benchPrecert(b *testing.B) *spec {
	s := leafSpec(b)
	var names [][]byte
	for i := range 16 {
		names = append(names, tlv(0x82, fmt.Appendf(nil, "host-%d.subdomain.example", i)))
	}
	s.subject = seq(rdn("\x55\x04\x06", 19, "XX"), rdn("\x55\x04\x0a", 12, "Example & Co"), rdn("\x55\x04\x03", 12, "host-0.subdomain.example"))
	s.extensions = [][]byte{
		criticalExtn("\x55\x1d\x0f", tlv(3, []byte{7, 0x80})), extServerAuth, criticalExtn("\x55\x1d\x13", seq()),
		extSKI("12345678901234567890"), extAKI("12345678901234567890"),
		extn("\x2b\x06\x01\x05\x05\x07\x01\x01", make([]byte, 80)), // authorityInfoAccess
		sanWith(names...), extn("\x55\x1d\x20", make([]byte, 12)), extn("\x55\x1d\x1f", make([]byte, 60)), extPoison,
	}
	return s
}

func BenchmarkParse(b *testing.B) {
	der := benchPrecert(b).der(b)
	b.SetBytes(int64(len(der)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(der); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrecertTBS(b *testing.B) {
	c := benchPrecert(b).parse(b)
	psc := pscSpec(b, extAKI("12345678901234567890")).parse(b)
	for label, signer := range map[string]*Certificate{"plain": nil, "signer": psc} {
		b.Run(label, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.PrecertTBS(signer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNamesJSON(b *testing.B) {
	c := benchPrecert(b).parse(b)
	b.ReportAllocs()
	for b.Loop() {
		_ = c.NamesJSON()
	}
}

// BenchmarkCheckSignature is with the issuer's key parsed already, as it is for
// a hot CA.
func BenchmarkCheckSignature(b *testing.B) {
	c, issuer := leafSpec(b).parse(b), caSpec(b).parse(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.CheckSignatureFrom(issuer); err != nil {
			b.Fatal(err)
		}
	}
}
