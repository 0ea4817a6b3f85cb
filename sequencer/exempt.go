package sequencer

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
)

// exemptions are networks that the duplicate limiter leaves alone. The list is
// read-only, so it is safe for concurrent use. There is no such list for
// fairness: in a full pool, what one submitter gets another one loses.
type exemptions []exemption

type exemption struct {
	network netip.Prefix
	// answered counts the duplicates that the limiter did not see for it. There
	// are as many series as networks in the configuration.
	answered prometheus.Counter
}

func newExemptions(networks []netip.Prefix, answered *prometheus.CounterVec) exemptions {
	e := make(exemptions, len(networks))
	for i, n := range networks {
		e[i] = exemption{n, answered.WithLabelValues(n.String())}
	}
	return e
}

// covers reports whether the whole network of a submitter is exempt, and counts
// that for the first exemption that has it. The zero Prefix never is.
func (e exemptions) covers(submitter netip.Prefix) bool {
	for i := range e {
		if n := e[i].network; n.Bits() <= submitter.Bits() && n.Contains(submitter.Addr()) {
			e[i].answered.Inc()
			return true
		}
	}
	return false
}
