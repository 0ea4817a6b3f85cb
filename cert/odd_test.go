package cert

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/cases"
)

// oddRefused are the certificates of the odd set that are refused: five are no
// certificates at all, four differ outside the signed bytes.
var oddRefused = map[string]string{
	"52":  "the TBSCertificate is missing", // CMS
	"84":  "the outer signatureAlgorithm differs",
	"123": "the outer signatureAlgorithm differs",
	"124": "the outer signatureAlgorithm differs",
	"139": "the TBSCertificate is missing", // OCSP response
	"141": "the outer signatureAlgorithm differs",
	"142": "the TBSCertificate is missing", // CMS
	"169": "the TBSCertificate is missing", // CMS
	"174": "not an ASN.1 SEQUENCE, or cut off",
}

func TestOdd(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "odd")
	ders := cases.ReadPEM(t, filepath.Join(dir, "odd.pem"))
	rows := readIndex(t, filepath.Join(dir, "INDEX.tsv"))
	if len(ders) != len(rows) || len(rows) == 0 {
		t.Fatalf("%d certificates, %d rows", len(ders), len(rows))
	}
	for i, r := range rows {
		if sum := sha256.Sum256(ders[i]); hex.EncodeToString(sum[:]) != r["sha256"] {
			t.Fatalf("row %s is about another certificate", r["n"])
		}
		c, err := Parse(ders[i])
		if want, refused := oddRefused[r["n"]]; refused {
			if err == nil || !strings.HasPrefix(err.Error(), "malformed certificate: "+want) {
				t.Errorf("%s (%s): Parse says %v, not %q", r["n"], r["origin"], err, want)
			}
			if strings.HasPrefix(r["ct_go_x509"], "ok") {
				t.Errorf("%s: refused, but another lax parser takes it", r["n"])
			}
			continue
		}
		if err != nil {
			t.Errorf("%s (%s): %v", r["n"], r["origin"], err)
			continue
		}
		if want := r["notAfter"]; want != "" && c.NotAfter.Format(time.RFC3339) != want {
			t.Errorf("%s: NotAfter is %v, not %s", r["n"], c.NotAfter, want)
		}
		checkProperties(t, c)
	}
}

// checkProperties holds what must hold for every certificate that Parse takes.
func checkProperties(t testing.TB, c *Certificate) {
	t.Helper()
	for _, part := range [][]byte{c.RawTBS, c.RawIssuer, c.RawSubject, c.RawSPKI} {
		if len(part) < 2 || !bytes.Contains(c.Raw, part) {
			t.Fatalf("%x is no part of the certificate", part)
		}
	}
	for _, part := range [][]byte{c.RawIssuer, c.RawSubject, c.RawSPKI} {
		if !bytes.Contains(c.RawTBS, part) {
			t.Fatalf("%x is no part of the TBSCertificate", part)
		}
	}
	// What lies outside the TBSCertificate is DER, and so decided by what is
	// inside it and by the signature.
	rebuilt := tlv(0x30, c.RawTBS, elements(elementBody(c.RawTBS))[algorithmIndex(c)], bitString(c.signature))
	if !bytes.Equal(rebuilt, c.Raw) {
		t.Fatalf("certificate is not the DER of its parts: %x, not %x", c.Raw, rebuilt)
	}
	if names := c.NamesJSON(); !json.Valid(names) || len(names) > 64+8*len(c.Raw) {
		t.Fatalf("NamesJSON = %q", names)
	}
	if err := c.CheckSignatureFrom(c); err != nil && !errors.Is(err, ErrBadSignature) && !errors.Is(err, ErrUnsupportedAlgorithm) {
		t.Fatalf("CheckSignatureFrom: %v", err)
	}
	if (c.Poison == InvalidPoison) != (c.PoisonProblem() != nil) {
		t.Fatalf("Poison = %v, but PoisonProblem = %v", c.Poison, c.PoisonProblem())
	}
	if tbs, err := c.PrecertTBS(nil); err != nil {
		if !errors.Is(err, ErrPoison) && !errors.Is(err, ErrPrecertTBS) {
			t.Fatalf("PrecertTBS: %v", err)
		}
	} else {
		checkReinsertion(t, c, tbs)
	}
}

// algorithmIndex is the place of the signature algorithm among the fields of
// the TBSCertificate.
func algorithmIndex(c *Certificate) int {
	if elementBody(c.RawTBS)[0] == 0xa0 {
		return 2
	}
	return 1
}

// checkReinsertion puts the poison back into a cut TBSCertificate, at its place
// among the extensions, which must give the original bytes.
func checkReinsertion(t testing.TB, c *Certificate, cut []byte) {
	t.Helper()
	original, fields := elements(elementBody(c.RawTBS)), elements(elementBody(cut))
	at := algorithmIndex(c) + 1
	for original[at][0] != 0xa3 {
		at++
	}
	poison := -1
	for i, x := range elements(elementBody(elementBody(original[at]))) {
		if oid := elements(elementBody(x))[0]; string(elementBody(oid)) == oidPoison {
			poison = i
			extensions := elements(elementBody(elementBody(fields[at])))
			fields[at] = tlv(0xa3, tlv(0x30, insert(extensions, i, x)...))
			break
		}
	}
	if restored := tlv(0x30, fields...); poison < 0 || !bytes.Equal(restored, c.RawTBS) {
		t.Fatalf("with the poison back in, the TBSCertificate is %x, not %x", restored, c.RawTBS)
	}
	if strings.Contains(string(cut), "\x06\x0a"+oidPoison) && strings.Count(string(c.RawTBS), "\x06\x0a"+oidPoison) == 1 {
		t.Fatalf("the poison is in the cut TBSCertificate still")
	}
}

