package submission

import "sync"

// maxLeaves bounds each half of a leafMemory, at about 100 bytes a leaf.
const maxLeaves = 16 << 10

// signature is who signed what: the fingerprints of a leaf and of the certificate
// whose key verified its signature.
type signature [64]byte

func signatureOf(leaf, parent [32]byte) (s signature) {
	copy(s[:32], leaf[:])
	copy(s[32:], parent[:])
	return s
}

// leafMemory remembers signatures of leaves that were verified lately, so that a
// retry or a duplicate costs a hash and no signature check. It remembers no
// failures. That a signature verifies is true for ever, whatever roots are
// accepted. It has two halves, as an issuerCache, and is safe for concurrent use.
type leafMemory struct {
	mu         sync.Mutex
	young, old map[signature]struct{}
}

func (m *leafMemory) verified(s signature) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.young[s]; ok {
		return true
	}
	_, ok := m.old[s]
	if ok {
		m.put(s)
	}
	return ok
}

func (m *leafMemory) remember(s signature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(s)
}

func (m *leafMemory) put(s signature) {
	if m.young == nil || len(m.young) >= maxLeaves {
		m.old, m.young = m.young, make(map[signature]struct{})
	}
	m.young[s] = struct{}{}
}
