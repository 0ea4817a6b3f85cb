package conformance

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
)

// resubmitted is how many of the log's own entries are submitted again.
const resubmitted = 4

// resubmit submits some of the log's newest entries again: for a log of which
// nothing is had that it would accept.
func (r *run) resubmit(ctx context.Context) {
	head := r.watch.look(ctx)
	if head == nil || head.size == 0 {
		return
	}
	t := newTreeReader(ctx, r, head.size)
	issuers := newIssuerSet(r)
	list, err := t.entries(tileAt(head.size, dataLevel, head.size-1))
	if err != nil {
		return // reported with the tile
	}
	for i := len(list) - 1; i >= max(0, len(list)-resubmitted); i-- {
		l := list[i]
		c := chainCase{name: fmt.Sprintf("the log's entry %d from the end", len(list)-i), precert: l.entry.precert, chain: [][]byte{l.der()}, ids: "R5 E01"}
		if l.entry.precert {
			c.ids += " R19"
		}
		for _, fp := range l.chain {
			issuer, _ := issuers.get(ctx, fp)
			if issuer == nil {
				return
			}
			c.chain = append(c.chain, issuer.raw)
		}
		r.judgeCase(ctx, c)
	}
}

func fingerprintOf(b []byte) [32]byte { return sha256.Sum256(b) }

// explainSkipped notes why clauses have no checks.
func (r *run) explainSkipped() {
	source := r.t.Issuer != nil
	for _, c := range clauses {
		if r.rec.checks(c.ID) > 0 || !r.wants(c.ID) {
			continue
		}
		of := func(p phase) bool {
			for _, q := range c.phases {
				if q == p {
					return true
				}
			}
			return false
		}
		switch {
		case r.rec.noted(c.ID):
		case c.ID == "R2":
			r.rec.note(c.ID, "the log was not empty")
		case c.ID == "T2" || c.ID == "N10" || strings.HasPrefix(c.ID, "G") && len(c.ID) == 2:
			r.rec.note(c.ID, "needs the verifier key of such a signature")
		case c.ID == "H07" && source:
			r.rec.note(c.ID, "needs the log's window")
		case of(phaseCases) && of(phaseChains) && !source:
			r.rec.note(c.ID, "needs an issuer's key, or cases for the log's roots")
		case of(phaseCases) || of(phaseOdd):
			r.rec.note(c.ID, "needs the cases, and the log to have their roots")
		case of(phaseOwn):
			r.rec.note(c.ID, "needs a log that is started for it")
		case !source:
			r.rec.note(c.ID, "needs an issuer's key")
		}
	}
}
