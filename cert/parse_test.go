package cert

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseFields(t *testing.T) {
	s := leafSpec(t)
	s.extensions = append(s.extensions, extn("\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x02", tlv(4, []byte("scts"))))
	der := s.der(t)
	c, err := Parse(der)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		field     string
		got, want []byte
	}{
		{"Raw", c.Raw, der},
		{"RawTBS", c.RawTBS, s.tbs()},
		{"RawIssuer", c.RawIssuer, s.issuer},
		{"RawSubject", c.RawSubject, s.subject},
		{"RawSPKI", c.RawSPKI, s.spki},
	} {
		if !bytes.Equal(f.got, f.want) {
			t.Errorf("%s = %x, not %x", f.field, f.got, f.want)
		}
	}
	if c.Fingerprint != sha256.Sum256(der) {
		t.Error("Fingerprint is not the SHA-256 of the certificate")
	}
	if c.IssuerKeyHash() != sha256.Sum256(s.spki) {
		t.Error("IssuerKeyHash is not the SHA-256 of the SubjectPublicKeyInfo")
	}
	if want := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC); !c.NotBefore.Equal(want) {
		t.Errorf("NotBefore = %v, not %v", c.NotBefore, want)
	}
	if want := time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC); !c.NotAfter.Equal(want) {
		t.Errorf("NotAfter = %v, not %v", c.NotAfter, want)
	}
	if c.HasBasicConstraints || c.HasKeyUsage || !c.HasEKU || !c.ServerAuth || c.AnyEKUOnly || c.PrecertSigning || !c.HasSCTList || c.Poison != NoPoison {
		t.Errorf("extensions misread: %+v", c)
	}
	if v, ok := c.AuthorityKeyID(); !ok || !bytes.Equal(v, seq(tlv(0x80, []byte("ca key")))) {
		t.Errorf("AuthorityKeyID = %x, %v", v, ok)
	}
	if v, ok := c.SubjectKeyID(); !ok || !bytes.Equal(v, tlv(4, []byte("leaf key"))) {
		t.Errorf("SubjectKeyID = %x, %v", v, ok)
	}

	ca := caSpec(t).parse(t)
	if !ca.HasBasicConstraints || !ca.IsCA || !ca.HasKeyUsage || !ca.KeyCertSign || ca.HasEKU || ca.HasSCTList {
		t.Errorf("extensions of the CA misread: %+v", ca)
	}
	if v, ok := ca.AuthorityKeyID(); ok {
		t.Errorf("AuthorityKeyID of a CA without one = %x", v)
	}
	if !c.IssuerIs(ca) || ca.IssuerIs(c) || c.SelfIssued() || !ca.SelfIssued() {
		t.Error("names compared wrongly")
	}
	if err := c.CheckSignatureFrom(ca); err != nil {
		t.Error(err)
	}
}

