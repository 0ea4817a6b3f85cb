package tune

import (
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
)

const (
	us = rounds.Duration(time.Microsecond)
	ms = rounds.Duration(time.Millisecond)
)

func steady(d rounds.Duration) Timing { return Timing{Count: 100, P50: d, P99: d, Max: d} }

// host returns what an ordinary host might measure.
func host() *Result {
	size := func(n int) RoundSize {
		return RoundSize{Entries: n, Took: steady(20*ms + rounds.Duration(n)*100*us), Fsyncs: 12,
			Steps: []rounds.PartTime{{Part: "grow", P50: rounds.Duration(n) * 20 * us}, {Part: "stage", P50: 4 * ms}, {Part: "apply", P50: 10 * ms}, {Part: "commit", P50: ms}}}
	}
	return &Result{Cores: 4, Interval: 200 * ms, PoolSize: 150,
		Disks:  []Disk{{Path: "/data", Of: []string{"storage", "lock"}, Fsync: steady(ms)}, {Path: "/cache", Of: []string{"cache"}, Fsync: steady(ms)}},
		CPU:    CPU{Request: steady(120 * us)},
		Caches: []Cache{{Wanted: 100, Bytes: 100, Hit: steady(8 * us), Miss: steady(10 * us), Cold: steady(90 * us)}, {Wanted: 1000, Bytes: 1000, Cold: steady(100 * us)}},
		Rounds: Rounds{Fitted: true, Cost: Cost{20 * ms, 100 * us, 40 * ms}, Sizes: []RoundSize{size(37), size(75), size(150), size(300), size(600)}},
	}
}

// TestAdvise: the tightest limit counts, and it is named.
func TestAdvise(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Result)
		pool   int
		limit  string
		notes  []string // parts of all notes, in their order
	}{
		{"ordinary", func(*Result) {}, 1200, "rounds: those of 600 entries spend most time in grow (44%) and apply (37%)", nil}, // (180-60)/0.1
		{"one core", func(r *Result) { r.Cores = 1 }, 350, "the CPU: 120µs a request, most of it signatures, on 1 cores", nil},  // (140-20)/0.34
		{"slow gets", func(r *Result) { r.Caches[0].Miss = steady(ms) }, 100, "cache gets: one at a time, 1ms each",
			[]string{"the configured pool_size of 150 is too large"}},
		{"fast rounds", func(r *Result) { r.Rounds.Cost = Cost{5 * ms, 10 * us, ms}; r.Cores = 64 }, 2400, "nothing that was seen", nil},
		{"slow disk", func(r *Result) {
			r.Rounds.Cost.Fixed, r.Disks[0].Fsync.P99 = 200*ms, 60*ms
		}, 0, "rounds: those with few entries take as long as the interval already; those of 37 entries spend most time in apply (63%)",
			[]string{"an interval of 300ms or more", "one in a hundred fsyncs of /data (storage, lock) takes 60ms or more"}},
		{"no limit", func(r *Result) { r.PoolSize = 0 }, 1200, "rounds", []string{"has no limit: set one"}},
		{"pool too large", func(r *Result) { r.PoolSize = 2000 }, 1200, "rounds", []string{"pool_size of 2000 is too large: 99 of 100 full rounds take up to 260ms of the interval of 200ms"}},
		{"a disk that lies", func(r *Result) { r.Disks[1].Fsync = steady(5 * us) }, 1200, "rounds", []string{"an fsync on /cache takes 5µs, which no durable medium does"}},
		{"cold gets", func(r *Result) { r.Caches[1].Cold = steady(8 * ms) }, 1200, "rounds", []string{"takes 8ms, and they come one at a time: when the cache outgrows the memory, intake falls to 125/s"}},
		{"cache not reached", func(r *Result) { r.Caches[1].Wanted, r.Caches[1].Bytes = 1<<30, 100<<20 }, 1200, "rounds", []string{"a cache of 1024 MB was wanted, time or space were enough for 100 MB"}},
		{"few rounds", func(r *Result) { r.Rounds.Fitted, r.Rounds.Cost = false, Cost{} }, 1500, "rounds", []string{"too few rounds were measured"}},
		{"few rounds of one size", func(r *Result) { r.Rounds.Fitted, r.Rounds.Sizes = false, r.Rounds.Sizes[:1] }, 148, "nothing that was seen", []string{"too few", "too large"}},
		{"no rounds", func(r *Result) { r.Rounds = Rounds{} }, 0, "unknown", nil},
	} {
		r := host()
		c.change(r)
		a := advise(r)
		if a.PoolSize != c.pool || !strings.Contains(a.Limit, c.limit) || a.PerSecond != float64(c.pool)*5 {
			t.Errorf("%s: pool %d (%.0f/s, rounds %d, CPU %d, gets %d), limit %q; want %d, %q", c.name, a.PoolSize, a.PerSecond, a.ByRounds, a.ByCPU, a.ByGets, a.Limit, c.pool, c.limit)
		}
		if len(a.Notes) != len(c.notes) {
			t.Errorf("%s: notes %q", c.name, a.Notes)
			continue
		}
		for i, n := range a.Notes {
			if !strings.Contains(n, c.notes[i]) {
				t.Errorf("%s: note %q, want %q", c.name, n, c.notes[i])
			}
		}
	}
}
