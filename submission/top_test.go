package submission

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
)

func networkNumber(n uint32) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

// TestTopSubmitters: beside any number of networks that submit once, those that
// send more than one in maxTop are found, with counts within their stated error.
func TestTopSubmitters(t *testing.T) {
	var top topSubmitters
	rnd := rand.New(rand.NewPCG(1, 1))
	truth := map[netip.Prefix]uint64{}
	const total = 50_000
	for i := range uint32(total) {
		n := networkNumber(1000 + i)
		if rnd.IntN(10) < 3 { // 30% from five networks
			n = networkNumber(uint32(rnd.IntN(5)))
		}
		truth[n]++
		top.add(n, false)
	}
	all := top.sorted()
	if len(all) > maxTop {
		t.Fatalf("%d counters", len(all))
	}
	found := map[netip.Prefix]bool{}
	for _, c := range all {
		found[c.network] = true
		if c.requests < truth[c.network] || c.requests-c.excess > truth[c.network] {
			t.Errorf("%v: counted %d with an excess of %d, sent %d", c.network, c.requests, c.excess, truth[c.network])
		}
	}
	for n, sent := range truth {
		if sent > total/maxTop && !found[n] {
			t.Errorf("%v sent %d and is missing", n, sent)
		}
	}
}

// TestServeTop: the operator's page names who submits, and who is refused.
func TestServeTop(t *testing.T) {
	full := true
	s := newSite(t, Options{TrustedProxies: testProxies, Preflight: func(from netip.Prefix, _ sequencer.Priority) error {
		if full {
			return sequencer.ErrFull
		}
		return nil
	}})
	body := chainBody(s.chain(t, 1, testca.Leaf{}).Certificates)
	for range 3 {
		if w := post(s, "add-chain", body); w.Code != http.StatusServiceUnavailable {
			t.Fatalf("status %d", w.Code)
		}
	}
	full = false
	if w := post(s, "add-chain", body); w.Code != http.StatusOK {
		t.Fatalf("status %d", w.Code)
	}
	w := httptest.NewRecorder()
	s.ServeTop(w, httptest.NewRequest("GET", "/", nil))
	lines := strings.Split(w.Body.String(), "\n")
	if fields := strings.Fields(lines[1]); len(fields) != 4 || !strings.HasSuffix(fields[0], "/32") || fields[1] != "4" || fields[2] != "0" || fields[3] != "3" {
		t.Errorf("the page says\n%s", w.Body)
	}
}

// TestInFlightLimit: beyond the limit requests are refused before their bodies are
// read, and the place of one that has ended is free again.
func TestInFlightLimit(t *testing.T) {
	entered, release := make(chan bool), make(chan bool)
	s := newSite(t, Options{MaxInFlight: 1, Preflight: func(netip.Prefix, sequencer.Priority) error {
		entered <- true
		<-release
		return sequencer.ErrFull
	}})
	done := make(chan int)
	submit := func() { done <- post(s, "add-chain", []byte(`{}`)).Code }
	go submit()
	<-entered
	r := httptest.NewRequest("POST", "/ct/v1/add-chain", readFails{t})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("over the limit: status %d", w.Code)
	}
	release <- true
	if code := <-done; code != http.StatusServiceUnavailable {
		t.Errorf("the first: status %d", code)
	}
	go submit()
	<-entered
	release <- true
	<-done
}
