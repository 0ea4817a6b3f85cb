package testca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"testing"
	"time"
)

var (
	notBefore = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	notAfter  = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
)

func leaf() Leaf { return Leaf{NotBefore: notBefore, NotAfter: notAfter} }

func precert() Leaf { return Leaf{NotBefore: notBefore, NotAfter: notAfter, Precert: true} }

func newCAOrFail(t testing.TB, o Options) *CA {
	t.Helper()
	ca, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func makeOrFail(t testing.TB, ca *CA, n uint64, l Leaf) Chain {
	t.Helper()
	c, err := ca.Make(n, l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("crypto/x509 refuses what was made: %v\n%x", err, der)
	}
	return c
}

// TestVerify lets crypto/x509 be the judge of every kind of CA.
func TestVerify(t *testing.T) {
	for _, o := range []Options{
		{},
		{Direct: true},
		{Intermediates: 3},
		{RootKey: P384, IntermediateKey: P384},
		{RootKey: RSA2048, IntermediateKey: P384},
		{RootKey: P256, IntermediateKey: RSA2048},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			ca := newCAOrFail(t, o)
			for n := range uint64(20) {
				l := leaf()
				l.IncludeRoot = n%2 == 0
				l.Precert = n%3 == 0
				c := makeOrFail(t, ca, n, l)
				if want := len(ca.issuers) + 1; len(c.Certificates) != want && l.IncludeRoot {
					t.Fatalf("chain with root has %d certificates, want %d", len(c.Certificates), want)
				} else if !l.IncludeRoot && len(c.Certificates) != want-1 {
					t.Fatalf("chain without root has %d certificates, want %d", len(c.Certificates), want-1)
				}
				verify(t, ca, c)
			}
		})
	}
}

func verify(t *testing.T, ca *CA, c Chain) {
	t.Helper()
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.RootPEM()) {
		t.Fatal("RootPEM holds no certificate")
	}
	for _, der := range c.Certificates[1:] {
		between.AddCert(parse(t, der))
	}
	cert := parse(t, c.Certificates[0])
	poison := len(cert.UnhandledCriticalExtensions)
	if c.Precert != (poison == 1) {
		t.Fatalf("precertificate: %v, critical extensions that are not known: %v", c.Precert, cert.UnhandledCriticalExtensions)
	}
	cert.UnhandledCriticalExtensions = nil
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: notBefore.Add(time.Hour), DNSName: cert.DNSNames[0]})
	if err != nil {
		t.Fatal(err)
	}
	if !cert.NotBefore.Equal(notBefore) || !cert.NotAfter.Equal(notAfter) {
		t.Fatalf("validity %v to %v", cert.NotBefore, cert.NotAfter)
	}
}

// TestSignedEntry checks the TBSCertificate given for a precertificate by
// removing the poison the slow way: the final certificate of the same leaf,
// without an SCT list, has the same one.
func TestSignedEntry(t *testing.T) {
	ca := newCAOrFail(t, Options{Seed: 7})
	pre, final := makeOrFail(t, ca, 4, precert()), makeOrFail(t, ca, 4, leaf())
	if got, want := pre.SignedEntry, parse(t, final.Certificates[0]).RawTBSCertificate; !bytes.Equal(got, want) {
		t.Errorf("signed entry of the precertificate\n%x, want\n%x", got, want)
	}
	if !bytes.Equal(final.SignedEntry, final.Certificates[0]) {
		t.Error("signed entry of a final certificate is not the certificate")
	}
	for _, c := range []struct {
		l    Leaf
		want []byte
	}{{precert(), pre.SignedEntry}, {leaf(), final.SignedEntry}} {
		if got, err := ca.SignedEntry(4, c.l); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("signed entry on its own: %x, %v, want %x", got, err, c.want)
		}
	}
	poison := parse(t, pre.Certificates[0]).Extensions
	last := poison[len(poison)-1]
	if !last.Critical || !last.Id.Equal(oidPoison) || !bytes.Equal(last.Value, []byte{5, 0}) {
		t.Errorf("poison extension is %+v", last)
	}
	if len(poison) != len(parse(t, final.Certificates[0]).Extensions)+1 {
		t.Error("precertificate and final certificate differ by more than the poison")
	}
}

func TestEmbeddedSCTs(t *testing.T) {
	ca := newCAOrFail(t, Options{})
	l := leaf()
	l.SCTs = [][]byte{{1, 2, 3}, {4, 5}}
	cert := parse(t, makeOrFail(t, ca, 1, l).Certificates[0])
	last := cert.Extensions[len(cert.Extensions)-1]
	var list []byte
	if rest, err := asn1.Unmarshal(last.Value, &list); err != nil || len(rest) > 0 {
		t.Fatalf("SCT list is not an OCTET STRING: %v", err)
	}
	if want := []byte{0, 9, 0, 3, 1, 2, 3, 0, 2, 4, 5}; !last.Id.Equal(oidSCTs) || last.Critical || !bytes.Equal(list, want) {
		t.Errorf("extension %v holds %x, want %x", last.Id, list, want)
	}
	l.Precert = true
	if _, err := ca.Make(1, l); err == nil {
		t.Error("precertificate with embedded SCTs was made")
	}
}

