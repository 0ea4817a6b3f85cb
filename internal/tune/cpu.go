package tune

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/mldsa"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/submission"
	"github.com/daybook-ct/daybook/tlog"
)

// CPU is what one core takes for the work on requests and rounds.
type CPU struct {
	Sign    Timing `json:"sign"`    // an SCT: ECDSA with P-256
	Verify  Timing `json:"verify"`  // a leaf: ECDSA with P-256
	Cosign  Timing `json:"cosign"`  // a tree head: ML-DSA-44
	Gzip    Timing `json:"gzip"`    // a full data tile of 256 entries
	Request Timing `json:"request"` // from the body to the SCT, without network and round
}

func (t *tuner) cpu(ctx context.Context) (c CPU, err error) {
	const share = float64(shareCPU) / 5
	m := t.material
	message := m.bytes(1200)
	digest := sha256.Sum256(message)
	leaf, err := m.leaf(1)
	if err != nil {
		return c, err
	}
	if c.Sign, err = t.phase("sign", share).measure(ctx, func() error {
		_, err := m.signer.SignSCT(leaf)
		return err
	}); err != nil {
		return c, err
	}
	signature, err := ecdsa.SignASN1(nil, m.keys.ECDSA, digest[:])
	if err != nil {
		return c, err
	}
	if c.Verify, err = t.phase("verify", share).measure(ctx, func() error {
		if !ecdsa.VerifyASN1(&m.keys.ECDSA.PublicKey, digest[:], signature) {
			return errors.New("a signature just made does not verify")
		}
		return nil
	}); err != nil {
		return c, err
	}
	if c.Cosign, err = t.phase("ML-DSA", share).measure(ctx, func() error {
		_, err := m.keys.MLDSA.SignDeterministic(message, &mldsa.Options{})
		return err
	}); err != nil {
		return c, err
	}
	var tile []byte
	for i := range int64(256) {
		leaf, err := m.leaf(i)
		if err != nil {
			return c, err
		}
		tile = leaf.AppendTileLeaf(tile)
	}
	if c.Gzip, err = t.phase("gzip", share).measure(ctx, func() error {
		tlog.Compress(tile)
		return nil
	}); err != nil {
		return c, err
	}
	c.Request, err = t.requests(ctx, share)
	return c, err
}

func (m *material) leaf(index int64) (tlog.Leaf, error) {
	s, err := m.entry()
	return tlog.Leaf{Entry: s.Entry, Position: tlog.Position{Index: index, Timestamp: time.Now().UnixMilli()}}, err
}

// instant is a log that answers at once.
type instant struct{ next atomic.Int64 }

func (l *instant) Add(context.Context, sequencer.Submission) (tlog.Position, error) {
	return tlog.Position{Index: l.next.Add(1), Timestamp: time.Now().UnixMilli()}, nil
}

// requests measures the handler of submissions. Chains are new each time, as a
// repeated one costs less.
func (t *tuner) requests(ctx context.Context, percent float64) (Timing, error) {
	h, err := t.material.handler()
	if err != nil {
		return Timing{}, err
	}
	var took []time.Duration
	for p := t.phase("requests", percent); ; {
		more, err := p.left(ctx, "")
		if err != nil || !more && len(took) >= 3 {
			return timing(took), err
		}
		chain, err := t.material.submission()
		if err != nil {
			return Timing{}, err
		}
		r := httptest.NewRequest(http.MethodPost, "/"+chain.Endpoint(), bytes.NewReader(chain.Body()))
		w := httptest.NewRecorder()
		start := time.Now()
		h.ServeHTTP(w, r)
		took = append(took, time.Since(start))
		if w.Code != http.StatusOK {
			return Timing{}, fmt.Errorf("a submission was answered %d: %s", w.Code, w.Body)
		}
	}
}

func (m *material) handler() (*submission.Handler, error) {
	block, _ := pem.Decode(m.ca.RootPEM())
	if block == nil {
		return nil, errors.New("the root made for the measurement is no PEM")
	}
	root, err := cert.Parse(block.Bytes)
	if err != nil {
		return nil, err
	}
	roots, err := submission.NewRoots([]*cert.Certificate{root})
	if err != nil {
		return nil, err
	}
	return submission.NewHandler(submission.Options{Log: new(instant), Signer: m.signer, Roots: roots})
}