func TestRoots(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "roots")
	for file, want := range map[string]struct{ certificates, refused, unsigned int }{
		// The truncated certificate is refused; an end-entity certificate is
		// among the others.
		"messy-roots.pem": {9, 1, 1},
		// Of the roots of a live log 42 are signed with MD2, MD5, DSA or with
		// an exponent of 32 bits, one with a signature that OpenSSL refuses,
		// too, and three by others. All are trust anchors, so that does not matter.
		"arche2026h1-roots.pem": {662, 0, 46},
		"quirky-roots.pem":      {7, 0, 1},
	} {
		ders := cases.ReadPEM(t, filepath.Join(dir, file))
		refused, unsigned := 0, 0
		for _, der := range ders {
			c, err := Parse(der)
			if err != nil {
				refused++
				continue
			}
			checkProperties(t, c)
			if c.CheckSignatureFrom(c) != nil {
				unsigned++
			}
		}
		if len(ders) != want.certificates || refused != want.refused || unsigned != want.unsigned {
			t.Errorf("%s: %d certificates, %d refused, %d not signed by themselves; not %v", file, len(ders), refused, unsigned, want)
		}
	}
}

// tileEntry is what these tests need of a TileLeaf (static-ct-api).
type tileEntry struct {
	timestamp      uint64
	issuerKeyHash  []byte // nil for final certificates
	signed         []byte
	precertificate []byte
	chain          []byte
}

func readTile(t testing.TB, path string) []tileEntry {
	t.Helper()
	b := readMaybeGzip(t, path)
	take := func(n int) []byte {
		if n > len(b) {
			t.Fatalf("%s is cut off", path)
		}
		part := b[:n]
		b = b[n:]
		return part
	}
	prefixed := func(size int) []byte {
		var n [4]byte
		copy(n[4-size:], take(size))
		return take(int(binary.BigEndian.Uint32(n[:])))
	}
	var entries []tileEntry
	for len(b) > 0 {
		e := tileEntry{timestamp: binary.BigEndian.Uint64(take(8))}
		precert := binary.BigEndian.Uint16(take(2)) == 1
		if precert {
			e.issuerKeyHash = take(32)
		}
		e.signed = prefixed(3)
		prefixed(2)
		if precert {
			e.precertificate = prefixed(3)
		}
		e.chain = prefixed(2)
		entries = append(entries, e)
	}
	return entries
}

func readMaybeGzip(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		return b
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTiles rebuilds the signed entries of real tiles, which another log wrote.
func TestTiles(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "tiles", "navigli2025h2")
	files, err := filepath.Glob(filepath.Join(dir, "issuers", "*.pem"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	issuers := map[string]*Certificate{}
	for _, file := range files {
		for _, der := range cases.ReadPEM(t, file) {
			c, err := Parse(der)
			if err != nil {
				t.Fatal(err)
			}
			issuers[string(c.Fingerprint[:])] = c
		}
	}
	precerts := 0
	for _, file := range []string{"000", "003.p/10"} {
		for i, e := range readTile(t, filepath.Join(dir, "tile", "data", file)) {
			if e.precertificate == nil {
				continue
			}
			c, err := Parse(e.precertificate)
			if err != nil {
				t.Fatal(err)
			}
			checkProperties(t, c)
			if tbs, err := c.PrecertTBS(nil); err != nil || !bytes.Equal(tbs, e.signed) {
				t.Errorf("%s, entry %d: TBS differs from the logged one (%v)", file, i, err)
			}
			issuer := issuers[string(e.chain[:32])]
			if issuer == nil {
				t.Fatalf("%s, entry %d: issuer is missing", file, i)
			}
			if err := c.CheckSignatureFrom(issuer); err != nil {
				t.Errorf("%s, entry %d: %v", file, i, err)
			}
			if hash := issuer.IssuerKeyHash(); !bytes.Equal(hash[:], e.issuerKeyHash) {
				t.Errorf("%s, entry %d: issuer_key_hash differs", file, i)
			}
			precerts++
		}
	}
	if precerts < 200 {
		t.Errorf("only %d precertificates", precerts)
	}
}

// TestNamesTiles compares with the names tiles of Sunlight, which encoding/json
// wrote.
func TestNamesTiles(t *testing.T) {
	dir := filepath.Join(cases.Dir(t, "open"), "..", "sunlight-log", "data", "tile")
	n := 0
	for _, tile := range []string{"000", "001", "002.p/88"} {
		lines := strings.Split(string(readMaybeGzip(t, filepath.Join(dir, "names", tile))), "\n")
		for i, e := range readTile(t, filepath.Join(dir, "data", tile)) {
			der := e.precertificate
			if der == nil {
				der = e.signed
			}
			c, err := Parse(der)
			if err != nil {
				t.Fatal(err)
			}
			line := strings.Replace(string(c.NamesJSON()), "{", `{"Timestamp":`+jsonNumber(e.timestamp)+",", 1)
			if line != lines[i] {
				t.Fatalf("%s, line %d: %s, not %s", tile, i, line, lines[i])
			}
			n++
		}
	}
	if n != 600 {
		t.Errorf("%d lines compared, not 600", n)
	}
}

func jsonNumber(n uint64) string {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(b)
}
