package submission

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/cert"
)

// maxAnchorChecks bounds the accepted roots of one name that are tried. The
// signatures verified for one request are at most that many and one for each
// certificate.
const maxAnchorChecks = 32

// Window is a log's range of NotAfter: Start is inside, Limit is not. The zero
// value of either leaves that end open.
type Window struct{ Start, Limit time.Time }

func (w Window) contains(t time.Time) bool {
	return (w.Start.IsZero() || !t.Before(w.Start)) && (w.Limit.IsZero() || t.Before(w.Limit))
}

func (w Window) String() string {
	end := func(t time.Time) string {
		if t.IsZero() {
			return "any time"
		}
		return t.UTC().Format(time.RFC3339)
	}
	return "from " + end(w.Start) + " up to but not including " + end(w.Limit)
}

// validator decides which chains a log takes. It is safe for concurrent use.
type validator struct {
	roots                *Roots
	window               Window
	anyEKU               bool
	refusePrecertSigning bool

	issuers atomic.Pointer[issuerCache]
	leaves  leafMemory
	// lookup, if not nil, is told of each certificate above a leaf whether it
	// was remembered.
	lookup func(hit bool)
}

// path is a chain that was found valid.
type path struct {
	leaf    *cert.Certificate
	issuers []*issuer // from the leaf's issuer to the accepted root, never empty
	// signer is the Precertificate Signing Certificate that issued the leaf,
	// or nil.
	signer *cert.Certificate
	// anchored means that the root was added, and with it the signature of the
	// last certificate submitted verified.
	anchored bool
	checks   int // signatures verified, or tried
}

// validate decides on a chain as it was submitted to add-chain or, if precert,
// add-pre-chain: RFC 6962 section 3.1. chain[0] is kept, the rest is copied
// where it must be.
//
// What costs little and what the submitter would want to know first is looked
// at first; then worth says whether the rest is worth the work. Signatures come last and from the root down, so that a chain that
// no accepted root stands behind costs one check and not one per certificate.
func (v *validator) validate(chain [][]byte, precert bool, worth func(leaf *cert.Certificate) error) (*path, error) {
	leaf, err := cert.Parse(chain[0])
	if err != nil {
		return nil, unparsable(0, err)
	}
	if err := checkPoison(leaf, precert); err != nil {
		return nil, err
	}
	cache := v.cache()
	p := &path{leaf: leaf, issuers: make([]*issuer, 0, len(chain))}
	for i, der := range chain[1:] {
		c, err := v.issuer(cache, der)
		if err != nil {
			return nil, unparsable(i+1, err)
		}
		p.issuers = append(p.issuers, c)
	}
	if err := p.checkOrder(); err != nil {
		return nil, err
	}
	for i, c := range p.issuers {
		if err := checkIssuer(i+1, c); err != nil {
			return nil, err
		}
	}
	if err := v.checkLeaf(leaf); err != nil {
		return nil, err
	}
	if worth != nil {
		if err := worth(leaf); err != nil {
			return nil, err
		}
	}
	if err := p.anchor(cache); err != nil {
		return nil, err
	}
	if precert {
		if err := p.findSigner(v.refusePrecertSigning); err != nil {
			return nil, err
		}
	}
	if err := p.verify(cache, &v.leaves); err != nil {
		return nil, err
	}
	return p, nil
}

// cache returns the issuers remembered under the accepted roots of now.
func (v *validator) cache() *issuerCache {
	roots := v.roots.set.Load()
	c := v.issuers.Load()
	if c == nil || c.roots != roots {
		c = newIssuerCache(roots)
		v.issuers.Store(c)
	}
	return c
}

// issuer returns the certificate, remembered or parsed from a copy of der.
func (v *validator) issuer(cache *issuerCache, der []byte) (*issuer, error) {
	fingerprint := sha256.Sum256(der)
	i := cache.get(fingerprint)
	if v.lookup != nil {
		v.lookup(i != nil)
	}
	if i != nil {
		return i, nil
	}
	c, err := cert.Parse(bytes.Clone(der))
	if err != nil {
		return nil, err
	}
	return &issuer{Certificate: c}, nil
}

func unparsable(i int, err error) error {
	return refuse(errCertificate, fmt.Sprintf("Certificate %d of the chain is malformed: %s.", i, problem(err)))
}

