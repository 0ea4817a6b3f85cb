package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// expectation is what a log may answer to a chain.
type expectation int

const (
	accept expectation = iota
	refuse
	either
)

// chainCase is a chain to submit, and what it shows.
type chainCase struct {
	name    string
	precert bool
	chain   [][]byte
	expect  expectation
	ids     string   // clauses that the answer decides, and the entry if there is one
	words   []string // a refusal must have one of them
	entry   string   // clauses of the entry alone, decided with its tile
	fresh   bool     // it was made for this run, so no log has it
	row     *Case    // of an index
	signer  bool     // a proper chain by way of a Precertificate Signing Certificate
}

func endpoint(precert bool) string {
	if precert {
		return "ct/v1/add-pre-chain"
	}
	return "ct/v1/add-chain"
}

// promise is an SCT with what it was given for.
type promise struct {
	chainCase
	path   *chainPath
	signed signedEntry
	sct    *sct
	index  int64
	answer answer
}

func (p *promise) export(key *publicKey) Promise {
	e := Promise{Name: p.name, PublicKey: key.spki, Precert: p.precert, Chain: [][]byte{p.chain[0]}, SCT: p.answer.body}
	for _, c := range p.path.issuers {
		e.Chain = append(e.Chain, c.raw)
	}
	return e
}

// chainBody is a request of RFC 6962 section 4.1.
func chainBody(chain [][]byte) []byte {
	list := make([]string, len(chain))
	for i, c := range chain {
		list[i] = base64.StdEncoding.EncodeToString(c)
	}
	b, err := json.Marshal(map[string]any{"chain": list})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return b
}

// submit sends a chain. A log that asks for patience is asked again for a
// while.
func (r *run) submit(ctx context.Context, precert bool, chain [][]byte) answer {
	return r.post(ctx, endpoint(precert), chainBody(chain))
}

func (r *run) post(ctx context.Context, path string, body []byte) (a answer) {
	h := http.Header{"Content-Type": {"application/json"}}
	for range 20 {
		a = r.sub.do(ctx, call{method: http.MethodPost, path: path, header: h, body: bytes.NewReader(body)})
		if a.status != http.StatusServiceUnavailable && a.status != http.StatusTooManyRequests || ctx.Err() != nil {
			break
		}
		r.pause(ctx, time.Second)
	}
	return a
}

// judgeCase submits a chain and judges the answer. It returns the promise if
// the log made one that holds together.
func (r *run) judgeCase(ctx context.Context, c chainCase) *promise {
	a := r.submit(ctx, c.precert, c.chain)
	if ctx.Err() != nil {
		return nil
	}
	return r.judgeAnswer(ctx, c, a)
}

func (r *run) judgeAnswer(ctx context.Context, c chainCase, a answer) *promise {
	rec := r.rec
	if c.signer && (a.status == http.StatusOK || a.refused()) {
		r.mu.Lock()
		r.bySigner[a.status == http.StatusOK] = append(r.bySigner[a.status == http.StatusOK], c.name)
		r.mu.Unlock()
	}
	switch {
	case a.status == http.StatusOK:
		rec.check(c.expect != refuse, c.ids, "%s: accepted, must be refused", c.name)
		r.noteChoice(c, "accepted")
		return r.judgePromise(ctx, c, a)
	case a.refused():
		rec.check(c.expect != accept, c.ids, "%s: %v, must be accepted", c.name, a)
		r.noteChoice(c, "refused")
		r.judgeRefusal(c, a)
	default:
		rec.fail(c.ids+" R30", "%s: %v", c.name, a)
	}
	return nil
}

// noteChoice tells what the log did where both is right.
func (r *run) noteChoice(c chainCase, what string) {
	if c.expect == either && !c.signer {
		r.rec.note(c.ids, "%s: %s", c.name, what)
	}
}

