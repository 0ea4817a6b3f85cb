package conformance

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
)

// OddOutcomes counts the answers to the odd certificates, each alone and as the
// issuer of a good leaf.
type OddOutcomes struct {
	Set                               string // of the good leaf
	Certificates                      int
	AloneAccepted, AloneRefused       int
	AsIssuerAccepted, AsIssuerRefused int
}

// judgeOdd submits each odd certificate by itself and as the issuer of a good
// leaf, and a good chain after each.
func (r *run) judgeOdd(ctx context.Context) {
	if r.t.Cases == "" {
		return
	}
	p := r.goodPromise()
	if p == nil {
		r.rec.note("B18 X3", "there is no good chain to submit in between")
		return
	}
	good := p.chain
	odd, err := readPEM(filepath.Join(r.t.Cases, "odd", "odd.pem"))
	if !r.rec.noError(err, "X3", "odd certificates") {
		return
	}
	count := OddOutcomes{Certificates: len(odd)}
	if p.row != nil {
		count.Set = p.row.Set
	}
	type result struct{ alone, issuer, after answer }
	results := make([]result, len(odd))
	parallel(len(odd), func(i int) {
		if ctx.Err() != nil {
			return
		}
		results[i].alone = r.submit(ctx, false, [][]byte{odd[i]})
		results[i].issuer = r.submit(ctx, false, [][]byte{good[0], odd[i]})
		results[i].after = r.submit(ctx, false, good)
	})
	if ctx.Err() != nil {
		return
	}
	for i, res := range results {
		name := fmt.Sprintf("odd certificate %d", i+1)
		r.judgeOddAnswer(ctx, name, [][]byte{odd[i]}, res.alone, &count.AloneAccepted, &count.AloneRefused)
		r.judgeOddAnswer(ctx, name+" as issuer", [][]byte{good[0], odd[i]}, res.issuer, &count.AsIssuerAccepted, &count.AsIssuerRefused)
		r.rec.check(res.after.status == http.StatusOK, "B18", "a good chain after %s: %v", name, res.after)
	}
	r.odd = append(r.odd, count)
}

// judgeOddAnswer takes a refusal, or an SCT that holds together.
func (r *run) judgeOddAnswer(ctx context.Context, what string, chain [][]byte, a answer, accepted, refused *int) {
	r.rec.check(a.status == http.StatusOK || a.refused(), "B18 X3", "%s: %v", what, a)
	switch {
	case a.refused():
		*refused++
		r.judgeErrorText(what, a)
	case a.status == http.StatusOK:
		*accepted++
		c := chainCase{name: what, chain: chain, expect: either, ids: "X3"}
		r.rec.check(r.judgePromise(ctx, c, a) != nil, "X3", "%s: accepted with an SCT that does not hold together", what)
	}
}

// goodPromise is for a final certificate that the log has accepted.
func (r *run) goodPromise() *promise {
	for _, p := range r.promises {
		if !p.precert && len(p.chain) > 1 {
			return p
		}
	}
	return nil
}

// goodChain is that of goodPromise.
func (r *run) goodChain() [][]byte {
	if p := r.goodPromise(); p != nil {
		return p.chain
	}
	return nil
}
