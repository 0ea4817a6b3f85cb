package tune

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/tlog"
)

// templates is the number of chains that entries are made of, by changing some
// bytes: the sequencer looks at none of them.
const templates = 200

// material is what is measured with: a CA, the key of a log, entries. It is not
// safe for concurrent use.
type material struct {
	rnd       *mathrand.ChaCha8
	ca        *testca.CA
	keys      checkpoint.Keys
	signer    *checkpoint.Signer
	templates []template
	chain     []tlog.Fingerprint
	issuers   [][]byte
	next      uint64 // number of the next chain
}

type template struct{ tbs, precertificate, names []byte }

func newMaterial() (*material, error) {
	m := new(material)
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	m.rnd = mathrand.NewChaCha8(seed)
	var err error
	if m.keys, err = checkpoint.KeysFromSeed(m.bytes(checkpoint.SeedSize)); err != nil {
		return nil, err
	}
	if m.signer, err = checkpoint.NewSigner("tune.invalid/log", m.keys); err != nil {
		return nil, err
	}
	if m.ca, err = testca.New(testca.Options{Seed: m.rnd.Uint64()}); err != nil {
		return nil, err
	}
	m.issuers = m.ca.Issuers()
	for _, der := range m.issuers {
		m.chain = append(m.chain, sha256.Sum256(der))
	}
	for range templates {
		c, err := m.submission()
		if err != nil {
			return nil, err
		}
		parsed, err := cert.Parse(c.Certificates[0])
		if err != nil {
			return nil, fmt.Errorf("reading a certificate made for the measurement: %w", err)
		}
		m.templates = append(m.templates, template{c.SignedEntry, c.Certificates[0], parsed.NamesJSON()})
	}
	return m, nil
}

// bytes returns random bytes.
func (m *material) bytes(n int) []byte {
	b := make([]byte, n)
	_, _ = m.rnd.Read(b) // never fails
	return b
}

// submission returns a new chain.
func (m *material) submission() (testca.Chain, error) {
	m.next++
	now := time.Now()
	return m.ca.Make(m.next, testca.Leaf{Precert: true, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 3, 0)})
}

// entry returns a new entry of the size and the compressibility of an ordinary
// one, and cheaper to make.
func (m *material) entry() (sequencer.Submission, error) {
	n := m.rnd.Uint64()
	t := m.templates[n%templates]
	tbs, precertificate := append([]byte(nil), t.tbs...), append([]byte(nil), t.precertificate...)
	binary.BigEndian.PutUint64(tbs[len(tbs)/2:], n)
	binary.BigEndian.PutUint64(precertificate[len(precertificate)/2:], n)
	e, err := tlog.NewPrecertEntry(tbs, m.ca.IssuerKeyHash(), precertificate, m.chain, t.names)
	if err != nil {
		return sequencer.Submission{}, err
	}
	return sequencer.Submission{Entry: e, Issuers: m.issuers,
		Submitter: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n % 20)}), 32)}, nil
}
