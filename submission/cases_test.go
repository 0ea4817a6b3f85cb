package submission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/sequencer"
)

// caseRow is a line of an INDEX.tsv.
type caseRow struct {
	id, endpoint, roots, expect       string
	entryHash, issuerKeyHash, chainFP string
	ders                              [][]byte
}

func readIndex(t *testing.T, dir string) []caseRow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	column := make(map[string]int)
	for i, name := range strings.Split(lines[0], "\t") {
		column[name] = i
	}
	var rows []caseRow
	for _, line := range lines[1:] {
		f := strings.Split(line, "\t")
		row := caseRow{
			id:            f[column["id"]],
			endpoint:      f[column["endpoint"]],
			roots:         f[column["accepted_roots"]],
			expect:        f[column["expect"]],
			entryHash:     f[column["sha256_of_signed_entry_cert_or_tbs"]],
			issuerKeyHash: f[column["issuer_key_hash"]],
			chainFP:       f[column["certificate_chain_fingerprints_16hex"]],
		}
		// "byte-exact HASH (peers HASH)": the peers' is a fault of theirs.
		if rest, ok := strings.CutPrefix(row.entryHash, "byte-exact "); ok {
			row.entryHash, _, _ = strings.Cut(rest, " ")
		}
		row.ders = cases.ReadPEM(t, filepath.Join(dir, row.id+".pem"))
		rows = append(rows, row)
	}
	return rows
}

// syntheticWindow is the shard that the synthetic chains were made for.
var syntheticWindow = Window{
	Start: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	Limit: time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC),
}

// policy is a combination of options, and what it makes of the rows that leave
// the log a choice.
type policy struct {
	name    string
	options Options
	accept  func(row caseRow) bool
}

// chosen are the rows that both answers would be right for. True is accept.
var chosen = map[string]bool{
	"o09-two-selfsigned-roots-same-key-submitted-other": true,
	"o31-reissued-root-same-key":                        false,
	"o35-root-alone":                                    false,
	"sa06-chain-of-42":                                  true,
	"sa12-cross-sign-loop":                              true,
	"sa14-issuer-without-keycertsign":                   false,
	"sa18-issuer-dn-string-type-differs":                false,
	"sa27-reissued-root-submitted":                      true,
	"sb12-san-bad-uri":                                  true,
	"sb18-invalid-utf8-cn":                              true,
	"sb31-utctime-no-seconds":                           true,
	"sb41-rsa-even-exponent":                            true,
	"sb42c-point-not-on-curve":                          true,
	"sb52b-rsa-md5-signature":                           false,
	"sb54-spki-empty-key":                               true,
	"sb58-boolean-true-as-01":                           true,
	"sb61-deep-nesting-subject":                         true,
	"sb62-deep-nesting-san":                             true,
	"sc06-psc-no-aki-precert-has":                       false,
	"sc10-psc-below-psc":                                false,
	"sc18-poison-only-extension":                        false, // accept-if-no-eku-filter
}

// ekuFiltered are the rows whose leaf has an extended key usage without
// serverAuth. Rows that are called accept-if-no-eku-filter have none at all,
// which this log's filter lets pass.
var ekuFiltered = []string{"o24-smime-eku", "sb27-eku-empty", "sb28-eku-any-only", "sb29-eku-clientauth-only"}

func (row caseRow) usesPrecertSigner() bool { return strings.Contains(row.expect, "psc") }

func accepts(row caseRow, filterEKU bool) bool {
	if c, ok := chosen[row.id]; ok {
		return c
	}
	switch row.expect {
	case "accept", "accept-lax", "accept-or-psc-reject", "reject-or-exact-bytes",
		"accept-if-no-eku-filter", "accept-if-no-eku-filter-or-psc-reject":
		return true
	case "reject-if-eku-filter":
		return !(filterEKU && slices.Contains(ekuFiltered, row.id))
	case "reject", "reject-by-window":
		return false
	}
	panic("unknown expectation " + row.expect)
}

var policies = []policy{
	{"default", Options{}, func(row caseRow) bool { return accepts(row, true) }},
	{"any EKU", Options{AllowAnyEKU: true}, func(row caseRow) bool { return accepts(row, false) }},
	{"no precertificate signing", Options{RefusePrecertSigning: true}, func(row caseRow) bool {
		return accepts(row, true) && !row.usesPrecertSigner()
	}},
}

// TestCases submits every chain of the two collections and compares answer,
// entry and chain with the index. Its expectations come from RFC 6962,
// static-ct-api and two other logs; see the README there.
func TestCases(t *testing.T) {
	dir := cases.Dir(t, "open")
	for _, set := range []struct {
		name   string
		window Window
		rows   int
	}{{"chains", Window{}, 39}, {"synthetic", syntheticWindow, 129}} {
		rows := readIndex(t, filepath.Join(dir, set.name))
		if len(rows) < set.rows {
			t.Errorf("%s has %d rows, want at least %d", set.name, len(rows), set.rows)
		}
		for _, p := range policies {
			t.Run(set.name+"/"+p.name, func(t *testing.T) { runCases(t, filepath.Join(dir, set.name), rows, set.window, p) })
		}
	}
}

