package own

import (
	"strings"

	"github.com/daybook-ct/daybook/test/conformance"
)

// policy is how a log is configured.
type policy struct {
	anyEKU    bool // the serverAuth filter is off
	refusePSC bool // no Precertificate Signing Certificates
}

// chosen are the rows that both answers would be right for, and what daybook
// does. True is accept.
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
	"sc18-poison-only-extension":                        false,
}

// decide says what daybook does with a row, by docs/admission.md.
func (p policy) decide(c conformance.Case) (accept, known bool) {
	if p.refusePSC && strings.Contains(c.Expect, "psc") {
		return false, true
	}
	if a, ok := chosen[c.ID]; ok {
		return a, true
	}
	switch c.Expect {
	case "accept", "accept-lax", "accept-or-psc-reject", "reject-or-exact-bytes", "accept-if-no-eku-filter", "accept-if-no-eku-filter-or-psc-reject":
		return true, true
	case "reject-if-eku-filter":
		return p.anyEKU, true
	case "reject", "reject-by-window":
		return false, true
	}
	return false, false
}
