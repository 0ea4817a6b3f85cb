package submission

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// maxTop is how many networks are counted at a time.
const maxTop = 128

// topSubmitters counts submissions by network in bounded memory: when it is full,
// a new network takes the place of the one with the fewest, and its count, of
// which that part may then be too much (the space-saving sketch of Metwally,
// Agrawal and El Abbadi, 2005). Whoever sends more than one in maxTop of all
// submissions is in it for sure. It is safe for concurrent use.
type topSubmitters struct {
	mu       sync.Mutex
	counters map[netip.Prefix]*topCounter
}

type topCounter struct {
	network  netip.Prefix
	requests uint64 // at most this many
	excess   uint64 // of those, how many may be another network's
	refused  uint64 // of those seen since it is counted, answered with 429 or 503
}

func (t *topSubmitters) add(network netip.Prefix, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counters[network]
	switch {
	case c != nil:
	case len(t.counters) < maxTop:
		if t.counters == nil {
			t.counters = make(map[netip.Prefix]*topCounter, maxTop)
		}
		c = &topCounter{network: network}
		t.counters[network] = c
	default:
		for _, other := range t.counters {
			if c == nil || other.requests < c.requests {
				c = other
			}
		}
		delete(t.counters, c.network)
		*c = topCounter{network: network, requests: c.requests, excess: c.requests}
		t.counters[network] = c
	}
	c.requests++
	if refused {
		c.refused++
	}
}

// sorted returns the counters, the largest first.
func (t *topSubmitters) sorted() []topCounter {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []topCounter
	for _, c := range t.counters {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b topCounter) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), a.network.Addr().Compare(b.network.Addr()))
	})
	return all
}

// ServeTop answers with a table of the networks that submit most, as text. It is
// a page for the operator, not for the public.
func (h *Handler) ServeTop(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// A client that is gone needs no answer.
	_, _ = fmt.Fprintf(w, "%-43s %12s %12s %12s\n", "network", "submissions", "of them <=", "refused")
	for _, c := range h.top.sorted() {
		_, _ = fmt.Fprintf(w, "%-43s %12d %12d %12d\n", c.network, c.requests, c.excess, c.refused)
	}
	_, _ = fmt.Fprint(w, "\n\"of them <=\": as many may be another network's; \"refused\": answered with 429 or 503\n")
}
