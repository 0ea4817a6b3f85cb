package conformance_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"strings"
	"time"

	"crypto/x509"
	"encoding/asn1"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/tlog"
)

// text changes the lines of a checkpoint and signs nothing anew.
func text(change func(lines []string) []string) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) {
			lines := change(strings.Split(strings.TrimSuffix(n.text, "\n"), "\n"))
			n.text = strings.Join(lines, "\n") + "\n"
		})
	}
}

// named changes the origin and signs for it.
func named(change func(origin string) string) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) {})
		p.changeNote(x, func(n *note) {
			old := p.signer.Origin()
			n.text = strings.Replace(n.text, old, change(old), 1)
			h := p.head()
			h.Tree.N = n.size()
			root, _ := base64.StdEncoding.DecodeString(strings.Split(n.text, "\n")[2])
			n.lines = []string{p.treeLine(change(old), h.Tree.N, tlog.Hash(root), h.Timestamp)}
		})
	}
}

// header sets a header of what is served below a path.
func header(prefix, name, value string) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.served(prefix) {
			x.out.Set(name, value)
		}
	}
}

// rawSignature turns a DigitallySigned with a DER signature into r and s.
func rawSignature(ds []byte) []byte {
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(ds[4:], &rs); err != nil {
		panic(err)
	}
	b := append(rs.R.FillBytes(make([]byte, 32)), rs.S.FillBytes(make([]byte, 32))...)
	return append([]byte{4, 3, 0, 64}, b...)
}

// frozen serves the first checkpoint for ever.
func frozen(p *proxy, x *exchange) {
	if x.path == "checkpoint" {
		x.content = p.once("checkpoint", x.content)
	}
}

// another is a key that has nothing to do with a log.
var another = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// ed25519VerifierKey is a vkey of the type.
func ed25519VerifierKey(name string, kind byte) string {
	key := another.Public().(ed25519.PublicKey)
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, kind, key), base64.StdEncoding.EncodeToString(append([]byte{kind}, key...)))
}

// cosigned adds an Ed25519 cosignature over a message that change makes of the
// right one.
func cosigned(kind byte, change func([]byte) []byte) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) {
			now := time.Now().Unix()
			body := binary.BigEndian.AppendUint64(nil, uint64(now))
			message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", now, n.text)
			if kind == 1 {
				body, message = nil, []byte(n.text)
			}
			body = append(body, ed25519.Sign(another, change(message))...)
			name := p.signer.Origin()
			n.lines = append(n.lines, line(name, keyHash(name, kind, another.Public().(ed25519.PublicKey)), body))
		})
	}
}

func withEd25519(kind byte) func(*conformance.Target) {
	return func(t *conformance.Target) { t.VerifierKey = ed25519VerifierKey(t.Origin, kind) }
}

func bytewise(f func([]byte)) func([]byte) []byte {
	return func(b []byte) []byte { f(b); return b }
}