// problem returns the text of an error of package cert, which is fit for the
// submitter, without that of the sentinel in front: the sentence around it
// says as much.
func problem(err error) string {
	s := err.Error()
	for _, sentinel := range []error{cert.ErrMalformed, cert.ErrPoison, cert.ErrPrecertTBS, cert.ErrUnsupportedAlgorithm, cert.ErrBadSignature} {
		if rest, ok := strings.CutPrefix(s, sentinel.Error()+": "); ok {
			return rest
		}
	}
	return s
}

// checkPoison checks that the leaf was sent to its endpoint.
func checkPoison(leaf *cert.Certificate, precert bool) error {
	switch {
	case leaf.Poison == cert.InvalidPoison:
		return refuse(errPoison, fmt.Sprintf("This is not a proper precertificate: %s.", problem(leaf.PoisonProblem())))
	case leaf.Poison == cert.ValidPoison && !precert:
		return refuse(errWrongEndpoint, "This is a precertificate (it has the poison extension); send it to add-pre-chain.")
	case leaf.Poison == cert.NoPoison && precert:
		return refuse(errWrongEndpoint, "This is not a precertificate (it lacks the poison extension); send it to add-chain.")
	}
	return nil
}

// checkOrder checks by their names that each certificate certifies the one
// before it, and that none comes twice.
func (p *path) checkOrder() error {
	child := p.leaf
	for i, c := range p.issuers {
		if !child.IssuerIs(c.Certificate) {
			return p.explainOrder(i)
		}
		child = c.Certificate
	}
	for i := range p.issuers {
		for j := -1; j < i; j++ {
			if p.at(j).Fingerprint == p.at(i).Fingerprint {
				return refuse(errOrder, fmt.Sprintf("Certificate %d of the chain is the same as certificate %d.", i+1, j+1))
			}
		}
	}
	return nil
}

// at returns issuer i, or the leaf for -1.
func (p *path) at(i int) *cert.Certificate {
	if i < 0 {
		return p.leaf
	}
	return p.issuers[i].Certificate
}

// explainOrder says why issuer i cannot be the one of the certificate before
// it.
func (p *path) explainOrder(i int) error {
	const rule = "each certificate must be followed by the one that issued it"
	child, c := p.at(i-1), p.at(i)
	if child.Fingerprint == c.Fingerprint {
		return refuse(errOrder, fmt.Sprintf("Certificate %d of the chain is the same as certificate %d.", i+1, i))
	}
	if c.IssuerIs(child) {
		return refuse(errOrder, fmt.Sprintf("The chain is in the wrong order: certificate %d is issued by certificate %d, but %s.", i+1, i, rule))
	}
	for j := -1; j < len(p.issuers); j++ {
		if j != i-1 && child.IssuerIs(p.at(j)) {
			return refuse(errOrder, fmt.Sprintf("The chain is in the wrong order: the issuer of certificate %d is certificate %d, but %s.", i, j+1, rule))
		}
	}
	return refuse(errOrder, fmt.Sprintf("Certificate %d of the chain did not issue certificate %d: its subject is not that one's issuer (names are compared byte by byte).", i+1, i))
}

// checkIssuer checks that certificate i of the chain may issue. Path length,
// name constraints, dates and policies are not judged: a certificate that
// breaks them is one that a log should show.
func checkIssuer(i int, c *issuer) error {
	switch {
	case c.Poison != cert.NoPoison:
		return refuse(errIssuer, fmt.Sprintf("Certificate %d of the chain is a precertificate, which may not issue certificates.", i))
	case c.root: // trusted as it is given
	case !c.IsCA:
		return refuse(errIssuer, fmt.Sprintf("Certificate %d of the chain may not issue certificates: its basicConstraints do not say that it is a certificate authority.", i))
	case c.HasKeyUsage && !c.KeyCertSign:
		return refuse(errIssuer, fmt.Sprintf("Certificate %d of the chain may not issue certificates: its keyUsage lacks keyCertSign.", i))
	}
	return nil
}

// checkLeaf applies the log's own policy.
func (v *validator) checkLeaf(leaf *cert.Certificate) error {
	if !v.window.contains(leaf.NotAfter) {
		return refuse(errWindow, fmt.Sprintf("The certificate's NotAfter, %s, is outside this log's window, %s.",
			leaf.NotAfter.UTC().Format(time.RFC3339), v.window))
	}
	// anyExtendedKeyUsage alone does not count: other logs refuse it, too, and
	// browsers have no use for it.
	if leaf.HasEKU && (!leaf.ServerAuth || leaf.AnyEKUOnly) && !v.anyEKU {
		return refuse(errEKU, "The certificate's extended key usage lacks serverAuth, which this log asks for.")
	}
	return nil
}

