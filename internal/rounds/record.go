package rounds

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
)

// Duration is a duration that JSON has in seconds, exact to the microsecond.
type Duration time.Duration

// MarshalJSON writes seconds.
func (d Duration) MarshalJSON() ([]byte, error) { return d.append(nil), nil }

func (d Duration) append(b []byte) []byte {
	return strconv.AppendFloat(b, time.Duration(d).Round(time.Microsecond).Seconds(), 'f', -1, 64)
}

// UnmarshalJSON reads seconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	s, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.Abs(s) > math.MaxInt64/2/float64(time.Second) {
		return fmt.Errorf("%.20q is no number of seconds", b)
	}
	*d = Duration(math.Round(s * float64(time.Second)))
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Record is one line of a round log: what a round did, and what it cost. What
// is counted, and the maxima, cover the time since the record before.
type Record struct {
	Time    time.Time `json:"time"` // when the round began
	Log     string    `json:"log"`
	Outcome string    `json:"outcome"` // ok, refused (nothing was committed) or halted
	Cause   string    `json:"cause,omitempty"`

	Interval Duration `json:"interval_seconds"`
	PoolSize int      `json:"pool_size"` // 0 is no limit
	Size     int64    `json:"tree_size"` // when the round ended
	Entries  int      `json:"entries"`   // of the round

	Took    Duration `json:"took_seconds"`
	Late    Duration `json:"late_seconds,omitzero"` // from the tick to the round's begin
	Skipped int      `json:"skipped_ticks,omitzero"`

	High Counts `json:"high,omitzero"`
	Low  Counts `json:"low,omitzero"`

	Steps         Steps    `json:"steps_seconds"`
	Put           Duration `json:"cache_put_seconds,omitzero"`      // part of step remember
	WALCheckpoint Duration `json:"wal_checkpoint_seconds,omitzero"` // part of step remember
	LockWait      Duration `json:"lock_wait_seconds,omitzero"`      // part of step close
	HoldMax       Duration `json:"hold_max_seconds,omitzero"`       // longest stay of a submitter inside the turnstile
	WaitMax       Duration `json:"wait_max_seconds,omitzero"`       // longest wait of a submitter for it

	WAL     WAL  `json:"wal"`               // of the dedup cache
	LockWAL File `json:"lock_wal,omitzero"` // of the lock

	Fsyncs    int64    `json:"fsyncs,omitzero"` // of the storage directory
	GC        GC       `json:"gc,omitzero"`
	SchedMax  Duration `json:"sched_wait_max_seconds,omitzero"` // longest wait of a goroutine for a CPU, within a quarter
	CPU       Duration `json:"cpu_seconds,omitzero"`            // of the process
	DiskReads int64    `json:"disk_reads,omitzero"`             // of the process: reads that the page cache of the system could not answer, in blocks of 512 bytes
}

// Values of Record.Outcome.
const (
	outcomeOK      = string(sequencer.RoundOK)
	outcomeRefused = string(sequencer.RoundRefused)
)

// Counts says what became of entries at intake.
type Counts struct {
	Admitted  int64 `json:"admitted,omitzero"`
	Joined    int64 `json:"joined,omitzero"`    // known in memory
	Duplicate int64 `json:"duplicate,omitzero"` // known in the dedup cache
	Evicted   int64 `json:"evicted,omitzero"`   // admitted before, then displaced
	// Turned away: for lack of room, over the submitter's limit, after too
	// long a wait at the turnstile, or for any other reason.
	Full    int64 `json:"full,omitzero"`
	Limited int64 `json:"limited,omitzero"`
	Busy    int64 `json:"busy,omitzero"`
	Other   int64 `json:"other,omitzero"`
}

// Refused is the number of entries that were turned away.
func (c Counts) Refused() int64 { return c.Full + c.Limited + c.Busy + c.Other }

// File is a file at the end of a round.
type File struct {
	Bytes int64 `json:"bytes"`
	Grew  int64 `json:"grew_bytes,omitzero"` // since the record before
	New   bool  `json:"new,omitzero"`        // made anew, or truncated, since the record before
}

// WAL is the WAL of the dedup cache.
type WAL struct {
	File
	Frames int  `json:"frames"`               // when the WAL checkpoint began
	Left   int  `json:"frames_left,omitzero"` // that it could not write back
	Busy   bool `json:"busy,omitzero"`        // a reader kept it from finishing
}

// GC is what the garbage collector did.
type GC struct {
	Cycles int64    `json:"cycles,omitzero"`
	Pause  Duration `json:"pause_seconds,omitzero"` // all pauses together, within a quarter
	Heap   int64    `json:"heap_bytes"`             // at the end of the round
}

// Steps are the durations of a round's steps, which JSON has by name.
type Steps sequencer.StepDurations

// MarshalJSON writes an object in the order of the steps, without those that
// took no time.
func (s Steps) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, d := range s {
		if d < time.Microsecond/2 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, sequencer.Step(i).String())
		b = Duration(d).append(append(b, ':'))
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes; steps that it does not know are
// left out.
func (s *Steps) UnmarshalJSON(b []byte) error {
	var byName map[string]Duration
	if err := json.Unmarshal(b, &byName); err != nil {
		return err
	}
	for i := range s {
		s[i] = time.Duration(byName[sequencer.Step(i).String()])
	}
	return nil
}

// FromSequencer returns the record of a round, without what the sequencer does
// not know.
func FromSequencer(log string, r *sequencer.RoundRecord) Record {
	rec := Record{
		Time: r.Started.UTC().Truncate(time.Microsecond), Log: log, Outcome: string(r.Outcome), Interval: Duration(r.Interval), PoolSize: r.PoolSize,
		Size: r.Size, Entries: r.Entries, Took: Duration(r.Took), Late: Duration(r.Late), Skipped: r.Skipped,
		High: counts(r.High), Low: counts(r.Low), Steps: Steps(r.Steps), Put: Duration(r.Put), WALCheckpoint: Duration(r.WALCheckpoint),
		LockWait: Duration(r.LockWait), HoldMax: Duration(r.HoldMax), WaitMax: Duration(r.WaitMax),
		WAL: WAL{Frames: r.WAL.Frames, Left: max(0, r.WAL.Frames-r.WAL.Checkpointed), Busy: r.WAL.Busy},
	}
	if r.Cause != nil {
		rec.Cause = r.Cause.Error()
	}
	return rec
}

func counts(c sequencer.IntakeCounts) Counts {
	return Counts{Admitted: c.Admitted, Joined: c.Joined, Duplicate: c.Duplicate, Evicted: c.Evicted,
		Full: c.Full, Limited: c.Limited, Busy: c.Busy, Other: c.Other}
}
