package rounds

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// rounds makes points on the line fixed + n*perEntry, one in fifty of which
// takes spread more, with n from low to high.
func pointsOn(count, low, high int, fixed, perEntry, spread time.Duration) []Point {
	rnd := rand.New(rand.NewPCG(3, 4))
	p := make([]Point, count)
	for i := range p {
		n := low
		if high > low {
			n += rnd.IntN(high - low + 1)
		}
		p[i] = Point{n, fixed + time.Duration(n)*perEntry + time.Duration(rnd.IntN(1000))*time.Nanosecond}
		if i%50 == 0 {
			p[i].Took += spread
		}
	}
	return p
}

const ms = time.Millisecond

func near(a, b time.Duration, part float64) bool {
	d := float64(a - b)
	return max(d, -d) <= part*float64(max(a, b))
}

func TestFitCost(t *testing.T) {
	c, ok := FitCost(pointsOn(2000, 10, 150, 20*ms, 100*time.Microsecond, 30*ms))
	if !ok || !near(c.Fixed, 20*ms, 0.02) || !near(c.PerEntry, 100*time.Microsecond, 0.02) || !near(c.Spread, 30*ms, 0.02) {
		t.Errorf("%+v, %v", c, ok)
	}
	// A single freeze of minutes does not tilt the line.
	p := pointsOn(2000, 10, 150, 20*ms, 100*time.Microsecond, 0)
	p[7] = Point{150, 10 * time.Minute}
	if c, ok = FitCost(p); !ok || !near(c.PerEntry, 100*time.Microsecond, 0.02) || c.Spread > ms {
		t.Errorf("with a freeze: %+v, %v", c, ok)
	}
	// Rounds with next to no entries say nothing.
	p = append(pointsOn(2000, 100, 300, 20*ms, 100*time.Microsecond, 0), pointsOn(50_000, 0, 1, 500*ms, 0, 0)...)
	if c, ok = FitCost(p); !ok || !near(c.Fixed, 20*ms, 0.02) {
		t.Errorf("with rounds of an idle log: %+v, %v", c, ok)
	}
	// Rounds that get cheaper with more entries: nobody knows why, and the line is level.
	p = nil
	for n := 50; n <= 150; n++ {
		p = append(p, Point{n, time.Duration(200-n) * ms})
	}
	if c, ok = FitCost(p); !ok || c.PerEntry != 0 || c.Fixed <= 0 {
		t.Errorf("falling: %+v, %v", c, ok)
	}
	// Rounds whose cost grows faster than the entries: no less than nothing is fixed.
	p = nil
	for n := 50; n <= 500; n++ {
		p = append(p, Point{n, time.Duration(n*n) * time.Microsecond})
	}
	if c, ok = FitCost(p); !ok || c.Fixed != 0 || c.PerEntry <= 0 {
		t.Errorf("growing fast: %+v, %v", c, ok)
	}
	for name, p := range map[string][]Point{
		"no rounds":           nil,
		"idle rounds":         pointsOn(1000, 0, 0, ms, 0, 0),
		"few rounds":          pointsOn(fitPoints-1, 10, 150, ms, ms, 0),
		"rounds of one size":  pointsOn(1000, 150, 150, ms, ms, 0),
		"rounds all about as": pointsOn(1000, 100, 150, ms, ms, 0),
	} {
		if c, ok := FitCost(p); ok {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestLargest(t *testing.T) {
	for _, c := range []struct {
		cost Cost
		want int
	}{
		{Cost{Fixed: 20 * ms, PerEntry: 100 * time.Microsecond, Spread: 30 * ms}, 1300}, // (180-50)/0.1
		{Cost{Fixed: 20 * ms, PerEntry: 117 * time.Microsecond, Spread: 30 * ms}, 1100}, // 1111
		{Cost{Fixed: 20 * ms, PerEntry: 2 * ms}, 80},
		{Cost{Fixed: 170 * ms, PerEntry: 2 * ms}, 5},
		{Cost{Fixed: 179 * ms, PerEntry: 2 * ms}, 0},
		{Cost{Fixed: 20 * ms, Spread: 300 * ms, PerEntry: time.Microsecond}, 0},
		{Cost{Fixed: 20 * ms}, maxPool},
	} {
		got := c.cost.Largest(200 * ms)
		if got != c.want {
			t.Errorf("%+v: %d, want %d", c.cost, got, c.want)
		}
		if got > 0 && c.cost.P99(got) > 180*ms {
			t.Errorf("%+v: a pool of %d takes %v", c.cost, got, c.cost.P99(got))
		}
	}
}

func TestJudge(t *testing.T) {
	perEntry := 100 * time.Microsecond
	for _, c := range []struct {
		name     string
		points   []Point
		pool     int
		known    bool
		measured bool
		fits     bool
		p99      time.Duration
		fitting  int
		says     string
	}{
		{"nothing yet", nil, 150, false, false, false, 0, 0, "not known yet"},
		{"no limit", pointsOn(2000, 10, 150, 20*ms, perEntry, 0), 0, false, false, false, 0, 0, "no limit"},
		{"full pools fit", pointsOn(1000, 150, 150, 20*ms, perEntry, 30*ms), 150, true, true, true, 65 * ms, 410, ": it fits"},
		{"full pools do not", pointsOn(1000, 2000, 2000, 20*ms, perEntry, 30*ms), 2000, true, true, false, 250 * ms, 1400, "a pool_size of about 1400 would"},
		{"full and smaller rounds", pointsOn(30_000, 200, 2000, 20*ms, perEntry, 30*ms), 2000, true, false, false, 250 * ms, 1300, "estimated from"}, // too few full ones
		{"estimated from smaller ones", pointsOn(1000, 10, 200, 20*ms, perEntry, 30*ms), 750, true, false, true, 125 * ms, 1300, "estimated from"},
		{"estimated not to fit", pointsOn(1000, 10, 1000, 20*ms, perEntry, 30*ms), 2000, true, false, false, 250 * ms, 1300, "it does not fit; a pool_size of about 1300"},
		{"too far from what was seen", pointsOn(1000, 10, 200, 20*ms, perEntry, 30*ms), 801, false, false, false, 0, 0, "not known yet"},
		{"only full rounds are slow", append(pointsOn(20_000, 15, 149, 20*ms, perEntry, 0), pointsOn(100, 150, 150, 250*ms, 0, 0)...), 150, true, true, false, 250 * ms, 100, "about 100 would"},
		{"slow whatever the pool", pointsOn(1000, 10, 200, 250*ms, perEntry, 0), 200, true, false, false, 270 * ms, 0, "no pool would"},
	} {
		got := Judge(c.points, c.pool, 200*ms)
		if got.Known != c.known || got.Measured != c.measured || got.Fits != c.fits || !near(time.Duration(got.P99), c.p99, 0.02) ||
			got.Fitting != c.fitting || !strings.Contains(got.String(), c.says) {
			t.Errorf("%s: %+v: %v", c.name, got, got)
		}
	}
	if c := (Capacity{}).String(); !strings.Contains(c, "not known") {
		t.Errorf("at the start: %s", c)
	}
}

// TestJudgeIgnoresFewFullRounds: a percentile of a few rounds is their maximum.
func TestJudgeIgnoresFewFullRounds(t *testing.T) {
	p := append(pointsOn(1000, 10, 100, 20*ms, ms/10, 0), pointsOn(fitPoints-1, 150, 150, 20*ms, ms/10, 0)...)
	p[len(p)-1].Took = time.Minute
	if c := Judge(p, 150, 200*ms); !c.Known || c.Measured || !c.Fits {
		t.Errorf("%+v", c)
	}
}

func TestShort(t *testing.T) {
	for in, want := range map[time.Duration]string{0: "0s", 1234567 * time.Nanosecond: "1.23ms", 12345678 * time.Nanosecond: "12.3ms",
		123456789: "123ms", 12345678901: "12.35s", 999: "999ns"} {
		if got := Short(in); got.String() != want {
			t.Errorf("%d: %v, want %s", in, got, want)
		}
	}
}
