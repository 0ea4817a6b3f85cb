package checkpoint

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/tlog"
)

// noteParts returns the text of a note and its RFC 6962 signature line.
func noteParts(t testing.TB, s *Signer, signed []byte) (text, line string) {
	t.Helper()
	text, sigs, ok := strings.Cut(string(signed), "\n\n")
	if !ok {
		t.Fatal("no empty line")
	}
	for l := range strings.Lines(sigs) {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(strings.TrimPrefix(l, "— "+s.Origin()+" ")))
		if err == nil && binary.BigEndian.Uint32(raw) == s.verifier.keyID {
			return text + "\n", l
		}
	}
	t.Fatal("no RFC 6962 line")
	return "", ""
}

func sigLine(name string, id uint32, body string) string {
	return "— " + name + " " + base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, id), body...)) + "\n"
}

// TestVerifySignatureLines is clauses N8 and N9 of c2sp.org/signed-note and S17 of
// static-ct-api: what a reader does with signatures it does and does not know.
func TestVerifySignatureLines(t *testing.T) {
	s := testSigner(t, "log.example")
	text, line := noteParts(t, s, mustSign(t, s, testTree, testTimestamp))
	name, id := s.Origin(), s.verifier.keyID
	raw, err := base64.StdEncoding.DecodeString(strings.Fields(line)[2])
	if err != nil {
		t.Fatal(err)
	}
	body := string(raw[4:])
	many := func(n int) (lines string) {
		for i := range n {
			lines += sigLine(fmt.Sprintf("witness%d.example", i), uint32(i), strings.Repeat("w", 2428))
		}
		return lines
	}
	tests := []struct {
		name, lines, want string
	}{
		{"ours alone", line, ""},
		{"N8: another's name with our ID", sigLine("other.example", id, "garbage") + line, ""},
		{"N8: our name with another ID", sigLine(name, id^1, "garbage") + line, ""},
		{"S17: garbage after ours", line + sigLine("other.example", 7, "g"), ""},
		{"N8: our name and ID, garbage", sigLine(name, id, "garbage"), "invalid signature"},
		{"N8: garbage under our name and ID before ours", sigLine(name, id, "garbage") + line, "invalid signature"},
		{"N8: none of ours", sigLine("other.example", id, "garbage"), "right public key"},
		{"N8: our ID under another name alone", strings.Replace(line, name, "other.example", 1), "right public key"},
		{"ours, timestamp changed", sigLine(name, id, body[:7]+"?"+body[8:]), "invalid signature"},
		{"ours, last byte changed", sigLine(name, id, body[:len(body)-1]+"?"), "invalid signature"},
		{"ours, timestamp negative", sigLine(name, id, "\xff1234567\x04\x03\x00\x010"), "invalid signature"},
		{"ours, cut", sigLine(name, id, "1234567"), "invalid signature"},
		{"no signature", "", "malformed note"},
		{"not base64", "— " + name + " !!!!\n" + line, "malformed note"},
		{"no newline at the end", strings.TrimSuffix(line, "\n"), "malformed note"},
		{"hyphen instead of dash", "- " + line[len("— "):], "malformed note"},
		{"N9: 15 large ones beside ours", many(15) + line, ""},
		{"N9: 99 large ones beside ours", many(99) + line, ""},
		{"N9: 10,000", strings.Repeat(sigLine("other.example", 1, "g"), 10000) + line, "malformed note"},
		{"N9: 2 MiB", sigLine("other.example", 1, strings.Repeat("g", 3<<19)) + line, "are more than 1048576"},
	}
	for _, tt := range tests {
		th, err := s.Verifier().Verify([]byte(text + "\n" + tt.lines))
		check(t, tt.name, th, err, TreeHead{name, testTree, testTimestamp}, tt.want)
	}
}

// check compares an outcome of Verify with the tree head, or with a part of an
// error if there is one to come.
func check(t *testing.T, name string, th TreeHead, err error, want TreeHead, wantErr string) {
	t.Helper()
	switch {
	case wantErr == "" && (err != nil || th != want):
		t.Errorf("%s: Verify = %v, %v, want %v", name, th, err, want)
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr) || th != TreeHead{}):
		t.Errorf("%s: Verify = %v, error %v, want one with %q", name, th, err, wantErr)
	}
}

