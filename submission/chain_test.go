package submission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/cert"
	"github.com/daybook-ct/daybook/internal/testca"
)

// testValidator counts what it has to parse and to verify.
type testValidator struct {
	validator
	misses int
}

func newValidator(t testing.TB, roots ...[]byte) *testValidator {
	t.Helper()
	var certs []*cert.Certificate
	for _, der := range roots {
		certs = append(certs, mustParse(t, der))
	}
	r, err := NewRoots(certs)
	if err != nil {
		t.Fatal(err)
	}
	v := &testValidator{validator: validator{roots: r}}
	v.lookup = func(hit bool) {
		if !hit {
			v.misses++
		}
	}
	return v
}

// cost validates the chain and returns what had to be parsed above the leaf and
// the signatures that were checked.
func (v *testValidator) cost(t testing.TB, chain [][]byte) (misses, checks int) {
	t.Helper()
	v.misses = 0
	p, err := v.validate(chain, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.misses, p.checks
}

func makeChain(t testing.TB, ca *testca.CA, n uint64, l testca.Leaf) [][]byte {
	t.Helper()
	l.NotBefore, l.NotAfter = time.Unix(1.7e9, 0), time.Unix(1.8e9, 0)
	c, err := ca.Make(n, l)
	if err != nil {
		t.Fatal(err)
	}
	return c.Certificates
}

func rootOf(ca *testca.CA) []byte {
	issuers := ca.Issuers()
	return issuers[len(issuers)-1]
}

// TestHotIssuerCost: of a CA that was seen before, only the leaf is parsed and
// only its signature checked, with the root submitted or not.
func TestHotIssuerCost(t *testing.T) {
	ca := newCA(t, testca.Options{Intermediates: 3})
	v := newValidator(t, rootOf(ca))
	if misses, checks := v.cost(t, makeChain(t, ca, 1, testca.Leaf{})); misses != 3 || checks != 4 {
		t.Errorf("the first time: %d issuers parsed, %d signatures, want 3 and 4", misses, checks)
	}
	for i, include := range []bool{false, true, false} {
		chain := makeChain(t, ca, uint64(2+i), testca.Leaf{IncludeRoot: include})
		misses, checks := v.cost(t, chain)
		if misses != 0 || checks != 1 {
			t.Errorf("again, root included %v: %d issuers parsed, %d signatures, want 0 and 1", include, misses, checks)
		}
		if misses, checks = v.cost(t, chain); misses != 0 || checks != 0 {
			t.Errorf("the same leaf again: %d issuers parsed, %d signatures, want none", misses, checks)
		}
	}
	w := newValidator(t, rootOf(ca))
	w.cost(t, makeChain(t, ca, 1, testca.Leaf{IncludeRoot: true}))
	if misses, checks := w.cost(t, makeChain(t, ca, 2, testca.Leaf{})); misses != 0 || checks != 1 {
		t.Errorf("after one with the root included: %d issuers parsed, %d signatures, want 0 and 1", misses, checks)
	}
	// A change of the roots forgets them all.
	other := newCA(t, testca.Options{Direct: true})
	if v.roots.Union([]*cert.Certificate{mustParse(t, rootOf(other))}) != 1 {
		t.Fatal("no root added")
	}
	if misses, checks := v.cost(t, makeChain(t, ca, 9, testca.Leaf{})); misses != 3 || checks != 4 {
		t.Errorf("after the roots changed: %d issuers parsed, %d signatures, want 3 and 4", misses, checks)
	}
}

// TestOnlyVerifiedIsRemembered: a certificate without a verified path leaves
// nothing behind, or anyone could fill the memory or slip in a CA.
func TestOnlyVerifiedIsRemembered(t *testing.T) {
	ca, impostor := newCA(t, testca.Options{}), newCA(t, testca.Options{})
	v := newValidator(t, rootOf(ca))
	chain := makeChain(t, impostor, 1, testca.Leaf{})
	for range 2 {
		// Same names, other key: the intermediate does not verify.
		if _, err := v.validate(chain, false, nil); !errors.Is(err, errUnknownRoot) {
			t.Fatalf("the impostor's chain: %v", err)
		}
	}
	if n := len(v.cache().young); n != 0 {
		t.Errorf("%d issuers are remembered", n)
	}
	// The impostor's leaf under the real intermediate, which is remembered.
	good := makeChain(t, ca, 1, testca.Leaf{})
	for range 2 {
		if _, err := v.validate([][]byte{chain[0], good[1]}, false, nil); !errors.Is(err, errSignature) {
			t.Fatalf("a leaf of another key: %v", err)
		}
	}
	if n := len(v.cache().young); n != 1 {
		t.Errorf("%d issuers are remembered, want the intermediate", n)
	}
}

// TestBogusChainCost: a chain that no root stands behind costs no more than one
// signature, however long it is.
func TestBogusChainCost(t *testing.T) {
	ca, impostor := newCA(t, testca.Options{Intermediates: 20}), newCA(t, testca.Options{Intermediates: 20})
	for name, root := range map[string][]byte{"unknown root": rootOf(newCA(t, testca.Options{Direct: true, Name: "Other"})), "same name": rootOf(ca)} {
		v := newValidator(t, root)
		cache := v.cache()
		p := &path{leaf: mustParse(t, makeChain(t, impostor, 1, testca.Leaf{})[0])}
		for _, der := range makeChain(t, impostor, 1, testca.Leaf{})[1:] {
			p.issuers = append(p.issuers, &issuer{Certificate: mustParse(t, der)})
		}
		if err := p.anchor(cache); !errors.Is(err, errUnknownRoot) || p.checks > 1 {
			t.Errorf("%s: %v after %d signatures", name, err, p.checks)
		}
	}
}

// TestLongChains: the longest chain that is decoded is accepted, at one
// signature a certificate.
func TestLongChains(t *testing.T) {
	ca := newCA(t, testca.Options{Intermediates: maxCertificates - 1})
	v := newValidator(t, rootOf(ca))
	chain := makeChain(t, ca, 1, testca.Leaf{})
	if len(chain) != maxCertificates {
		t.Fatalf("the chain has %d certificates", len(chain))
	}
	if _, checks := v.cost(t, chain); checks != maxCertificates {
		t.Errorf("%d signatures, want %d", checks, maxCertificates)
	}
}

// TestSameNameRoots: of several roots of one name the one whose key verifies is
// recorded, the first of them if there are more, and the one submitted before
// all; and not without bound.
func TestSameNameRoots(t *testing.T) {
	ca := newCA(t, testca.Options{})
	var others [][]byte
	for range maxAnchorChecks {
		others = append(others, rootOf(newCA(t, testca.Options{Direct: true})))
	}
	chain := makeChain(t, ca, 1, testca.Leaf{})
	for _, c := range []struct {
		roots  [][]byte
		checks int
		err    error
	}{
		{[][]byte{others[0], rootOf(ca), others[1]}, 3, nil},
		{append(others[:maxAnchorChecks-1:maxAnchorChecks-1], rootOf(ca)), maxAnchorChecks + 1, nil},
		{append(others[:maxAnchorChecks:maxAnchorChecks], rootOf(ca)), 0, errTooMuchWork},
		{others[:5], 0, errUnknownRoot},
	} {
		v := newValidator(t, c.roots...)
		p, err := v.validate(chain, false, nil)
		if !errors.Is(err, c.err) {
			t.Errorf("%d roots: %v, want %v", len(c.roots), err, c.err)
			continue
		}
		if err == nil && (p.checks != c.checks || !bytes.Equal(p.issuers[1].Raw, rootOf(ca))) {
			t.Errorf("%d roots: %d signatures, want %d", len(c.roots), p.checks, c.checks)
		}
	}
}

// TestIssuerCacheBounds: the cache keeps what is used and never outgrows its
// bounds.
func TestIssuerCacheBounds(t *testing.T) {
	c := newIssuerCache(&rootSet{})
	add := func(n uint32, size int) *issuer {
		i := &issuer{Certificate: &cert.Certificate{Raw: make([]byte, size)}}
		i.Fingerprint = [32]byte{byte(n), byte(n >> 8), byte(n >> 16), 1}
		c.put(i)
		return i
	}
	hot := add(1<<20, 10)
	for n := range uint32(10 * maxIssuers) {
		add(n, 10)
		if c.get(hot.Fingerprint) != hot {
			t.Fatalf("an issuer in use is gone after %d others", n)
		}
		if len(c.young) > maxIssuers || len(c.old) > maxIssuers {
			t.Fatalf("%d and %d issuers are kept", len(c.young), len(c.old))
		}
	}
	if c.get([32]byte{0, 0, 0, 1}) != nil {
		t.Error("the first issuer, long unused, is still there")
	}
	for n := range uint32(1000) {
		add(n|1<<21, 100<<10)
		size := 0
		for _, half := range []map[[32]byte]*issuer{c.young, c.old} {
			for _, i := range half {
				size += len(i.Raw)
			}
		}
		if size > 2*maxIssuerBytes {
			t.Fatalf("%d bytes are kept", size)
		}
	}
}

func TestParentsAreBounded(t *testing.T) {
	i := &issuer{}
	var last *issuer
	for n := range 100 {
		last = &issuer{Certificate: &cert.Certificate{Fingerprint: [32]byte{byte(n), 1}}}
		i.rememberParent(last)
	}
	if n := len(*i.parents.Load()); n > maxParents || !i.signedBy(last) {
		t.Errorf("%d parents are remembered, the last one: %v", n, i.signedBy(last))
	}
}

// TestConcurrentValidation runs chains of several CAs against one validator
// while roots are added; each answer must be the right one all along. It is
// meant for the race detector.
func TestConcurrentValidation(t *testing.T) {
	const cas, rounds = 4, 30
	var chains [cas][][][]byte
	var roots [cas]*cert.Certificate
	for i := range cas {
		ca := newCA(t, testca.Options{Name: fmt.Sprintf("CA %d", i), Intermediates: 2})
		roots[i] = mustParse(t, rootOf(ca))
		for n := range uint64(4) {
			chains[i] = append(chains[i], makeChain(t, ca, n, testca.Leaf{IncludeRoot: n%2 == 0}))
		}
	}
	unknown := makeChain(t, newCA(t, testca.Options{Name: "CA 0"}), 1, testca.Leaf{})
	r, err := NewRoots(roots[:1])
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{roots: r}
	var added [cas]chan struct{}
	for i := range added {
		added[i] = make(chan struct{})
	}
	close(added[0])
	var wg sync.WaitGroup
	for i := range cas {
		for g := range 4 {
			wg.Go(func() {
				<-added[i] // from here on the CA is accepted for good
				for n := range rounds {
					if _, err := v.validate(chains[i][(g+n)%4], false, nil); err != nil {
						t.Errorf("CA %d: %v", i, err)
					}
					if _, err := v.validate(unknown, false, nil); !errors.Is(err, errUnknownRoot) {
						t.Errorf("unknown CA: %v", err)
					}
				}
			})
		}
	}
	for i := 1; i < cas; i++ {
		r.Union(roots[i : i+1])
		close(added[i])
		runtime.Gosched()
	}
	wg.Wait()
}

// TestSlots: no more than the slots go on at once, waiting ends with the
// context or after its bound, and the first to wait is the first to go on.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(slots, 2)
		for range cap(s) {
			if err := s.take(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := s.take(t.Context(), time.Second); !errors.Is(err, errOverloaded) || time.Since(start) != time.Second {
			t.Errorf("all slots taken: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.take(ctx, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with its context over: %v", err)
		}
		var order []int
		for i := range 5 {
			go func() {
				if err := s.take(t.Context(), time.Second); err != nil {
					t.Error(err)
				}
				order = append(order, i)
			}()
			synctest.Wait()
		}
		for i := range 5 {
			if len(order) != i {
				t.Fatalf("%d went on with %d slots given back", len(order), i)
			}
			s.give()
			synctest.Wait()
		}
		for i, n := range order {
			if i != n {
				t.Fatalf("went on in the order %v", order)
			}
		}
	})
}

