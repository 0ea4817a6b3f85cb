package conformance

import (
	"bytes"
	"fmt"
	"strings"
)

// judgePromises holds each SCT against the entry at its index.
func (s *scan) judgePromises() {
	byIndex := make(map[int64][]*promise)
	for _, p := range s.r.promises {
		byIndex[p.index] = append(byIndex[p.index], p)
	}
	for _, p := range s.r.promises {
		s.judgePromise(p, byIndex[p.index])
	}
}

// ids are the clauses that the entry of a promise decides, beside those of its
// case.
func (p *promise) entryClauses() string {
	ids := p.ids + " " + p.entry
	if p.signed.precert {
		ids += " C11"
		if p.path.issuers[0].isPrecertSigner() {
			ids += " D02"
		}
	}
	return ids
}

// judgePromise checks one promise. all are those with its index.
func (s *scan) judgePromise(p *promise, all []*promise) {
	rec, ids := s.r.rec, p.entryClauses()
	if !rec.check(p.index < s.size, "R25 "+ids, "%s: the SCT names entry %d, the tree has %d", p.name, p.index, s.size) {
		return
	}
	want := leafHash(p.sct.merkleTreeLeaf(p.signed))
	if hash, err := s.hash(0, p.index); err == nil {
		rec.check(hash == want, "R25 E01 "+ids, "%s: tile/0 has another leaf hash at %d than the SCT's", p.name, p.index)
	}
	l := s.leaf(p.index)
	if l == nil {
		if p.index >= s.from {
			rec.fail(ids, "%s: entry %d could not be read", p.name, p.index)
		}
		return
	}
	same := l.entry.precert == p.signed.precert && l.entry.issuerKeyHash == p.signed.issuerKeyHash && bytes.Equal(l.entry.data, p.signed.data)
	rec.check(same, "R25 S31 "+ids, "%s: entry %d is not what was submitted", p.name, p.index)
	rec.check(l.timestamp == p.sct.timestamp && bytes.Equal(l.extensions, p.sct.extensions), "R25 S6 "+ids,
		"%s: entry %d has the timestamp %d and the extensions %x, the SCT %d and %x", p.name, p.index, l.timestamp, l.extensions, p.sct.timestamp, p.sct.extensions)
	if p.precert && same {
		submitted := false
		for _, q := range all {
			submitted = submitted || bytes.Equal(l.precert, q.chain[0])
		}
		rec.check(submitted || p.index < s.r.watch.grown, "C13 S31 "+ids, "%s: pre_certificate of entry %d is not what was submitted", p.name, p.index)
	}
	s.judgeStoredChain(p, l, all, ids)
	for _, fp := range l.chain {
		if _, served := s.issuers.get(s.ctx, fp); s.ctx.Err() == nil {
			rec.check(served, "S34 "+ids, "%s: issuer %x of entry %d is not served", p.name, fp, p.index)
		}
	}
}

// judgeStoredChain checks that an entry has the chain that was submitted, up to
// the root. Of a duplicate it is that of one of the submissions.
func (s *scan) judgeStoredChain(p *promise, l *tileLeaf, all []*promise, ids string) {
	var why string
	ok := false
	for _, q := range all {
		if err := matchChain(q, l); err == nil {
			ok = true
		} else if q == p {
			why = err.Error()
		}
	}
	if p.index < s.r.watch.grown {
		return // another's submission made it
	}
	s.r.rec.check(ok, "R14 S32 A03 "+ids, "%s: entry %d: %s", p.name, p.index, why)
	if p.row != nil && len(all) == 1 {
		s.r.rec.noError(p.row.matchChain(l.chain), ids, "%s: entry %d", p.name, p.index)
	}
}

func matchChain(p *promise, l *tileLeaf) error {
	var got, want []string
	for _, fp := range l.chain {
		got = append(got, hexHash(fp)[:16])
	}
	for _, c := range p.path.issuers {
		want = append(want, hexHash(c.fingerprint())[:16])
	}
	if a, b := strings.Join(got, ","), strings.Join(want, ","); a != b {
		return fmt.Errorf("certificate_chain is %s, want %s", a, b)
	}
	return nil
}
