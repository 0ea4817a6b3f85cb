package submission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testca"
)

// maker makes single certificates with faults that no CA of testca has.
type maker struct {
	t   *testing.T
	key *ecdsa.PrivateKey // of every certificate it makes
}

func newMaker(t *testing.T) maker {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return maker{t, key}
}

var poison = pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 3}, Critical: true, Value: []byte{5, 0}}

// make returns a certificate for subject by issuer; change may be nil.
func (m maker) make(subject, issuer string, change func(*x509.Certificate)) []byte {
	m.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: subject},
		NotBefore:    time.Unix(1.7e9, 0),
		NotAfter:     time.Unix(1.8e9, 0),
		// A CA by default.
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: issuer}}, &m.key.PublicKey, m.key)
	if err != nil {
		m.t.Fatal(err)
	}
	return der
}

func endEntity(c *x509.Certificate)          { c.IsCA = false }
func noBasicConstraints(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }
func poisoned(c *x509.Certificate)           { c.ExtraExtensions = append(c.ExtraExtensions, poison) }
func precertSigning(c *x509.Certificate) {
	c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 4})
}

// TestMadeChains covers what the collected chains do not.
func TestMadeChains(t *testing.T) {
	m := newMaker(t)
	leaf := m.make("leaf", "A", endEntity)
	precert := m.make("leaf", "A", func(c *x509.Certificate) { endEntity(c); poisoned(c); c.DNSNames = []string{"example.com"} })
	a := m.make("A", "R", nil)
	root := m.make("R", "R", nil)
	oldRoot := m.make("R", "R", noBasicConstraints)
	signingRoot := m.make("A", "A", precertSigning)
	reason := func(precert bool, roots [][]byte, chain ...[]byte) error {
		_, err := newValidator(t, roots...).validate(chain, precert, nil)
		return err
	}
	for _, c := range []struct {
		name    string
		precert bool
		roots   [][]byte
		chain   [][]byte
		want    error
	}{
		{"good", false, [][]byte{root}, [][]byte{leaf, a, root}, nil},
		{"good precertificate", true, [][]byte{root}, [][]byte{precert, a, root}, nil},
		{"precertificate as an issuer", false, [][]byte{root}, [][]byte{leaf, m.make("A", "R", poisoned), root}, errIssuer},
		{"precertificate as a lone issuer", true, [][]byte{root}, [][]byte{precert, m.make("A", "R", poisoned)}, errIssuer},
		{"root that does not say it is a CA, omitted", false, [][]byte{oldRoot}, [][]byte{leaf, a}, nil},
		{"root that does not say it is a CA, submitted", false, [][]byte{oldRoot}, [][]byte{leaf, a, oldRoot}, nil},
		{"the same, but not accepted", false, [][]byte{root}, [][]byte{leaf, a, oldRoot}, errIssuer},
		{"root twice", false, [][]byte{root}, [][]byte{leaf, a, root, root}, errOrder},
		{"root by itself", false, [][]byte{root}, [][]byte{root}, errUnknownRoot},
		{"root twice and nothing else", false, [][]byte{root}, [][]byte{root, root}, errOrder},
		{"beyond the accepted root", false, [][]byte{a}, [][]byte{leaf, a, root}, errUnknownRoot},
		{"beyond one accepted root to another", false, [][]byte{a, root}, [][]byte{leaf, a, root}, nil},
		{"an intermediate is the accepted root", false, [][]byte{a}, [][]byte{leaf, a}, nil},
		{"precertificate signed by a root for that", true, [][]byte{signingRoot}, [][]byte{precert}, errPrecertSigning},
		{"certificate signed by such a root", false, [][]byte{signingRoot}, [][]byte{leaf}, nil},
	} {
		if err := reason(c.precert, c.roots, c.chain...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestBadPoison: it is refused wherever it is sent, or anyone could log a
// precertificate as a certificate.
func TestBadPoison(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "synthetic")
	h, _ := newHandler(t, Options{Roots: readRoots(t, filepath.Join(dir, "roots.pem"))})
	for _, id := range []string{"sc12-poison-not-critical", "sc13-poison-wrong-value", "sc13b-poison-extra-bytes", "sc14-poison-twice"} {
		for _, endpoint := range []string{"add-chain", "add-pre-chain"} {
			w := post(h, endpoint, chainBody(cases.ReadPEM(t, filepath.Join(dir, id+".pem"))))
			if w.Code != 400 || !strings.Contains(w.Body.String(), "not a proper precertificate") {
				t.Errorf("%s to %s: status %d: %s", id, endpoint, w.Code, w.Body)
			}
		}
	}
}

// TestWhatMayBeRoot: an accepted root need not be self-signed or say that it is
// a CA, but one that says it is none, or only looks like a subscriber's, is a
// slip.
func TestWhatMayBeRoot(t *testing.T) {
	m := newMaker(t)
	for _, c := range []struct {
		name string
		der  []byte
		want bool
	}{
		{"self-signed CA", m.make("R", "R", nil), true},
		{"cross-certified CA", m.make("R", "S", nil), true},
		{"self-issued, says nothing", m.make("R", "R", noBasicConstraints), true},
		{"issued, says nothing", m.make("R", "S", noBasicConstraints), false},
		{"self-issued, says it is none", m.make("R", "R", endEntity), false},
		{"issued, says it is none", m.make("R", "S", endEntity), false},
		{"precertificate", m.make("R", "R", poisoned), false},
	} {
		certs, skipped, err := ParseRootsPEM([]byte(armoured(pemCertificate, c.der)))
		if got := len(certs) == 1 && len(skipped) == 0 && err == nil; got != c.want {
			t.Errorf("%s: %d roots, skipped %v, %v; want it to be one: %v", c.name, len(certs), skipped, err, c.want)
		}
	}
}

// TestSameNameRootsCost: roots of the same name in front of the right one are
// tried once and not for every request.
func TestSameNameRootsCost(t *testing.T) {
	ca := newCA(t, testca.Options{})
	roots := [][]byte{rootOf(newCA(t, testca.Options{})), rootOf(newCA(t, testca.Options{})), rootOf(ca)}
	v := newValidator(t, roots...)
	for i, want := range []int{4, 1} {
		if _, checks := v.cost(t, makeChain(t, ca, uint64(i), testca.Leaf{})); checks != want {
			t.Errorf("request %d: %d signatures, want %d", i, checks, want)
		}
	}
}

// TestRootSetsApart: logs may share parsed roots, but not what they accept.
func TestRootSetsApart(t *testing.T) {
	ca := newCA(t, testca.Options{})
	shared := mustParse(t, rootOf(ca))
	one, other := newValidator(t, rootOf(newCA(t, testca.Options{Name: "One"}))), newValidator(t, rootOf(newCA(t, testca.Options{Name: "Other"})))
	one.roots.Union([]*cert.Certificate{shared})
	chain := makeChain(t, ca, 1, testca.Leaf{})
	if _, err := one.validate(chain, false, nil); err != nil {
		t.Error(err)
	}
	if _, err := other.validate(chain, false, nil); !errors.Is(err, errUnknownRoot) {
		t.Errorf("the other log: %v", err)
	}
}
