package conformance_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/tlog"
)

// flipTile changes the hashes in tiles of a level.
func flipTile(level int) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.served("tile/" + strconv.Itoa(level) + "/") {
			for i := 0; i < len(x.content); i += 32 {
				x.content[i] ^= 1
			}
		}
	}
}

// leaves changes the entries of data tiles: f returns the bytes of the one that
// it is given.
func leaves(f func(l tlog.Leaf) []byte) func(*proxy, *exchange) {
	return func(p *proxy, x *exchange) {
		if !x.served("tile/data/") || x.method != http.MethodGet {
			return
		}
		var out []byte
		for rest := x.content; len(rest) > 0; {
			l, next, err := tlog.ReadTileLeaf(rest)
			if err != nil {
				p.t.Errorf("the good log's %s: %v", x.path, err)
				return
			}
			out, rest = append(out, f(l)...), next
		}
		x.content = out
	}
}

// rechained encodes an entry with another chain.
func rechained(change func([]tlog.Fingerprint) []tlog.Fingerprint) func(tlog.Leaf) []byte {
	return func(l tlog.Leaf) []byte {
		e, chain := l.Entry, change(append([]tlog.Fingerprint(nil), l.Entry.Chain()...))
		var err error
		if e.Type() == tlog.PrecertEntry {
			l.Entry, err = tlog.NewPrecertEntry(e.Certificate(), e.IssuerKeyHash(), e.Precertificate(), chain, nil)
		} else {
			l.Entry, err = tlog.NewX509Entry(e.Certificate(), chain, nil)
		}
		if err != nil {
			panic(err)
		}
		return l.AppendTileLeaf(nil)
	}
}

// precertified encodes a precertificate's entry with other parts.
func precertified(change func(tbs, precert []byte) ([]byte, []byte)) func(tlog.Leaf) []byte {
	return func(l tlog.Leaf) []byte {
		e := l.Entry
		if e.Type() == tlog.PrecertEntry {
			tbs, precert := change(bytes.Clone(e.Certificate()), bytes.Clone(e.Precertificate()))
			var err error
			if l.Entry, err = tlog.NewPrecertEntry(tbs, e.IssuerKeyHash(), precert, e.Chain(), nil); err != nil {
				panic(err)
			}
		}
		return l.AppendTileLeaf(nil)
	}
}

// counted writes the length of certificate_chain as a number of fingerprints.
func counted(l tlog.Leaf) []byte {
	b := l.AppendTileLeaf(nil)
	n := len(l.Entry.Chain())
	at := len(b) - 32*n - 2
	b[at], b[at+1] = byte(n>>8), byte(n)
	return b
}

// issuers changes what is served as issuers.
func issuers(change func(x *exchange)) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.served("issuer/") && x.method == http.MethodGet {
			change(x)
		}
	}
}

func withEntries(n int64) func(*conformance.Options) {
	return func(o *conformance.Options) { o.Entries = n }
}