// TestLowStepsBack: of two slots those of low priority have one at a time, so that
// the other is free for whatever else comes; none is lost.
func TestLowStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		validating, low := make(slots, 2), make(slots, 1)
		begin := func() *turn {
			r := &turn{validating: validating, low: low}
			if err := r.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			return r
		}
		first, second := begin(), begin()
		if err := first.stepBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- second.stepBack(t.Context()) }()
		synctest.Wait()
		high := begin() // does not wait
		if len(done) > 0 || len(validating) != 2 || len(low) != 1 {
			t.Errorf("%d slots are taken, %d of them by low priority; the second went on: %v", len(validating), len(low), len(done) > 0)
		}
		first.end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		high.end()
		third := begin()
		start := time.Now()
		if err := third.stepBack(t.Context()); !errors.Is(err, errOverloaded) || time.Since(start) != maxSlotWait {
			t.Errorf("behind one that stays: %v after %v", err, time.Since(start))
		}
		third.end()
		second.end()
		if len(validating)+len(low) != 0 {
			t.Errorf("%d and %d slots are lost", len(validating), len(low))
		}
	})
}

// TestOverloaded: a request that finds no slot within a second is told to come
// back.
func TestOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, Options{})
		for range cap(s.validating) {
			s.validating <- struct{}{}
		}
		w := post(s, "add-chain", []byte(`{"chain":["AAAA"]}`))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || s.outcomes(t, "add-chain", "overloaded") != 1 {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		for range cap(s.validating) {
			s.validating.give()
		}
		if w := post(s, "add-chain", []byte(`{"chain":["AAAA"]}`)); w.Code != 400 {
			t.Errorf("with slots again: status %d", w.Code)
		}
	})
}

// TestRememberedSignature: that a certificate was signed by one CA says nothing
// of another one with the same name.
func TestRememberedSignature(t *testing.T) {
	ca, impostor := newCA(t, testca.Options{Intermediates: 2}), newCA(t, testca.Options{Intermediates: 2})
	v := newValidator(t, rootOf(ca), rootOf(impostor))
	chain, other := makeChain(t, ca, 1, testca.Leaf{IncludeRoot: true}), makeChain(t, impostor, 1, testca.Leaf{IncludeRoot: true})
	for _, c := range [][][]byte{chain, other} {
		if _, err := v.validate(c, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	// All certificates are remembered now, each with its own issuer.
	for _, c := range [][][]byte{
		{chain[0], chain[1], chain[2], other[3]},
		{chain[0], chain[1], other[2], other[3]},
		{chain[0], other[1], other[2], other[3]},
	} {
		if _, err := v.validate(c, false, nil); !errors.Is(err, errSignature) {
			t.Errorf("a chain of two CAs: %v", err)
		}
	}
}