// anchor makes the chain end in an accepted root: the last certificate
// submitted, or else the first root with the name of its issuer whose key
// verifies.
func (p *path) anchor(cache *issuerCache) error {
	n := len(p.issuers)
	last := p.at(n - 1)
	if cache.roots.byFingerprint[last.Fingerprint] != nil {
		if n == 0 {
			return refuse(errUnknownRoot, "This is a root that this log accepts, by itself; there is no chain to log.")
		}
		return nil
	}
	if n > 0 {
		if root := p.issuers[n-1].anchor.Load(); root != nil {
			p.issuers, p.anchored = append(p.issuers, root), true
			return nil
		}
	}
	var err error
	candidates := cache.roots.bySubject[string(last.RawIssuer)]
	for _, root := range candidates {
		if n == 0 || !p.issuers[n-1].signedBy(root) {
			if p.checks == maxAnchorChecks {
				return refuse(errTooMuchWork, "Too many of this log's roots have the name that the chain leads to.")
			}
			p.checks++
			if err = last.CheckSignatureFrom(root.Certificate); err != nil {
				continue
			}
		}
		if n > 0 {
			i := p.issuers[n-1]
			i.rememberParent(root)
			i.anchor.Store(root)
			cache.put(i)
		}
		p.issuers, p.anchored = append(p.issuers, root), true
		return nil
	}
	switch {
	case errors.Is(err, cert.ErrUnsupportedAlgorithm):
		return refuse(errSignature, fmt.Sprintf("The signature of the last certificate of the chain cannot be verified with the key of the root: %s.", problem(err)))
	case err != nil:
		return refuse(errUnknownRoot, "The last certificate of the chain names a root that this log accepts as its issuer, but was not signed with that root's key.")
	case last.SelfIssued():
		return refuse(errUnknownRoot, "The chain ends in a root that this log does not accept; get-roots lists those it does.")
	}
	return refuse(errUnknownRoot, "The issuer of the last certificate of the chain is neither in the chain nor among the roots that this log accepts; get-roots lists those.")
}

// findSigner looks whether a Precertificate Signing Certificate issued the
// leaf. It must be directly certified by the CA that will sign the final
// certificate, whose key counts then.
func (p *path) findSigner(refused bool) error {
	direct := p.issuers[0]
	switch {
	case !direct.PrecertSigning:
		return nil
	case refused:
		return refuse(errPrecertSigning, "This log takes no precertificates from Precertificate Signing Certificates; let the CA that issues the final certificate sign the precertificate.")
	case len(p.issuers) == 1:
		return refuse(errPrecertSigning, "The Precertificate Signing Certificate is itself the root, so the issuer of the final certificate is unknown.")
	case p.issuers[1].PrecertSigning:
		return refuse(errPrecertSigning, "The Precertificate Signing Certificate is issued by another one, so the issuer of the final certificate is unknown.")
	}
	p.signer = direct.Certificate
	return nil
}

// verify checks the signatures from the root down and remembers each certificate
// that has its own.
func (p *path) verify(cache *issuerCache, leaves *leafMemory) error {
	top := len(p.issuers) - 2 // the certificate below the root
	if p.anchored {
		top--
	}
	for i := top; i >= -1; i-- {
		parent := p.issuers[i+1]
		if i >= 0 && p.issuers[i].signedBy(parent) {
			continue
		}
		signed := signatureOf(p.leaf.Fingerprint, parent.Fingerprint)
		if i < 0 && leaves.verified(signed) {
			continue
		}
		p.checks++
		if err := p.at(i).CheckSignatureFrom(parent.Certificate); err != nil {
			return refuse(errSignature, fmt.Sprintf("The signature of certificate %d of the chain cannot be verified with the key of certificate %d: %s.", i+1, i+2, problem(err)))
		}
		if i >= 0 {
			p.issuers[i].rememberParent(parent)
			cache.put(p.issuers[i])
		} else {
			leaves.remember(signed)
		}
	}
	return nil
}
