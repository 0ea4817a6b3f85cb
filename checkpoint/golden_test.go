package checkpoint

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/tlog"
)

// Vectors of testdata/vectors.json, which testdata/vectors.py makes from the
// specifications without this package's code.
type logVectors struct {
	Seed      string `json:"seed"`
	Origin    string `json:"origin"`
	SPKI      string `json:"spki"`
	LogID     string `json:"log_id"`
	MLDSASeed string `json:"mldsa_seed"`
	TreeHeads []struct {
		Size      int64  `json:"size"`
		Root      string `json:"root"`
		Timestamp int64  `json:"timestamp"`
		Text      string `json:"text"`
		Line      string `json:"line"`
	} `json:"tree_heads"`
	SCTs []struct {
		Unit          string `json:"certificate_unit"`
		Units         int    `json:"certificate_units"`
		IssuerKeyHash string `json:"issuer_key_hash"`
		Index         int64  `json:"index"`
		Timestamp     int64  `json:"timestamp"`
		Signature     string `json:"signature"`
		JSON          string `json:"json"`
	} `json:"scts"`
}

func TestVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var logs []logVectors
	if err := json.Unmarshal(b, &logs); err != nil {
		t.Fatal(err)
	}
	if len(logs) < 2 {
		t.Fatalf("%d logs in the vectors", len(logs))
	}
	for _, l := range logs {
		t.Run(l.Origin, func(t *testing.T) { testVectors(t, l) })
	}
}

func testVectors(t *testing.T, l logVectors) {
	k, err := KeysFromSeed(unhex(t, l.Seed))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(l.Origin, k)
	if err != nil {
		t.Fatal(err)
	}
	if got := base64.StdEncoding.EncodeToString(s.PublicKey()); got != l.SPKI {
		t.Errorf("public key %s, want %s", got, l.SPKI)
	}
	id := s.LogID()
	if got := base64.StdEncoding.EncodeToString(id[:]); got != l.LogID {
		t.Errorf("log ID %s, want %s", got, l.LogID)
	}
	if got := hex.EncodeToString(k.MLDSA.Bytes()); got != l.MLDSASeed {
		t.Errorf("ML-DSA seed %s, want %s", got, l.MLDSASeed)
	}
	for _, h := range l.TreeHeads {
		tree := tlog.Tree{N: h.Size, Hash: tlog.Hash(unhex(t, h.Root))}
		signed, err := s.SignTreeHead(tree, h.Timestamp)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(signed), h.Text+"\n— ") || !strings.Contains(string(signed), "\n"+h.Line) {
			t.Errorf("size %d: note\n%swant text\n%sand line\n%s", h.Size, signed, h.Text, h.Line)
		}
		th, err := s.Verifier().Verify([]byte(h.Text + "\n" + h.Line))
		if want := (TreeHead{l.Origin, tree, h.Timestamp}); err != nil || th != want {
			t.Errorf("size %d: Verify = %v, %v, want %v", h.Size, th, err, want)
		}
	}
	for _, v := range l.SCTs {
		entry := newEntry(t, bytes.Repeat(unhex(t, v.Unit), v.Units), unhex(t, v.IssuerKeyHash))
		leaf := tlog.Leaf{Entry: entry, Position: tlog.Position{Index: v.Index, Timestamp: v.Timestamp}}
		sct, err := s.SCT(leaf)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(sct.Signature); got != v.Signature {
			t.Errorf("index %d: signature %s, want %s", v.Index, got, v.Signature)
		}
		if got := string(sct.AppendJSON(nil)); got != v.JSON {
			t.Errorf("index %d: JSON %s, want %s", v.Index, got, v.JSON)
		}
		var back SCT
		if err := json.Unmarshal([]byte(v.JSON), &back); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Verifier().CheckSCT(back, entry); err != nil || p != leaf.Position {
			t.Errorf("index %d: CheckSCT = %v, %v, want %v", v.Index, p, err, leaf.Position)
		}
	}
}

