package difftest

import (
	"bytes"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/cert"
	"github.com/google/certificate-transparency-go/x509"
)

// refusedByUs are the intended refusals of what the other reader takes, by our
// error.
var refusedByUs = map[string]string{
	"the signature BIT STRING has unused bits":                 "anyone can shift a signature and so mint variants of a certificate",
	"the outer SEQUENCE has elements after the signature":      "they are not signed: anyone can append them",
	"trailing data in the TBSCertificate":                      "signed, but no ASN.1; the other reader ignores whatever follows what it knows",
	"fields of the TBSCertificate come twice or out of order":  "the other reader ignores them, though they may hide a second list of extensions",
	"the extensions are not one SEQUENCE":                      "the other reader ignores the length of [3] EXPLICIT; cutting would have to guess",
	"the extensions cannot be read":                            "as above: [3] is longer than the TBSCertificate",
	"the serial number is missing":                             "the other reader ignores the length of [0] EXPLICIT, and reads fields from inside the version",
	"the signature algorithm in the TBSCertificate is missing": "as above",
}

// refusedByThem are the intended acceptances of what the other reader refuses,
// by its error. All lie inside the signed bytes, and in parts that admission
// does not look at; a log is there to show such certificates.
var refusedByThem = map[string]string{
	"asn1: syntax error: ":                           "BER, or broken contents of what we do not look into",
	"asn1: structure error: ":                        "unexpected types or encodings in names, keys, serial, version, validity and extensions",
	"pkcs12: odd-length BMP string":                  "text in names",
	"asn1: invalid UTF-8 string":                     "text in names",
	"asn1: time did not serialize back":              "odd times, which parseTime reads or, in names and NotBefore, nobody needs",
	"parsing time ":                                  "as above",
	"x509: cannot parse URI ":                        "contents of SubjectAltName",
	"x509: IP constraint ":                           "contents of name constraints",
	"x509: empty name constraints extension":         "contents of name constraints",
	"x509: invalid NameConstraints extension":        "contents of name constraints",
	"x509: trailing data after ":                     "broken contents of keys and extensions",
	"x509: RSA public exponent is not a positive":    "as above",
	"x509: zero or negative DSA parameter":           "as above",
	"x509: failed to unmarshal elliptic curve point": "as above",
	"x509: unsupported elliptic curve":               "as above",
	"x509: invalid ":                                 "broken contents of extensions",
	"x509: failed to parse ":                         "broken contents of extensions",
}

// pair is one certificate, read by both.
type pair struct {
	ours   *cert.Certificate
	theirs *x509.Certificate
}

// read has both read a certificate, and fails for a difference in the outcome
// that is not an intended one. The pair is nil unless both take it.
func read(t *testing.T, label string, der []byte) *pair {
	t.Helper()
	ours, err := cert.Parse(der)
	theirs, theirErr := x509.ParseCertificate(der) // theirs is nil only if the error is fatal
	switch {
	case ours == nil && theirs == nil:
		return nil
	case ours == nil:
		reason := strings.TrimPrefix(err.Error(), cert.ErrMalformed.Error()+": ")
		if refusedByUs[reason] == "" {
			t.Errorf("%s: only we refuse: %v\n%x", label, err, der)
		}
		return nil
	case theirs == nil:
		for prefix := range refusedByThem {
			if strings.HasPrefix(theirErr.Error(), prefix) {
				return nil
			}
		}
		t.Errorf("%s: only they refuse: %v\n%x", label, theirErr, der)
		return nil
	}
	return &pair{ours, theirs}
}

func (p *pair) extensions(oid string) (values [][]byte, critical bool) {
	for _, x := range p.theirs.Extensions {
		if x.Id.String() == oid {
			values, critical = append(values, x.Value), x.Critical
		}
	}
	return values, critical
}

