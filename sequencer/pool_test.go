package sequencer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/daybook-ct/daybook/tlog"
)

func network(n int) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0a000000+uint32(n))
	return netip.PrefixFrom(netip.AddrFrom4(a), 32)
}

var testSerial int

// testSubmission returns a submission of an entry of its own.
func testSubmission(t testing.TB, submitter int, p Priority) *Submission {
	t.Helper()
	testSerial++
	e, err := tlog.NewX509Entry(fmt.Appendf(nil, "certificate %d", testSerial), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Submission{Entry: e, Priority: p, Submitter: network(submitter)}
}

// offer does what intake does with the pool.
func offer(p *pool, s *Submission) (admitted, victim *Ticket) {
	v, ok := p.room(s.Priority, s.Submitter)
	if !ok {
		return nil, nil
	}
	if v != nil {
		p.evict(v)
	}
	t := newTicket(s)
	p.admit(t)
	return t, v
}

func TestPoolPriorities(t *testing.T) {
	p := newPool(3)
	low1, _ := offer(p, testSubmission(t, 1, Low))
	low2, _ := offer(p, testSubmission(t, 1, Low))
	if _, victim := offer(p, testSubmission(t, 2, High)); victim != nil {
		t.Error("a victim although there was space")
	}
	// Full. High displaces low, the newest first; low displaces nothing of its
	// own submitter, nor high.
	if got, _ := offer(p, testSubmission(t, 1, Low)); got != nil {
		t.Error("low was admitted to a full pool")
	}
	if _, victim := offer(p, testSubmission(t, 2, High)); victim != low2 {
		t.Errorf("victim %v, want the newest low entry", victim)
	}
	if p.byKey[low2.sub.Entry.Key()] != nil {
		t.Error("the evicted entry is still in the index")
	}
	if _, victim := offer(p, testSubmission(t, 2, High)); victim != low1 {
		t.Errorf("victim %v, want the last low entry", victim)
	}
	if got, _ := offer(p, testSubmission(t, 2, High)); got != nil {
		t.Error("a submitter displaced its own entry")
	}
	if got, _ := offer(p, testSubmission(t, 3, Low)); got != nil {
		t.Error("low displaced high")
	}
	if got := p.tickets(); len(got) != 3 || slices.Contains(got, low1) || slices.Contains(got, low2) {
		t.Errorf("the pool holds %d tickets", len(got))
	}
}

// TestPoolFairness: one submitter fills the pool, others come; in the end
// nobody holds two more than somebody who was refused.
func TestPoolFairness(t *testing.T) {
	p := newPool(100)
	for range 1000 {
		offer(p, testSubmission(t, 0, High))
	}
	for range 50 {
		for s := 1; s <= 7; s++ {
			offer(p, testSubmission(t, s, High))
		}
	}
	// Two modest ones come last and get all they ask for.
	for range 3 {
		for s := 8; s <= 9; s++ {
			if got, _ := offer(p, testSubmission(t, s, High)); got == nil {
				t.Errorf("submitter %d was refused while others hold more", s)
			}
		}
	}
	held := map[netip.Prefix]int{}
	for _, ticket := range p.tickets() {
		held[ticket.sub.Submitter]++
	}
	for s := range 8 {
		if n := held[network(s)]; n < 11 || n > 12 {
			t.Errorf("submitter %d holds %d, want its fair share of 94/8", s, n)
		}
	}
	for s := 8; s <= 9; s++ {
		if n := held[network(s)]; n != 3 {
			t.Errorf("modest submitter %d holds %d of 3", s, n)
		}
	}
}

// TestPoolDoesNotChurn: two submitters who want everything do not evict each
// other for ever.
func TestPoolDoesNotChurn(t *testing.T) {
	p := newPool(10)
	evictions := 0
	for range 1000 {
		for s := range 2 {
			if _, victim := offer(p, testSubmission(t, s, High)); victim != nil {
				evictions++
			}
		}
	}
	if evictions > 10 {
		t.Errorf("%d evictions for a pool of 10", evictions)
	}
}

// TestPoolModel compares random sequences with a plain model, and checks the
// pool's own bookkeeping.
func TestPoolModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		limit := 1 + rnd.IntN(20)
		p := newPool(limit)
		var model []*Ticket
		count := func(pr Priority, n netip.Prefix) (c int) {
			for _, m := range model {
				if m.sub.Priority == pr && m.sub.Submitter == n {
					c++
				}
			}
			return c
		}
		for range 200 {
			s := testSubmission(t, rnd.IntN(5), Priority(rnd.IntN(2)))
			lows, most := 0, 0
			for _, m := range model {
				if m.sub.Priority == Low {
					lows++
				}
				if m.sub.Priority == s.Priority {
					most = max(most, count(s.Priority, m.sub.Submitter))
				}
			}
			mayEnter := len(model) < limit || s.Priority == High && lows > 0 || most > count(s.Priority, s.Submitter)+1
			admitted, victim := offer(p, s)
			if (admitted != nil) != mayEnter {
				t.Fatalf("seed %d: admitted %v, the model says %v", seed, admitted != nil, mayEnter)
			}
			if victim != nil {
				i := slices.Index(model, victim)
				if i < 0 {
					t.Fatalf("seed %d: the victim is not in the pool", seed)
				}
				for _, m := range model[i+1:] {
					if m.sub.Submitter == victim.sub.Submitter && m.sub.Priority == victim.sub.Priority {
						t.Fatalf("seed %d: the victim is not the newest of its submitter", seed)
					}
				}
				if victim.sub.Priority == High && s.Priority == Low {
					t.Fatalf("seed %d: low displaced high", seed)
				}
				model = slices.Delete(model, i, i+1)
			}
			if admitted != nil {
				model = append(model, admitted)
			}
			if !slices.Equal(p.tickets(), model) || len(p.byKey) != len(model) {
				t.Fatalf("seed %d: pool and model differ", seed)
			}
		}
	}
}

func BenchmarkPoolFull(b *testing.B) {
	p := newPool(150)
	for i := range 150 {
		offer(p, testSubmission(b, i%30, High))
	}
	s := testSubmission(b, 0, High)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.room(s.Priority, s.Submitter); ok {
			b.Fatal("room in a full pool")
		}
	}
}
