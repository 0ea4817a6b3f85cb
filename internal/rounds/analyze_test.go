package rounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("not as in %s (run with -update to accept):\n%s", path, got)
	}
}

// busyLog is a log on which several things go wrong.
func busyLog() []Record {
	g := newGenerator()
	for i := range 6 {
		g.ordinary(400)
		g.quiet(30 * time.Second)
		g.round(35, func(r *Record) {
			r.Put = Duration(freeze)
			r.WAL.File = File{Bytes: 130 << 10, Grew: 130 << 10, New: true}
		})
		g.ordinary(50)
		for range 3 { // a reader
			g.round(20, func(r *Record) {
				r.WALCheckpoint, r.WAL.Busy, r.WAL.Left = Duration(250*time.Millisecond), true, 10
				r.WAL.Grew = 8192
				r.WAL.Bytes += 8192
			})
		}
		g.ordinary(50)
		for range 40 { // a flood, which the log stands
			g.round(150, func(r *Record) {
				r.High.Full, r.Low.Full, r.Low.Evicted = 12, 300, 2
				r.GC.Cycles, r.GC.Pause = 1, Duration(200*time.Microsecond)
			})
		}
		if i == 4 {
			g.round(20, func(r *Record) {
				r.Outcome, r.Cause, r.Size = outcomeRefused, "stage: no space left on device", r.Size-20
			})
			g.round(20, func(r *Record) { r.Steps[sequencer.StepApply] = 700 * time.Millisecond })
		}
	}
	return g.records
}

func TestReport(t *testing.T) {
	rep, err := Analyze(busyLog(), AnalyzeOptions{Top: 12})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := rep.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
	j, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", append(j, '\n'))
}

