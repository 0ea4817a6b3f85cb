package submission

import (
	"sync"
	"sync/atomic"

	"github.com/daybook-ct/daybook/cert"
)

const (
	// maxIssuers and maxIssuerBytes bound each of the two halves of an
	// issuerCache. The web has some 2,000 issuing certificates in use.
	maxIssuers     = 4096
	maxIssuerBytes = 16 << 20
	// maxParents bounds the signatures remembered of one issuer.
	maxParents = 8
)

// issuer is a certificate above the leaf, with what was learned of it: who
// signed it. Only signatures that were verified are remembered, never ones
// that failed. It is safe for concurrent use.
type issuer struct {
	*cert.Certificate
	root bool // it is itself accepted
	// anchor is the accepted root that completes a chain which ends here: the
	// first of the set whose key verifies.
	anchor  atomic.Pointer[issuer]
	parents atomic.Pointer[[][32]byte] // fingerprints of certificates that signed this one
}

func (i *issuer) signedBy(parent *issuer) bool {
	parents := i.parents.Load()
	if parents == nil {
		return false
	}
	for _, p := range *parents {
		if p == parent.Fingerprint {
			return true
		}
	}
	return false
}

// rememberParent may lose to a concurrent call, which costs one more check.
func (i *issuer) rememberParent(parent *issuer) {
	if i.signedBy(parent) {
		return
	}
	old := i.parents.Load()
	var parents [][32]byte
	if old != nil && len(*old) < maxParents {
		parents = append(parents, *old...)
	}
	parents = append(parents, parent.Fingerprint)
	i.parents.CompareAndSwap(old, &parents)
}

// issuerCache remembers issuers that have a verified path to an accepted root,
// by fingerprint, beside those roots. It belongs to one state of the roots and is
// dropped with it. It is safe for concurrent use.
//
// It has two halves: when the young one is full it becomes the old one, whose
// issuers move back to the young one as they are used, or are dropped.
type issuerCache struct {
	roots *rootSet

	mu         sync.RWMutex
	young, old map[[32]byte]*issuer
	youngBytes int
}

func newIssuerCache(roots *rootSet) *issuerCache {
	return &issuerCache{roots: roots, young: make(map[[32]byte]*issuer)}
}

// get returns the issuer or root with that fingerprint, or nil.
func (c *issuerCache) get(fingerprint [32]byte) *issuer {
	if root := c.roots.byFingerprint[fingerprint]; root != nil {
		return root
	}
	c.mu.RLock()
	i, young := c.young[fingerprint]
	if !young {
		i = c.old[fingerprint]
	}
	c.mu.RUnlock()
	if i != nil && !young {
		c.put(i)
	}
	return i
}

// put adds an issuer, whose path to a root must have been verified. One that is
// there already stays.
func (c *issuerCache) put(i *issuer) {
	if i.root {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[i.Fingerprint] != nil {
		return
	}
	if len(c.young) >= maxIssuers || c.youngBytes+len(i.Raw) > maxIssuerBytes {
		c.old, c.young, c.youngBytes = c.young, make(map[[32]byte]*issuer), 0
	}
	c.young[i.Fingerprint] = i
	c.youngBytes += len(i.Raw)
}