// TestSunlightLog takes over the key and the checkpoint of a log that Sunlight
// ran: both keys, both signatures and their key IDs must come out the same.
func TestSunlightLog(t *testing.T) {
	dir := filepath.Join(cases.Dir(t), "sunlight-log")
	k, err := ParseKey(readFile(t, dir, "seed.bin"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner("rome.harness.example/2027h1", k)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(readFile(t, dir, "key.pem"))
	if block == nil || !bytes.Equal(block.Bytes, s.PublicKey()) {
		t.Errorf("public key is %x, not that of key.pem", s.PublicKey())
	}
	keys := string(readFile(t, dir, "public-keys.txt"))
	id := s.LogID()
	if want := "Log ID: " + base64.StdEncoding.EncodeToString(id[:]) + "\n"; !strings.Contains(keys, want) {
		t.Errorf("public-keys.txt has no line %q", want)
	}
	if want := "ML-DSA-44 verifier key: " + s.MLDSAVerifierKey() + "\n"; !strings.Contains(keys, want) {
		t.Errorf("public-keys.txt has no line %q", want)
	}

	golden := readFile(t, dir, "data/checkpoint")
	th, err := s.Verifier().Verify(golden)
	if err != nil || th.Tree.N != 600 || th.Timestamp != 1796061447463 {
		t.Errorf("Verify = %v, %v", th, err)
	}
	if n := openMLDSA(t, s, golden); len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 3 {
		t.Errorf("of its signatures %d verify as ML-DSA, %d do not", len(n.Sigs), len(n.UnverifiedSigs))
	}

	// RFC 6979 leaves no choice: the same tree head has the same signature.
	signed, err := s.SignTreeHead(th.Tree, th.Timestamp)
	if err != nil {
		t.Fatal(err)
	}
	want := linesOf(t, s, golden)[s.verifier.keyID]
	if got := linesOf(t, s, signed)[s.verifier.keyID]; got != want || want == "" {
		t.Errorf("RFC 6962 line %q, want %q", got, want)
	}
	// ML-DSA leaves one, so only the key ID and timestamp are the same.
	theirs, ours := linesOf(t, s, golden)[s.cosignerID], linesOf(t, s, signed)[s.cosignerID]
	if len(theirs) != len(ours) || theirs == "" || cosignatureTime(t, theirs) != cosignatureTime(t, ours) {
		t.Errorf("cosignature line %q, want one like %q", ours, theirs)
	}
}

// openMLDSA opens a note with the log's vkey, and torchwood's verifier of it.
func openMLDSA(t *testing.T, s *Signer, signed []byte) *note.Note {
	t.Helper()
	v, err := torchwood.NewCosignatureVerifier(s.MLDSAVerifierKey())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// linesOf returns the base64 of the note's signatures under the log's own name by key ID.
func linesOf(t *testing.T, s *Signer, signed []byte) map[uint32]string {
	t.Helper()
	m := make(map[uint32]string)
	for _, sig := range signatures(t, signed) {
		if sig.Name == s.Origin() {
			m[sig.Hash] = sig.Base64
		}
	}
	return m
}

// signatures returns all signatures of a note, none verified.
func signatures(t *testing.T, signed []byte) []note.Signature {
	t.Helper()
	_, err := note.Open(signed, nil)
	unverified, ok := err.(*note.UnverifiedNoteError)
	if !ok {
		t.Fatalf("note does not parse: %v\n%s", err, signed)
	}
	return unverified.Note.UnverifiedSigs
}

func cosignatureTime(t *testing.T, b64 string) int64 {
	t.Helper()
	ts, err := torchwood.CosignatureTimestamp(note.Signature{Base64: b64})
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func readFile(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newEntry returns a precert entry if there is an issuer key hash.
func newEntry(t testing.TB, certificate, issuerKeyHash []byte) *tlog.Entry {
	t.Helper()
	var e *tlog.Entry
	var err error
	if len(issuerKeyHash) == 0 {
		e, err = tlog.NewX509Entry(certificate, nil, nil)
	} else {
		e, err = tlog.NewPrecertEntry(certificate, [32]byte(issuerKeyHash), []byte("precertificate"), nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}
