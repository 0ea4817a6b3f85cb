package submission

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

// staleAfter is the age from which on a precertificate is nobody's fresh
// issuance.
const staleAfter = 48 * time.Hour

// priority returns Low for what can wait: precertificates whose NotBefore is
// 48 hours old, and final certificates that carry SCTs, which other logs have
// then. A NotBefore that cannot be read is the zero time.
func priority(c *cert.Certificate, now time.Time) sequencer.Priority {
	if c.Poison == cert.ValidPoison {
		if now.Sub(c.NotBefore) >= staleAfter {
			return sequencer.Low
		}
		return sequencer.High
	}
	if c.HasSCTList {
		return sequencer.Low
	}
	return sequencer.High
}

// submission builds the entry of a valid chain and all else that the log needs
// to know of it.
func (p *path) submission(precert bool, now time.Time, from netip.Prefix) (sequencer.Submission, error) {
	s := sequencer.Submission{
		Issuers:   make([][]byte, len(p.issuers)),
		Priority:  priority(p.leaf, now),
		Submitter: from,
	}
	chain := make([]tlog.Fingerprint, len(p.issuers))
	for i, c := range p.issuers {
		chain[i], s.Issuers[i] = c.Fingerprint, c.Raw
	}
	var err error
	if !precert {
		s.Entry, err = tlog.NewX509Entry(p.leaf.Raw, chain, p.leaf.NamesJSON())
		return s, err
	}
	final := p.issuers[0]
	if p.signer != nil {
		final = p.issuers[1]
	}
	tbs, err := p.leaf.PrecertTBS(p.signer)
	if err != nil {
		return s, refuse(errTBS, fmt.Sprintf("The precertificate cannot be logged: %s.", problem(err)))
	}
	s.Entry, err = tlog.NewPrecertEntry(tbs, final.IssuerKeyHash(), p.leaf.Raw, chain, p.leaf.NamesJSON())
	return s, err
}