func runCases(t *testing.T, dir string, rows []caseRow, window Window, p policy) {
	matched, hashes := 0, 0
	var choices []string
	handlers := make(map[string]*Handler)
	log := &fakeLog{}
	for _, row := range rows {
		h := handlers[row.roots]
		if h == nil {
			o := p.options
			o.Log, o.Window, o.Roots = log, window, readRoots(t, filepath.Join(dir, row.roots))
			h, _ = newHandler(t, o)
			handlers[row.roots] = h
		}
		// Twice: with nothing remembered of the chain, and with all of it.
		ok := true
		for range 2 {
			log.subs = nil
			w := post(h, row.endpoint, chainBody(row.ders))
			ok = checkCase(t, row, p.accept(row), w.Code, w.Body.String(), log.subs) && ok
			if w.Code == http.StatusOK && row.entryHash != "" {
				hashes++
			}
			if _, chose := chosen[row.id]; chose {
				choices = append(choices, fmt.Sprintf("%s (%s): %d %s", row.id, row.expect, w.Code, reasonIn(w.Body.String())))
			}
		}
		if ok {
			matched++
		}
	}
	t.Logf("%d of %d rows matched, %d entries compared", matched, len(rows), hashes)
	slices.Sort(choices)
	for _, c := range slices.Compact(choices) {
		t.Log("choice: ", c)
	}
}

func reasonIn(body string) string {
	if strings.HasPrefix(body, "{") {
		return "accepted"
	}
	return strings.TrimSpace(body)
}

func checkCase(t *testing.T, row caseRow, accept bool, status int, body string, subs []sequencer.Submission) bool {
	if !accept {
		if status != http.StatusBadRequest || len(subs) != 0 {
			t.Errorf("%s: status %d, %d entries, want 400 and none (%s)", row.id, status, len(subs), row.expect)
			return false
		}
		return checkSentence(t, row.id, body)
	}
	if status != http.StatusOK || len(subs) != 1 {
		t.Errorf("%s: status %d: %s; want 200 (%s)", row.id, status, body, row.expect)
		return false
	}
	e := subs[0].Entry
	var chain []string
	for i, fp := range e.Chain() {
		chain = append(chain, hex.EncodeToString(fp[:8]))
		if sha256.Sum256(subs[0].Issuers[i]) != fp {
			t.Errorf("%s: issuer %d is not the certificate that the chain names", row.id, i)
			return false
		}
	}
	keyHash := ""
	if row.endpoint == "add-pre-chain" {
		h := e.IssuerKeyHash()
		keyHash = hex.EncodeToString(h[:])
		if !bytes.Equal(e.Precertificate(), row.ders[0]) {
			t.Errorf("%s: the precertificate is not the submitted bytes", row.id)
			return false
		}
	} else if !bytes.Equal(e.Certificate(), row.ders[0]) {
		t.Errorf("%s: the certificate is not the submitted bytes", row.id)
		return false
	}
	if row.entryHash == "" { // no peer accepted it
		return true
	}
	hash := sha256.Sum256(e.Certificate())
	if got := hex.EncodeToString(hash[:]); got != row.entryHash || keyHash != row.issuerKeyHash || strings.Join(chain, ",") != row.chainFP {
		t.Errorf("%s:\n got %s %s %s\nwant %s %s %s", row.id, got, keyHash, strings.Join(chain, ","), row.entryHash, row.issuerKeyHash, row.chainFP)
		return false
	}
	return true
}

// checkSentence checks that an error body is one plain sentence.
func checkSentence(t *testing.T, id, body string) bool {
	t.Helper()
	s, ok := strings.CutSuffix(body, ".\n")
	if !ok || len(s) < 10 || len(s) > 400 || strings.ContainsAny(s, "\r\n\t") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("%s: the body %q is not one plain sentence", id, body)
		return false
	}
	return true
}

