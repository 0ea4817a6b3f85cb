package sequencer

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// TestDuplicateExempt: an exempt network is answered beyond the limit, another
// one is not, and the series are those of the configuration, whoever comes.
func TestDuplicateExempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe()
		c := p.config(t, 0)
		registry := prometheus.NewRegistry()
		c.Metrics, c.DuplicateRate = registry, 1
		c.DuplicateExempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/48")}
		if err := Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		run(t, l)
		s := newEntry(t, 1, Low)
		mustAdd(t, l, s) // not counted by the limit: it is new

		const again = 100 // ten at once are the limit
		for _, test := range []struct {
			from     string
			answered int
		}{
			{"192.0.2.1/32", again},
			{"192.0.2.255/32", again},
			{"192.0.3.1/32", 10},
			{"2001:db8:0:ffff::/64", again},
			{"2001:db8:1::/64", 10},
		} {
			s.Submitter = netip.MustParsePrefix(test.from)
			answered := 0
			for range again {
				switch _, err := l.Add(t.Context(), s); {
				case err == nil:
					answered++
				case !errors.Is(err, ErrLimited):
					t.Fatal(err)
				}
			}
			if answered != test.answered {
				t.Errorf("%s: %d of %d duplicates were answered, want %d", test.from, answered, again, test.answered)
			}
		}
		// High ones are not limited, and so not exempt.
		s.Priority, s.Submitter = High, netip.MustParsePrefix("192.0.2.1/32")
		mustAdd(t, l, s)

		want := map[string]float64{"192.0.2.0/24": 2 * again, "2001:db8::/48": again}
		if got := counts(t, registry, "daybook_duplicates_exempt_total"); len(got) != len(want) || got["192.0.2.0/24"] != 2*again || got["2001:db8::/48"] != again {
			t.Errorf("counters %v, want %v", got, want)
		}
	})
}

// TestExemptCovers: only a network that lies in an exempt one as a whole is
// covered; a connection without an address never is.
func TestExemptCovers(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry(), &Config{Interval: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := newExemptions([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2001:db8::/64")}, m.exempt)
	for _, test := range []struct {
		submitter netip.Prefix
		want      bool
	}{
		{netip.MustParsePrefix("198.51.100.1/32"), true},
		{netip.MustParsePrefix("2001:db8::/64"), true},
		{netip.MustParsePrefix("2001:db8::/63"), false},
		{netip.MustParsePrefix("2001:db8:0:1::/64"), false},
		{netip.Prefix{}, false},
	} {
		if got := e.covers(test.submitter); got != test.want {
			t.Errorf("%v: %v, want %v", test.submitter, got, test.want)
		}
	}
	if (exemptions(nil)).covers(netip.MustParsePrefix("192.0.2.1/32")) {
		t.Error("without exemptions somebody is exempt")
	}
}

// TestExemptIsNoPrivilege: the exemption does not reach into the pool. An exempt
// flooder gives way to a modest submitter like any other.
func TestExemptIsNoPrivilege(t *testing.T) {
	p := newProbe()
	c := p.config(t, 10)
	c.DuplicateExempt = []netip.Prefix{network(1)}
	if err := Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(n, from int) error {
		s := newEntry(t, n, High)
		s.Submitter = network(from)
		_, err := l.Submit(t.Context(), s)
		return err
	}
	for i := range 10 {
		if err := submit(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := submit(10, 1); !errors.Is(err, ErrFull) {
		t.Errorf("an exempt submitter that holds the whole pool: %v, want %v", err, ErrFull)
	}
	for i := range 5 {
		if err := submit(20+i, 2); err != nil {
			t.Errorf("entry %d of a modest submitter: %v", i, err)
		}
	}
}