// checkpointFaults are of the checkpoint.
var checkpointFaults = []fault{
	{name: "checkpoint of another type", clauses: "S9 G06", change: header("checkpoint", "Content-Type", "text/plain")},
	{name: "checkpoint in a cache", clauses: "S10 G07", change: header("checkpoint", "Cache-Control", "public, max-age=3600")},
	{name: "checkpoint from a cache", clauses: "S10", change: header("checkpoint", "Age", "300")},
	{name: "another origin", clauses: "S11 D08", change: named(func(string) string { return "other.example/log" })},
	{name: "an origin with its scheme", clauses: "T1 S11", change: named(func(o string) string { return "https://" + o })},
	{name: "an origin with a slash", clauses: "T1 D08", change: named(func(o string) string { return o + "/" })},
	{name: "an origin with a space", clauses: "K2", change: named(func(o string) string { return o + " x" })},
	{name: "an origin with a plus", clauses: "K2 N3", change: named(func(o string) string { return o + "+x" })},
	{name: "signatures of another name", clauses: "S12 K7 D08", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) {
			for i, l := range n.lines {
				n.lines[i] = strings.Replace(l, " "+p.signer.Origin()+" ", " other.example ", 1)
			}
		})
	}},
	{name: "another key ID", clauses: "S13 N5 D08", change: func(p *proxy, x *exchange) {
		p.changeLine(x, false, func(name string, id uint32, body []byte) string { return line(name, id+1, body) })
	}},
	{name: "a timestamp that is not signed", clauses: "S14 R4", change: func(p *proxy, x *exchange) {
		p.changeLine(x, false, func(name string, id uint32, body []byte) string { body[7]++; return line(name, id, body) })
	}},
	{name: "a tree head signed with r and s", clauses: "S14 D03", change: func(p *proxy, x *exchange) {
		p.changeLine(x, false, func(name string, id uint32, body []byte) string {
			return line(name, id, append(body[:8:8], rawSignature(body[8:])...))
		})
	}},
	{name: "an extension line", clauses: "S15 K5 D09 G6", change: text(func(l []string) []string { return append(l, "extension") })},
	{name: "two signatures of one key", clauses: "S16 D09", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines = append(n.lines, n.lines...) })
	}},
	{name: "no signature of the log", clauses: "S16 S13", change: func(p *proxy, x *exchange) {
		p.changeLine(x, false, func(string, uint32, []byte) string { return line("other.example", 7, []byte("no signature")) })
	}},
	{name: "no second signature", clauses: "T2 N10", change: func(p *proxy, x *exchange) {
		p.changeLine(x, true, func(string, uint32, []byte) string { return line("other.example", 7, []byte("no signature")) })
	}},
	{name: "a wrong second signature", clauses: "G5 T2", change: func(p *proxy, x *exchange) {
		p.changeLine(x, true, func(name string, id uint32, body []byte) string { body[100] ^= 1; return line(name, id, body) })
	}},
	{name: "a short second signature", clauses: "G3", change: func(p *proxy, x *exchange) {
		p.changeLine(x, true, func(name string, id uint32, body []byte) string { return line(name, id, body[8:]) })
	}},
	{name: "a verifier key with a wrong ID", clauses: "G1 N5 N10", target: func(t *conformance.Target) {
		name, rest, _ := strings.Cut(t.VerifierKey, "+")
		t.VerifierKey = name + "+00000001" + rest[8:]
	}},
	{name: "a verifier key of another name", clauses: "N10", target: func(t *conformance.Target) { t.VerifierKey = ed25519VerifierKey("other.example", 4) }},
	{name: "a wrong Ed25519 cosignature", clauses: "G4 T2", target: withEd25519(4), change: cosigned(4, bytewise(func(b []byte) { b[0] ^= 1 }))},
	{name: "a wrong Ed25519 signature", clauses: "T2", target: withEd25519(1), change: cosigned(1, bytewise(func(b []byte) { b[0] ^= 1 }))},
	{name: "carriage returns", clauses: "K1 N2", change: text(func(l []string) []string { return []string{l[0], l[1] + "\r", l[2]} })},
	{name: "a byte order mark", clauses: "K1", change: text(func(l []string) []string { return []string{"\ufeff" + l[0], l[1], l[2]} })},
	{name: "blanks at a line's end", clauses: "K1", change: text(func(l []string) []string { return []string{l[0], l[1] + " ", l[2]} })},
	{name: "two lines", clauses: "K1", change: text(func(l []string) []string { return l[:2] })},
	{name: "a size with a zero", clauses: "K3", change: text(func(l []string) []string { return []string{l[0], "0" + l[1], l[2]} })},
	{name: "a size in hexadecimal", clauses: "K3", change: text(func(l []string) []string { return []string{l[0], "0x" + l[1], l[2]} })},
	{name: "a root without padding", clauses: "K4", change: text(func(l []string) []string { return []string{l[0], l[1], strings.TrimRight(l[2], "=")} })},
	{name: "a root of another length", clauses: "K4", change: text(func(l []string) []string { return []string{l[0], l[1], "AAAA"} })},
	{name: "hyphens for dashes", clauses: "N1", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines[0] = strings.Replace(n.lines[0], "\u2014", "--", 1) })
	}},
	{name: "a signature that is no base64", clauses: "N4 N1", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines[0] += "*" })
	}},
	{name: "no blank line", clauses: "N1", change: func(p *proxy, x *exchange) {
		if x.path == "checkpoint" {
			x.content = []byte(strings.Replace(string(x.content), "\n\n", "\n", 1))
		}
	}},
	{name: "a control character", clauses: "N2", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines = append(n.lines, line("other\x07.example", 7, []byte("whatever"))) })
	}},
	{name: "no UTF-8", clauses: "N2", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines = append(n.lines, line("other\xff.example", 7, []byte("whatever"))) })
	}},
	{name: "a key name with a plus", clauses: "N3", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) { n.lines = append(n.lines, line("other+x", 7, []byte("whatever"))) })
	}},
	{name: "a signature of type 2", clauses: "N6", change: func(p *proxy, x *exchange) {
		spki, err := x509.MarshalPKIXPublicKey(p.keys.ECDSA.Public())
		if err != nil {
			panic(err)
		}
		name := p.signer.Origin()
		p.changeNote(x, func(n *note) { n.lines = append(n.lines, line(name, keyHash(name, 2, spki), []byte("whatever"))) })
	}},
	{name: "thirty signatures", clauses: "N7", change: func(p *proxy, x *exchange) {
		p.changeNote(x, func(n *note) {
			for i := range 30 {
				n.lines = append(n.lines, line("other.example", uint32(i), []byte("whatever")))
			}
		})
	}},
	{name: "an empty tree with a root", clauses: "R2", options: func(o *conformance.Options) { o.MergeDelay = 100 * time.Millisecond }, change: func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) { h.Tree.N = 0 })
	}},
	{name: "time runs backwards", clauses: "R28", change: func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.count["heads"]++
			h.Timestamp -= int64(1000 * p.count["heads"])
		})
	}},
	{name: "tree heads older than their entries", clauses: "R27", change: func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) { h.Timestamp -= 3000 })
	}},
	{name: "tree heads of tomorrow", clauses: "R23", change: func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) { h.Timestamp += 86400000 })
	}},
	{name: "two trees", clauses: "K6 D13", change: func(p *proxy, x *exchange) {
		if x.path == "checkpoint" && p.every("checkpoint", 3) {
			p.newHead(x, func(h *checkpoint.TreeHead) { h.Tree.Hash = tlog.Hash(sha256.Sum256(h.Tree.Hash[:])) })
		}
	}},
	{name: "a tree that shrinks", clauses: "K6", change: func(p *proxy, x *exchange) {
		if x.path == "checkpoint" && p.every("checkpoint", 2) {
			p.newHead(x, func(h *checkpoint.TreeHead) { h.Tree.N--; h.Timestamp++ })
		}
	}},
	{name: "another root than that of the tiles", clauses: "R1 T3", change: func(p *proxy, x *exchange) {
		p.newHead(x, func(h *checkpoint.TreeHead) { h.Tree.Hash[0] ^= 1 })
	}},
	{name: "a stale checkpoint", clauses: "R7 R26 R29", change: frozen, options: func(o *conformance.Options) {
		o.MergeDelay, o.Idle = time.Second, 1200*time.Millisecond
	}},
	{name: "a stale checkpoint while idle", clauses: "D12 R29", change: frozen, options: func(o *conformance.Options) {
		o.MergeDelay, o.Idle = 500*time.Millisecond, time.Second
	}},
	{name: "an edge that is never served", clauses: "S24 T5 G14", intercept: func(_ *proxy, x *exchange) bool {
		return strings.Contains(x.path, ".p/") && x.answer(404, "text/plain", "not found\n")
	}},
	{name: "an edge that fails", clauses: "S24", intercept: func(_ *proxy, x *exchange) bool {
		return strings.Contains(x.path, ".p/") && x.answer(500, "text/plain", "out of order\n")
	}},
	{name: "no checkpoint", clauses: "S9 S11", intercept: func(_ *proxy, x *exchange) bool {
		return x.path == "checkpoint" && x.answer(404, "text/plain", "not found\n")
	}},
}