// TestDeterministic: the same root, seed and number give the same bytes.
func TestDeterministic(t *testing.T) {
	ca := newCAOrFail(t, Options{Seed: 1})
	key, err := ca.RootKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(ca.RootPEM(), key, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Load(ca.RootPEM(), key, Options{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]uint64{}
	for n := range uint64(300) {
		c := makeOrFail(t, ca, n, precert())
		if d := makeOrFail(t, again, n, precert()); !bytes.Equal(c.Body(), d.Body()) {
			t.Fatalf("leaf %d differs between two CAs of one root and seed", n)
		}
		if d := makeOrFail(t, other, n, precert()); bytes.Equal(c.Certificates[0], d.Certificates[0]) {
			t.Fatalf("leaf %d does not depend on the seed", n)
		}
		cert := parse(t, c.Certificates[0])
		for _, id := range []string{cert.SerialNumber.String(), cert.DNSNames[0]} {
			if was, ok := seen[id]; ok {
				t.Fatalf("leaves %d and %d share %s", was, n, id)
			}
			seen[id] = n
		}
	}
}

func TestLoad(t *testing.T) {
	ca, other := newCAOrFail(t, Options{RootKey: P384}), newCAOrFail(t, Options{})
	otherKey, err := other.RootKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(ca.RootPEM(), otherKey, Options{}); err == nil {
		t.Error("root was loaded with a key of another root")
	}
	if _, err := Load(other.RootPEM(), mustKey(t, newCAOrFail(t, Options{})), Options{Direct: true}); err == nil {
		t.Error("root that issues leaves itself was loaded with a key of another root")
	}
	if _, err := Load(otherKey, otherKey, Options{}); err == nil {
		t.Error("key was loaded as a root")
	}
	if _, err := Load(other.RootPEM(), nil, Options{}); err == nil {
		t.Error("root was loaded without a key")
	}
	sec1, err := x509.MarshalECPrivateKey(ca.rootKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(ca.RootPEM(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, loaded, makeOrFail(t, loaded, 9, leaf()))
}

func mustKey(t *testing.T, ca *CA) []byte {
	t.Helper()
	key, err := ca.RootKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestBody(t *testing.T) {
	ca := newCAOrFail(t, Options{Intermediates: 2})
	for _, withRoot := range []bool{false, true} {
		l := precert()
		l.IncludeRoot = withRoot
		c := makeOrFail(t, ca, 3, l)
		var body struct{ Chain []string }
		if err := json.Unmarshal(c.Body(), &body); err != nil {
			t.Fatal(err)
		}
		if len(body.Chain) != len(c.Certificates) {
			t.Fatalf("body has %d certificates, want %d", len(body.Chain), len(c.Certificates))
		}
		for i, s := range body.Chain {
			if s != base64.StdEncoding.EncodeToString(c.Certificates[i]) {
				t.Errorf("certificate %d differs in the body", i)
			}
		}
	}
}

// TestSize keeps the chains realistic: a log's cost grows with their size.
func TestSize(t *testing.T) {
	ca := newCAOrFail(t, Options{})
	total, names := 0, 0
	const n = 500
	for i := range uint64(n) {
		der := makeOrFail(t, ca, i, precert()).Certificates[0]
		total, names = total+len(der), names+len(parse(t, der).DNSNames)
	}
	if mean := total / n; mean < 800 || mean > 1500 {
		t.Errorf("leaves have %d bytes in the mean, with %d names", mean, names/n)
	}
}

func TestLongAndLateLeaves(t *testing.T) {
	ca := newCAOrFail(t, Options{})
	l := leaf()
	l.NotAfter = time.Date(2055, 6, 1, 0, 0, 0, 0, time.UTC)
	l.Names = []string{string(bytes.Repeat([]byte("a"), 60)) + ".example", "short.example"}
	cert := parse(t, makeOrFail(t, ca, 0, l).Certificates[0])
	if !cert.NotAfter.Equal(l.NotAfter) || cert.Subject.CommonName != "" || len(cert.DNSNames) != 2 {
		t.Errorf("NotAfter %v, subject %q, names %v", cert.NotAfter, cert.Subject, cert.DNSNames)
	}
}

func BenchmarkMakeBody(b *testing.B) {
	ca := newCAOrFail(b, Options{})
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		c, err := ca.Make(n, precert())
		if err != nil {
			b.Fatal(err)
		}
		n++
		c.Body()
	}
}
