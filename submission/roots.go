package submission

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/daybook-ct/daybook/cert"
)

// ErrNoRoots means that a set of accepted roots would be empty, which no
// configuration can mean.
var ErrNoRoots = errors.New("no usable root certificate")

// Roots are the root certificates that a log accepts (RFC 6962 section 3.1).
// The set only ever grows: a source that fails, or lists less than before,
// takes nothing away. It is safe for concurrent use; readers never wait, and
// see each change as a whole.
//
// A root is trusted as it is given: neither its own signature nor its
// basicConstraints are looked at, and it need not be self-signed.
//
// Logs may share the certificates, but each has a Roots of its own.
type Roots struct {
	mu  sync.Mutex // held by writers
	set atomic.Pointer[rootSet]
}

// rootSet is one state of Roots, immutable.
type rootSet struct {
	certs         []*cert.Certificate // in the order they were added, each once
	byFingerprint map[[32]byte]*issuer
	bySubject     map[string][]*issuer
	json          []byte // response of get-roots
}

// NewRoots returns the set of the given certificates, of which duplicates are
// left out. It returns ErrNoRoots if there are none.
func NewRoots(certs []*cert.Certificate) (*Roots, error) {
	r := &Roots{}
	r.set.Store(&rootSet{})
	if r.Union(certs) == 0 {
		return nil, ErrNoRoots
	}
	return r, nil
}

// Union adds the certificates that are not in the set yet and returns how many
// these were. Requests that are being handled finish with the set they began
// with.
func (r *Roots) Union(certs []*cert.Certificate) (added int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.set.Load()
	s := newRootSet(old.certs, certs)
	if added = len(s.certs) - len(old.certs); added > 0 {
		s.json = s.encodeJSON()
		r.set.Store(s)
	}
	return added
}

// Missing returns those certificates that are not in the set, each once, in
// their order.
func (r *Roots) Missing(certs []*cert.Certificate) []*cert.Certificate {
	set := r.set.Load()
	var missing []*cert.Certificate
	seen := make(map[[32]byte]bool)
	for _, c := range certs {
		if set.byFingerprint[c.Fingerprint] == nil && !seen[c.Fingerprint] {
			seen[c.Fingerprint] = true
			missing = append(missing, c)
		}
	}
	return missing
}

// Len returns the number of accepted roots.
func (r *Roots) Len() int { return len(r.set.Load().certs) }

// PEM returns all roots, in the order they were added, as the log persists
// them in _roots.pem. [ParseRootsPEM] reads it back.
func (r *Roots) PEM() []byte { return EncodeRootsPEM(r.set.Load().certs) }

// EncodeRootsPEM returns certificates as PEM text, in their order.
func EncodeRootsPEM(certs []*cert.Certificate) []byte {
	var b []byte
	for _, c := range certs {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: c.Raw})...)
	}
	return b
}

func newRootSet(lists ...[]*cert.Certificate) *rootSet {
	s := &rootSet{byFingerprint: make(map[[32]byte]*issuer), bySubject: make(map[string][]*issuer)}
	for _, list := range lists {
		for _, c := range list {
			if s.byFingerprint[c.Fingerprint] != nil {
				continue
			}
			s.certs = append(s.certs, c)
			i := &issuer{Certificate: c, root: true}
			s.byFingerprint[c.Fingerprint] = i
			s.bySubject[string(c.RawSubject)] = append(s.bySubject[string(c.RawSubject)], i)
		}
	}
	return s
}

// encodeJSON returns the response of get-roots (RFC 6962 section 4.7).
func (s *rootSet) encodeJSON() []byte {
	b := []byte(`{"certificates":[`)
	for i, c := range s.certs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, c.Raw)
		b = append(b, '"')
	}
	return append(b, `]}`...)
}
