// Command peer verifies SCTs that a log gave with certificate-transparency-go,
// unmodified: a second opinion on clauses R24, C11 and D06 of package
// conformance. It is a module of its own so that nothing else depends on it.
package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	ct "github.com/google/certificate-transparency-go"
	ctx509 "github.com/google/certificate-transparency-go/x509"
)

// promise is conformance.Promise.
type promise struct {
	Name      string
	PublicKey []byte
	Precert   bool
	Chain     [][]byte
	SCT       ct.AddChainResponse
}

// knownFaults are chains for which the verifier makes other bytes than were
// signed: it encodes the TBSCertificate anew where it must not be changed.
var knownFaults = map[string]bool{"sc04-pair-nonder-precert": true, "critical FALSE in a precertificate": true}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "peer: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: peer FILE, as conformance/run -dump has written it")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var list []promise
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	verified, known, unread := 0, 0, 0
	for _, p := range list {
		err := p.verify()
		switch {
		case err == nil:
			verified++
		case errors.Is(err, errUnread):
			unread++
		case knownFaults[p.Name]:
			known++
		default:
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	if verified == 0 {
		return errors.New("no SCT was verified")
	}
	fmt.Printf("certificate-transparency-go v1.3.3: %d of %d SCTs verify; %d do not since it encodes the TBSCertificate anew, %d are for certificates that it cannot read\n",
		verified, len(list), known, unread)
	return nil
}

var errUnread = errors.New("certificate-transparency-go cannot read the chain")

func (p *promise) verify() error {
	key, err := x509.ParsePKIXPublicKey(p.PublicKey)
	if err != nil {
		return err
	}
	verifier, err := ct.NewSignatureVerifier(key)
	if err != nil {
		return err
	}
	sct, err := p.SCT.ToSignedCertificateTimestamp()
	if err != nil {
		return err
	}
	var chain []*ctx509.Certificate
	for _, der := range p.Chain {
		c, err := ctx509.ParseCertificate(der)
		if ctx509.IsFatal(err) {
			return fmt.Errorf("%w: %w", errUnread, err)
		}
		chain = append(chain, c)
	}
	kind := ct.X509LogEntryType
	if p.Precert {
		kind = ct.PrecertLogEntryType
	}
	leaf, err := ct.MerkleTreeLeafFromChain(chain, kind, sct.Timestamp)
	if err != nil {
		return fmt.Errorf("making the leaf: %w", err)
	}
	leaf.TimestampedEntry.Extensions = sct.Extensions
	return verifier.VerifySCTSignature(*sct, ct.LogEntry{Leaf: *leaf})
}
