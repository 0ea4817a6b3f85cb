package rounds

import (
	"slices"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
)

// Cause says in words why a round was slow.
type Cause string

// The causes of slow rounds.
const (
	CauseLate          Cause = "began late: process or host stood still"
	CauseSkipped       Cause = "ticks skipped between rounds"
	CauseCacheGet      Cause = "cache get inside the turnstile"
	CauseLockWait      Cause = "wait for the turnstile"
	CauseClock         Cause = "clock behind the last checkpoint"
	CauseCompute       Cause = "computing"
	CauseGC            Cause = "garbage collection"
	CauseFsync         Cause = "fsync of the storage"
	CauseEntries       Cause = "many entries to store"
	CauseSwap          Cause = "lock swap (fsync)"
	CauseLockWALNew    Cause = "lock's WAL file made anew"
	CauseLockWALGrew   Cause = "lock's WAL file grew"
	CausePut           Cause = "cache put"
	CauseWALNew        Cause = "WAL file made anew"
	CauseWALGrew       Cause = "WAL file grew"
	CauseWALReader     Cause = "WAL checkpoint held up by a reader"
	CauseWALCheckpoint Cause = "WAL checkpoint"
	CauseRemember      Cause = "settling the pool after the cache put"
	CauseBetween       Cause = "between steps: process or host stood still"
)

// The parts of a round's time: its steps, in their order, with step remember
// cut in three, and what lies outside of the steps.
const (
	partPut           = int(sequencer.StepRemember)    // in the place of step remember
	partWALCheckpoint = int(sequencer.StepDiscard) + 1 // part of step remember
	partRemember      = partWALCheckpoint + 1          // the rest of step remember
	partBetween       = partRemember + 1               // within the round, but in no step
	partLate          = partBetween + 1                // before the round
	partCount         = partLate + 1
)

type parts [partCount]time.Duration

func partsOf(r *Record) (p parts) {
	rest := time.Duration(r.Took)
	for i, d := range r.Steps {
		p[i] = d
		rest -= d
	}
	p[partPut], p[partWALCheckpoint] = time.Duration(r.Put), time.Duration(r.WALCheckpoint)
	p[partRemember] = max(0, r.Steps[sequencer.StepRemember]-p[partPut]-p[partWALCheckpoint])
	p[partBetween], p[partLate] = max(0, rest), time.Duration(r.Late)
	return p
}

func partName(part int) string {
	switch part {
	case partPut:
		return "cache put"
	case partWALCheckpoint:
		return "WAL checkpoint"
	case partRemember:
		return "settle"
	case partBetween:
		return "between steps"
	case partLate:
		return "late start"
	}
	return sequencer.Step(part).String()
}

// usual is what ordinary rounds are like: the medians over those that were not
// slow.
type usual struct {
	parts    parts
	perFsync time.Duration
}

func usualOf(records []Record, slow []bool) (u usual) {
	var values [partCount][]time.Duration
	var perFsync []time.Duration
	for i := range records {
		r := &records[i]
		// A round without entries does next to nothing, so it would make any
		// other seem slow in each of its steps.
		if slow[i] || r.Entries == 0 || r.Outcome != outcomeOK {
			continue
		}
		for part, d := range partsOf(r) {
			values[part] = append(values[part], d)
		}
		if d := fsyncTime(r); d > 0 {
			perFsync = append(perFsync, d)
		}
	}
	for part := range u.parts {
		u.parts[part] = median(values[part])
	}
	u.perFsync = median(perFsync)
	return u
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return quantile(d, 0.5)
}

// fsyncTime is the time of the steps that write to the storage for each fsync
// of the round; 0 if the number of fsyncs is not known.
func fsyncTime(r *Record) time.Duration {
	if r.Fsyncs == 0 {
		return 0
	}
	return (r.Steps[sequencer.StepStage] + r.Steps[sequencer.StepApply] + r.Steps[sequencer.StepPublish] +
		r.Steps[sequencer.StepDiscard]) / time.Duration(r.Fsyncs)
}

// Verdict is why a slow round was slow.
type Verdict struct {
	Cause Cause `json:"cause"`
	// Part is the part of the round, a step mostly, that took longest compared
	// to ordinary rounds, and Excess how much longer.
	Part   string   `json:"dominant"`
	Excess Duration `json:"excess_seconds"`
}

// classify finds the dominant part of a slow round and what was behind it.
func (u *usual) classify(r *Record) Verdict {
	p := partsOf(r)
	dominant, excess := 0, time.Duration(-1)
	for part, d := range p {
		if more := d - u.parts[part]; more > excess {
			dominant, excess = part, more
		}
	}
	v := Verdict{Part: partName(dominant), Excess: Duration(excess)}
	switch {
	case r.Skipped > 0 && 10*r.cost() < 9*time.Duration(r.Interval):
		// The round and its start were in time, so what made the ticks pass
		// came after it.
		v.Cause = CauseSkipped
	default:
		v.Cause = u.cause(r, dominant, excess)
	}
	return v
}

func (u *usual) cause(r *Record, part int, excess time.Duration) Cause {
	switch part {
	case partLate:
		return CauseLate
	case partBetween:
		return CauseBetween
	case partRemember:
		return CauseRemember
	case partPut, partWALCheckpoint:
		return cacheCause(r, part)
	}
	switch sequencer.Step(part) {
	case sequencer.StepClose:
		// The sequencer waits for two insertions at most.
		if 2*time.Duration(r.LockWait) >= excess {
			if 3*r.HoldMax >= r.LockWait {
				return CauseCacheGet
			}
			return CauseLockWait
		}
	case sequencer.StepAssign:
		return CauseClock
	case sequencer.StepCommit:
		switch {
		case r.LockWAL.New:
			return CauseLockWALNew
		case r.LockWAL.Grew > 0:
			return CauseLockWALGrew
		}
		return CauseSwap
	case sequencer.StepStage, sequencer.StepApply, sequencer.StepPublish, sequencer.StepDiscard:
		if d := fsyncTime(r); d > 0 && u.perFsync > 0 && d < 2*u.perFsync {
			return CauseEntries
		}
		return CauseFsync
	}
	if 2*time.Duration(r.GC.Pause) >= excess {
		return CauseGC
	}
	return CauseCompute
}

// cacheCause tells apart what slows down the end of a round. A WAL checkpoint
// that waits for a reader makes the WAL grow, round by round, so that comes
// first. A file that is made anew costs the put that makes it, or the first
// fsync of it, which is the WAL checkpoint's; one that grows costs the put, while a
// WAL checkpoint of more frames is just more of its work.
func cacheCause(r *Record, part int) Cause {
	switch {
	case part == partWALCheckpoint && r.WAL.Busy:
		return CauseWALReader
	case r.WAL.New:
		return CauseWALNew
	case part == partPut && r.WAL.Grew > 0:
		return CauseWALGrew
	case part == partPut:
		return CausePut
	}
	return CauseWALCheckpoint
}