// judgeRefusal judges the text of a 4xx.
func (r *run) judgeRefusal(c chainCase, a answer) {
	r.judgeErrorText(c.name, a)
	if len(c.words) > 0 {
		text := strings.ToLower(string(a.body))
		said := false
		for _, w := range c.words {
			said = said || strings.Contains(text, w)
		}
		r.rec.check(said, c.ids, "%s: the text %q has none of %q", c.name, a.text(), c.words)
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(a.body, &fields) == nil && fields["signature"] != nil {
		r.rec.fail("R10 "+c.ids, "%s: there is an SCT in the refusal", c.name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals = append(r.refusals, c.chain[0])
}

// judgeErrorText checks that an error is told in words.
func (r *run) judgeErrorText(what string, a answer) {
	text := a.text()
	letters := strings.ContainsFunc(text, unicode.IsLetter)
	html := strings.Contains(strings.ToLower(text), "<html")
	r.rec.check(utf8.Valid(a.body) && letters && len(text) >= 8 && !html, "H04 R30", "%s: the text of the refusal is %q", what, text)
}

// judgePromise judges an SCT.
func (r *run) judgePromise(ctx context.Context, c chainCase, a answer) *promise {
	rec := r.rec
	rec.pass("S2")
	rec.check(sameType(a.header.Get("Content-Type"), "application/json") || sameType(a.header.Get("Content-Type"), "application/json; charset=utf-8"),
		"R33", "the SCT has the Content-Type %q", a.header.Get("Content-Type"))
	s, err := readSCT(a.body)
	if !rec.noError(err, "R33", "%s: the SCT", c.name) {
		rec.check(!strings.Contains(err.Error(), `"extensions"`), "D06", "%s: %v", c.name, err)
		if s == nil {
			return nil
		}
	}
	rec.check(s.version == 0, "R23 D05", "%s: sct_version is %d", c.name, s.version)
	rec.check(bytes.Equal(s.id, r.key.logID[:]), "R22 D04", "%s: the id is %x, not the log ID", c.name, s.id)
	r.judgeTimestamp(c, s)
	p := &promise{chainCase: c, sct: s, answer: a}
	p.index = r.judgeExtensions(c, s)
	if !r.judgePath(p) || !r.judgeSignature(p) || p.index < 0 {
		return nil
	}
	rec.pass("R5")
	if r.watch.newest() != nil {
		rec.check(r.watch.waitFor(ctx, p.index), "R7", "%s: entry %d is not in the tree after %v", c.name, p.index, r.o.MergeDelay)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.promises = append(r.promises, p)
	return p
}

func (r *run) judgeTimestamp(c chainCase, s *sct) {
	off := time.Since(time.UnixMilli(s.timestamp))
	ok := off > -time.Minute && (off < time.Minute || !c.fresh)
	r.rec.check(ok && s.timestamp > 1e12 && s.timestamp < 1e13, "R23", "%s: the timestamp %d is not in milliseconds, or not of now", c.name, s.timestamp)
}

// judgeExtensions returns the leaf index, -1 if there is none.
func (r *run) judgeExtensions(c chainCase, s *sct) int64 {
	index, types, err := readExtensionList(s.extensions)
	r.rec.noError(err, "S5", "%s: extensions %x", c.name, s.extensions)
	r.rec.check(bytes.IndexByte(types, 0) >= 0, "S6", "%s: there is no leaf_index in the extensions %x", c.name, s.extensions)
	ok := len(s.extensions) == 8 && bytes.HasPrefix(s.extensions, []byte{0, 0, 5})
	r.rec.check(ok, "D06 S6", "%s: the extensions are %x, not 000005 and an index", c.name, s.extensions)
	return index
}

// judgePath checks that what was accepted is a chain to an accepted root, and
// finds out what the entry must be.
func (r *run) judgePath(p *promise) bool {
	var err error
	if p.path, err = completePath(p.chain, r.roots); !r.rec.noError(err, "R10 R15", "%s: accepted", p.name) {
		return false
	}
	child := p.path.leaf
	for _, issuer := range p.path.issuers {
		err := child.checkSignature(issuer)
		if !errors.Is(err, errUnknownAlgorithm) {
			r.rec.noError(err, "R10 R15", "%s: accepted, but a link of the chain", p.name)
		}
		child = issuer
	}
	p.signed, err = p.path.entry(p.precert)
	if err == nil {
		return true
	}
	if p.expect == accept {
		r.rec.noError(err, "R20 "+p.ids, "%s: accepted", p.name)
	} else {
		r.rec.note("R20", "%s: accepted, though %v", p.name, err)
	}
	return false
}

// judgeSignature verifies the SCT over the entry as it is made here.
func (r *run) judgeSignature(p *promise) bool {
	ids := "R24 S4 R5 R4 " + p.ids
	if p.precert {
		ids += " R19 R21"
		if p.path.issuers[0].isPrecertSigner() {
			ids += " R20"
		}
	}
	ds, err := readDigitallySigned(p.sct.signature)
	if err == nil {
		err = r.key.form(ds)
	}
	if !r.rec.noError(err, "D03 "+ids, "%s: the SCT's signature", p.name) {
		return false
	}
	r.rec.pass("R3")
	return r.rec.noError(r.key.verify(ds, p.sct.message(p.signed)), "D06 "+ids, "%s: the SCT's signature over the entry", p.name)
}

// same reports whether two promises are one: the same leaf.
func (p *promise) same(q *promise) bool {
	return p != nil && q != nil && p.index == q.index && p.sct.timestamp == q.sct.timestamp
}

func hexHash(h [32]byte) string { return hex.EncodeToString(h[:]) }

// parallel calls f with 0 to n-1, in up to eight goroutines.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, 8) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
