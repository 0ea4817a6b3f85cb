package incident

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/incident"
)

// metric returns the sum of a metric of a log over its series with a label.
func (l *log) metric(t testing.TB, name, label string) (sum float64) {
	t.Helper()
	resp, err := http.Get(l.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(body), "\n") {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// outcome is what became of a small flood.
type outcome struct {
	*Figures
	l       *log
	walWait time.Duration // of all WAL checkpoints
	folded  int           // frames
}

// small floods a log, without some remedies, for two seconds.
func small(t *testing.T, line Line, step Step) (o outcome) {
	t.Helper()
	t.Parallel()
	s := settings{pageCache: "1MiB", pool: 10, interval: interval}
	if line.Read > 0 {
		s.pool = 1000 // or most are refused before they queue
		big, err := BigCache(t.Context(), t.TempDir(), 50_000, ignore)
		if err != nil {
			t.Fatal(err)
		}
		s.cache, s.pageCache = big, "64KiB"
	}
	o.l = startLog(t, switchable.binary(t), s, environment(line)...)
	line.Small = line.Read == 0
	r := &Runner{Duration: 2 * time.Second, Progress: ignore, work: s.cache}
	if step.Reader {
		r.Duration = 5 * time.Second // the first of it goes by before there is anything in the WAL to wait for
	}
	step.Clients = 100
	line.Steps = []Step{step}
	figures, err := r.steps(t.Context(), o.l, line)
	if err != nil {
		t.Fatal(err)
	}
	o.Figures = figures[0]
	if err := o.Broken(); err != nil {
		t.Error(err)
	}
	records, err := o.l.records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		o.walWait += time.Duration(rec.WALCheckpoint)
		o.folded += rec.WAL.Frames
	}
	return o
}

// TestSwitches: each remedy is there as long as it is not switched off, and
// missing when it is. Where that shows in time, what is told apart is ten times as
// long.
func TestSwitches(t *testing.T) {
	flood := Step{Rate: 400, Old: 0.5}
	slow := Step{Rate: 200}
	intake := func(o outcome, name string) float64 {
		return o.l.metric(t, "daybook_intake_total", `outcome="`+name+`"`)
	}
	// More than once a cache get means that a refused entry had one.
	gets := func(o outcome) bool {
		return o.l.metric(t, "daybook_cache_gets_total", "") > intake(o, "admitted")
	}
	for _, c := range []struct {
		remedy incident.Remedy
		more   []incident.Remedy // off in any case
		read   time.Duration
		step   Step
		shows  func(o outcome) bool // that it is missing
	}{
		{remedy: incident.EarlyRefusal, step: flood, shows: func(o outcome) bool { return intake(o, "full_early") == 0 && intake(o, "full") > 0 }},
		{remedy: incident.PoolCheck, more: []incident.Remedy{incident.EarlyRefusal}, step: flood, shows: gets},
		{remedy: incident.Fairness, step: flood, shows: func(o outcome) bool { return intake(o, "evicted") == 0 }},
		{remedy: incident.Restart, step: flood, shows: func(o outcome) bool { return o.folded == 0 && o.WALPeak > 0 }},
		{remedy: incident.Backoff, step: Step{Rate: 20, Reader: true}, shows: func(o outcome) bool { return o.walWait > 1500*time.Millisecond }},
		{remedy: incident.Turnstile, more: []incident.Remedy{incident.Patience}, read: 20 * time.Millisecond, step: slow,
			shows: func(o outcome) bool { return o.LockWait > 800*time.Millisecond }},
		{remedy: incident.Patience, more: []incident.Remedy{incident.Turnstile}, read: 20 * time.Millisecond, step: slow,
			shows: func(o outcome) bool { return intake(o, "busy")+intake(o, "busy_early") == 0 }},
	} {
		t.Run(string(c.remedy), func(t *testing.T) {
			line := Line{Read: c.read, Off: append([]incident.Remedy{c.remedy}, c.more...)}
			if o := small(t, line, c.step); !c.shows(o) {
				t.Errorf("switched off, but it is not missing: %+v", o.Figures)
			}
		})
		t.Run(string(c.remedy)+"/on", func(t *testing.T) {
			if o := small(t, Line{Read: c.read, Off: c.more}, c.step); c.shows(o) {
				t.Errorf("not switched off, but it is missing: %+v", o.Figures)
			}
		})
	}
}

// TestRunner: a line leaves figures, and nothing else.
func TestRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big, err := BigCache(t.Context(), filepath.Join(dir, "big"), 10_000, ignore)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{Binary: switchable.binary(t), Dir: dir, Big: big, Duration: time.Second, Progress: ignore}
	line := Line{Name: "a log", PageCache: "1MiB", Pool: 20, Steps: []Step{
		{Name: "calm", Rate: 50, Clients: 20},
		{Name: "flooded", Rate: 500, Clients: 100, Reader: true},
	}}
	for range 2 { // the second time on the same copy
		figures, err := r.Run(t.Context(), line)
		if err != nil {
			t.Fatal(err)
		}
		if len(figures) != 2 || figures[0].Name != "a log, calm" || figures[1].Name != "a log, flooded" {
			t.Fatalf("%+v", figures)
		}
		calm, flooded := figures[0], figures[1]
		if err := calm.Broken(); err != nil || calm.Result.Accepted == 0 || calm.Rounds == 0 || calm.RoundP99 == 0 {
			t.Errorf("calm: %v, %+v", err, calm)
		}
		if err := flooded.Broken(); err != nil || flooded.Result.Accepted == 0 || flooded.Result.Refused == 0 || max(calm.WALPeak, flooded.WALPeak) == 0 {
			t.Errorf("flooded: %v, %+v", err, flooded)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || r.work != filepath.Join(dir, "cache.db") {
		t.Errorf("left behind: %v, %v; copy %s", left, err, r.work)
	}
}