// TestCaseMessages pins what the sentences must tell the submitter.
func TestCaseMessages(t *testing.T) {
	dir := cases.Dir(t, "open")
	want := map[string]string{
		"o14-misordered":                     "wrong order",
		"sa08-reversed":                      "wrong order",
		"sa09-root-before-intermediate":      "wrong order",
		"o17-extraneous-in-middle":           "wrong order",
		"o16-extraneous-at-end":              "did not issue",
		"sa21-unrelated-appended":            "did not issue",
		"sa10-swarm-same-name-key":           "did not issue",
		"o34-duplicate-intermediate":         "is the same as",
		"o32-precert-to-add-chain":           "send it to add-pre-chain",
		"sc17-poison-at-add-chain":           "send it to add-pre-chain",
		"o33-final-to-add-pre-chain":         "send it to add-chain",
		"sc16-no-poison":                     "send it to add-chain",
		"o18-intermediate-missing":           "neither in the chain nor among the roots",
		"o12-precert-via-psc-missing-issuer": "neither in the chain nor among the roots",
		"o19-unknown-root":                   "root that this log does not accept",
		"sa25-unknown-root":                  "root that this log does not accept",
		"sa26-impostor-root-same-name":       "was not signed with that root's key",
		"o35-root-alone":                     "by itself",
		"o26-issuer-not-ca":                  "basicConstraints",
		"sa13-issuer-not-ca":                 "basicConstraints",
		"sc09-psc-not-ca":                    "basicConstraints",
		"sa14-issuer-without-keycertsign":    "keyCertSign",
		"sa15-intermediate-bad-signature":    "was not signed with that root's key",
		"sa16-leaf-bad-signature":            "signature of certificate 0 ",
		"sb34-notafter-before-start":         "from 2027-01-01T00:00:00Z up to but not including 2027-07-01T00:00:00Z",
		"sb36-notafter-at-limit":             "NotAfter, 2027-07-01T00:00:00Z, is outside",
		"sb29-eku-clientauth-only":           "serverAuth",
		"sc12-poison-not-critical":           "critical",
		"sc14-poison-twice":                  "more than once",
		"sc18-poison-only-extension":         "only extension",
		"sc06-psc-no-aki-precert-has":        "AuthorityKeyIdentifier",
		"sc10-psc-below-psc":                 "issued by another one",
	}
	for _, set := range []string{"chains", "synthetic"} {
		for _, row := range readIndex(t, filepath.Join(dir, set)) {
			w, ok := want[row.id]
			if !ok {
				continue
			}
			delete(want, row.id)
			o := Options{Roots: readRoots(t, filepath.Join(dir, set, row.roots))}
			if set == "synthetic" {
				o.Window = syntheticWindow
			}
			h, _ := newHandler(t, o)
			if body := post(h, row.endpoint, chainBody(row.ders)).Body.String(); !strings.Contains(body, w) {
				t.Errorf("%s: the answer %q does not say %q", row.id, body, w)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("rows that are not there: %v", want)
	}
}

// TestOddCertificates submits each odd certificate alone and as the issuer of a
// good leaf, to both endpoints: never a 5xx, and a good chain right after is
// accepted.
func TestOddCertificates(t *testing.T) {
	dir := cases.Dir(t, "open")
	synthetic := filepath.Join(dir, "synthetic")
	h, _ := newHandler(t, Options{Roots: readRoots(t, filepath.Join(synthetic, "roots.pem"))})
	good := cases.ReadPEM(t, filepath.Join(synthetic, "sa01-ordinary.pem"))
	odd := cases.ReadPEM(t, filepath.Join(dir, "odd", "odd.pem"))
	if len(odd) < 186 {
		t.Errorf("%d odd certificates, want at least 186", len(odd))
	}
	statuses := make(map[int]int)
	for i, der := range odd {
		for _, chain := range [][][]byte{{der}, {good[0], der}, {der, good[1]}} {
			for _, endpoint := range []string{"add-chain", "add-pre-chain"} {
				w := post(h, endpoint, chainBody(chain))
				statuses[w.Code]++
				if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
					t.Errorf("odd certificate %d to %s: status %d", i+1, endpoint, w.Code)
				}
				if w.Code == http.StatusBadRequest {
					checkSentence(t, fmt.Sprintf("odd certificate %d", i+1), w.Body.String())
				}
			}
		}
		if w := post(h, "add-chain", chainBody(good)); w.Code != http.StatusOK {
			t.Fatalf("a good chain after odd certificate %d: status %d: %s", i+1, w.Code, w.Body)
		}
	}
	t.Logf("%d odd certificates; answers by status: %v", len(odd), statuses)
}

// TestOddRoots gives the odd certificates as the accepted roots and submits each
// alone, so that those that name one of them as their issuer get further.
func TestOddRoots(t *testing.T) {
	dir := cases.Dir(t, "open")
	text, err := os.ReadFile(filepath.Join(dir, "odd", "odd.pem"))
	if err != nil {
		t.Fatal(err)
	}
	certs, skipped, err := ParseRootsPEM(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d odd certificates are usable as roots, %d are skipped", len(certs), len(skipped))
	roots, err := NewRoots(certs)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := newHandler(t, Options{Roots: roots, AllowAnyEKU: true})
	for i, der := range cases.ReadPEM(t, filepath.Join(dir, "odd", "odd.pem")) {
		w := post(h, "add-chain", chainBody([][]byte{der}))
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("odd certificate %d: status %d", i+1, w.Code)
		}
	}
	var got struct{ Certificates [][]byte }
	w := get(h, "get-roots")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Certificates) != len(certs) {
		t.Errorf("get-roots lists %d roots (%v), want %d", len(got.Certificates), err, len(certs))
	}
}