// compareFields compares all that is exported of a certificate.
func compareFields(t *testing.T, label string, p *pair) {
	t.Helper()
	c, x := p.ours, p.theirs
	differ := func(field string, ours, theirs any) {
		t.Helper()
		t.Errorf("%s: %s is %v, theirs %v\n%x", label, field, ours, theirs, c.Raw)
	}
	equal := func(field string, ours, theirs bool) {
		t.Helper()
		if ours != theirs {
			differ(field, ours, theirs)
		}
	}
	for _, f := range []struct {
		field        string
		ours, theirs []byte
	}{
		{"RawTBS", c.RawTBS, x.RawTBSCertificate}, {"RawIssuer", c.RawIssuer, x.RawIssuer},
		{"RawSubject", c.RawSubject, x.RawSubject}, {"RawSPKI", c.RawSPKI, x.RawSubjectPublicKeyInfo},
	} {
		if !bytes.Equal(f.ours, f.theirs) {
			differ(f.field, f.ours, f.theirs)
		}
	}
	equal("NotBefore", true, c.NotBefore.Equal(x.NotBefore))
	equal("NotAfter", true, c.NotAfter.Equal(x.NotAfter))

	constraints, _ := p.extensions("2.5.29.19")
	equal("HasBasicConstraints", c.HasBasicConstraints, x.BasicConstraintsValid)
	// Of two we want both, they the last.
	equal("IsCA", c.IsCA, x.IsCA && (len(constraints) == 1 || c.IsCA))
	usages, _ := p.extensions("2.5.29.15")
	equal("HasKeyUsage", c.HasKeyUsage, len(usages) > 0)
	certSign := x.KeyUsage&x509.KeyUsageCertSign != 0
	equal("KeyCertSign", c.KeyCertSign, certSign && (len(usages) == 1 || c.KeyCertSign))

	purposes, _ := p.extensions("2.5.29.37")
	equal("HasEKU", c.HasEKU, len(purposes) > 0)
	lists := func(u x509.ExtKeyUsage) bool { return slices.Contains(x.ExtKeyUsage, u) }
	serverAuth, anyEKU := lists(x509.ExtKeyUsageServerAuth), lists(x509.ExtKeyUsageAny)
	equal("ServerAuth", c.ServerAuth, serverAuth || anyEKU)
	equal("AnyEKUOnly", c.AnyEKUOnly, anyEKU && !serverAuth)
	equal("PrecertSigning", c.PrecertSigning, lists(x509.ExtKeyUsageCertificateTransparency))

	poisons, critical := p.extensions("1.3.6.1.4.1.11129.2.4.3")
	equal("has a poison", c.Poison != cert.NoPoison, len(poisons) > 0)
	valid := len(poisons) == 1 && critical && bytes.Equal(poisons[0], []byte{5, 0})
	// We refuse elements after the extension's value, too.
	if c.Poison == cert.ValidPoison || !strings.Contains(errorText(c.PoisonProblem()), "after its value") {
		equal("has a valid poison", c.Poison == cert.ValidPoison, valid)
	}
	scts, _ := p.extensions("1.3.6.1.4.1.11129.2.4.2")
	equal("HasSCTList", c.HasSCTList, len(scts) > 0 && len(poisons) == 0)
	for oid, get := range map[string]func() ([]byte, bool){"2.5.29.35": c.AuthorityKeyID, "2.5.29.14": c.SubjectKeyID} {
		values, _ := p.extensions(oid)
		if ours, ok := get(); ok != (len(values) > 0) || ok && !bytes.Equal(ours, values[0]) {
			differ("extension "+oid, ours, values)
		}
	}
	compareNames(t, label, p)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// compareNames compares NamesJSON with what encoding/json makes of the names
// that they read.
func compareNames(t *testing.T, label string, p *pair) {
	t.Helper()
	x := p.theirs
	var names struct {
		Subject struct {
			Country, Organization, OrganizationalUnit []string `json:",omitempty"`
			Locality, Province                        []string `json:",omitempty"`
			StreetAddress, PostalCode                 []string `json:",omitempty"`
			CommonName                                string   `json:",omitempty"`
		} `json:",omitzero"`
		DNS []string `json:",omitempty"`
		IP  []string `json:",omitempty"`
	}
	names.Subject.Country, names.Subject.Organization = x.Subject.Country, x.Subject.Organization
	names.Subject.OrganizationalUnit, names.Subject.Locality = x.Subject.OrganizationalUnit, x.Subject.Locality
	names.Subject.Province, names.Subject.StreetAddress = x.Subject.Province, x.Subject.StreetAddress
	names.Subject.PostalCode, names.Subject.CommonName = x.Subject.PostalCode, x.Subject.CommonName
	names.DNS = x.DNSNames
	for _, ip := range x.IPAddresses {
		names.IP = append(names.IP, ip.String())
	}
	want, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.ours.NamesJSON(); !bytes.Equal(got, want) && !namesMayDiffer(p) {
		t.Errorf("%s: names are %s, theirs %s\n%x", label, got, want, p.ours.Raw)
	}
}

// namesMayDiffer reports one of the intended differences.
func namesMayDiffer(p *pair) bool {
	for _, set := range split(p.theirs.RawSubject) {
		for _, attribute := range split(set) {
			for _, value := range split(attribute) {
				switch value[0] {
				case 19, 20: // we read UTF-8 or ISO 8859-1; they one of them, by another rule
					if strings.ContainsFunc(string(content(value)), func(r rune) bool { return r >= 0x80 }) {
						return true
					}
				case 26, 28: // VisibleString, UniversalString: they read none
					return true
				case 30: // BMPString: they refuse or drop some that we mend
					return true
				}
			}
		}
	}
	sans, _ := p.extensions("2.5.29.17")
	if len(sans) > 1 {
		return true // they list the names of the last, we those of all
	}
	for _, san := range sans {
		for _, name := range split(san) {
			n := name[0] & 0x1f
			if name[0] != 0x80|n && (n == 2 || n == 7) {
				return true // they go by the number of the tag, whatever its class
			}
			if n == 0x1f {
				return true // they read on after a tag of several octets
			}
		}
	}
	return false
}

// compareTBS compares the TBSCertificate to be logged. Where the bytes differ,
// ours must give the submitted ones when the poison is put back, and theirs not.
func compareTBS(t *testing.T, label string, p, signer *pair) {
	t.Helper()
	var oursSigner *cert.Certificate
	var theirsSigner *x509.Certificate
	if signer != nil {
		oursSigner, theirsSigner = signer.ours, signer.theirs
	}
	ours, err := p.ours.PrecertTBS(oursSigner)
	theirs, theirErr := x509.BuildPrecertTBS(p.theirs.RawTBSCertificate, theirsSigner)
	switch {
	case err != nil && theirErr != nil:
	case err != nil:
		for _, intended := range []string{
			"is not critical", "is not NULL", "after its value", // they leave that to their caller
			"the poison is its only extension",         // they leave an empty list of extensions
			"none to replace it",                       // they drop it, and no final certificate matches
			"it has no AuthorityKeyIdentifier",         // they add one
			"more than one AuthorityKeyIdentifier",     // they take the first
			"the header of its AuthorityKeyIdentifier", // they re-encode
			"the header of its extensions",             // they re-encode
		} {
			if strings.Contains(err.Error(), intended) {
				return
			}
		}
		t.Errorf("%s: only we cannot build the TBS: %v\n%x", label, err, p.ours.Raw)
	case theirErr != nil && strings.Contains(theirErr.Error(), "failed to parse TBSCertificate"):
		// They are stricter here than in reading the certificate.
		if !bytes.Equal(restore(p, signer, ours), p.ours.RawTBS) {
			t.Errorf("%s: our TBS does not go back to the submitted one\n%x\n%x", label, ours, p.ours.RawTBS)
		}
	case theirErr != nil:
		t.Errorf("%s: only they cannot build the TBS: %v\n%x", label, theirErr, p.ours.Raw)
	case bytes.Equal(ours, theirs):
	case !bytes.Equal(restore(p, signer, ours), p.ours.RawTBS):
		t.Errorf("%s: our TBS does not go back to the submitted one\n%x\n%x", label, ours, p.ours.RawTBS)
	case bytes.Equal(restore(p, signer, theirs), p.ours.RawTBS):
		t.Errorf("%s: TBS differ, and both go back to the submitted one\n%x\n%x", label, ours, theirs)
	}
}

// restore undoes what was cut and replaced: with the fields and the extensions
// of the original in their places, the rest must be the original.
func restore(p, signer *pair, tbs []byte) []byte {
	original, fields := split(p.ours.RawTBS), split(tbs)
	for i, field := range original {
		if i >= len(fields) {
			break
		}
		if field[0] == 0xa3 && fields[i][0] == 0xa3 {
			before, after := split(split(field)[0]), split(split(fields[i])[0])
			for j, x := range before {
				oid := string(split(x)[0])
				if strings.HasSuffix(oid, "\xd6\x79\x02\x04\x03") {
					after = slices.Insert(after, min(j, len(after)), x)
				}
				if signer != nil && oid == "\x06\x03\x55\x1d\x23" && j < len(after) {
					after[j] = withValueOf(after[j], x)
				}
			}
			fields[i] = tlv(0xa3, tlv(0x30, after...))
		}
		if signer != nil && bytes.Equal(field, p.ours.RawIssuer) && bytes.Equal(fields[i], signer.ours.RawIssuer) {
			fields[i] = field
		}
	}
	return tlv(0x30, fields...)
}

// withValueOf returns extension x with the value of y.
func withValueOf(x, y []byte) []byte {
	isValue := func(part []byte) bool { return part[0] == 0x04 }
	parts, others := split(x), split(y)
	if i, j := slices.IndexFunc(parts, isValue), slices.IndexFunc(others, isValue); i >= 0 && j >= 0 {
		parts[i] = others[j]
	}
	return tlv(0x30, parts...)
}

// compareSignature compares whether issuer's key signed p.
func compareSignature(t *testing.T, label string, p, issuer *pair) {
	t.Helper()
	err := p.ours.CheckSignatureFrom(issuer.ours)
	theirErr := issuer.theirs.CheckSignature(p.theirs.SignatureAlgorithm, p.theirs.RawTBSCertificate, p.theirs.Signature)
	if (err == nil) == (theirErr == nil) {
		return
	}
	algorithm := split(p.ours.Raw)[1]
	switch {
	case err != nil && strings.Contains(err.Error(), "the ECDSA signature is not DER") && !isCanonical(p.theirs.Signature):
		// They ignore elements after r and s: anyone can append some.
	case err != nil && issuer.theirs.PublicKeyAlgorithm == x509.DSA && errors.Is(err, cert.ErrUnsupportedAlgorithm):
		// No CA of the Web signs with DSA; crypto/dsa is deprecated.
	case err != nil && strings.Contains(err.Error(), "issuer's key: the RSA"):
		// Sizes that we bound, and moduli and exponents that mean nothing.
	case theirErr != nil && bytes.Contains(algorithm, []byte("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0e")),
		theirErr != nil && bytes.Contains(algorithm, []byte("\x2a\x86\x48\xce\x3d\x04\x03\x01")):
		// SHA-224, which they do not know.
	default:
		t.Errorf("%s: signature: we say %v, they %v\n%x", label, err, theirErr, p.ours.Raw)
	}
}

// isCanonical reports whether an ECDSA signature is the DER of its r and s.
func isCanonical(signature []byte) bool {
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &rs); err != nil {
		return false
	}
	der, err := asn1.Marshal(rs)
	return err == nil && bytes.Equal(der, signature)
}

