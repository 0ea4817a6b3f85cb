package rounds

import (
	"math"
	"slices"
	"time"
)

// Coincidence says how often something was seen in slow rounds and in others.
type Coincidence struct {
	Marker  string  `json:"marker"`
	Slow    int     `json:"slow_rounds_with"`
	Others  int     `json:"other_rounds_with"`
	P       float64 `json:"p"` // that so large a difference is chance (Fisher's exact test, two-sided)
	Verdict string  `json:"verdict"`
}

// The verdicts of a Coincidence.
const (
	WithSlow  = "goes with slow rounds"
	WithOther = "goes with the others"
	Unrelated = "does not"
	Unseen    = "never seen"
)

// certain is the P below which a coincidence is none.
const certain = 0.001

// quietSpell is how long a log has to be without entries for the next round with
// some, and the next one with a cache put, which may be a later one, to come
// "after a quiet spell".
const quietSpell = 10 * time.Second

// marker is something that a round shows or not.
type marker struct {
	name string
	seen func(c *markerContext, r *Record) bool
}

// markerContext is what a marker needs to know of other rounds.
type markerContext struct {
	manyEntries int       // more are many
	slowWait    Duration  // a wait from here on is long
	lastEntries time.Time // the last round before that had entries
	known       bool      // that there was such a round, or none for long
	lastPut     time.Time // the last round before that put keys in the cache
}

var markers = []marker{
	{"WAL file made anew", func(_ *markerContext, r *Record) bool { return r.WAL.New }},
	{"WAL file grew", func(_ *markerContext, r *Record) bool { return r.WAL.Grew > 0 && !r.WAL.New }},
	{"WAL checkpoint busy", func(_ *markerContext, r *Record) bool { return r.WAL.Busy }},
	{"lock's WAL file new or grew", func(_ *markerContext, r *Record) bool { return r.LockWAL.New || r.LockWAL.Grew > 0 }},
	{"after a quiet spell", func(c *markerContext, r *Record) bool {
		return r.Entries > 0 && c.known && r.Time.Sub(c.lastEntries) >= quietSpell || r.Put > 0 && r.Time.Sub(c.lastPut) >= quietSpell
	}},
	{"pool full", func(_ *markerContext, r *Record) bool { return r.PoolSize > 0 && r.Entries >= r.PoolSize }},
	{"many entries (most tenth)", func(c *markerContext, r *Record) bool { return r.Entries > c.manyEntries }},
	{"entries refused", func(_ *markerContext, r *Record) bool { return r.High.Refused()+r.Low.Refused() > 0 }},
	{"entries evicted", func(_ *markerContext, r *Record) bool { return r.High.Evicted+r.Low.Evicted > 0 }},
	{"duplicates", func(_ *markerContext, r *Record) bool { return r.High.Duplicate+r.Low.Duplicate > 0 }},
	{"slow cache get (10 ms)", func(c *markerContext, r *Record) bool { return r.HoldMax >= c.slowWait }},
	{"disk reads", func(_ *markerContext, r *Record) bool { return r.DiskReads > 0 }},
	{"GC cycle", func(_ *markerContext, r *Record) bool { return r.GC.Cycles > 0 }},
	{"GC pauses (a tenth)", func(_ *markerContext, r *Record) bool { return r.Took > 0 && 10*r.GC.Pause >= r.Took }},
	{"waits for a CPU (10 ms)", func(c *markerContext, r *Record) bool { return r.SchedMax >= c.slowWait }},
	{"began late", func(_ *markerContext, r *Record) bool { return 10*r.Late >= r.Interval }},
}

// coincidences goes through all rounds, in their order.
func coincidences(records []Record, slow []bool) []Coincidence {
	if len(records) == 0 {
		return nil
	}
	c := markerContext{slowWait: Duration(10 * time.Millisecond), lastEntries: records[0].Time, lastPut: records[0].Time}
	entries := make([]int, 0, len(records))
	for i := range records {
		entries = append(entries, records[i].Entries)
	}
	slices.Sort(entries)
	c.manyEntries = quantile(entries, 0.9)
	out := make([]Coincidence, len(markers))
	slowRounds := 0
	for i := range records {
		r := &records[i]
		// Before the first entries, the time since the first record counts.
		c.known = c.known || r.Time.Sub(c.lastEntries) >= quietSpell
		for j, m := range markers {
			switch {
			case !m.seen(&c, r):
			case slow[i]:
				out[j].Slow++
			default:
				out[j].Others++
			}
		}
		if slow[i] {
			slowRounds++
		}
		if r.Entries > 0 {
			c.lastEntries, c.known = r.Time, true
		}
		if r.Put > 0 {
			c.lastPut = r.Time
		}
	}
	others := len(records) - slowRounds
	for j := range out {
		out[j].Marker = markers[j].name
		out[j].judge(slowRounds, others)
	}
	return out
}

func (c *Coincidence) judge(slow, others int) {
	c.P = fisher(c.Slow, slow, c.Others, others)
	switch {
	case c.Slow+c.Others == 0:
		c.Verdict = Unseen
	case c.P >= certain:
		c.Verdict = Unrelated
	case c.Slow*others > c.Others*slow:
		c.Verdict = WithSlow
	default:
		c.Verdict = WithOther
	}
}

// fisher returns the probability that a of n and b of m differ so much, or more,
// if all n+m were drawn from one urn (Fisher's exact test, two-sided).
func fisher(a, n, b, m int) float64 {
	k := a + b // with the mark
	log := func(x int) float64 {
		return logChoose(n, x) + logChoose(m, k-x) - logChoose(n+m, k)
	}
	observed := log(a) + 1e-9 // so that equal ones count in spite of rounding
	var p float64
	for x := max(0, k-m); x <= min(k, n); x++ {
		if l := log(x); l <= observed {
			p += math.Exp(l)
		}
	}
	return min(1, p)
}

func logChoose(n, k int) float64 {
	f := func(x int) float64 { l, _ := math.Lgamma(float64(x + 1)); return l }
	return f(n) - f(k) - f(n-k)
}
