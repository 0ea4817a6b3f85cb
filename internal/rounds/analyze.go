package rounds

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AnalyzeOptions say what to look at. The zero value is usable.
type AnalyzeOptions struct {
	Log  string        // of records of several logs, those to look at
	Top  int           // how many of the slowest rounds to list; 0 is ten
	Slow time.Duration // from which on a round is slow; 0 is its interval
}

// Report is what records say about a log's rounds. All rounds are counted, but
// only those that went well can be slow: others are listed by their causes.
type Report struct {
	Log      string    `json:"log"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Rounds   int       `json:"rounds"`
	Refused  int       `json:"rounds_refused"` // they committed nothing
	Halted   int       `json:"rounds_halted"`
	Failures []string  `json:"failures,omitempty"` // their causes, each once, at most ten

	Interval Duration `json:"interval_seconds"` // of the last record, like PoolSize
	PoolSize int      `json:"pool_size"`
	Entries  int64    `json:"entries"`
	High     Counts   `json:"high"`
	Low      Counts   `json:"low"`
	Skipped  int64    `json:"skipped_ticks"`

	Capacity Capacity `json:"capacity"`

	Slow      int         `json:"slow_rounds"`
	SlowMeans string      `json:"slow_means"`
	Causes    []CauseSum  `json:"causes"`  // of the slow rounds, the most frequent first
	Slowest   []SlowRound `json:"slowest"` // the slowest of the slow rounds first

	Coincidences []Coincidence `json:"coincidences"`
	Parts        []PartTime    `json:"parts"`
	Histogram    []Bucket      `json:"histogram"`
}

// CauseSum counts the slow rounds of one cause.
type CauseSum struct {
	Cause  Cause    `json:"cause"`
	Rounds int      `json:"rounds"`
	Worst  Duration `json:"worst_seconds"`
}

// SlowRound is a slow round and why it was.
type SlowRound struct {
	Verdict
	Record Record `json:"record"`
}

// PartTime is how long a part of a round, a step mostly, takes in rounds with
// entries.
type PartTime struct {
	Part string   `json:"part"`
	P50  Duration `json:"p50_seconds"`
	P99  Duration `json:"p99_seconds"`
	Max  Duration `json:"max_seconds"`
}

// Bucket counts the rounds that took longer than From, up to To.
type Bucket struct {
	From   Duration `json:"from_seconds"`
	To     Duration `json:"to_seconds"`
	Rounds int      `json:"rounds"`
	Slow   int      `json:"slow_rounds"`
}

// ErrSeveralLogs means that the records are of more than one log.
var ErrSeveralLogs = errors.New("the records are of several logs")

// ErrNoRecords means that there is nothing to analyze.
var ErrNoRecords = errors.New("there are no records")

const (
	defaultTop  = 10
	leastSlow   = 5    // below so many, the slowest rounds are compared instead
	slowest     = 0.99 // those above this quantile
	maxFailures = 10
)

// Analyze finds out why rounds are slow. Records are those of one log in any
// order, or of several with AnalyzeOptions.Log to choose.
func Analyze(records []Record, o AnalyzeOptions) (*Report, error) {
	records, err := pick(records, o.Log)
	if err != nil {
		return nil, err
	}
	last := &records[len(records)-1]
	rep := &Report{Log: last.Log, From: records[0].Time, To: last.Time, Rounds: len(records), Interval: last.Interval, PoolSize: last.PoolSize}
	good := rep.count(records)
	rep.Capacity = Judge(points(good), last.PoolSize, time.Duration(last.Interval))
	if len(good) == 0 {
		return rep, nil
	}
	slow := rep.findSlow(good, o.Slow)
	rep.explain(good, slow, cmp.Or(o.Top, defaultTop))
	rep.Coincidences = coincidences(good, slow)
	rep.Parts = PartTimes(good)
	rep.Histogram = histogram(good, slow)
	return rep, nil
}

// pick returns the records of one log in the order of time.
func pick(records []Record, log string) ([]Record, error) {
	names := make(map[string]bool)
	var picked []Record
	for _, r := range records {
		names[r.Log] = true
		if log == "" || r.Log == log {
			picked = append(picked, r)
		}
	}
	if len(picked) == 0 && len(records) > 0 || log == "" && len(names) > 1 {
		all := make([]string, 0, len(names))
		for name := range names {
			all = append(all, name)
		}
		slices.Sort(all)
		if log == "" {
			return nil, fmt.Errorf("%w: %s", ErrSeveralLogs, strings.Join(all, ", "))
		}
		return nil, fmt.Errorf("%w of log %s: they are of %s", ErrNoRecords, log, strings.Join(all, ", "))
	}
	if len(picked) == 0 {
		return nil, ErrNoRecords
	}
	slices.SortStableFunc(picked, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return picked, nil
}

func points(records []Record) []Point {
	p := make([]Point, len(records))
	for i := range records {
		p[i] = Point{records[i].Entries, time.Duration(records[i].Took)}
	}
	return p
}

// count sums up all records, and returns those of rounds that went well.
func (rep *Report) count(records []Record) []Record {
	good := make([]Record, 0, len(records))
	for i := range records {
		r := &records[i]
		rep.Skipped += int64(r.Skipped)
		rep.High.add(r.High)
		rep.Low.add(r.Low)
		switch r.Outcome {
		case outcomeOK:
			rep.Entries += int64(r.Entries)
			good = append(good, *r)
			continue
		case outcomeRefused:
			rep.Refused++
		default:
			rep.Halted++
		}
		if len(rep.Failures) < maxFailures && !slices.Contains(rep.Failures, r.Cause) {
			rep.Failures = append(rep.Failures, r.Cause)
		}
	}
	return good
}

func (c *Counts) add(o Counts) {
	c.Admitted += o.Admitted
	c.Joined += o.Joined
	c.Duplicate += o.Duplicate
	c.Evicted += o.Evicted
	c.Full += o.Full
	c.Limited += o.Limited
	c.Busy += o.Busy
	c.Other += o.Other
}

// cost is what makes a round slow: the time from its tick to its end.
func (r *Record) cost() time.Duration { return time.Duration(r.Late + r.Took) }

// findSlow tells which rounds are slow. If next to none is, the slowest ones
// take their place, so that there is something to look at.
func (rep *Report) findSlow(records []Record, bound time.Duration) []bool {
	slow := make([]bool, len(records))
	costs := make([]time.Duration, len(records))
	n := 0
	for i := range records {
		r := &records[i]
		costs[i] = r.cost()
		slow[i] = costs[i] > cmp.Or(bound, time.Duration(r.Interval)) || r.Skipped > 0 && bound == 0
		if slow[i] {
			n++
		}
	}
	switch {
	case bound > 0:
		rep.SlowMeans = fmt.Sprintf("took longer than %v", bound)
	case n >= leastSlow:
		rep.SlowMeans = "took longer than the interval, or made ticks be skipped"
	default:
		slices.Sort(costs)
		limit := quantile(costs, slowest)
		if i := len(costs) - leastSlow; i > 0 {
			limit = min(limit, costs[i-1])
		}
		few := "none"
		if n > 0 {
			few = fmt.Sprintf("only %d", n)
		}
		rep.SlowMeans = fmt.Sprintf("the slowest, above %v: %s took longer than the interval", Short(limit), few)
		n = 0
		for i := range records {
			if slow[i] = records[i].cost() > limit || slow[i]; slow[i] {
				n++
			}
		}
	}
	rep.Slow = n
	return slow
}

// explain classifies the slow rounds.
func (rep *Report) explain(records []Record, slow []bool, top int) {
	u := usualOf(records, slow)
	sums := make(map[Cause]*CauseSum)
	for i := range records {
		if !slow[i] {
			continue
		}
		s := SlowRound{Verdict: u.classify(&records[i]), Record: records[i]}
		rep.Slowest = append(rep.Slowest, s)
		sum := sums[s.Cause]
		if sum == nil {
			sum = &CauseSum{Cause: s.Cause}
			sums[s.Cause] = sum
		}
		sum.Rounds++
		sum.Worst = max(sum.Worst, Duration(s.Record.cost()))
	}
	for _, sum := range sums {
		rep.Causes = append(rep.Causes, *sum)
	}
	slices.SortFunc(rep.Causes, func(a, b CauseSum) int { return cmp.Or(b.Rounds-a.Rounds, cmp.Compare(a.Cause, b.Cause)) })
	slices.SortStableFunc(rep.Slowest, func(a, b SlowRound) int { return cmp.Compare(b.Record.cost(), a.Record.cost()) })
	rep.Slowest = rep.Slowest[:min(top, len(rep.Slowest))]
}

// PartTimes sums up the parts of rounds with entries, in the order of a round.
func PartTimes(records []Record) []PartTime {
	var values [partCount][]time.Duration
	for i := range records {
		if records[i].Entries == 0 {
			continue
		}
		for part, d := range partsOf(&records[i]) {
			values[part] = append(values[part], d)
		}
	}
	// In the order of a round: the late start first, and the parts of step
	// remember before step discard.
	order := []int{partLate}
	for part := range partPut {
		order = append(order, part)
	}
	order = append(order, partPut, partRemember, partWALCheckpoint, partPut+1, partBetween)
	var out []PartTime
	for _, part := range order {
		v := values[part]
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		out = append(out, PartTime{partName(part), Duration(quantile(v, 0.5)), Duration(quantile(v, 0.99)), Duration(v[len(v)-1])})
	}
	return out
}

// histogram counts rounds in buckets that end at 1, 2 and 5 times powers of
// ten, from the first to the last one that is not empty.
func histogram(records []Record, slow []bool) []Bucket {
	var all []Bucket
	from := Duration(0)
	for unit := Duration(100 * time.Microsecond); unit <= Duration(time.Hour); unit *= 10 {
		for _, n := range []Duration{1, 2, 5} {
			all = append(all, Bucket{From: from, To: n * unit})
			from = n * unit
		}
	}
	first, last := len(all), 0
	for i := range records {
		j, _ := slices.BinarySearchFunc(all, Duration(records[i].cost()), func(b Bucket, d Duration) int { return cmp.Compare(b.To, d) })
		j = min(j, len(all)-1)
		all[j].Rounds++
		if slow[i] {
			all[j].Slow++
		}
		first, last = min(first, j), max(last, j)
	}
	return all[first : last+1]
}