func TestCases(t *testing.T) {
	signatures, tbs := 0, 0
	for _, g := range groups(t) {
		var pairs []*pair
		for _, der := range g.ders {
			p := read(t, g.name, der)
			pairs = append(pairs, p)
			if p == nil {
				continue
			}
			compareFields(t, g.name, p)
			compareTBS(t, g.name, p, nil)
			compareSignature(t, g.name, p, p)
		}
		for i := 1; i < len(pairs); i++ {
			if pairs[i-1] == nil || pairs[i] == nil {
				continue
			}
			compareSignature(t, g.name, pairs[i-1], pairs[i])
			signatures++
			if pairs[i].ours.IsPrecertSigner() {
				compareTBS(t, g.name, pairs[i-1], pairs[i])
				tbs++
			}
		}
	}
	if signatures < 500 || tbs < 5 {
		t.Errorf("only %d signatures and %d TBSCertificates by way of a Precertificate Signing Certificate compared", signatures, tbs)
	}
}

// TestMutations compares over changed certificates. Both must have enough to
// say about them, too.
func TestMutations(t *testing.T) {
	const rounds = 60000
	var ders [][]byte
	var signers []*pair
	for _, g := range groups(t) {
		for _, der := range g.ders {
			if len(der) > 4096 {
				continue
			}
			ders = append(ders, der)
			if p, err := cert.Parse(der); err == nil && p.IsPrecertSigner() {
				signers = append(signers, read(t, g.name, der))
			}
		}
	}
	rnd := rand.New(rand.NewPCG(2027, 1))
	both, cuts := 0, 0
	for i := range rounds {
		if t.Failed() {
			break
		}
		der := ders[rnd.IntN(len(ders))]
		for range 1 + rnd.IntN(3) {
			der = mutate(rnd, der)
		}
		p := read(t, "mutation", der)
		if p == nil {
			continue
		}
		both++
		compareFields(t, "mutation", p)
		if p.ours.Poison == cert.NoPoison {
			continue
		}
		compareTBS(t, "mutation", p, nil)
		compareTBS(t, "mutation with a signer", p, signers[rnd.IntN(len(signers))])
		cuts++
		if i%16 == 0 {
			compareSignature(t, "mutation", p, p)
		}
	}
	if both < rounds/4 || cuts < rounds/100 {
		t.Errorf("of %d mutations both take %d, %d of them precertificates", rounds, both, cuts)
	}
}

// TestSignatureMutations changes signatures only.
func TestSignatureMutations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2027, 2))
	n := 0
	for _, g := range groups(t) {
		if len(g.ders) < 2 || !strings.HasSuffix(g.name, ".pem") {
			continue
		}
		top := split(g.ders[0])
		issuer := read(t, g.name, g.ders[1])
		if len(top) != 3 || issuer == nil {
			continue
		}
		for range 8 {
			signature := mutateElement(rnd, tlv(0x30, content(top[2])[1:]))
			if rnd.IntN(2) == 0 { // in its own structure, if it has one
				signature = tlv(0x30, mutateElement(rnd, content(top[2])[1:]))
			}
			der := tlv(0x30, top[0], top[1], tlv(0x03, []byte{0}, content(signature)))
			if p := read(t, g.name, der); p != nil {
				compareSignature(t, g.name, p, issuer)
				n++
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d signatures compared", n)
	}
}
