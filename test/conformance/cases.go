package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Case is a line of an index of the cases: a chain, and what is right for it.
type Case struct {
	Set      string // "chains" or "synthetic"
	ID       string
	Endpoint string // "add-chain" or "add-pre-chain"
	Roots    string // the file of accepted roots
	Expect   string
	Why      string
	// Peers are the measured columns: sunlight_eku, sunlight_noeku,
	// tesseract_eku, tesseract_noeku.
	Peers map[string]string

	entryHash, issuerKeyHash string
	fingerprints             []string // the first 16 hex digits of each
}

// Outcome is what a log made of a case.
type Outcome struct {
	Case
	Status  int
	Message string // of a refusal
}

// Accepted reports whether the log gave an SCT.
func (o Outcome) Accepted() bool { return o.Status == http.StatusOK }

// Free reports whether the index leaves the log a choice.
func (c Case) Free() bool {
	return c.Expect != "accept" && c.Expect != "reject" && c.Expect != "reject-by-window"
}

// ReadIndex reads the index of a set of the cases.
func ReadIndex(dir, set string) ([]Case, error) {
	text, err := os.ReadFile(filepath.Join(dir, set, "INDEX.tsv"))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	columns := strings.Split(lines[0], "\t")
	var list []Case
	for i, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != len(columns) {
			return nil, fmt.Errorf("%s/INDEX.tsv, line %d: %d fields, want %d", set, i+2, len(fields), len(columns))
		}
		row := make(map[string]string)
		for j, c := range columns {
			row[c] = fields[j]
		}
		c := Case{Set: set, ID: row["id"], Endpoint: row["endpoint"], Roots: row["accepted_roots"], Expect: row["expect"], Why: row["why"],
			Peers: make(map[string]string), entryHash: row["sha256_of_signed_entry_cert_or_tbs"], issuerKeyHash: row["issuer_key_hash"]}
		for _, p := range []string{"sunlight_eku", "sunlight_noeku", "tesseract_eku", "tesseract_noeku"} {
			c.Peers[p] = row[p]
		}
		// "byte-exact HASH (peers HASH)": only the first is right.
		if rest, ok := strings.CutPrefix(c.entryHash, "byte-exact "); ok {
			c.entryHash, _, _ = strings.Cut(rest, " ")
		}
		if b, err := hex.DecodeString(c.entryHash); err != nil || len(b) != 32 {
			c.entryHash = "" // no peer accepted it, or they do not agree
		}
		if fp := row["certificate_chain_fingerprints_16hex"]; fp != "" {
			c.fingerprints = strings.Split(fp, ",")
		}
		list = append(list, c)
	}
	return list, nil
}

// Sets are the sets of the cases that have an index of chains, with the clause
// of each and the least number of rows.
var Sets = []struct {
	Name, Clause string
	Rows         int
}{{"chains", "X1", 39}, {"synthetic", "X2", 129}}

// readPEM reads the certificates of a file.
func readPEM(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := decodePEM(text)
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no certificates", path)
	}
	return list, nil
}

// decodePEM returns the bytes of all CERTIFICATE blocks that can be decoded.
// Blanks at the ends of lines and a missing last newline are no fault.
func decodePEM(text []byte) (list [][]byte) {
	var body strings.Builder
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\r", "\n")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "-----BEGIN CERTIFICATE-----":
			inside = true
			body.Reset()
		case strings.HasPrefix(line, "-----"):
			if b, err := base64.StdEncoding.DecodeString(body.String()); inside && err == nil && line == "-----END CERTIFICATE-----" {
				list = append(list, b)
			}
			inside = false
		case inside:
			body.WriteString(line)
		}
	}
	return list
}

// ReadRoots returns the certificates of a PEM file in DER, each once.
func ReadRoots(path string) ([][]byte, error) {
	list, err := readPEM(path)
	return unique(list), err
}

func unique(list [][]byte) [][]byte {
	list = slices.Clone(list)
	slices.SortFunc(list, bytes.Compare)
	return slices.CompactFunc(list, bytes.Equal)
}

// judgeCases submits the chains of each set whose accepted roots are the log's.
func (r *run) judgeCases(ctx context.Context) {
	if r.t.Cases == "" {
		return
	}
	for _, set := range Sets {
		if r.wants(set.Clause) || r.wantsTagged(set.Name) {
			if err := r.judgeSet(ctx, set.Name, set.Clause); err != nil {
				r.rec.fail(set.Clause, "%s: %v", set.Name, err)
			}
		}
	}
	r.judgeSignerPolicy()
}

// basicCases are ordinary chains, for which there is always a use.
var basicCases = []string{"o01-precert-le-staging-e6", "o08-final-with-scts-cloudflare", "sa01-ordinary", "sc01-precert"}

