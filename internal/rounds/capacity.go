package rounds

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Point is what a round's duration is judged by.
type Point struct {
	Entries int
	Took    time.Duration
}

// Cost is the duration of a round as a line over its number of entries, and
// the distance of the 99th percentile from that line.
type Cost struct {
	Fixed    time.Duration // of any round with entries
	PerEntry time.Duration
	Spread   time.Duration // what slow rounds take more
}

const (
	// fitPoints is how many rounds a line, or a percentile, needs.
	fitPoints = 100
	// headroom is the part of the interval that a round should fit into: the
	// rest is for the host's bad moments.
	headroom = 0.9
	// farthest is how many times the largest number of entries seen a pool may
	// be for the line to be believed.
	farthest = 4
)

// FitCost puts a line through rounds by least squares, in two passes so that
// single slow rounds do not tilt it. Rounds with few entries, less than a tenth
// of the most, say nothing about a full pool and do not count. ok is false if
// there are too few rounds, or if all have about the same number of entries.
func FitCost(points []Point) (c Cost, ok bool) {
	least, most := enough(points)
	var p []Point
	smallest := most
	for _, q := range points {
		if q.Entries >= least {
			p = append(p, q)
			smallest = min(smallest, q.Entries)
		}
	}
	if len(p) < fitPoints || 2*smallest > most {
		return Cost{}, false
	}
	fixed, perEntry := line(p)
	above := func(q Point) float64 { return float64(q.Took) - fixed - perEntry*float64(q.Entries) }
	distances := make([]float64, len(p))
	for i, q := range p {
		distances[i] = above(q)
	}
	slices.Sort(distances)
	bound := quantile(distances, 0.95)
	var usual []Point
	for _, q := range p {
		if above(q) <= bound {
			usual = append(usual, q)
		}
	}
	fixed, perEntry = line(usual)
	for i, q := range p {
		distances[i] = above(q)
	}
	slices.Sort(distances)
	return Cost{Fixed: time.Duration(fixed), PerEntry: time.Duration(perEntry), Spread: time.Duration(max(0, quantile(distances, 0.99)))}, true
}

// enough returns the number of entries from which on a round counts, and the most.
func enough(points []Point) (least, most int) {
	for _, q := range points {
		most = max(most, q.Entries)
	}
	return max(1, most/10), most
}

// line returns the line of least squares, which does not fall.
func line(p []Point) (fixed, slope float64) {
	var n, sx, sy float64
	for _, q := range p {
		n, sx, sy = n+1, sx+float64(q.Entries), sy+float64(q.Took)
	}
	mx, my := sx/n, sy/n
	var sxx, sxy float64
	for _, q := range p {
		dx := float64(q.Entries) - mx
		sxx += dx * dx
		sxy += dx * (float64(q.Took) - my)
	}
	if sxx > 0 {
		slope = max(0, sxy/sxx)
	}
	if fixed = my - slope*mx; fixed < 0 && sxx > 0 {
		// Through the origin: a round cannot cost less than nothing.
		fixed, slope = 0, my/mx
	}
	return fixed, slope
}

// quantile returns a quantile of sorted values by the nearest rank.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// P99 is how long 99 of 100 rounds with n entries take at most.
func (c Cost) P99(n int) time.Duration {
	return c.Fixed + time.Duration(n)*c.PerEntry + c.Spread
}

// Largest returns the largest pool whose rounds, 99 of 100 of them, fit into
// nine tenths of the interval, in two digits; 0 if none does.
func (c Cost) Largest(interval time.Duration) int {
	room := headroom*float64(interval) - float64(c.Fixed+c.Spread)
	if room < float64(c.PerEntry) {
		return 0
	}
	return TwoDigits(room / max(1, float64(c.PerEntry)))
}

// maxPool bounds what is recommended: beyond it the line says nothing.
const maxPool = 1_000_000

// TwoDigits rounds down to two significant digits.
func TwoDigits(n float64) int {
	v, unit := int(min(n, maxPool)), 1
	for v/unit >= 100 {
		unit *= 10
	}
	return v / unit * unit
}

// Capacity says whether a full pool can be sequenced within the interval. If it
// cannot, the log is promising more than it can hold.
type Capacity struct {
	Known    bool `json:"known"`
	Measured bool `json:"measured"` // by rounds of full pools; otherwise estimated from smaller ones
	Fits     bool `json:"fits"`
	Rounds   int  `json:"rounds"` // that P99 rests on

	Interval Duration `json:"interval_seconds"`
	PoolSize int      `json:"pool_size"`
	// P99 is how long 99 of 100 rounds of a full pool take at most.
	P99 Duration `json:"full_pool_p99_seconds"`
	// Fitting is the largest pool that would fit, by estimate: 0 if none, as
	// the cost of a round with few entries is too high already.
	Fitting int `json:"pool_size_fitting"`
}

