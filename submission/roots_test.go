package submission

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testca"
)

func newCA(t testing.TB, o testca.Options) *testca.CA {
	t.Helper()
	ca, err := testca.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// TestMessyRoots reads the file that holds every fault seen in root lists.
func TestMessyRoots(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(cases.Dir(t, "open"), "roots", "messy-roots.pem"))
	if err != nil {
		t.Fatal(err)
	}
	certs, skipped, err := ParseRootsPEM(text)
	if err != nil {
		t.Fatal(err)
	}
	// The file: a root twice, one with CRLF, one with trailing blanks, a block
	// that is no certificate, one cut short, one with a negative serial
	// number, an end entity, and one without a line break at the end.
	want := []string{"Test Root R", "Chambers of Commerce Root - 2008", "DST Root CA X3", "Equifax Secure Certificate Authority", "EC-ACC", "Test Root R2"}
	if len(certs) != len(want) {
		t.Fatalf("%d roots, want %d", len(certs), len(want))
	}
	for i, c := range certs {
		if names := string(c.NamesJSON()); !strings.Contains(names, `"`+want[i]+`"`) {
			t.Errorf("root %d is %s, want %s", i, names, want[i])
		}
	}
	if len(skipped) != 2 || !errors.Is(skipped[0], cert.ErrMalformed) || skipped[0].Block != 7 ||
		!errors.Is(skipped[1], ErrEndEntity) || skipped[1].Block != 9 || !strings.Contains(skipped[1].Error(), "a01.aperta.example") {
		t.Errorf("skipped: %v", skipped)
	}
}

// TestRootFiles: lists in use are read whole, each certificate once.
func TestRootFiles(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "roots")
	for name, want := range map[string]int{"arche2026h1-roots.pem": 662, "quirky-roots.pem": 7} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		certs, skipped, err := ParseRootsPEM(text)
		if err != nil || len(certs)+len(skipped) != want {
			t.Fatalf("%s: %d roots and %d skipped (%v), want %d", name, len(certs), len(skipped), err, want)
		}
		for _, s := range skipped {
			t.Errorf("%s: %v", name, s)
		}
	}
}

func armoured(typ string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}))
}

// TestParseRootsPEMFaults: each fault is named with its place and leaves the
// roots around it untouched.
func TestParseRootsPEMFaults(t *testing.T) {
	ca := newCA(t, testca.Options{})
	issuers := ca.Issuers()
	intermediate, root := issuers[0], issuers[1]
	chain, err := ca.Make(1, testca.Leaf{})
	if err != nil {
		t.Fatal(err)
	}
	leaf := chain.Certificates[0]
	rootPEM, otherPEM := armoured(pemCertificate, root), armoured(pemCertificate, intermediate)
	lines := strings.SplitAfter(rootPEM, "\n")
	cut := strings.Join(lines[:4], "")

	type fault struct {
		block, line int
		err         error
		fingerprint bool
	}
	for _, c := range []struct {
		name, text string
		roots      int
		faults     []fault
	}{
		{"plain", rootPEM + otherPEM, 2, nil},
		{"no line break at the end", strings.TrimSpace(rootPEM), 1, nil},
		{"CRLF", strings.ReplaceAll(rootPEM+otherPEM, "\n", "\r\n"), 2, nil},
		{"CR", strings.ReplaceAll(rootPEM+otherPEM, "\n", "\r"), 2, nil},
		{"blanks at the ends of lines", strings.ReplaceAll(rootPEM+otherPEM, "\n", " \t\n"), 2, nil},
		{"blanks before lines", "  " + strings.ReplaceAll(rootPEM, "\n", "\n  "), 1, nil},
		{"text around", "subject=x\n" + rootPEM + "\n\n# " + strings.Repeat("y", 100) + "\n" + otherPEM + "end", 2, nil},
		{"twice", rootPEM + otherPEM + rootPEM, 2, nil},
		{"other types", armoured("X509 CRL", root) + rootPEM + armoured("PRIVATE KEY", []byte{1}), 1, nil},
		{"cut off before another", cut + otherPEM, 1, []fault{{1, 1, errTruncated, false}}},
		{"cut off at the end", otherPEM + cut, 1, []fault{{2, strings.Count(otherPEM, "\n") + 1, errTruncated, false}}},
		{"no base64", "-----BEGIN CERTIFICATE-----\nx!\n-----END CERTIFICATE-----\n" + rootPEM, 1, []fault{{1, 1, errPEMBase64, false}}},
		{"empty block", "\n-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n" + rootPEM, 1, []fault{{1, 2, errPEMBase64, false}}},
		{"not a certificate", armoured(pemCertificate, []byte("hello")) + rootPEM, 1, []fault{{1, 1, cert.ErrMalformed, true}}},
		{"truncated DER", armoured(pemCertificate, root[:len(root)-9]) + rootPEM, 1, []fault{{1, 1, cert.ErrMalformed, true}}},
		{"end entity", rootPEM + armoured(pemCertificate, leaf), 1, []fault{{2, strings.Count(rootPEM, "\n") + 1, ErrEndEntity, true}}},
		{"end entity twice", armoured(pemCertificate, leaf) + armoured(pemCertificate, leaf) + rootPEM, 1, []fault{{1, 1, ErrEndEntity, true}}},
	} {
		certs, skipped, err := ParseRootsPEM([]byte(c.text))
		if err != nil || len(certs) != c.roots || len(skipped) != len(c.faults) {
			t.Errorf("%s: %d roots, %v skipped, error %v; want %d, %v", c.name, len(certs), skipped, err, c.roots, c.faults)
			continue
		}
		for i, want := range c.faults {
			got := skipped[i]
			if got.Block != want.block || got.Line != want.line || !errors.Is(got, want.err) || got.Fingerprint != [32]byte{} != want.fingerprint {
				t.Errorf("%s: skipped %v, want %v", c.name, got, want)
			}
			if errors.Is(got, ErrEndEntity) && (got.Fingerprint != sha256.Sum256(leaf) || !strings.Contains(got.Error(), "CommonName") && !strings.Contains(got.Error(), "DNS")) {
				t.Errorf("%s: %v does not name the certificate", c.name, got)
			}
		}
	}
}

