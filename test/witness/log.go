package witness

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/tlog"
)

// Log is what is public of a log.
type Log struct {
	Origin   string
	Path     string // of its prefix, from slash to slash
	Key      []byte // SPKI
	Verifier *checkpoint.Verifier
}

// ReadLog takes the key of a log from what daybook init says.
func ReadLog(origin, path, said string) (Log, error) {
	l := Log{Origin: origin, Path: path}
	_, rest, found := strings.Cut(said, "public key:")
	if !found {
		return l, fmt.Errorf("no public key:\n%s", said)
	}
	line, _, _ := strings.Cut(rest, "\n")
	var err error
	if l.Key, err = base64.StdEncoding.DecodeString(strings.TrimSpace(line)); err != nil {
		return l, fmt.Errorf("public key: %w\n%s", err, said)
	}
	l.Verifier, err = checkpoint.NewVerifier(origin, l.Key)
	return l, err
}

// Chains makes chains and precertificate chains. A chain is its number.
type Chains struct {
	CA      *testca.CA
	Started time.Time // chains are valid around it
}

// NewChains returns chains of a CA that depends on the seed alone.
func NewChains(seed uint64) (*Chains, error) {
	ca, err := testca.New(testca.Options{Seed: seed})
	if err != nil {
		return nil, err
	}
	return &Chains{CA: ca, Started: time.Now().Truncate(time.Second)}, nil
}

// Make returns chain n and the entry that it must become.
func (c *Chains) Make(n uint64) (testca.Chain, *tlog.Entry, error) {
	chain, err := c.CA.Make(n, testca.Leaf{Precert: n%2 == 0, NotBefore: c.Started.Add(-time.Hour), NotAfter: c.Started.Add(90 * 24 * time.Hour)})
	if err != nil {
		return chain, nil, err
	}
	var e *tlog.Entry
	if chain.Precert {
		e, err = tlog.NewPrecertEntry(chain.SignedEntry, c.CA.IssuerKeyHash(), chain.SignedEntry, nil, nil)
	} else {
		e, err = tlog.NewX509Entry(chain.SignedEntry, nil, nil)
	}
	return chain, e, err
}

// NewRand returns a source that depends on a seed and a name alone.
func NewRand(seed uint64, name string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}
