package checkpoint

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/tlog"
)

func testLeaf(t testing.TB, precert bool) tlog.Leaf {
	t.Helper()
	var issuerKeyHash []byte
	if precert {
		h := sha256.Sum256([]byte("issuer"))
		issuerKeyHash = h[:]
	}
	return tlog.Leaf{
		Entry:    newEntry(t, bytes.Repeat([]byte{0x30}, 1500), issuerKeyHash),
		Position: tlog.Position{Index: 0x0102030405, Timestamp: testTimestamp},
	}
}

// TestSCTByHand is clauses R24 and S4 to S6: the signature verifies, with the
// standard library, over bytes put together here as RFC 6962 section 3.2 lists them.
func TestSCTByHand(t *testing.T) {
	s := testSigner(t, "log.example")
	pub, err := x509.ParsePKIXPublicKey(s.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, precert := range []bool{false, true} {
		leaf := testLeaf(t, precert)
		sct, err := s.SCT(leaf)
		if err != nil {
			t.Fatal(err)
		}
		if want := []byte{0, 0, 5, 1, 2, 3, 4, 5}; !bytes.Equal(sct.Extensions, want) {
			t.Fatalf("extensions %x, want %x", sct.Extensions, want)
		}
		in := []byte{0 /* v1 */, 0 /* certificate_timestamp */}
		in = binary.BigEndian.AppendUint64(in, testTimestamp)
		if precert {
			h := leaf.Entry.IssuerKeyHash()
			in = append(append(in, 0, 1), h[:]...)
		} else {
			in = append(in, 0, 0)
		}
		in = append(in, 0, 1500>>8, 1500&0xff)
		in = append(in, leaf.Entry.Certificate()...)
		in = append(in, 0, 8, 0, 0, 5, 1, 2, 3, 4, 5)
		digest := sha256.Sum256(in)
		if sig := sct.Signature; sig[0] != 4 || sig[1] != 3 || int(sig[2])<<8|int(sig[3]) != len(sig)-4 ||
			!ecdsa.VerifyASN1(pub.(*ecdsa.PublicKey), digest[:], sig[4:]) {
			t.Errorf("precert %v: signature %x does not verify", precert, sig)
		}
		if err := s.Verifier().VerifySCT(leaf, sct.Signature); err != nil {
			t.Error(err)
		}
		again, err := s.SignSCT(leaf)
		if err != nil || !bytes.Equal(again, sct.Signature) {
			t.Errorf("signed again: %x, %v, want %x", again, err, sct.Signature)
		}
	}
}

// TestVerifySCTCoversAll changes one thing at a time.
func TestVerifySCTCoversAll(t *testing.T) {
	s := testSigner(t, "log.example")
	leaf := testLeaf(t, false)
	sig, err := s.SignSCT(leaf)
	if err != nil {
		t.Fatal(err)
	}
	index, timestamp, entry := leaf, leaf, leaf
	index.Index++
	timestamp.Timestamp++
	entry.Entry = testLeaf(t, true).Entry
	for name, l := range map[string]tlog.Leaf{"index": index, "timestamp": timestamp, "entry": entry} {
		if err := s.Verifier().VerifySCT(l, sig); err == nil {
			t.Errorf("verifies with another %s", name)
		}
	}
	for i := range sig {
		changed := bytes.Clone(sig)
		changed[i] ^= 1
		if err := s.Verifier().VerifySCT(leaf, changed); err == nil {
			t.Errorf("verifies with byte %d changed", i)
		}
	}
	for n := range len(sig) {
		if err := s.Verifier().VerifySCT(leaf, sig[:n]); err == nil {
			t.Errorf("verifies when cut to %d bytes", n)
		}
	}
	if err := s.Verifier().VerifySCT(leaf, append(sig, 0)); err == nil {
		t.Error("verifies with a byte appended")
	}
}

// signedWith returns an SCT of the leaf with other extensions, rightly signed.
func signedWith(t *testing.T, s *Signer, leaf tlog.Leaf, extensions []byte) SCT {
	t.Helper()
	in := leaf.SCTInput()
	in = binary.BigEndian.AppendUint16(in[:len(in)-10], uint16(len(extensions)))
	sig, err := s.digitallySigned(append(in, extensions...))
	if err != nil {
		t.Fatal(err)
	}
	return SCT{LogID: s.LogID(), Timestamp: leaf.Timestamp, Extensions: extensions, Signature: sig}
}

// TestCheckSCTExtensions is clause S7 of static-ct-api.
func TestCheckSCTExtensions(t *testing.T) {
	s := testSigner(t, "log.example")
	leaf := testLeaf(t, true)
	index := "\x00\x00\x05\x01\x02\x03\x04\x05"
	for extensions, ok := range map[string]bool{
		index:                          true,
		"\x07\x00\x02ab" + index:       true,
		index + "\x07\x00\x00":         true,
		index + index:                  false,
		"":                             false,
		"\x07\x00\x00":                 false,
		index + "\x07":                 false,
		"\x00\x00\x04\x01\x02\x03\x04": false,
	} {
		sct := signedWith(t, s, leaf, []byte(extensions))
		p, err := s.Verifier().CheckSCT(sct, leaf.Entry)
		if ok && (err != nil || p != leaf.Position) {
			t.Errorf("extensions %x: %v, %v", extensions, p, err)
		}
		if !ok && err == nil {
			t.Errorf("extensions %x: accepted, with %v", extensions, p)
		}
	}
	good := signedWith(t, s, leaf, []byte(index))
	for name, change := range map[string]func(*SCT){
		"log ID":     func(s *SCT) { s.LogID[0] ^= 1 },
		"timestamp":  func(s *SCT) { s.Timestamp++ },
		"extensions": func(s *SCT) { s.Extensions = []byte("\x00\x00\x05\x01\x02\x03\x04\x06") },
		"signature":  func(s *SCT) { s.Signature = nil },
	} {
		bad := good
		change(&bad)
		if _, err := s.Verifier().CheckSCT(bad, leaf.Entry); err == nil {
			t.Errorf("accepted with another %s", name)
		}
	}
	if _, err := s.Verifier().CheckSCT(good, testLeaf(t, false).Entry); err == nil {
		t.Error("accepted for another entry")
	}
}

// TestSCTJSON is clauses R33 and R23: names, types and order of section 4.1.
func TestSCTJSON(t *testing.T) {
	sct := SCT{LogID: [32]byte{1, 2, 3}, Timestamp: 1234567890123, Extensions: []byte{0, 0, 5, 0, 0, 0, 1, 2},
		Signature: []byte("\x04\x03\x00\x02ab")}
	want := `{"sct_version":0,"id":"AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","timestamp":1234567890123,"extensions":"AAAFAAAAAQI=","signature":"BAMAAmFi"}`
	got, err := json.Marshal(sct)
	if err != nil || string(got) != want {
		t.Fatalf("JSON %s, %v, want %s", got, err, want)
	}
	var back SCT
	if err := json.Unmarshal(got, &back); err != nil || !equalSCT(back, sct) {
		t.Errorf("back: %+v, %v", back, err)
	}
	if i, err := back.Index(); i != 0x102 || err != nil {
		t.Errorf("Index = %d, %v", i, err)
	}
}

func equalSCT(a, b SCT) bool {
	return a.LogID == b.LogID && a.Timestamp == b.Timestamp && slices.Equal(a.Extensions, b.Extensions) && slices.Equal(a.Signature, b.Signature)
}

func TestUnmarshalSCT(t *testing.T) {
	const id = `"AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="`
	object := func(version, id, timestamp, extensions, signature string) string {
		return `{"sct_version":` + version + `,"id":` + id + `,"timestamp":` + timestamp + `,"extensions":` + extensions + `,"signature":` + signature + `}`
	}
	good := object("0", id, "1", `"AAAFAAAAAQI="`, `"BAMAAmFi"`)
	tests := []struct {
		name, json string
		ok         bool
	}{
		{"good", good, true},
		{"R30: unknown member", `{"x":[1],` + good[1:], true},
		{"other order and white space", "{ \"signature\" : \"BAMAAmFi\",\n\"extensions\":\"\",\"timestamp\":0,\"id\":" + id + ",\"sct_version\":0 }", true},
		{"D05: version 1", object("1", id, "1", `""`, `"BAMAAmFi"`), false},
		{"null", "null", false},
		{"array", "[]", false},
		{"empty object", "{}", false},
		{"no signature", strings.Replace(good, `,"signature":"BAMAAmFi"`, "", 1), false},
		{"no version", strings.Replace(good, `"sct_version":0,`, "", 1), false},
		{"null signature", object("0", id, "1", `""`, `null`), false},
		{"member twice", `{"timestamp":1,` + good[1:], false},
		{"name in capitals", strings.Replace(good, `"id"`, `"ID"`, 1), false},
		{"timestamp as string", object("0", id, `"1"`, `""`, `"BAMAAmFi"`), false},
		{"timestamp negative", object("0", id, "-1", `""`, `"BAMAAmFi"`), false},
		{"timestamp with fraction", object("0", id, "1.5", `""`, `"BAMAAmFi"`), false},
		{"timestamp 2^63", object("0", id, "9223372036854775808", `""`, `"BAMAAmFi"`), false},
		{"timestamp 2^64", object("0", id, "18446744073709551616", `""`, `"BAMAAmFi"`), false},
		{"short id", object("0", `"AQID"`, "1", `""`, `"BAMAAmFi"`), false},
		{"id without padding", object("0", strings.Replace(id, "=", "", 1), "1", `""`, `"BAMAAmFi"`), false},
		{"loose id", object("0", strings.Replace(id, "AA=", "AB=", 1), "1", `""`, `"BAMAAmFi"`), false},
		{"base64url", object("0", strings.Replace(id, "AQID", "_-__", 1), "1", `""`, `"BAMAAmFi"`), false},
		{"line break in base64", object("0", id, "1", `"AAAFAAAA\nAQI="`, `"BAMAAmFi"`), false},
		{"D03: raw signature", object("0", id, "1", `""`, `"`+base64.StdEncoding.EncodeToString(make([]byte, 64))+`"`), false},
		{"signature too short", object("0", id, "1", `""`, `"BAM="`), false},
		{"signature with trailing byte", object("0", id, "1", `""`, `"BAMAAWFi"`), false},
		{"signature empty inside", object("0", id, "1", `""`, `"BAMAAA=="`), false},
		{"RSA", object("0", id, "1", `""`, `"BAEAAmFi"`), false},
		{"65,536 bytes of extensions", object("0", id, "1", `"`+base64.StdEncoding.EncodeToString(make([]byte, 65536))+`"`, `"BAMAAmFi"`), false},
	}
	for _, tt := range tests {
		var sct SCT
		err := json.Unmarshal([]byte(tt.json), &sct)
		if tt.ok != (err == nil) {
			t.Errorf("%s: %+v, error %v", tt.name, sct, err)
		}
		if !tt.ok && !equalSCT(sct, SCT{}) {
			t.Errorf("%s: %+v beside the error %v", tt.name, sct, err)
		}
	}
}

func FuzzSCTJSON(f *testing.F) {
	f.Add([]byte(`{"sct_version":0,"id":"AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","timestamp":1,"extensions":"AAAFAAAAAQI=","signature":"BAMAAmFi"}`))
	f.Add([]byte(`{"sct_version":0,"id":"","timestamp":-1,"extensions":"AA\nA=","signature":"BAM"}`))
	f.Add([]byte(`{"x":{"y":[null]},"sct_version":1e0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var sct SCT
		if err := json.Unmarshal(b, &sct); err != nil {
			return
		}
		var back SCT
		if err := json.Unmarshal(sct.AppendJSON(nil), &back); err != nil || !equalSCT(back, sct) {
			t.Errorf("%+v came back as %+v, %v", sct, back, err)
		}
		_, _ = sct.Index() // must not panic
	})
}