// TestVerifyText: the RFC 6962 signature covers size, root and timestamp only, so
// all else in the text has to be looked at. Clauses K1, K3 to K5, S15.
func TestVerifyText(t *testing.T) {
	s := testSigner(t, "log.example")
	_, line := noteParts(t, s, mustSign(t, s, testTree, testTimestamp))
	root := testTree.Hash.String()
	// The last character before the padding has two bits that decode to nothing.
	loose := root[:42] + string(root[42]+1) + "="
	tests := []struct {
		name, text, want string
	}{
		{"as signed", "log.example\n123456\n" + root + "\n", ""},
		{"other origin", "log.example/b\n123456\n" + root + "\n", "origin is"},
		{"no origin", "\n123456\n" + root + "\n", "origin is"},
		{"S15: extension line", "log.example\n123456\n" + root + "\nextension\n", "extension lines"},
		{"size with zero", "log.example\n0123456\n" + root + "\n", "invalid signature"},
		{"size with plus", "log.example\n+123456\n" + root + "\n", "invalid signature"},
		{"other size", "log.example\n123457\n" + root + "\n", "invalid signature"},
		{"loose base64", "log.example\n123456\n" + loose + "\n", "canonical"},
		{"short root", "log.example\n123456\n" + root[:40] + "\n", "invalid signature"},
		{"no root", "log.example\n123456\n", "invalid signature"},
		{"carriage return", "log.example\r\n123456\n" + root + "\n", "malformed note"},
		{"byte order mark", "\ufefflog.example\n123456\n" + root + "\n", "origin is"},
	}
	for _, tt := range tests {
		th, err := s.Verifier().Verify([]byte(tt.text + "\n" + line))
		check(t, tt.name, th, err, TreeHead{"log.example", testTree, testTimestamp}, tt.want)
	}
	for _, note := range []string{"", "\n", "\n\n", "log.example\n", strings.Repeat("\n", 100), line} {
		if th, err := s.Verifier().Verify([]byte(note)); err == nil {
			t.Errorf("Verify(%q) = %v", note, th)
		}
	}
}

// TestVerifyTimestampRange: a timestamp that does not fit is refused even if it is
// rightly signed; it must not come out negative.
func TestVerifyTimestampRange(t *testing.T) {
	s := testSigner(t, "log.example")
	for timestamp, want := range map[uint64]string{1<<63 - 1: "", 1 << 63: "invalid signature", 1<<64 - 1: "invalid signature"} {
		sig, err := s.digitallySigned(treeHeadInput(testTree, int64(timestamp)))
		if err != nil {
			t.Fatal(err)
		}
		body := string(binary.BigEndian.AppendUint64(nil, timestamp)) + string(sig)
		note := string(appendText(nil, s.Origin(), testTree)) + "\n" + sigLine(s.Origin(), s.verifier.keyID, body)
		th, err := s.Verifier().Verify([]byte(note))
		check(t, base10(int64(timestamp>>1)), th, err, TreeHead{s.Origin(), testTree, int64(timestamp)}, want)
	}
}

// TestVerifierAnyOrigin is clause K9: a reader does not take the origin for a URL.
func TestVerifierAnyOrigin(t *testing.T) {
	s := testSigner(t, "x")
	v, err := NewVerifier("x", s.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if th, err := v.Verify(mustSign(t, s, testTree, testTimestamp)); err != nil || th.Origin != "x" {
		t.Errorf("Verify = %v, %v", th, err)
	}
	if v.LogID() != s.LogID() || v.Origin() != "x" {
		t.Errorf("verifier of %q, log ID %x", v.Origin(), v.LogID())
	}
}

func TestVerifierOtherKey(t *testing.T) {
	s := testSigner(t, "log.example")
	k, err := KeysFromSeed(testSeed(2))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSigner("log.example", k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verifier().Verify(mustSign(t, s, testTree, testTimestamp)); err == nil {
		t.Error("another log's key verified the checkpoint")
	}
}

func TestNewVerifierRefuses(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := x509.MarshalPKIXPublicKey(p384.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := testSigner(t, "x").PublicKey()
	for name, spki := range map[string][]byte{"none": nil, "P-384": wrong, "cut": good[:80], "trailing": append(good, 0)} {
		if _, err := NewVerifier("x", spki); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzVerify(f *testing.F) {
	s := testSigner(f, "log.example")
	signed := mustSign(f, s, testTree, testTimestamp)
	text, line := noteParts(f, s, signed)
	f.Add(signed)
	f.Add([]byte(text + "\n" + line))
	f.Add([]byte(text + "extension\n\n" + line))
	f.Add([]byte(text + "\n" + sigLine(s.Origin(), s.verifier.keyID, "12345678\x04\x03\x00\x010")))
	f.Add([]byte("log.example\n0\n" + tlog.EmptyRoot.String() + "\n\n" + line))
	f.Fuzz(func(t *testing.T, b []byte) {
		th, err := s.Verifier().Verify(b)
		if err != nil {
			if th != (TreeHead{}) {
				t.Errorf("tree head %v beside the error %v", th, err)
			}
			return
		}
		// Nobody else has the key, so only the one tree head verifies, and its text is canonical.
		if want := (TreeHead{"log.example", testTree, testTimestamp}); th != want {
			t.Errorf("Verify = %v, want %v", th, want)
		}
		if !strings.HasPrefix(string(b), text+"\n") {
			t.Errorf("verified with another text:\n%s", b)
		}
	})
}
