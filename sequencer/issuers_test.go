package sequencer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daybook-ct/daybook/storage"
)

var testIssuerName = fmt.Sprintf("issuer/%x", sha256.Sum256(testIssuer))

// spoilIssuer puts other bytes in the place of the issuer of all test entries.
func spoilIssuer(t *testing.T, p *probe) {
	t.Helper()
	if err := p.store.Delete(t.Context(), testIssuerName); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(testIssuer)
	damaged[3] ^= 1
	if err := p.store.Put(t.Context(), storage.Object{Name: testIssuerName, Data: damaged}); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedIssuer: an issuer with other bytes is written again before it can
// halt the log, past commit, in a round and in recovery.
func TestDamagedIssuer(t *testing.T) {
	t.Run("round", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe()
			l := p.open(t, 10)
			spoilIssuer(t, p)
			stop := run(t, l)
			pr := mustAdd(t, l, newEntry(t, 1, High))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("recovery", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe()
			l := p.open(t, 10)
			l.c.hook = func(s Step, after bool) error {
				if s == StepCommit && after {
					return errCrash
				}
				return nil
			}
			if _, err := l.Submit(t.Context(), newEntry(t, 1, High)); err != nil {
				t.Fatal(err)
			}
			if err := run(t, l)(); !errors.Is(err, errCrash) {
				t.Fatalf("the round returned %v", err)
			}
			spoilIssuer(t, p)
			p.open(t, 10)
			if n := len(p.publicLog(t).leaves); n != 1 {
				t.Errorf("the log has %d entries", n)
			}
		})
	})
}

// TestUnreadableIssuer: one that cannot be read, or not be removed, refuses the
// round before it commits, and the operator is told which.
func TestUnreadableIssuer(t *testing.T) {
	for _, failing := range []string{"get", "delete"} {
		t.Run(failing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbe()
				c := p.config(t, 10)
				p.open(t, 10)
				var cause error
				c.Record = func(r RoundRecord) {
					if r.Cause != nil {
						cause = r.Cause
					}
				}
				l, err := Open(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				spoilIssuer(t, p)
				p.setFault(func(op, name string) error {
					if op == failing && name == testIssuerName {
						return errors.New("input/output error")
					}
					return nil
				})
				stop := run(t, l)
				if _, err := l.Add(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrRound) {
					t.Errorf("the entry got %v", err)
				}
				p.setFault(nil)
				pr := mustAdd(t, l, newEntry(t, 1, High))
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if cause == nil || !strings.Contains(cause.Error(), testIssuerName) {
					t.Errorf("the cause is given as %v", cause)
				}
				if err := p.publicLog(t).keeps([]promise{pr}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