// Judge says whether a pool of this size fits the interval by what rounds have
// taken. Nothing is known of a pool without limit.
func Judge(points []Point, poolSize int, interval time.Duration) Capacity {
	c := Capacity{Interval: Duration(interval), PoolSize: poolSize}
	if poolSize <= 0 || interval <= 0 {
		return c
	}
	var full []time.Duration
	for _, p := range points {
		if p.Entries >= poolSize {
			full = append(full, p.Took)
		}
	}
	cost, fitted := FitCost(points)
	least, most := enough(points)
	switch {
	case len(full) >= fitPoints:
		slices.Sort(full)
		c.Known, c.Measured, c.Rounds, c.P99 = true, true, len(full), Duration(quantile(full, 0.99))
	case fitted && most*farthest >= poolSize:
		c.Known, c.P99 = true, Duration(cost.P99(poolSize))
		for _, p := range points {
			if p.Entries >= least {
				c.Rounds++
			}
		}
	default:
		return c
	}
	c.Fits = time.Duration(c.P99) <= interval
	if fitted {
		c.Fitting = cost.Largest(interval)
	}
	if !fitted || !c.Fits && c.Fitting >= poolSize {
		// In proportion to what was measured, which is a little too much, as
		// every round has a cost that does not shrink with it.
		c.Fitting = TwoDigits(headroom * float64(poolSize) * float64(interval) / float64(max(1, c.P99)))
	}
	return c
}

// String says it in one sentence.
func (c Capacity) String() string {
	if !c.Known {
		if c.PoolSize <= 0 && c.Interval > 0 {
			return "the pool has no limit: no round is sure to fit the interval"
		}
		return "not known yet: too few rounds with many entries"
	}
	how := "measured over"
	if !c.Measured {
		how = "estimated from"
	}
	s := fmt.Sprintf("99 of 100 rounds of a full pool (%d) take at most %v, %s %d rounds; the interval is %v", c.PoolSize,
		Short(time.Duration(c.P99)), how, c.Rounds, time.Duration(c.Interval))
	switch {
	case c.Fits:
		return s + ": it fits"
	case c.Fitting == 0:
		return s + ": it does not fit, and no pool would: rounds with few entries take too long already"
	}
	return fmt.Sprintf("%s: it does not fit; a pool_size of about %d would", s, c.Fitting)
}

// Short rounds a duration to three digits or so.
func Short(d time.Duration) time.Duration {
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

func (c Capacity) attrs() []any {
	a := []any{"pool_size", c.PoolSize, "interval", time.Duration(c.Interval), "full_pool_p99", Short(time.Duration(c.P99)),
		"measured", c.Measured, "rounds", c.Rounds, "pool_size_fitting", c.Fitting}
	if c.Fitting == 0 {
		a = append(a, "hint", "no pool size fits: rounds with few entries take too long already; see daybook rounds and daybook tune")
	}
	return a
}

// capacityCollector offers the capacity as metrics as soon as it is known.
type capacityCollector struct{ r *Recorder }

var (
	fitsDesc    = prometheus.NewDesc("daybook_capacity_fits", "1 if 99 of 100 rounds of a full pool fit the interval, 0 if not; absent while it is not known.", nil, nil)
	fullP99Desc = prometheus.NewDesc("daybook_round_full_pool_p99_seconds", "What 99 of 100 rounds of a full pool take at most, measured or estimated over the last hour; absent while it is not known.", nil, nil)
	fittingDesc = prometheus.NewDesc("daybook_pool_size_fitting", "Estimate of the largest pool whose rounds fit the interval; absent while it is not known.", nil, nil)
)

func (capacityCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- fitsDesc
	ch <- fullP99Desc
	ch <- fittingDesc
}

func (c capacityCollector) Collect(ch chan<- prometheus.Metric) {
	capacity := c.r.Capacity()
	if !capacity.Known {
		return
	}
	fits := 0.0
	if capacity.Fits {
		fits = 1
	}
	ch <- prometheus.MustNewConstMetric(fitsDesc, prometheus.GaugeValue, fits)
	ch <- prometheus.MustNewConstMetric(fullP99Desc, prometheus.GaugeValue, time.Duration(capacity.P99).Seconds())
	ch <- prometheus.MustNewConstMetric(fittingDesc, prometheus.GaugeValue, float64(capacity.Fitting))
}