// TestNoRoots: what holds no root is an error and not an empty set, be it
// empty, a web page or a list of nothing usable.
func TestNoRoots(t *testing.T) {
	for _, text := range []string{"", "\n", "<html><body>502 Bad Gateway</body></html>", armoured(pemCertificate, []byte{0x30, 0}), "-----BEGIN CERTIFICATE-----"} {
		if certs, _, err := ParseRootsPEM([]byte(text)); !errors.Is(err, ErrNoRoots) || len(certs) != 0 {
			t.Errorf("%q: %d roots, %v", text, len(certs), err)
		}
	}
	if _, err := NewRoots(nil); !errors.Is(err, ErrNoRoots) {
		t.Errorf("NewRoots(nil): %v", err)
	}
}

// TestRootsUnion: the set grows and never shrinks, lists each root once in the
// order added, and comes back the same from its PEM.
func TestRootsUnion(t *testing.T) {
	var certs []*cert.Certificate
	for range 4 {
		certs = append(certs, mustParse(t, newCA(t, testca.Options{Direct: true}).Issuers()[0]))
	}
	r, err := NewRoots([]*cert.Certificate{certs[0], certs[1], certs[0]})
	if err != nil {
		t.Fatal(err)
	}
	check := func(want ...*cert.Certificate) {
		t.Helper()
		var got struct{ Certificates [][]byte }
		if err := json.Unmarshal(r.set.Load().json, &got); err != nil {
			t.Fatal(err)
		}
		again, skipped, err := ParseRootsPEM(r.PEM())
		if err != nil || len(skipped) > 0 {
			t.Fatal(err, skipped)
		}
		if r.Len() != len(want) || len(got.Certificates) != len(want) || len(again) != len(want) {
			t.Fatalf("Len is %d, JSON lists %d, PEM %d; want %d", r.Len(), len(got.Certificates), len(again), len(want))
		}
		for i, c := range want {
			if !bytes.Equal(got.Certificates[i], c.Raw) || !bytes.Equal(again[i].Raw, c.Raw) {
				t.Errorf("root %d is another one", i)
			}
		}
	}
	check(certs[0], certs[1])
	for _, c := range []struct {
		union []*cert.Certificate
		added int
	}{{nil, 0}, {certs[1:2], 0}, {[]*cert.Certificate{certs[3], certs[1], certs[3], certs[2]}, 2}} {
		before := r.set.Load()
		if missing := r.Missing(c.union); len(missing) != c.added || c.added > 0 && (missing[0] != certs[3] || missing[1] != certs[2]) {
			t.Errorf("%d are missing, want %d", len(missing), c.added)
		}
		if added := r.Union(c.union); added != c.added {
			t.Errorf("Union added %d, want %d", added, c.added)
		}
		if c.added == 0 && r.set.Load() != before {
			t.Error("a union that adds nothing made a new set, so all issuers were forgotten")
		}
	}
	check(certs[0], certs[1], certs[3], certs[2])
}