// malformations are certificates that are refused: everything that could be
// changed without breaking the signature, and what has no structure.
func malformations(t testing.TB) map[string][]byte {
	base := leafSpec(t)
	der := base.der(t)
	tbs, alg, sig := base.tbs(), base.outerAlg, base.signed(t)
	with := func(change func(*spec)) []byte {
		s := base.clone()
		change(s)
		return s.der(t)
	}
	unused := slices.Clone(sig)
	unused[2] = 1
	return map[string][]byte{
		"PEM text instead of DER":                                   []byte("-----BEGIN CERTIFICATE-----\nMIIB"),
		"not an ASN.1 SEQUENCE, or cut off":                         der[:len(der)-1],
		"not an ASN.1 SEQUENCE, or cut off (empty)":                 {},
		"not an ASN.1 SEQUENCE, or cut off (one octet)":             {0x30},
		"not an ASN.1 SEQUENCE, or cut off (SET)":                   tlv(0x31, tbs, alg, sig),
		"not an ASN.1 SEQUENCE, or cut off (indefinite)":            slices.Concat([]byte{0x30, 0x80}, tbs, alg, sig, []byte{0, 0}),
		"not an ASN.1 SEQUENCE, or cut off (length of 2^32)":        slices.Concat([]byte{0x30, 0x85, 1, 0, 0, 0, 0}, tbs, alg, sig),
		"not an ASN.1 SEQUENCE, or cut off (length of five octets)": slices.Concat([]byte{0x30, 0x85, 0, 0, 0, der[2], der[3]}, tbs, alg, sig),
		"not an ASN.1 SEQUENCE, or cut off (huge length)":           slices.Concat([]byte{0x30, 0x84, 0xff, 0xff, 0xff, 0xff}, tbs, alg, sig),
		"trailing data after the certificate":                       append(slices.Clone(der), 0),
		"the length of the outer SEQUENCE is not DER":               longForm(der),

		"the TBSCertificate is missing or its header is not DER":                   seq(longForm(tbs), alg, sig),
		"the TBSCertificate is missing or its header is not DER (empty)":           seq(),
		"the outer signatureAlgorithm is missing or its header is not DER":         seq(tbs, longForm(alg), sig),
		"the outer signatureAlgorithm is missing or its header is not DER (short)": seq(tbs),
		"the outer signatureAlgorithm is missing or its header is not DER (81)":    seq(tbs, slices.Concat([]byte{0x30, 0x81}, alg[1:]), sig),
		"the signature BIT STRING is missing or its header is not DER (81)":        seq(tbs, alg, slices.Concat([]byte{0x03, 0x81}, sig[1:])),
		"the signature BIT STRING is missing or its header is not DER":             seq(tbs, alg, longForm(sig)),
		"the signature BIT STRING is missing or its header is not DER (cons.)":     seq(tbs, alg, tlv(0x23, sig)),
		"the signature BIT STRING is missing or its header is not DER (short)":     seq(tbs, alg),
		"the outer SEQUENCE has elements after the signature":                      seq(tbs, alg, sig, tlv(5)),
		"the signature BIT STRING has no unused bits octet":                        seq(tbs, alg, tlv(0x03)),
		"the signature BIT STRING has unused bits":                                 seq(tbs, alg, unused),
		"the outer signatureAlgorithm differs":                                     with(func(s *spec) { s.outerAlg = seq(elementBody(algECDSASHA256), tlv(5)) }),

		"the version cannot be read":                          with(func(s *spec) { s.version = []byte{0xa0, 0x80} }),
		"the serial number is missing":                        with(func(s *spec) { s.serial = nil }),
		"the issuer name is missing":                          with(func(s *spec) { s.issuer = tlv(0x31) }),
		"the validity is missing":                             with(func(s *spec) { s.validity = tlv(0x31) }),
		"the subject name is missing":                         with(func(s *spec) { s.subject = tlv(5) }),
		"the SubjectPublicKeyInfo is missing":                 with(func(s *spec) { s.spki = nil }),
		"the validity has not two times":                      with(func(s *spec) { s.validity = validity(utc("270101000000Z")) }),
		"the NotAfter time cannot be read":                    with(func(s *spec) { s.validity = validity(utc("270101000000Z"), utc("27040100")) }),
		"a unique identifier cannot be read":                  with(func(s *spec) { s.uniqueIDs = []byte{0x81, 0x80} }),
		"the extensions cannot be read":                       with(func(s *spec) { s.extensions = nil; s.extra = []byte{0xa3, 0x80} }),
		"the extensions are not one SEQUENCE":                 with(func(s *spec) { s.extensions = nil; s.extra = tlv(0xa3, seq(extSAN), seq(extSAN)) }),
		"an extension is not a SEQUENCE of":                   with(func(s *spec) { s.extensions = append(s.extensions, tlv(5)) }),
		"an extension is not a SEQUENCE of (no OID)":          with(func(s *spec) { s.extensions = append(s.extensions, seq(tlv(4))) }),
		"an extension is not a SEQUENCE of (no value)":        with(func(s *spec) { s.extensions = append(s.extensions, seq(tlv(6, []byte{42}))) }),
		"an extension is not a SEQUENCE of (bool)":            with(func(s *spec) { s.extensions = append(s.extensions, seq(tlv(6, []byte{42}), []byte{1, 0x80})) }),
		"trailing data in the TBSCertificate":                 with(func(s *spec) { s.extra = []byte{0} }),
		"fields of the TBSCertificate come twice":             with(func(s *spec) { s.extra = tlv(0xa3, seq(extSAN)) }),
		"fields of the TBSCertificate come twice (unique ID)": with(func(s *spec) { s.extra = tlv(0x82, []byte{0}) }),
	}
}

