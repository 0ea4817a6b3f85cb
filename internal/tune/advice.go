package tune

import (
	"fmt"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
)

// Advice is what follows from the measurements.
type Advice struct {
	// PoolSize is the largest pool whose rounds fit the interval, and whose
	// requests the host can serve meanwhile; 0 if there is none.
	PoolSize  int     `json:"pool_size"`
	PerSecond float64 `json:"entries_per_second"` // that it is the capacity of
	Limit     string  `json:"limit"`              // what keeps it from being larger

	// The largest pool by each limit: the duration of rounds, the cores' time for
	// requests and rounds, and the cache gets inside the turnstile. Rounded down to
	// two digits; 0 is none.
	ByRounds int `json:"by_rounds"`
	ByCPU    int `json:"by_cpu"`
	ByGets   int `json:"by_gets"`

	// Present is what the configured pool takes, by the same line; 0 if it has no
	// limit or the line is not known.
	Present rounds.Duration `json:"present_p99_seconds"`
	Notes   []string        `json:"notes,omitempty"`
}

const (
	// cpuShare is the part of all cores' time that requests and rounds may take.
	cpuShare = 0.7
	// network is what a request costs with its connection and the garbage it
	// leaves, in terms of what it costs without: about as much again, by what
	// daybook load measures.
	network = 2
	// getShare is the part of an interval that may pass inside the turnstile.
	getShare = 0.5
	// beyond is how many times the largest rounds measured a pool may be.
	beyond = 4
	// slowGet is how long a cache get may take before it is worth a word.
	slowGet = time.Millisecond
)

// advise is a pure function of what was measured.
func advise(r *Result) (a Advice) {
	interval := time.Duration(r.Interval)
	cost, known := roundCost(r)
	if !known {
		a.Limit = "unknown: no round was measured"
		return a
	}
	largest := r.Rounds.Sizes[len(r.Rounds.Sizes)-1]
	a.ByRounds = min(cost.Largest(interval), beyond*largest.Entries)
	perEntry := network*float64(r.CPU.Request.P50) + float64(cost.PerEntry)
	a.ByCPU = rounds.TwoDigits((cpuShare*float64(r.Cores)*float64(interval) - float64(cost.Fixed)) / max(1, perEntry))
	present := &r.Caches[0]
	a.ByGets = rounds.TwoDigits(getShare * float64(interval) / float64(present.get()))
	a.PoolSize = min(a.ByRounds, a.ByCPU, a.ByGets)
	a.PerSecond = float64(a.PoolSize) / interval.Seconds()
	a.Limit = limit(r, &a)
	if r.PoolSize > 0 {
		a.Present = rounds.Duration(cost.P99(r.PoolSize))
	}
	a.Notes = notes(r, &a, cost)
	return a
}

// roundCost returns the line through all rounds, or one that rises from nothing
// to the slowest of the largest rounds if there were too few of them.
func roundCost(r *Result) (c rounds.Cost, known bool) {
	if r.Rounds.Fitted {
		return r.Rounds.Cost.line(), true
	}
	if len(r.Rounds.Sizes) == 0 {
		return c, false
	}
	first, last := r.Rounds.Sizes[0], r.Rounds.Sizes[len(r.Rounds.Sizes)-1]
	c.Fixed = time.Duration(first.Took.P50)
	if n := last.Entries - first.Entries; n > 0 {
		c.PerEntry = max(0, time.Duration(last.Took.P50-first.Took.P50)/time.Duration(n))
	}
	c.Spread = time.Duration(max(first.Took.P99-first.Took.P50, last.Took.P99-last.Took.P50))
	return c, true
}

func limit(r *Result, a *Advice) string {
	switch {
	case a.PoolSize == 0 && a.ByRounds == 0:
		return "rounds: those with few entries take as long as the interval already; " + dominant(r, 0)
	case a.PoolSize == a.ByRounds && a.ByRounds == beyond*r.Rounds.Sizes[len(r.Rounds.Sizes)-1].Entries:
		return "nothing that was seen: larger rounds were not measured"
	case a.PoolSize == a.ByRounds:
		return "rounds: " + dominant(r, a.PoolSize)
	case a.PoolSize == a.ByGets:
		return fmt.Sprintf("cache gets: one at a time, %v each", r.Caches[0].get())
	}
	return fmt.Sprintf("the CPU: %v a request, most of it signatures, on %d cores", time.Duration(r.CPU.Request.P50).Round(time.Microsecond), r.Cores)
}

// dominant names the steps that rounds of about this size spend their time in.
func dominant(r *Result, size int) string {
	nearest := &r.Rounds.Sizes[0]
	for i := range r.Rounds.Sizes {
		if s := &r.Rounds.Sizes[i]; abs(s.Entries-size) < abs(nearest.Entries-size) {
			nearest = s
		}
	}
	type part struct {
		name string
		took rounds.Duration
	}
	var first, second part
	var sum rounds.Duration
	for _, p := range nearest.Steps {
		sum += p.P50
		switch {
		case p.P50 > first.took:
			first, second = part{p.Part, p.P50}, first
		case p.P50 > second.took:
			second = part{p.Part, p.P50}
		}
	}
	share := func(p part) string { return fmt.Sprintf("%s (%d%%)", p.name, 100*p.took/max(1, sum)) }
	return fmt.Sprintf("those of %d entries spend most time in %s and %s", nearest.Entries, share(first), share(second))
}

func abs(n int) int { return max(n, -n) }

// notes are what else the operator should know.
func notes(r *Result, a *Advice, cost rounds.Cost) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	interval := time.Duration(r.Interval)
	if !r.Rounds.Fitted {
		add("too few rounds were measured for a 99th percentile: give it more time")
	}
	if a.PoolSize == 0 {
		if need := (cost.Fixed + cost.Spread + 10*cost.PerEntry) * 10 / 9; need > interval {
			add("an interval of %v or more would let small pools fit", (need + 49*time.Millisecond).Round(50*time.Millisecond))
		}
	}
	switch {
	case r.PoolSize == 0:
		add("the configured pool has no limit: set one, or a flood makes rounds longer and longer")
	case a.PoolSize > 0 && r.PoolSize > a.PoolSize:
		add("the configured pool_size of %d is too large: 99 of 100 full rounds take up to %v of the interval of %v, or the host cannot serve so many requests", r.PoolSize, rounded(a.Present), interval)
	}
	for _, d := range r.Disks {
		if d.Fsync.P50 > 0 && time.Duration(d.Fsync.P50) < 20*time.Microsecond {
			add("an fsync on %s takes %v, which no durable medium does: a power cut may take back what was promised", d.Path, d.Fsync.P50)
		}
		if time.Duration(d.Fsync.P99) > interval/4 {
			add("one in a hundred fsyncs of %s (%s) takes %v or more: a round needs several", d.Path, strings.Join(d.Of, ", "), rounded(d.Fsync.P99))
		}
	}
	for i, c := range r.Caches {
		if c.Bytes < c.Wanted*9/10 {
			add("a cache of %d MB was wanted, time or space were enough for %d MB", c.Wanted>>20, c.Bytes>>20)
		}
		if cold := time.Duration(c.Cold.P50); i == len(r.Caches)-1 && cold > slowGet {
			add("a cache get that has to go to the disk takes %v, and they come one at a time: when the cache outgrows the memory, intake falls to %.0f/s; see cache.page_cache", rounded(c.Cold.P50), 1/cold.Seconds())
		}
	}
	return notes
}

// rounded is a duration with three digits or so.
func rounded(d rounds.Duration) time.Duration { return rounds.Short(time.Duration(d)) }
