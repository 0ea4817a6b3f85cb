package conformance

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
)

// OddOutcomes counts the answers to the odd certificates by status.
type OddOutcomes struct {
	Certificates  int
	Alone, Issuer map[int]int
}

// judgeOdd submits each odd certificate by itself and as the issuer of a good
// leaf, and a good chain after each.
func (r *run) judgeOdd(ctx context.Context) {
	if r.t.Cases == "" {
		return
	}
	good := r.goodChain()
	if good == nil {
		r.rec.note("B18 X3", "there is no good chain to submit in between")
		return
	}
	odd, err := readPEM(filepath.Join(r.t.Cases, "odd", "odd.pem"))
	if !r.rec.noError(err, "X3", "odd certificates") {
		return
	}
	count := OddOutcomes{Certificates: len(odd), Alone: make(map[int]int), Issuer: make(map[int]int)}
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
		for _, part := range []struct {
			what   string
			a      answer
			counts map[int]int
		}{{name, res.alone, count.Alone}, {name + " as issuer", res.issuer, count.Issuer}} {
			part.counts[part.a.status]++
			if r.rec.check(part.a.status == http.StatusOK || part.a.refused(), "B18 X3", "%s: %v", part.what, part.a) && part.a.refused() {
				r.judgeErrorText(part.what, part.a)
			}
		}
		r.rec.check(res.after.status == http.StatusOK, "B18", "a good chain after %s: %v", name, res.after)
	}
	r.rec.note("X3", "%d certificates, by status: alone %v, as issuer %v", count.Certificates, count.Alone, count.Issuer)
}

// goodChain returns a final certificate's chain that the log has accepted.
func (r *run) goodChain() [][]byte {
	for _, p := range r.promises {
		if !p.precert && len(p.chain) > 1 {
			return p.chain
		}
	}
	return nil
}
