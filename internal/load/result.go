package load

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybook-ct/daybook/monitor"
)

// Result is the outcome of a run.
type Result struct {
	Took time.Duration // of sending

	Answered   int64         // requests with a final answer, or a failure
	Accepted   int64         // with an SCT
	Refused    int64         // 503 or 429
	Unsent     int64         // open loop: no connection was free
	Retries    int64         //
	Failed     int64         // connection errors and timeouts
	Unexpected int64         // any other status
	Statuses   map[int]int64 // of all attempts
	FirstError string        // the first failure or unexpected answer

	Latency        Latency // of accepted requests, from when they were due
	RefusedLatency Latency
	Classes        map[string]ClassResult
	CheckpointAge  Latency // of the published checkpoint, sampled while sending
	AgeFailures    int64   // samples that could not be taken

	Client Usage
	Server *Usage // nil without a PID

	TreeBefore, TreeAfter int64
	SCTs                  int64 // verified
	Distinct              int64 // entries promised
	Moved                 int64 // duplicates that were given another position

	Parity *monitor.Report // nil if it was skipped or failed
}

// ClassResult is the part of a result that belongs to one class.
type ClassResult struct {
	Accepted Latency
	Refused  Latency
}

// Latency is a distribution; its percentiles are exact.
type Latency struct {
	Count              int64
	Mean               time.Duration
	P50, P90, P99, Max time.Duration
}

// Rate returns the accepted requests a second.
func (r *Result) Rate() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Accepted) / r.Took.Seconds()
}

// latency summarizes d, which it sorts.
func latency(d []time.Duration) Latency {
	if len(d) == 0 {
		return Latency{}
	}
	slices.Sort(d)
	// The smallest value that at least this share of all values do not exceed.
	at := func(percent int) time.Duration { return d[(len(d)*percent+99)/100-1] }
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	return Latency{Count: int64(len(d)), Mean: sum / time.Duration(len(d)), P50: at(50), P90: at(90), P99: at(99), Max: d[len(d)-1]}
}

// MarshalJSON gives durations in seconds.
func (l Latency) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"count": l.Count, "mean_seconds": l.Mean.Seconds(), "p50_seconds": l.P50.Seconds(),
		"p90_seconds": l.P90.Seconds(), "p99_seconds": l.P99.Seconds(), "max_seconds": l.Max.Seconds()})
}

// MarshalJSON gives the result with units in the names.
func (r *Result) MarshalJSON() ([]byte, error) {
	classes := map[string]any{}
	for name, c := range r.Classes {
		classes[name] = map[string]any{"accepted": c.Accepted, "refused": c.Refused}
	}
	out := map[string]any{
		"took_seconds": r.Took.Seconds(), "answered": r.Answered, "accepted": r.Accepted, "accepted_per_second": r.Rate(),
		"refused": r.Refused, "unsent": r.Unsent, "retries": r.Retries, "failed": r.Failed, "unexpected": r.Unexpected,
		"statuses": r.Statuses, "latency": r.Latency, "refused_latency": r.RefusedLatency, "classes": classes,
		"checkpoint_age": r.CheckpointAge, "checkpoint_reads_failed": r.AgeFailures, "client": r.Client.json(r.Answered, "request"),
		"tree_size_before": r.TreeBefore, "tree_size_after": r.TreeAfter,
		"scts_verified": r.SCTs, "entries_promised": r.Distinct, "duplicates_moved": r.Moved,
	}
	if r.FirstError != "" {
		out["first_error"] = r.FirstError
	}
	if r.Server != nil {
		out["server"] = r.Server.json(r.Accepted, "accepted")
	}
	if p := r.Parity; p != nil {
		out["parity"] = map[string]any{"promises_kept": p.Promises, "entries_read": p.Entries, "issuers": p.Issuers, "tree_size": p.Tree.N,
			"root": p.Tree.Hash.String(), "checkpoints": p.Checkpoints, "received_bytes": p.Bytes, "took_seconds": p.Took.Seconds()}
	}
	return json.Marshal(out)
}

// stats are what one worker counts. They belong to one goroutine.
type stats struct {
	statuses  map[int]int64
	took      [classes][outcomes][]time.Duration
	retries   int64
	errors    int64
	odd       int64
	first     string
	firstTime time.Time
}

const (
	accepted = iota
	refused
	outcomes
)

func newStats() *stats { return &stats{statuses: map[int]int64{}} }

func (s *stats) done(c Class, outcome int, took time.Duration) {
	s.took[c][outcome] = append(s.took[c][outcome], took)
}

func (s *stats) failed(err error) {
	s.errors++
	s.note(err.Error())
}

func (s *stats) unexpected(a answer) {
	s.odd++
	s.note(fmt.Sprintf("status %d: %.300q", a.status, a.body))
}

func (s *stats) note(what string) {
	if s.first == "" {
		s.first, s.firstTime = what, time.Now()
	}
}

// merge adds what another worker counted.
func (s *stats) merge(o *stats) {
	for status, n := range o.statuses {
		s.statuses[status] += n
	}
	for c := range s.took {
		for i := range s.took[c] {
			s.took[c][i] = append(s.took[c][i], o.took[c][i]...)
		}
	}
	s.retries += o.retries
	s.errors += o.errors
	s.odd += o.odd
	if o.first != "" && (s.first == "" || o.firstTime.Before(s.firstTime)) {
		s.first, s.firstTime = o.first, o.firstTime
	}
}

// fill puts the counts into a result.
func (s *stats) fill(r *Result) {
	r.Statuses, r.Retries, r.Failed, r.Unexpected, r.FirstError = s.statuses, s.retries, s.errors, s.odd, s.first
	r.Classes = map[string]ClassResult{}
	var all [outcomes][]time.Duration
	for c := range s.took {
		one := ClassResult{Accepted: latency(s.took[c][accepted]), Refused: latency(s.took[c][refused])}
		if one != (ClassResult{}) {
			r.Classes[Class(c).String()] = one
		}
		for i := range all {
			all[i] = append(all[i], s.took[c][i]...)
		}
	}
	r.Latency, r.RefusedLatency = latency(all[accepted]), latency(all[refused])
	r.Accepted, r.Refused = r.Latency.Count, r.RefusedLatency.Count
	r.Answered = r.Accepted + r.Refused + r.Failed + r.Unexpected
}
