package conformance_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/tlog"
)

// sctFault changes SCTs, and signs them if sign is set.
func sctFault(sign bool, change func(*sctFields)) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) { p.changeSCT(x, sign, change) }
}

// jsonFault changes the JSON of SCTs.
func jsonFault(old, new string) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.accepted() {
			x.content = bytes.Replace(x.content, []byte(old), []byte(new), 1)
		}
	}
}

// entryFault signs SCTs over another entry than the one that was logged.
func entryFault(change func(x *exchange, e *tlog.Entry) (*tlog.Entry, error)) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) {
		p.changeSCT(x, false, func(s *sctFields) {
			index, err := tlog.ParseExtensions(s.Extensions)
			if err != nil {
				return
			}
			leaf, ok := p.leaf(index)
			if !ok || leaf.Entry.Type() != tlog.PrecertEntry {
				return
			}
			if e, err := change(x, leaf.Entry); err == nil {
				s.Signature = p.sign(sctMessage(e, *s))
			}
		})
	}
}

// unlike signs over an entry whose TBSCertificate or issuer is another.
func unlike(tbs func([]byte) []byte, key func([32]byte) [32]byte) func(*exchange, *tlog.Entry) (*tlog.Entry, error) {
	return func(_ *exchange, e *tlog.Entry) (*tlog.Entry, error) {
		return tlog.NewPrecertEntry(tbs(bytes.Clone(e.Certificate())), key(e.IssuerKeyHash()), e.Precertificate(), e.Chain(), nil)
	}
}

// ofSigner signs over what a precertificate by way of a signing certificate
// would be if that were an ordinary issuer.
func ofSigner(x *exchange, e *tlog.Entry) (*tlog.Entry, error) {
	chain := x.chain()
	leaf, err := cert.Parse(chain[0])
	if err != nil {
		return nil, err
	}
	tbs, err := leaf.PrecertTBS(nil)
	if err != nil {
		return nil, err
	}
	issuer, err := cert.Parse(chain[1])
	if err != nil {
		return nil, err
	}
	return tlog.NewPrecertEntry(tbs, issuer.IssuerKeyHash(), e.Precertificate(), e.Chain(), nil)
}

// answered makes one answer of all submissions that the log has answered with a
// status.
func answered(status int, answer int, body string) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.submission() && x.status == status {
			x.answer(answer, "text/plain; charset=utf-8", body)
		}
	}
}

// refuseAll, acceptAll and failAll are logs without judgement.
var refuseAll = answered(200, 400, "This log takes nothing today.\n")

func failAll(p *proxy, x *exchange) {
	answered(400, 500, "Something went wrong.\n")(p, x)
	answered(200, 500, "Something went wrong.\n")(p, x)
}

// acceptAll repeats the last SCT where the log refuses.
func acceptAll(p *proxy, x *exchange) {
	if !x.submission() {
		return
	}
	if x.status == http.StatusOK {
		p.once("sct", x.content)
		return
	}
	x.answer(200, "application/json", string(p.once("sct", []byte("{}"))))
}

// sameIndex signs every SCT for the position of the first one.
func sameIndex(p *proxy, x *exchange) {
	p.changeSCT(x, false, func(s *sctFields) {
		index, err := tlog.ParseExtensions(s.Extensions)
		if err != nil {
			return
		}
		leaf, ok := p.leaf(index)
		s.Extensions = p.once("extensions", s.Extensions)
		if ok {
			s.Signature = p.sign(sctMessage(leaf.Entry, *s))
		}
	})
}

// eachNew signs every SCT for a position of its own.
func eachNew(p *proxy, x *exchange) {
	p.changeSCT(x, true, func(s *sctFields) {
		index, err := tlog.ParseExtensions(s.Extensions)
		if err != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count["new"]++
		// Signed is the entry at index, but the SCT names another one.
		s.Extensions = tlog.AppendExtensions(nil, max(0, index-int64(p.count["new"])))
	})
}

// later gives a resubmission a new timestamp.
func later(p *proxy, x *exchange) {
	sum := sha256.Sum256(x.body)
	if !x.accepted() || bytes.Equal(p.once(string(sum[:]), x.content), x.content) && !p.every("seen"+string(sum[:]), 2) {
		return
	}
	p.changeSCT(x, true, func(s *sctFields) { s.Timestamp++ })
}

var hung sync.Map // bodies of which a client has hung up

// shared fails all who submit a chain that a client has hung up on.
func shared(p *proxy, x *exchange) bool {
	if !x.submission() {
		return false
	}
	sum := sha256.Sum256(x.body)
	if _, seen := hung.LoadOrStore(sum, true); seen {
		return x.answer(500, "text/plain", "context canceled\n")
	}
	return false
}

// rootsFault changes get-roots.
func rootsFault(change func(list []string) []string) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.path != "ct/v1/get-roots" || x.method != http.MethodGet {
			return
		}
		var r struct {
			Certificates []string `json:"certificates"`
		}
		if json.Unmarshal(x.content, &r) == nil {
			r.Certificates = change(r.Certificates)
			x.content = encode(r)
		}
	}
}