func TestParseRefuses(t *testing.T) {
	for label, der := range malformations(t) {
		want, _, _ := strings.Cut(label, " (")
		c, err := Parse(der)
		if !errors.Is(err, ErrMalformed) || c != nil {
			t.Errorf("%s: Parse returns a certificate (%v), error %v", label, c != nil, err)
		} else if !strings.HasPrefix(err.Error(), "malformed certificate: "+want) {
			t.Errorf("%s: error is %q", label, err)
		}
	}
}

// TestParseTakes holds what strict parsers refuse. The signature covers all of
// it, and it must verify still.
func TestParseTakes(t *testing.T) {
	ca := caSpec(t).parse(t)
	for label, change := range map[string]func(*spec){
		"version 1 with extensions": func(s *spec) { s.version = nil },
		"version 4":                 func(s *spec) { s.version = tlv(0xa0, tlv(2, []byte{3})) },
		"version as a string":       func(s *spec) { s.version = tlv(0xa0, tlv(0x0c, []byte("three"))) },
		"negative serial":           func(s *spec) { s.serial = tlv(2, []byte{0x80}) },
		"zero serial":               func(s *spec) { s.serial = tlv(2, []byte{0}) },
		"no serial octets":          func(s *spec) { s.serial = tlv(2) },
		"non-minimal serial":        func(s *spec) { s.serial = tlv(2, []byte{0, 0, 1}) },
		"serial of 300 octets":      func(s *spec) { s.serial = tlv(2, bytes.Repeat([]byte{1}, 300)) },
		"BER length of a name":      func(s *spec) { s.subject = longForm(s.subject) },
		"BER length of extensions":  func(s *spec) { s.extensions[0] = longForm(s.extensions[0]) },
		"empty names":               func(s *spec) { s.subject = seq() },
		"names of nulls":            func(s *spec) { s.subject = seq(tlv(5), tlv(5)) },
		"unreadable NotBefore":      func(s *spec) { s.validity = validity(tlv(5), utc("270401000000Z")) },
		"three times":               func(s *spec) { s.validity = validity(utc("270101000000Z"), utc("270401000000Z"), tlv(5)) },
		"unknown key":               func(s *spec) { s.spki = seq(seq(tlv(6, []byte{42, 3, 4})), tlv(3, []byte{0, 1})) },
		"no key":                    func(s *spec) { s.spki = seq() },
		"unique identifiers":        func(s *spec) { s.uniqueIDs = append(tlv(0x81, []byte{0, 1}), tlv(0xa2, tlv(3, []byte{0}))...) },
		"no extensions":             func(s *spec) { s.extensions = nil },
		"empty extensions":          func(s *spec) { s.extensions = nil; s.extra = tlv(0xa3, seq()) },
		"duplicate extension":       func(s *spec) { s.extensions = append(s.extensions, extSAN) },
		"critical AKI":              func(s *spec) { s.extensions = append(s.extensions, criticalExtn("\x55\x1d\x23", seq())) },
		"explicit critical FALSE":   func(s *spec) { s.extensions[0] = seq(tlv(6, []byte("\x55\x1d\x11")), boolFalse, tlv(4)) },
		"critical of two octets":    func(s *spec) { s.extensions[0] = seq(tlv(6, []byte{42}), tlv(1, []byte{1, 1}), tlv(4)) },
		"extension with more":       func(s *spec) { s.extensions[0] = seq(tlv(6, []byte{42}), tlv(4), tlv(5)) },
		"broken SAN":                func(s *spec) { s.extensions[0] = extn("\x55\x1d\x11", []byte{0x30, 0x7f, 1}) },
		"broken SCT list":           func(s *spec) { s.extensions[0] = extn("\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x02", []byte{1}) },
		"broken basicConstraints":   func(s *spec) { s.extensions[0] = extn("\x55\x1d\x13", []byte{0xff}) },
		"broken keyUsage":           func(s *spec) { s.extensions[0] = extn("\x55\x1d\x0f", []byte{3}) },
		"broken EKU":                func(s *spec) { s.extensions[0] = extn("\x55\x1d\x25", []byte{0x30, 0x80}) },
		"later X.509 version":       func(s *spec) { s.extra = tlv(0xa4, tlv(5)) },
		"odd parameters":            func(s *spec) { s.innerAlg = seq(elementBody(algECDSASHA256), tlv(5)); s.outerAlg = s.innerAlg },
	} {
		t.Run(label, func(t *testing.T) {
			s := leafSpec(t)
			change(s)
			c, err := Parse(s.der(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.CheckSignatureFrom(ca); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(c.RawTBS, s.tbs()) {
				t.Error("RawTBS differs from what was signed")
			}
		})
	}
}

func TestConstraints(t *testing.T) {
	type flags struct{ bc, ca, ku, sign, eku, auth, anyOnly, psc bool }
	bc := func(value []byte) []byte { return extn("\x55\x1d\x13", value) }
	ku := func(value []byte) []byte { return extn("\x55\x1d\x0f", value) }
	eku := func(oids ...string) []byte {
		var parts [][]byte
		for _, oid := range oids {
			parts = append(parts, tlv(6, []byte(oid)))
		}
		return extn("\x55\x1d\x25", seq(parts...))
	}
	const (
		serverAuth = "\x2b\x06\x01\x05\x05\x07\x03\x01"
		clientAuth = "\x2b\x06\x01\x05\x05\x07\x03\x02"
		anyEKU     = "\x55\x1d\x25\x00"
		psc        = "\x2b\x06\x01\x04\x01\xd6\x79\x02\x04\x04"
	)
	for _, c := range []struct {
		label string
		exts  [][]byte
		want  flags
	}{
		{"none", nil, flags{}},
		{"CA", [][]byte{bc(seq(boolTrue))}, flags{bc: true, ca: true}},
		{"CA with path length", [][]byte{bc(seq(boolTrue, tlv(2, []byte{3})))}, flags{bc: true, ca: true}},
		{"CA TRUE as 01", [][]byte{bc(seq(tlv(1, []byte{1})))}, flags{bc: true, ca: true}},
		{"CA FALSE", [][]byte{bc(seq(boolFalse))}, flags{bc: true}},
		{"CA absent", [][]byte{bc(seq())}, flags{bc: true}},
		{"CA of two octets", [][]byte{bc(seq(tlv(1, []byte{1, 1})))}, flags{bc: true}},
		{"CA and trailing data", [][]byte{bc(append(seq(boolTrue), 0))}, flags{bc: true}},
		{"CA twice", [][]byte{bc(seq(boolTrue)), bc(seq(boolTrue))}, flags{bc: true, ca: true}},
		{"CA, then not", [][]byte{bc(seq(boolTrue)), bc(seq())}, flags{bc: true}},
		{"not CA, then CA", [][]byte{bc(seq()), bc(seq(boolTrue))}, flags{bc: true}},
		{"certSign", [][]byte{ku(tlv(3, []byte{2, 0x04}))}, flags{ku: true, sign: true}},
		{"certSign, two octets", [][]byte{ku(tlv(3, []byte{7, 0x04, 0x80}))}, flags{ku: true, sign: true}},
		{"other usages", [][]byte{ku(tlv(3, []byte{0, 0xfb}))}, flags{ku: true}},
		{"certSign among unused bits", [][]byte{ku(tlv(3, []byte{3, 0x04}))}, flags{ku: true}},
		{"no usages", [][]byte{ku(tlv(3, []byte{0}))}, flags{ku: true}},
		{"nine unused bits", [][]byte{ku(tlv(3, []byte{9, 0x04}))}, flags{ku: true}},
		{"nine unused bits of two octets", [][]byte{ku(tlv(3, []byte{9, 0x04, 0}))}, flags{ku: true}},
		{"unreadable usage", [][]byte{ku(nil)}, flags{ku: true}},
		{"certSign, then not", [][]byte{ku(tlv(3, []byte{2, 0x04})), ku(tlv(3, []byte{0}))}, flags{ku: true}},
		{"not, then certSign", [][]byte{ku(tlv(3, []byte{0})), ku(tlv(3, []byte{2, 0x04}))}, flags{ku: true}},
		{"EKU empty", [][]byte{eku()}, flags{eku: true}},
		{"EKU serverAuth", [][]byte{eku(clientAuth, serverAuth)}, flags{eku: true, auth: true}},
		{"EKU clientAuth", [][]byte{eku(clientAuth)}, flags{eku: true}},
		{"EKU any", [][]byte{eku(anyEKU)}, flags{eku: true, auth: true, anyOnly: true}},
		{"EKU any twice", [][]byte{eku(anyEKU, anyEKU)}, flags{eku: true, auth: true, anyOnly: true}},
		{"EKU any, serverAuth", [][]byte{eku(anyEKU, serverAuth)}, flags{eku: true, auth: true}},
		{"EKU serverAuth, any", [][]byte{eku(serverAuth, anyEKU)}, flags{eku: true, auth: true}},
		{"EKU twice", [][]byte{eku(clientAuth), eku(serverAuth)}, flags{eku: true, auth: true}},
		{"EKU with empty OID", [][]byte{eku("", serverAuth)}, flags{eku: true, auth: true}},
		{"EKU with a null", [][]byte{extn("\x55\x1d\x25", seq(tlv(5), tlv(6, []byte(serverAuth))))}, flags{eku: true, auth: true}},
		{"EKU cut off", [][]byte{extn("\x55\x1d\x25", []byte{0x30, 20, 6})}, flags{eku: true}},
		{"EKU precertificate signing", [][]byte{eku(psc)}, flags{eku: true, psc: true}},
	} {
		s := leafSpec(t)
		s.extensions = append([][]byte{extSAN}, c.exts...)
		p := s.parse(t)
		got := flags{p.HasBasicConstraints, p.IsCA, p.HasKeyUsage, p.KeyCertSign, p.HasEKU, p.ServerAuth, p.AnyEKUOnly, p.PrecertSigning}
		if got != c.want {
			t.Errorf("%s: %+v, not %+v", c.label, got, c.want)
		}
		if want := c.want.ca && c.want.psc; p.IsPrecertSigner() != want {
			t.Errorf("%s: IsPrecertSigner = %v", c.label, !want)
		}
	}
	s := leafSpec(t)
	s.extensions = [][]byte{extCA, extPSC}
	if !s.parse(t).IsPrecertSigner() {
		t.Error("a CA with the Precertificate Signing purpose is no precertificate signer")
	}
}

func TestTimes(t *testing.T) {
	const layout = "2006-01-02T15:04:05.999999999Z"
	for _, c := range []struct {
		tag         byte
		text, want  string // want empty: unreadable
		description string
	}{
		{tagUTCTime, "270401123456Z", "2027-04-01T12:34:56Z", "ordinary"},
		{tagUTCTime, "500401123456Z", "1950-04-01T12:34:56Z", "first year of the century before"},
		{tagUTCTime, "490401123456Z", "2049-04-01T12:34:56Z", "last year of this one"},
		{tagUTCTime, "2704011234Z", "2027-04-01T12:34:00Z", "no seconds"},
		{tagUTCTime, "270401123456", "2027-04-01T12:34:56Z", "no zone"},
		{tagUTCTime, "270401123456+0230", "2027-04-01T10:04:56Z", "offset east"},
		{tagUTCTime, "270401233456-0230", "2027-04-02T02:04:56Z", "offset west, over midnight"},
		{tagUTCTime, "2704011234-01", "2027-04-01T13:34:00Z", "offset of hours"},
		{tagUTCTime, "270401123460Z", "2027-04-01T12:35:00Z", "leap second"},
		{tagUTCTime, "280229000000Z", "2028-02-29T00:00:00Z", "leap day"},
		{tagUTCTime, "270229000000Z", "", "no leap day"},
		{tagUTCTime, "271301000000Z", "", "month 13"},
		{tagUTCTime, "270001000000Z", "", "month 0"},
		{tagUTCTime, "270400000000Z", "", "day 0"},
		{tagUTCTime, "270431000000Z", "", "April 31"},
		{tagUTCTime, "270401240000Z", "", "hour 24"},
		{tagUTCTime, "270401006000Z", "", "minute 60"},
		{tagUTCTime, "270401000061Z", "", "second 61"},
		{tagUTCTime, "27040112Z", "", "no minutes"},
		{tagUTCTime, "270401123456.5Z", "", "fraction"},
		{tagUTCTime, "270401123456Zz", "", "trailing"},
		{tagUTCTime, "270401123456+9900", "", "offset of 99 hours"},
		{tagUTCTime, "2704 1123456Z", "", "blank"},
		{tagUTCTime, "-70401123456Z", "", "minus"},
		{tagUTCTime, "", "", "empty"},
		{tagGeneralizedTime, "20270401123456Z", "2027-04-01T12:34:56Z", "before 2050"},
		{tagGeneralizedTime, "99991231235959Z", "9999-12-31T23:59:59Z", "no expiry"},
		{tagGeneralizedTime, "00000101000000Z", "0000-01-01T00:00:00Z", "year 0"},
		{tagGeneralizedTime, "202704011234Z", "2027-04-01T12:34:00Z", "no seconds"},
		{tagGeneralizedTime, "2027040112Z", "2027-04-01T12:00:00Z", "no minutes"},
		{tagGeneralizedTime, "20270401123456.25Z", "2027-04-01T12:34:56.25Z", "fraction"},
		{tagGeneralizedTime, "20270401123456,1234567899Z", "2027-04-01T12:34:56.123456789Z", "fraction with ten digits and a comma"},
		{tagGeneralizedTime, "20270401123456.5+0100", "2027-04-01T11:34:56.5Z", "fraction and offset"},
		{tagGeneralizedTime, "20270401123456.Z", "", "no digits in the fraction"},
		{tagGeneralizedTime, "20270401", "", "no hour"},
		{tagNull, "", "", "no time"},
	} {
		got, ok := parseTime(c.tag, []byte(c.text))
		switch {
		case ok != (c.want != ""):
			t.Errorf("%s: parseTime(%q) = %v, %v", c.description, c.text, got, ok)
		case ok && got.Format(layout) != c.want:
			t.Errorf("%s: parseTime(%q) = %s, not %s", c.description, c.text, got.Format(layout), c.want)
		case ok && got.Location() != time.UTC:
			t.Errorf("%s: parseTime(%q) is not in UTC", c.description, c.text)
		}
	}
	s := leafSpec(t)
	s.validity = validity(tlv(5), generalized("20270401000000Z"))
	if c := s.parse(t); !c.NotBefore.IsZero() {
		t.Errorf("unreadable NotBefore is %v", c.NotBefore)
	}
}

// TestParseAllocates bounds the cost of the reader on the path of each
// submission.
func TestParseAllocates(t *testing.T) {
	s := leafSpec(t)
	s.extensions = append(s.extensions, extPoison)
	der := s.der(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Parse(der); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("Parse allocates %v times, not once", n)
	}
	// The number of extensions, purposes and names does not change that.
	big := leafSpec(t)
	for range 20000 {
		big.extensions = append(big.extensions, extSAN, extServerAuth)
		big.subject = append(big.subject, name("x")...)
	}
	big.subject = seq(big.subject)
	bigDER := big.der(t)
	if n := testing.AllocsPerRun(3, func() {
		if _, err := Parse(bigDER); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("Parse of a large certificate allocates %v times, not once", n)
	}
	c := s.parse(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.PrecertTBS(nil); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("PrecertTBS allocates %v times, not once", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = c.NamesJSON() }); n > 1 {
		t.Errorf("NamesJSON allocates %v times, not once", n)
	}
}