// wantsTagged reports whether a row of the set is of use.
func (r *run) wantsTagged(set string) bool {
	if r.t.Issuer == nil {
		return true
	}
	for id, tags := range caseClauses {
		if (strings.HasPrefix(id, "o") == (set == "chains")) && r.wants(strings.Fields(tags)...) {
			return true
		}
	}
	return false
}

func (r *run) judgeSet(ctx context.Context, set, id string) error {
	cases, err := ReadIndex(r.t.Cases, set)
	if err != nil {
		return err
	}
	same := make(map[string]bool) // by file: whether its roots are the log's
	var mine []chainCase
	for _, c := range cases {
		ok, known := same[c.Roots]
		if !known {
			roots, err := ReadRoots(filepath.Join(r.t.Cases, set, c.Roots))
			if err != nil {
				return err
			}
			ok = slices.EqualFunc(roots, unique(r.roots), bytes.Equal)
			same[c.Roots] = ok
		}
		basic := r.t.Issuer == nil && slices.Contains(basicCases, c.ID)
		if !ok || !basic && !r.wants(id) && !r.wants(strings.Fields(caseClauses[c.ID])...) {
			continue
		}
		chain, err := readPEM(filepath.Join(r.t.Cases, set, c.ID+".pem"))
		if err != nil {
			return err
		}
		mine = append(mine, r.caseOf(c, id, chain))
	}
	if len(mine) == 0 {
		r.rec.note(id, "the log has the roots of none of the files")
		return nil
	}
	r.judgeIndex(ctx, id, mine)
	return nil
}

// caseOf says what is expected of a row.
func (r *run) caseOf(c Case, id string, chain [][]byte) chainCase {
	cc := chainCase{name: c.ID, precert: c.Endpoint == "add-pre-chain", chain: chain, expect: expected(c.Expect),
		ids: id + " " + caseClauses[c.ID], row: &c, words: caseWords[c.ID], signer: strings.Contains(c.Expect, "psc")}
	if r.o.Decide != nil {
		if accepted, known := r.o.Decide(c); known && accepted {
			cc.expect = accept
		} else if known {
			cc.expect = refuse
		}
	}
	if c.Expect == "reject-by-window" && r.t.WindowLimit.IsZero() && r.t.WindowStart.IsZero() {
		cc.expect = either
	}
	return cc
}

// expected turns the word of an index into an expectation. What is called
// accept-lax may be refused by a log that says so.
func expected(word string) expectation {
	switch word {
	case "accept":
		return accept
	case "reject", "reject-by-window":
		return refuse
	}
	return either
}

// judgeIndex submits rows in their order: some of them are duplicates of
// earlier ones.
func (r *run) judgeIndex(ctx context.Context, id string, list []chainCase) {
	made := make(map[string]*promise)
	for _, c := range list {
		a := r.submit(ctx, c.precert, c.chain)
		if ctx.Err() != nil {
			return
		}
		made[c.name] = r.judgeAnswer(ctx, c, a)
		out := Outcome{Case: *c.row, Status: a.status}
		if a.status != http.StatusOK {
			out.Message = a.text()
		}
		r.outcomes = append(r.outcomes, out)
		if p := made[c.name]; p != nil {
			r.rec.noError(p.againstIndex(), c.ids, "%s", c.name)
		}
	}
	for _, d := range caseTwins {
		p, q := made[d.first], made[d.second]
		if p == nil || q == nil {
			continue
		}
		if d.same {
			r.rec.check(p.same(q), id+" "+d.ids, "%s and %s are one entry, and got %d and %d", d.first, d.second, p.index, q.index)
		} else {
			r.rec.check(p.index != q.index, id+" "+d.ids, "%s and %s are two entries, and both got %d", d.first, d.second, p.index)
		}
	}
}

// againstIndex compares the entry that the SCT was verified over with the
// index.
func (p *promise) againstIndex() error {
	c := p.row
	if c.entryHash == "" {
		return nil
	}
	if got := hexHash(sha256.Sum256(p.signed.data)); got != c.entryHash {
		return fmt.Errorf("the SCT is over an entry of hash %s, the index has %s", got, c.entryHash)
	}
	if p.precert && hexHash(p.signed.issuerKeyHash) != c.issuerKeyHash {
		return fmt.Errorf("issuer_key_hash is %x, the index has %s", p.signed.issuerKeyHash, c.issuerKeyHash)
	}
	return nil
}

// matchChain compares an entry's chain with the index.
func (c *Case) matchChain(chain [][32]byte) error {
	if len(c.fingerprints) == 0 {
		return nil
	}
	var got []string
	for _, fp := range chain {
		got = append(got, hexHash(fp)[:16])
	}
	if !slices.Equal(got, c.fingerprints) {
		return errors.New("certificate_chain is " + strings.Join(got, ",") + ", the index has " + strings.Join(c.fingerprints, ","))
	}
	return nil
}