// treeFaults are of the tiles and issuers.
var treeFaults = []fault{
	{name: "a hash of level 0", clauses: "R1 S30 D01 R25 C11 T3", change: flipTile(0)},
	{name: "a hash of level 1", clauses: "S22 R1 T3", change: flipTile(1), options: withEntries(300)},
	{name: "a full tile that is short", clauses: "S21", options: withEntries(300), change: func(_ *proxy, x *exchange) {
		if x.hashTile() && len(x.content) == 8192 {
			x.content = x.content[:8191]
		}
	}},
	{name: "a partial tile that is short", clauses: "S23 S24", change: func(_ *proxy, x *exchange) {
		if x.hashTile() && x.method == http.MethodGet && strings.Contains(x.path, ".p/") {
			x.content = x.content[:len(x.content)-32]
		}
	}},
	{name: "a partial tile that is long", clauses: "S23", change: func(_ *proxy, x *exchange) {
		if x.hashTile() && strings.Contains(x.path, ".p/") {
			x.content = append(x.content, make([]byte, 32)...)
		}
	}},
	{name: "a data tile with a byte more", clauses: "S31 A03", change: func(_ *proxy, x *exchange) {
		if x.served("tile/data/") && x.method == http.MethodGet {
			x.content = append(x.content, 0)
		}
	}},
	{name: "a data tile with an entry less", clauses: "S31 S30", change: func(_ *proxy, x *exchange) {
		if x.served("tile/data/") && x.method == http.MethodGet {
			if l, rest, err := tlog.ReadTileLeaf(x.content); err == nil && l.Index%256 == 0 {
				x.content = rest
			}
		}
	}},
	{name: "an entry of another time", clauses: "R1 S30 D01 R25", change: leaves(func(l tlog.Leaf) []byte { l.Timestamp++; return l.AppendTileLeaf(nil) })},
	{name: "an entry of another position", clauses: "S6 R1", change: leaves(func(l tlog.Leaf) []byte { l.Index++; return l.AppendTileLeaf(nil) })},
	{name: "certificate_chain without the root", clauses: "A01 R14 S32 R15", change: leaves(rechained(func(c []tlog.Fingerprint) []tlog.Fingerprint { return c[:len(c)-1] }))},
	{name: "certificate_chain with a wrong fingerprint", clauses: "A03 S32 S34 A02", change: leaves(rechained(func(c []tlog.Fingerprint) []tlog.Fingerprint { c[0][0] ^= 1; return c }))},
	{name: "certificate_chain upside down", clauses: "R15 S32 A03", change: leaves(rechained(func(c []tlog.Fingerprint) []tlog.Fingerprint {
		c[0], c[len(c)-1] = c[len(c)-1], c[0]
		return c
	}))},
	{name: "a length that counts fingerprints", clauses: "A03 S31", change: leaves(counted)},
	{name: "the TBSCertificate as pre_certificate", clauses: "C13 S31", change: leaves(precertified(func(tbs, _ []byte) ([]byte, []byte) { return tbs, tbs }))},
	{name: "the precertificate as signed_entry", clauses: "C13 D01 D02 R19", change: leaves(precertified(func(_, pre []byte) ([]byte, []byte) { return pre, pre }))},
	{name: "another issuer_key_hash", clauses: "R21 D01", change: leaves(func(l tlog.Leaf) []byte {
		b := l.AppendTileLeaf(nil)
		if l.Entry.Type() == tlog.PrecertEntry {
			b[10] ^= 1
		}
		return b
	})},
	{name: "issuers that are not served", clauses: "S34 A02 E14", intercept: func(_ *proxy, x *exchange) bool {
		return strings.HasPrefix(x.path, "issuer/") && x.answer(404, "text/plain", "not found\n")
	}},
	{name: "issuers with a byte more", clauses: "S33 S34", change: issuers(func(x *exchange) { x.content = append(x.content, 0) })},
	{name: "issuers in PEM", clauses: "S33", change: issuers(func(x *exchange) {
		x.content = []byte("-----BEGIN CERTIFICATE-----\n")
	})},
	{name: "issuers of another type", clauses: "S33 G06", change: issuers(func(x *exchange) { x.out.Set("Content-Type", "application/octet-stream") })},
	{name: "the beginning is pruned", clauses: "T6", options: withEntries(600), intercept: func(_ *proxy, x *exchange) bool {
		return (x.path == "tile/data/000" || strings.HasPrefix(x.path, "tile/data/000.p")) && x.answer(404, "text/plain", "not found\n")
	}},
	{name: "hash tiles that fail", clauses: "S18 R1", intercept: func(_ *proxy, x *exchange) bool {
		return strings.HasPrefix(x.path, "tile/0/") && x.answer(503, "text/plain", "come again\n")
	}},
}

// absent answers what the log answers with 404.
func absent(match func(path string) bool, status int, contentType, body string) func(*proxy, *exchange) {
	return func(_ *proxy, x *exchange) {
		if x.status == http.StatusNotFound && match(x.path) {
			x.answer(status, contentType, body)
		}
	}
}

func below(prefix string) func(string) bool {
	return func(path string) bool { return strings.HasPrefix(path, prefix) }
}