func otherRoot() string {
	other, _ := conformance.NewRoot("Other Root")
	return base64.StdEncoding.EncodeToString(other.Certificate())
}

var otherKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)

// submissionFaults are of the answers to submissions.
var submissionFaults = []fault{
	{name: "SCT signed with r and s", clauses: "R24 D03 S4", change: sctFault(false, func(s *sctFields) { s.Signature = rawSignature(s.Signature) })},
	{name: "SCT of version 1", clauses: "R23 D05", change: sctFault(false, func(s *sctFields) { s.Version = 1 })},
	{name: "SCT of another log", clauses: "R22 D04", change: sctFault(false, func(s *sctFields) { s.ID[0] ^= 1 })},
	{name: "SCT in seconds", clauses: "R23", change: sctFault(true, func(s *sctFields) { s.Timestamp /= 1000 })},
	{name: "SCT of tomorrow", clauses: "R23 R25", change: sctFault(true, func(s *sctFields) { s.Timestamp += 86400000 })},
	{name: "timestamp in a string", clauses: "R33", change: func(_ *proxy, x *exchange) {
		if x.accepted() {
			x.content = bytes.Replace(bytes.Replace(x.content, []byte(`"timestamp":`), []byte(`"timestamp":"`), 1), []byte(`,"extensions"`), []byte(`","extensions"`), 1)
		}
	}},
	{name: "no id", clauses: "R33", change: jsonFault(`"id"`, `"log_id"`)},
	{name: "SCT as text", clauses: "R33", change: func(_ *proxy, x *exchange) {
		if x.accepted() {
			x.out.Set("Content-Type", "text/html")
		}
	}},
	{name: "extensions left out", clauses: "S6 D06 R24", change: sctFault(false, func(s *sctFields) { s.Extensions = []byte{} })},
	{name: "extensions left out and signed so", clauses: "S6 D06", change: sctFault(true, func(s *sctFields) { s.Extensions = []byte{} })},
	{name: "extensions without padding", clauses: "D06 R33", change: func(_ *proxy, x *exchange) {
		if x.accepted() {
			x.content = bytes.Replace(x.content, []byte(`=","signature"`), []byte(`","signature"`), 1)
		}
	}},
	{name: "two leaf indexes", clauses: "S5 D06", change: sctFault(true, func(s *sctFields) { s.Extensions = append(s.Extensions, s.Extensions...) })},
	{name: "a leaf index of 8 bytes", clauses: "S5 D06", change: sctFault(true, func(s *sctFields) {
		s.Extensions = append([]byte{0, 0, 8, 0, 0, 0}, s.Extensions[3:]...)
	})},
	{name: "another index than was signed", clauses: "R24 S4 D06", change: sctFault(false, func(s *sctFields) { s.Extensions[7] ^= 1 })},
	{name: "an index that is not the entry's", clauses: "R25 S6 C11 E01", change: eachNew},
	{name: "SCT of another key", clauses: "R24 R4 R5 S4", change: sctFault(false, func(s *sctFields) {
		digest := sha256.Sum256([]byte("whatever"))
		der, err := ecdsa.SignASN1(rand.Reader, otherKey, digest[:])
		if err != nil {
			panic(err)
		}
		s.Signature = append([]byte{4, 3, 0, byte(len(der))}, der...)
	})},
	{name: "SCT over another TBSCertificate", clauses: "R19 R24 C04 C06 R17", change: entryFault(unlike(
		bytewise(func(b []byte) { b[len(b)-1] ^= 1 }), func(k [32]byte) [32]byte { return k }))},
	{name: "SCT with another issuer_key_hash", clauses: "R21 R24 C01", change: entryFault(unlike(
		func(b []byte) []byte { return b }, func(k [32]byte) [32]byte { k[0] ^= 1; return k }))},
	{name: "SCT of a signing certificate as the issuer", clauses: "R20 R21 C01 C04", change: entryFault(ofSigner)},
	{name: "one index for all", clauses: "C15 B13 R21 R6", change: sameIndex},
	{name: "a new entry each time", clauses: "E13 E14 B13", change: eachNew},
	{name: "another time for a resubmission", clauses: "E01 R6", change: later},
	{name: "resubmissions refused", clauses: "E01 R6", change: func(p *proxy, x *exchange) {
		sum := sha256.Sum256(x.body)
		if x.accepted() && p.every(string(sum[:]), 2) {
			x.answer(400, "text/plain", "This is known already.\n")
		}
	}},
	{name: "one who hangs up fails all", clauses: "E05", intercept: shared},

	{name: "refuses all", clauses: "R5 R12 R13 R31 A08 A17 A20 A22 A23 B01 B02 B05 B06 B07 B08 B17 C14 H02 H07 H08 E05", change: refuseAll},
	{name: "refuses all real chains", roots: "chains/roots-all.pem", clauses: "X1 A19 A23 R5", change: refuseAll},
	{name: "refuses all synthetic chains", roots: "synthetic/roots.pem", clauses: "X2 A22", change: refuseAll},
	{name: "refuses under an odd root", roots: "chains/roots-non-selfsigned-root.pem", clauses: "A10", change: refuseAll},
	{name: "refuses under an MD2 root", roots: "chains/roots-md2-root.pem", clauses: "A21", change: refuseAll},
	{name: "refuses under a root with a twin", roots: "chains/roots-gts-r4-both.pem", clauses: "A14", change: refuseAll},
	{name: "accepts all", clauses: "R10 R15 R17 R18 R31 A06 A07 A11 A12 B10 B11 B12 C02 C09 C10 H05 H07", change: acceptAll},
	{name: "accepts all real chains", roots: "chains/roots-all.pem", clauses: "X1 B16 R10", change: acceptAll},
	{name: "accepts all synthetic chains", roots: "synthetic/roots.pem", clauses: "R10 A06 B12", change: acceptAll},
	{name: "fails with all", clauses: "R30 R16 A13 A15 A17 B07 C05 C03 R18 H05", change: failAll},
	{name: "fails with odd certificates", roots: "synthetic/roots.pem", clauses: "X3 B18", intercept: func(_ *proxy, x *exchange) bool {
		return x.submission() && bytes.Contains(x.body, []byte(`1UECAwKQ2FsaWZvcm5pYTEW`)) && x.answer(500, "text/plain", "panic: index out of range\n")
	}},
	{name: "refuses some signing certificates", clauses: "S3 C03", change: func(p *proxy, x *exchange) {
		if x.accepted() && x.precert() && len(x.chain()) == 3 {
			x.answer(400, "text/plain", "No Precertificate Signing Certificates, please.\n")
		}
	}},
	{name: "logs what it refuses", clauses: "R11", change: func(_ *proxy, x *exchange) {
		if x.accepted() && !x.precert() {
			x.answer(400, "text/plain", "This was refused.\n")
		}
	}},
	{name: "no endpoints", clauses: "S2 R9", intercept: func(_ *proxy, x *exchange) bool {
		return strings.HasPrefix(x.path, "ct/v1/") && x.answer(404, "text/plain", "no such endpoint\n")
	}},
	{name: "no text", clauses: "H04 R30", change: answered(400, 400, "")},
	{name: "a page for a text", clauses: "H04 R30", change: answered(400, 400, "<html><body>400 Bad Request</body></html>")},
	{name: "the same text for all", clauses: "A06 C10", change: answered(400, 400, "Bad submission, see the manual.\n")},
	{name: "an SCT in a refusal", clauses: "R10", change: func(p *proxy, x *exchange) {
		if x.submission() && x.status == 400 {
			x.content = []byte(`{"sct_version":0,"signature":"AAAA"}`)
		}
	}},
	{name: "unknown members refused", clauses: "R30 H05", change: func(_ *proxy, x *exchange) {
		if x.accepted() && bytes.Contains(x.body, []byte("extra")) {
			x.answer(400, "text/plain", "There is an unknown member in the request.\n")
		}
	}},
	{name: "base64url taken", clauses: "H05", change: func(p *proxy, x *exchange) {
		if x.submission() && x.status == 400 && bytes.HasSuffix(x.body, []byte("}x")) {
			x.answer(200, "application/json", "{}")
		}
	}},
	{name: "no large certificates", clauses: "H02", change: func(_ *proxy, x *exchange) {
		if x.accepted() && len(x.body) > 50000 {
			x.answer(413, "text/plain", "This is too large.\n")
		}
	}},
	{name: "large bodies are its own fault", clauses: "H01", intercept: func(_ *proxy, x *exchange) bool {
		return x.submission() && len(x.body) > 200<<10 && x.answer(500, "text/plain", "http: request body too large\n")
	}},
	{name: "all methods", clauses: "H06", change: func(_ *proxy, x *exchange) {
		if x.status == http.StatusMethodNotAllowed {
			x.answer(200, "application/json", "{}")
		}
	}},
	{name: "no Allow", clauses: "H06", change: func(_ *proxy, x *exchange) { x.out.Del("Allow") }},
	{name: "no root", clauses: "R9", change: rootsFault(func([]string) []string { return []string{} })},
	{name: "a root too few", clauses: "R32 H14", target: func(t *conformance.Target) {
		t.Roots = append(t.Roots[:1:1], []byte("another root"))
	}},
	{name: "a root too many", clauses: "R32 H14", change: rootsFault(func(l []string) []string { return append(l, otherRoot()) })},
	{name: "a root twice", clauses: "H14", change: rootsFault(func(l []string) []string { return append(l, l...) })},
	{name: "a root that is none", clauses: "R32 H14", change: rootsFault(func(l []string) []string { return append(l, "AAAA") })},
	{name: "no cross-origin submissions", clauses: "X4", change: func(_ *proxy, x *exchange) {
		if strings.HasPrefix(x.path, "ct/") {
			x.out.Del("Access-Control-Allow-Origin")
		}
	}},
}
