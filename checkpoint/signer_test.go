package checkpoint

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybook-ct/daybook/tlog"
)

// TestCheckOrigin is clauses K2 (c2sp.org/tlog-checkpoint) and N3
// (c2sp.org/signed-note).
func TestCheckOrigin(t *testing.T) {
	for _, origin := range []string{
		"x", "log.example", "log.example/2027h1", "log.example:8443/ct/a", "LOG.example/A", "bücher.example",
		strings.Repeat("a", 255),
	} {
		if err := CheckOrigin(origin); err != nil {
			t.Error(err)
		}
	}
	k, err := KeysFromSeed(testSeed(1))
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]string{
		"":                       "is empty",
		"log example":            "has a space",
		"log.example/a b":        "has a space",
		"log.example\u00a0":      "has a space",
		"log.example\u2003x":     "has a space",
		"log.example\n":          "has a space",
		"log.example+1":          "has a plus sign",
		"log.example/\x00":       "has a control",
		"log.example/\x7f":       "has a control",
		"log.example/\u0085":     "has a space",
		"log.example/\u200b":     "has a control or invisible",
		"log.example/\xff":       "is not valid UTF-8",
		"https://log.example":    "has a scheme",
		"//log.example":          "starts with a slash",
		"log.example/":           "ends with a slash",
		strings.Repeat("a", 256): "is longer than 255 bytes",
	} {
		if _, err := NewSigner(origin, k); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("origin %q: error %v, want %q", origin, err, want)
		}
	}
}

var testTree = tlog.Tree{N: 123456, Hash: sha256.Sum256([]byte("root"))}

const testTimestamp = 1800000000123

