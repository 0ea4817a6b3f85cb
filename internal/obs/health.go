package obs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// LogState is what the health of a log is judged by.
type LogState struct {
	Name      string
	Origin    string
	Interval  time.Duration // between two rounds
	Size      int64         // entries in the published tree
	Published time.Time     // timestamp of the last published checkpoint; zero before the first
	Draining  bool
	Halted    error // nil while the log runs
	Refusing  error // why it takes no entries for now, as for low storage; nil if it does
}

// The values of Health.Status and LogHealth.Status. All but StatusOK and
// StatusRefusing are failing.
const (
	StatusOK       = "ok"
	StatusRefusing = "refusing" // takes no entries for now; the tree is served and published
	StatusFailing  = "failing"  // of the process: at least one log is not ok
	StatusStarting = "starting" // nothing is published yet
	StatusStale    = "stale"    // the published checkpoint is too old, or from the future
	StatusDraining = "draining" // an orderly end is under way
	StatusHalted   = "halted"   // stopped after a fatal error
)

// Health is the answer of /health.
type Health struct {
	Status string      `json:"status"`
	Logs   []LogHealth `json:"logs"`
}

// LogHealth is the health of one log.
type LogHealth struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"` // why Status is not ok, or why it takes no entries
	Size   int64  `json:"tree_size"`
	// The age of the published checkpoint by this machine's clock, and the age
	// from which on the log is stale. The age is missing before the first
	// checkpoint.
	Age   *float64 `json:"checkpoint_age_seconds,omitempty"`
	Bound float64  `json:"checkpoint_age_limit_seconds"`
}

// AgeBound is the age of the published checkpoint from which on a log with this
// interval is stale. A log that publishes nothing for five rounds has a
// problem; the least bound lets a slow disk pass.
func AgeBound(interval time.Duration) time.Duration { return max(5*interval, 5*time.Second) }

// CheckHealth judges the logs. A process without logs is not healthy: it has not
// started, or serves nothing.
func CheckHealth(now time.Time, logs []LogState) Health {
	h := Health{Status: StatusOK, Logs: make([]LogHealth, 0, len(logs))}
	if len(logs) == 0 {
		h.Status = StatusStarting
	}
	for _, l := range logs {
		lh := checkLog(now, l)
		switch {
		case lh.Status == StatusRefusing && h.Status == StatusOK:
			h.Status = StatusRefusing
		case lh.Status != StatusOK && lh.Status != StatusRefusing:
			h.Status = StatusFailing
		}
		h.Logs = append(h.Logs, lh)
	}
	return h
}

func checkLog(now time.Time, l LogState) LogHealth {
	bound := AgeBound(l.Interval)
	h := LogHealth{Name: l.Name, Origin: l.Origin, Status: StatusOK, Size: l.Size, Bound: bound.Seconds()}
	age := now.Sub(l.Published)
	if !l.Published.IsZero() {
		seconds := age.Seconds()
		h.Age = &seconds
	}
	switch {
	case l.Halted != nil:
		h.Status, h.Reason = StatusHalted, l.Halted.Error()
	case l.Draining:
		h.Status, h.Reason = StatusDraining, "the process is coming to an orderly end"
	case l.Published.IsZero():
		h.Status, h.Reason = StatusStarting, "no checkpoint is published yet"
	case age > bound:
		h.Status = StatusStale
		h.Reason = fmt.Sprintf("the published checkpoint is %v old, more than %v: rounds fail or take too long", age.Round(time.Millisecond), bound)
	case age < -bound:
		h.Status = StatusStale
		h.Reason = fmt.Sprintf("the published checkpoint is from %v in the future: the clock was set back", (-age).Round(time.Millisecond))
	case l.Refusing != nil:
		h.Status, h.Reason = StatusRefusing, "it takes no entries: "+l.Refusing.Error()
	}
	if h.Status == StatusStale && l.Refusing != nil {
		h.Reason += "; it takes no entries: " + l.Refusing.Error()
	}
	return h
}

// healthHandler answers with the health of the logs: 200 if all are well, 503 if
// not. A log that refuses entries for now is well unless taking them is asked
// for: it serves and publishes its tree, which neither a restart nor other
// routing would make any better.
func healthHandler(logs func() []LogState, takingEntries bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := CheckHealth(time.Now(), logs())
		body, err := json.MarshalIndent(h, "", "  ")
		if err != nil {
			http.Error(w, "cannot write the health: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if h.Status != StatusOK && (takingEntries || h.Status != StatusRefusing) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
	})
}
