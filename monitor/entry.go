package monitor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/tlog"
)

// checkEntry verifies that an entry holds together: its certificate parses,
// all issuers are served, a precertificate yields the TBSCertificate and
// issuer_key_hash that were logged, and, if asked for, each certificate was
// signed by the next one. It returns the certificate, if it parses, and the
// number of signatures verified.
func (c *Checker) checkEntry(ctx context.Context, name string, leaf tlog.Leaf, found Found) (*cert.Certificate, int64, error) {
	e := leaf.Entry
	der := e.Certificate()
	if e.Type() == tlog.PrecertEntry {
		der = e.Precertificate()
	}
	parsed, err := cert.Parse(der)
	if err != nil {
		return nil, 0, found(entryFault(name, leaf.Index, "certificate does not parse: %v", err))
	}
	issuers := make([]*cert.Certificate, len(e.Chain()))
	whole := true
	for i, fp := range e.Chain() {
		if issuers[i], err = c.issuers.get(ctx, fp); err == nil {
			continue
		}
		whole = false
		var f *Fault
		if errors.As(err, &f) { // say which entry needs it
			f = entryFault(f.Object, leaf.Index, "%s", f.What).values(f.Got, f.Want)
			f.cause = errors.Unwrap(err)
			err = found(f)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if !whole {
		return parsed, 0, nil
	}
	if f := checkForm(name, leaf, parsed, issuers); f != nil {
		return parsed, 0, found(f)
	}
	if !c.o.Signatures {
		return parsed, 0, nil
	}
	n, f := c.checkSignatures(name, leaf, parsed, issuers)
	if f != nil {
		return parsed, n, found(f)
	}
	return parsed, n, nil
}

// checkForm verifies the parts of an entry against each other (RFC 6962
// sections 3.1 and 3.2).
func checkForm(name string, leaf tlog.Leaf, c *cert.Certificate, issuers []*cert.Certificate) *Fault {
	e := leaf.Entry
	if e.Type() == tlog.X509Entry {
		if c.Poison != cert.NoPoison {
			return entryFault(name, leaf.Index, "x509 entry holds a precertificate")
		}
		return nil
	}
	if c.Poison != cert.ValidPoison {
		return entryFault(name, leaf.Index, "precert entry holds a certificate without the poison extension, or with a wrong one")
	}
	if len(issuers) == 0 {
		return entryFault(name, leaf.Index, "precert entry has no issuers")
	}
	var signer *cert.Certificate
	issuer := issuers[0]
	if issuer.IsPrecertSigner() && len(issuers) > 1 {
		signer, issuer = issuer, issuers[1]
	}
	if got, want := e.IssuerKeyHash(), issuer.IssuerKeyHash(); got != want {
		return entryFault(name, leaf.Index, "issuer_key_hash is not that of the issuer %x", issuer.Fingerprint).
			values(fmt.Sprintf("%x", got), fmt.Sprintf("%x", want))
	}
	tbs, err := c.PrecertTBS(signer)
	if err != nil {
		return entryFault(name, leaf.Index, "%v", err)
	}
	if !bytes.Equal(tbs, e.Certificate()) {
		return entryFault(name, leaf.Index, "TBSCertificate is not that of the precertificate")
	}
	return nil
}

// checkSignatures verifies that each certificate of the chain was signed by
// the next one; the last one is an accepted root, whose own signature, if any,
// is not part of the path.
func (c *Checker) checkSignatures(name string, leaf tlog.Leaf, child *cert.Certificate, issuers []*cert.Certificate) (int64, *Fault) {
	var n int64
	for i, issuer := range issuers {
		if i > 0 && c.issuers.signed(child, issuer) {
			child = issuer
			continue
		}
		if err := child.CheckSignatureFrom(issuer); err != nil {
			return n, entryFault(name, leaf.Index, "certificate %x was not signed by %x: %v", child.Fingerprint, issuer.Fingerprint, err)
		}
		if n++; i > 0 {
			c.issuers.setSigned(child, issuer)
		}
		child = issuer
	}
	return n, nil
}

// maxIssuers bounds the parsed issuers that are kept, and the signatures between
// them that are known.
const maxIssuers = 20000

// issuers reads each issuer once. It is safe for concurrent use.
type issuers struct {
	src  Source
	most int // issuers that are kept

	mu     sync.Mutex
	calls  map[tlog.Fingerprint]*issuerCall
	links  map[[2]tlog.Fingerprint]bool // verified signatures between issuers
	served int
}

type issuerCall struct {
	done chan struct{}
	cert *cert.Certificate
	err  error
}

func newIssuers(src Source, most int) *issuers {
	return &issuers{src: src, most: most, calls: map[tlog.Fingerprint]*issuerCall{}, links: map[[2]tlog.Fingerprint]bool{}}
}

func (s *issuers) get(ctx context.Context, fp tlog.Fingerprint) (*cert.Certificate, error) {
	s.mu.Lock()
	call, ok := s.calls[fp]
	if !ok {
		for k := range s.calls { // any will do
			if len(s.calls) < s.most {
				break
			}
			delete(s.calls, k)
		}
		call = &issuerCall{done: make(chan struct{})}
		s.calls[fp] = call
	}
	s.mu.Unlock()
	if !ok {
		call.cert, call.err = s.read(ctx, fp)
		close(call.done)
	}
	select {
	case <-call.done:
		return call.cert, call.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read reads an issuer: one DER certificate that hashes to its name
// (static-ct-api, Issuers).
func (s *issuers) read(ctx context.Context, fp tlog.Fingerprint) (*cert.Certificate, error) {
	name := fmt.Sprintf("issuer/%x", fp)
	der, err := s.src.Get(ctx, name, maxIssuer)
	if errors.Is(err, ErrNotFound) {
		return nil, missing(name, "")
	}
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(der); got != fp {
		return nil, fault(name, "does not hash to its name").values(fmt.Sprintf("%x", got), fmt.Sprintf("%x", fp))
	}
	c, err := cert.Parse(der)
	if err != nil {
		return nil, fault(name, "certificate does not parse: %v", err)
	}
	s.mu.Lock()
	s.served++
	s.mu.Unlock()
	return c, nil
}

func (s *issuers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

func (s *issuers) signed(c, by *cert.Certificate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.links[[2]tlog.Fingerprint{c.Fingerprint, by.Fingerprint}]
}

func (s *issuers) setSigned(c, by *cert.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.links) >= maxIssuers {
		clear(s.links)
	}
	s.links[[2]tlog.Fingerprint{c.Fingerprint, by.Fingerprint}] = true
}