func mustSign(t testing.TB, s *Signer, tree tlog.Tree, timestamp int64) []byte {
	t.Helper()
	signed, err := s.SignTreeHead(tree, timestamp)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// TestNoteBytes looks at a note byte by byte, with no parser of notes: clauses
// K1, K3, K4, K5, K7, N1 to N7 and S11 to S15.
func TestNoteBytes(t *testing.T) {
	s := testSigner(t, "log.example/2027h1")
	for _, tree := range []tlog.Tree{{N: 0, Hash: tlog.EmptyRoot}, {N: 1, Hash: tlog.Hash{1}}, testTree} {
		signed := string(mustSign(t, s, tree, testTimestamp))
		if !utf8.ValidString(signed) || regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f]`).MatchString(signed) {
			t.Errorf("N2: not UTF-8 or with control characters:\n%q", signed)
		}
		m := regexp.MustCompile(`^([^\n]+)\n(0|[1-9][0-9]*)\n([A-Za-z0-9+/]{43}=)\n\n((?:\x{2014} [^ \n]+ [A-Za-z0-9+/]+={0,2}\n)+)$`).FindStringSubmatch(signed)
		if m == nil {
			t.Fatalf("N1, K1, K3, K4, S15: not three lines, an empty one and signatures:\n%s", signed)
		}
		if m[1] != "log.example/2027h1" || m[2] != base10(tree.N) || m[3] != tree.Hash.String() {
			t.Errorf("S11: text is\n%s", signed)
		}
		lines := strings.Split(strings.TrimSuffix(m[4], "\n"), "\n")
		if len(lines) != 4 {
			t.Fatalf("%d signature lines, want 4", len(lines))
		}
		checkLines(t, s, lines, tree)
	}
}

func base10(n int64) string {
	b := []byte{}
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	if len(b) == 0 {
		return "0"
	}
	return string(b)
}

// checkLines verifies the RFC 6962 line over bytes built by hand, and that
// there is one such line and one cosignature.
func checkLines(t *testing.T, s *Signer, lines []string, tree tlog.Tree) {
	t.Helper()
	pub, err := x509.ParsePKIXPublicKey(s.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	logID := sha256.Sum256(s.PublicKey())
	wantID := sha256.Sum256(append([]byte(s.Origin()+"\n\x05"), logID[:]...)) // S13, N5
	rfc6962, cosigned := 0, 0
	for _, line := range lines {
		fields := strings.Split(line, " ")
		raw, err := base64.StdEncoding.DecodeString(fields[2])
		if err != nil || len(raw) < 5 {
			t.Fatalf("N4: %q", line)
		}
		if fields[1] != s.Origin() { // K7, S12
			continue
		}
		switch id := raw[:4]; {
		case bytes.Equal(id, wantID[:4]):
			rfc6962++
			// S14: uint64 timestamp, hash sha256 (4), signature ecdsa (3), uint16 length, DER.
			if binary.BigEndian.Uint64(raw[4:]) != testTimestamp || raw[12] != 4 || raw[13] != 3 ||
				int(raw[14])<<8|int(raw[15]) != len(raw)-16 || raw[16] != 0x30 {
				t.Errorf("S14: signature %x", raw)
			}
			message := hex.EncodeToString([]byte{0, 1}) + "000001a3185c507b" + // v1, tree_hash, 1800000000123
				hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(tree.N))) + hex.EncodeToString(tree.Hash[:])
			digest := sha256.Sum256(unhex(t, message))
			if !ecdsa.VerifyASN1(pub.(*ecdsa.PublicKey), digest[:], raw[16:]) {
				t.Error("S14: does not verify as an RFC 6962 tree head signature")
			}
		case binary.BigEndian.Uint32(id) == s.cosignerID:
			cosigned++
			if len(raw) != 4+8+2420 || binary.BigEndian.Uint64(raw[4:]) != testTimestamp/1000 {
				t.Errorf("cosignature of %d bytes with time %d", len(raw), binary.BigEndian.Uint64(raw[4:]))
			}
		}
	}
	if rfc6962 != 1 || cosigned != 1 {
		t.Errorf("N7: %d RFC 6962 signatures and %d cosignatures, want one each", rfc6962, cosigned)
	}
}

// TestCosignature is clauses N10 and K8: torchwood's verifier, made from the
// vkey alone, accepts the cosignature, and not that of another tree.
func TestCosignature(t *testing.T) {
	s := testSigner(t, "log.example/2027h1")
	for _, tree := range []tlog.Tree{{N: 0, Hash: tlog.EmptyRoot}, testTree, {N: 1 << 40, Hash: tlog.Hash{9}}} {
		signed := mustSign(t, s, tree, testTimestamp)
		n := openMLDSA(t, s, signed)
		if len(n.Sigs) != 1 || cosignatureTime(t, n.Sigs[0].Base64) != testTimestamp/1000 {
			t.Errorf("size %d: verified signatures %v", tree.N, n.Sigs)
		}
	}
	k := s.keys
	k.MLDSA = nil
	plain, err := NewSigner(s.Origin(), k)
	if err != nil {
		t.Fatal(err)
	}
	if plain.MLDSAVerifierKey() != "" {
		t.Error("vkey without a key")
	}
	signed := mustSign(t, plain, testTree, testTimestamp)
	if n := len(signatures(t, signed)); n != 3 {
		t.Errorf("%d signatures without an ML-DSA key, want 3", n)
	}
	if th, err := s.Verifier().Verify(signed); err != nil || th.Tree != testTree {
		t.Errorf("Verify = %v, %v", th, err)
	}
}

// TestGrease: of a note's signatures exactly two are nobody's, under two names,
// with lengths and places that vary; and they are never mistaken for real ones.
func TestGrease(t *testing.T) {
	s := testSigner(t, "log.example/2027h1")
	k := s.keys
	k.MLDSA = nil // to be quick; the cosignature has its own line above
	s, err := NewSigner(s.Origin(), k)
	if err != nil {
		t.Fatal(err)
	}
	places, lengths, names := map[int]int{}, map[int]int{}, map[string]int{}
	const rounds = 300
	for i := range int64(rounds) {
		signed := mustSign(t, s, testTree, testTimestamp+i)
		sigs := signatures(t, signed)
		if len(sigs) != 3 {
			t.Fatalf("%d signatures, want 3", len(sigs))
		}
		for place, sig := range sigs {
			if sig.Name == s.Origin() && sig.Hash == s.verifier.keyID {
				places[place]++
				continue
			}
			names[sig.Name]++
			lengths[len(sig.Base64)]++
		}
	}
	if names[s.Origin()] != rounds || names[greaseName] != rounds {
		t.Errorf("grease by name: %v, want %d each", names, rounds)
	}
	if len(places) != 3 || len(lengths) < 20 {
		t.Errorf("the real signature stood in %d places, grease had %d lengths", len(places), len(lengths))
	}
}

// TestGreaseCollision forces the draw of a key ID that is taken.
func TestGreaseCollision(t *testing.T) {
	s := testSigner(t, "log.example")
	text := []byte("log.example\n0\n\n")
	var drawn []uint32
	for _, g := range s.greased(nil, text, 1) {
		drawn = append(drawn, g.id)
	}
	taken := []signature{{name: s.Origin(), id: drawn[0]}, {name: s.Origin(), id: drawn[1]}}
	seen := map[uint32]int{}
	for _, g := range s.greased(taken, text, 1) {
		seen[g.id]++
	}
	if len(seen) != 4 {
		t.Errorf("key IDs %v, want four different ones", seen)
	}
}

// TestSignTreeHeadIsAFunction: signing again gives the same bytes, another
// timestamp or tree other ones.
func TestSignTreeHeadIsAFunction(t *testing.T) {
	s := testSigner(t, "log.example")
	a := mustSign(t, s, testTree, testTimestamp)
	if b := mustSign(t, testSigner(t, "log.example"), testTree, testTimestamp); !bytes.Equal(a, b) {
		t.Errorf("same input, two notes:\n%s\n%s", a, b)
	}
	if b := mustSign(t, s, testTree, testTimestamp+1); bytes.Equal(a, b) {
		t.Error("two timestamps, one note")
	}
}

func TestSignTreeHeadRefuses(t *testing.T) {
	s := testSigner(t, "log.example")
	for name, h := range map[string]struct {
		tree      tlog.Tree
		timestamp int64
	}{
		"timestamp 0":        {testTree, 0},
		"negative timestamp": {testTree, -1},
		"negative size":      {tlog.Tree{N: -1}, testTimestamp},
		"empty, wrong root":  {tlog.Tree{N: 0}, testTimestamp},
	} {
		if signed, err := s.SignTreeHead(h.tree, h.timestamp); err == nil {
			t.Errorf("%s: signed\n%s", name, signed)
		}
	}
}

func TestPublicKeyIsACopy(t *testing.T) {
	s := testSigner(t, "log.example")
	s.PublicKey()[0] ^= 1
	if id := sha256.Sum256(s.PublicKey()); id != s.LogID() {
		t.Error("caller changed the signer's public key")
	}
}