// TestCalmReport: without slow rounds the slowest are looked at, and it says so.
func TestCalmReport(t *testing.T) {
	g := newGenerator()
	g.ordinary(1000)
	rep, err := Analyze(g.records, AnalyzeOptions{Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := rep.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "calm.txt", b.Bytes())
	if rep.Slow < leastSlow || rep.Slow > 15 || len(rep.Slowest) != 3 || !strings.Contains(rep.SlowMeans, "none took longer") {
		t.Errorf("%d slow rounds, %d listed: %s", rep.Slow, len(rep.Slowest), rep.SlowMeans)
	}
}

func TestAnalyzeOptions(t *testing.T) {
	g := newGenerator()
	g.ordinary(100)
	g.round(10, func(r *Record) { r.Log, r.Steps[sequencer.StepApply] = "elm2027h1", 100*time.Millisecond })
	if _, err := Analyze(g.records, AnalyzeOptions{}); !errors.Is(err, ErrSeveralLogs) || !strings.Contains(err.Error(), "elm2027h1, oak2027h1") {
		t.Errorf("two logs: %v", err)
	}
	if _, err := Analyze(g.records, AnalyzeOptions{Log: "fir"}); !errors.Is(err, ErrNoRecords) {
		t.Errorf("another log: %v", err)
	}
	if _, err := Analyze(nil, AnalyzeOptions{}); !errors.Is(err, ErrNoRecords) {
		t.Errorf("no records: %v", err)
	}
	rep, err := Analyze(g.records, AnalyzeOptions{Log: "elm2027h1", Slow: 50 * time.Millisecond})
	if err != nil || rep.Rounds != 1 || rep.Slow != 1 || rep.Slowest[0].Cause != CauseFsync {
		t.Errorf("%+v, %v", rep, err)
	}
	rep, err = Analyze(g.records, AnalyzeOptions{Log: "elm2027h1", Slow: time.Second})
	if err != nil || rep.Slow != 0 || len(rep.Slowest) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if err := rep.WriteText(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	// Nothing but rounds that failed.
	for i := range g.records {
		g.records[i].Outcome = "halted"
	}
	rep, err = Analyze(g.records, AnalyzeOptions{Log: "oak2027h1"})
	if err != nil || rep.Halted != 100 || rep.Slow != 0 || rep.Entries != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if err := rep.WriteText(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}

// TestAnalyzeAnyOrder: the order of records does not matter, and they are not
// changed.
func TestAnalyzeAnyOrder(t *testing.T) {
	records := busyLog()
	turned := make([]Record, len(records))
	for i, r := range records {
		turned[len(records)-1-i] = r
	}
	kept := append([]Record(nil), turned...)
	a, errA := Analyze(records, AnalyzeOptions{})
	b, errB := Analyze(turned, AnalyzeOptions{})
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("reports differ: %v, %v", errA, errB)
	}
	if !reflect.DeepEqual(kept, turned) {
		t.Error("the records were changed")
	}
}

// TestFisher compares with probabilities worked out by hand: the tea-tasting
// table of Fisher's book (3 of 4 and 1 of 4: 34/70) and others with small numbers.
func TestFisher(t *testing.T) {
	for _, c := range []struct {
		a, n, b, m int
		want       float64
	}{
		{3, 4, 1, 4, 34.0 / 70},
		{4, 4, 0, 4, 2.0 / 70},
		{0, 5, 0, 100, 1},
		{5, 5, 100, 100, 1},
		{1, 1, 0, 3, 1.0 / 4},
		{0, 0, 3, 7, 1},
		{10, 10, 0, 10_000, 0},
	} {
		if got := fisher(c.a, c.n, c.b, c.m); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of %d and %d of %d: %v, want %v", c.a, c.n, c.b, c.m, got, c.want)
		}
	}
}

// TestCoincidenceVerdicts: what is in nearly all rounds, or in few, goes with
// nothing; a marker may go with the other rounds, too.
func TestCoincidenceVerdicts(t *testing.T) {
	for _, c := range []struct {
		slow, others int
		want         string
	}{{20, 5, WithSlow}, {0, 0, Unseen}, {1, 12, Unrelated}, {20, 1000, Unrelated}, {0, 700, WithOther}, {1, 0, Unrelated}, {3, 0, WithSlow}} {
		k := Coincidence{Slow: c.slow, Others: c.others}
		if k.judge(20, 1000); k.Verdict != c.want {
			t.Errorf("%d of 20 and %d of 1000: %s (p %v), want %s", c.slow, c.others, k.Verdict, k.P, c.want)
		}
	}
}

// TestQuietSpell: the first round with entries after ten seconds without, and
// not the first of all records.
func TestQuietSpell(t *testing.T) {
	g := newGenerator()
	g.ordinary(3)
	g.quiet(9 * time.Second)
	g.ordinary(3)
	g.quiet(11 * time.Second)
	g.ordinary(3)
	count := func(records []Record) int {
		for _, c := range coincidences(records, make([]bool, len(records))) {
			if c.Marker == "after a quiet spell" {
				return c.Others
			}
		}
		return -1
	}
	if n := count(g.records); n != 1 {
		t.Errorf("%d rounds after a quiet spell", n)
	}
	if n := count(g.records[3:]); n != 1 {
		t.Errorf("%d when the records begin with a short one", n)
	}
}

func TestHistogram(t *testing.T) {
	at := func(d time.Duration) Record { return Record{Took: Duration(d)} }
	got := histogram([]Record{at(time.Millisecond), at(time.Millisecond + 1), at(2 * time.Millisecond), at(9 * time.Millisecond)}, []bool{false, false, true, true})
	want := []Bucket{
		{Duration(500 * time.Microsecond), Duration(time.Millisecond), 1, 0},
		{Duration(time.Millisecond), Duration(2 * time.Millisecond), 2, 1},
		{Duration(2 * time.Millisecond), Duration(5 * time.Millisecond), 0, 0},
		{Duration(5 * time.Millisecond), Duration(10 * time.Millisecond), 1, 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if h := histogram([]Record{at(1000 * time.Hour)}, []bool{true}); len(h) != 1 || h[0].Rounds != 1 {
		t.Errorf("what is longer than all buckets: %v", h)
	}
	if b := bar(Bucket{Rounds: 1, Slow: 1}, 1_000_000); b != "#" {
		t.Errorf("one in a million: %q", b)
	}
}