// growing serves the partial tile under the full one's name.
func growing(p *proxy, x *exchange) {
	rest, ok := strings.CutPrefix(x.path, "tile/0/")
	if !ok || x.status != http.StatusNotFound || len(rest) != 3 {
		return
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	size := p.head().Tree.N
	if err != nil || n != size/256 {
		return
	}
	b, ok := p.get(fmt.Sprintf("tile/0/%s.p/%d", rest, size%256))
	if ok {
		x.answer(200, "application/octet-stream", string(b))
	}
}

// readFaults are of how objects are served.
var readFaults = []fault{
	{name: "hash tiles as text", clauses: "S18 G06", change: header("tile/0/", "Content-Type", "text/plain")},
	{name: "data tiles as gzip", clauses: "S26 G06", change: header("tile/data/", "Content-Type", "application/gzip")},
	{name: "hash tiles not cached", clauses: "S20 G07", change: header("tile/0/", "Cache-Control", "no-store")},
	{name: "data tiles not cached", clauses: "S29 G07", change: header("tile/data/", "Cache-Control", "max-age=60")},
	{name: "issuers not cached", clauses: "S35 G07", change: header("issuer/", "Cache-Control", "no-cache")},
	{name: "data tiles not compressed", clauses: "S27", change: func(_ *proxy, x *exchange) {
		if x.gzip {
			x.gzip = false
			x.out.Del("Content-Encoding")
		}
	}},
	{name: "two layers of gzip", clauses: "G06", change: func(_ *proxy, x *exchange) {
		if x.gzip {
			x.raw = gzipped(gzipped(x.content))
		}
	}},
	{name: "gzip that is not said", clauses: "G05", change: func(_ *proxy, x *exchange) {
		if x.gzip {
			x.out.Del("Content-Encoding")
		}
	}},
	{name: "an old tile for those without gzip", clauses: "G05", change: func(_ *proxy, x *exchange) {
		if x.served("tile/data/") && !x.gzip && x.method == http.MethodGet && x.status == 200 {
			x.content = x.content[:len(x.content)/2]
		}
	}},
	{name: "no Vary", clauses: "G05", change: func(_ *proxy, x *exchange) { x.out.Del("Vary") }},
	{name: "no HEAD", clauses: "G06 X5", intercept: func(_ *proxy, x *exchange) bool {
		return x.method == http.MethodHead && x.answer(405, "text/plain", "")
	}},
	{name: "no entity tags", clauses: "X5", change: func(_ *proxy, x *exchange) { x.out.Del("ETag") }},
	{name: "wrong ranges", clauses: "X5", change: func(_ *proxy, x *exchange) {
		if x.status == http.StatusPartialContent {
			x.content[0] ^= 1
		}
	}},
	{name: "reads by password", clauses: "R8", intercept: func(_ *proxy, x *exchange) bool {
		return strings.HasPrefix(x.path, "tile/") && x.header.Get("Authorization") == "" && x.answer(401, "text/plain", "who are you?\n")
	}},
	{name: "cookies", clauses: "R8", change: func(_ *proxy, x *exchange) { x.out.Set("Set-Cookie", "id=7") }},
	{name: "tiles that change", clauses: "S8", change: func(p *proxy, x *exchange) {
		if x.hashTile() && x.method == http.MethodGet && p.every(x.path, 2) {
			x.content[0] ^= 1
		}
	}},
	{name: "a page for what does not exist", clauses: "S36 G01 G11", change: absent(below(""), 200, "text/plain", "Welcome.\n")},
	{name: "an error for what does not exist", clauses: "G12 G01", change: absent(below("tile/"), 500, "text/plain", "NoSuchKey\n")},
	{name: "absence is cached", clauses: "G01 G07", change: func(_ *proxy, x *exchange) {
		if x.status == http.StatusNotFound {
			x.out.Set("Cache-Control", "public, max-age=604800, immutable")
		}
	}},
	{name: "a long page for what does not exist", clauses: "G01", change: absent(below("tile/"), 404, "text/html", strings.Repeat("not here. ", 1000))},
	{name: "full tiles that grow", clauses: "G02 S36", change: growing},
	{name: "names that are not canonical", clauses: "S19 S36", change: absent(below("tile/0/0"), 200, "application/octet-stream", strings.Repeat("x", 32))},
	{name: "empty tiles", clauses: "S23 S19", change: absent(func(path string) bool { return strings.HasSuffix(path, ".p/0") }, 200, "application/octet-stream", "")},
	{name: "levels beyond the tree", clauses: "T4", change: absent(below("tile/6"), 200, "application/octet-stream", strings.Repeat("x", 32))},
	{name: "tile/entries", clauses: "T8", change: absent(below("tile/entries"), 200, "application/octet-stream", "x")},
	{name: "an empty issuer", clauses: "S33 S36", change: absent(below("issuer/0"), 200, "application/pkix-cert", "")},
	{name: "listings", clauses: "G11", change: absent(below("tile/"), 200, "text/html", `<a href="0/">0/</a>`)},
	{name: "a limit for readers", clauses: "G08", change: func(p *proxy, x *exchange) {
		if x.served("") && p.every("reads", 7) {
			x.answer(429, "text/plain", "slow down\n")
		}
	}},
	{name: "no cross-origin reads", clauses: "X4", change: func(_ *proxy, x *exchange) {
		if !strings.HasPrefix(x.path, "ct/") {
			x.out.Del("Access-Control-Allow-Origin")
		}
	}},
	{name: "a prefix that does not matter", clauses: "G09", target: func(t *conformance.Target) { t.Monitoring += "/a/b" }, intercept: func(_ *proxy, x *exchange) bool {
		for strings.HasPrefix(x.path, "a/b") {
			x.path = strings.TrimPrefix(strings.TrimPrefix(x.path, "a/b"), "/")
		}
		return false
	}},
}
