package rounds

import (
	"slices"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
)

const freeze = 1300 * time.Millisecond

// TestCauses: each way in which a round can be slow has its own cause, whatever
// else there is to see.
func TestCauses(t *testing.T) {
	step := func(s sequencer.Step, d time.Duration) func(*Record) {
		return func(r *Record) { r.Steps[s] = d }
	}
	for _, c := range []struct {
		name    string
		entries int
		change  func(*Record)
		part    string
		cause   Cause
	}{
		{"clock", 10, step(sequencer.StepAssign, freeze), "assign", CauseClock},
		{"grow", 10, step(sequencer.StepGrow, freeze), "grow", CauseCompute},
		{"sign", 10, step(sequencer.StepSign, freeze), "sign", CauseCompute},
		{"pauses", 10, func(r *Record) { r.Steps[sequencer.StepResolve] = freeze; r.GC.Pause = Duration(freeze) }, "resolve", CauseGC},
		{"stage", 10, step(sequencer.StepStage, freeze), "stage", CauseFsync},
		{"publish", 10, step(sequencer.StepPublish, freeze), "publish", CauseFsync},
		{"discard", 10, step(sequencer.StepDiscard, freeze), "discard", CauseFsync},
		{"apply, not known how many fsyncs", 10, func(r *Record) { r.Steps[sequencer.StepApply] = freeze; r.Fsyncs = 0 }, "apply", CauseFsync},
		{"apply of many objects", 3000, func(r *Record) { r.Steps[sequencer.StepApply] = freeze; r.Fsyncs = 1500 }, "apply", CauseEntries},
		{"swap", 10, step(sequencer.StepCommit, freeze), "commit", CauseSwap},
		{"swap, WAL made anew", 10, func(r *Record) { r.Steps[sequencer.StepCommit] = freeze; r.LockWAL = File{4096, 4096, true} }, "commit", CauseLockWALNew},
		{"swap, WAL grew", 10, func(r *Record) { r.Steps[sequencer.StepCommit] = freeze; r.LockWAL = File{8192, 4096, false} }, "commit", CauseLockWALGrew},
		{"close, behind a cache get", 10, func(r *Record) {
			r.Steps[sequencer.StepClose], r.LockWait, r.HoldMax = freeze, Duration(freeze), Duration(freeze/2)
		}, "close", CauseCacheGet},
		{"close, behind many short stays", 10, func(r *Record) {
			r.Steps[sequencer.StepClose], r.LockWait, r.HoldMax = freeze, Duration(freeze), Duration(time.Millisecond)
		}, "close", CauseLockWait},
		{"close, not waiting", 10, step(sequencer.StepClose, freeze), "close", CauseCompute},
		{"put", 10, func(r *Record) { r.Put = Duration(freeze) }, "cache put", CausePut},
		{"put, WAL grew", 10, func(r *Record) { r.Put = Duration(freeze); r.WAL.File = File{500 << 10, 100 << 10, false} }, "cache put", CauseWALGrew},
		{"put, WAL made anew", 10, func(r *Record) { r.Put = Duration(freeze); r.WAL.File = File{100 << 10, 100 << 10, true} }, "cache put", CauseWALNew},
		{"WAL checkpoint", 10, func(r *Record) { r.WALCheckpoint = Duration(freeze) }, "WAL checkpoint", CauseWALCheckpoint},
		{"WAL checkpoint of more frames", 10, func(r *Record) {
			r.WALCheckpoint = Duration(freeze)
			r.WAL.File = File{500 << 10, 100 << 10, false}
		}, "WAL checkpoint", CauseWALCheckpoint},
		{"WAL checkpoint of a new file", 10, func(r *Record) {
			r.WALCheckpoint = Duration(freeze)
			r.WAL.File = File{100 << 10, 100 << 10, true}
		}, "WAL checkpoint", CauseWALNew},
		{"WAL checkpoint behind a reader, growing", 10, func(r *Record) {
			r.WALCheckpoint = Duration(freeze)
			r.WAL = WAL{File: File{500 << 10, 100 << 10, false}, Frames: 125, Left: 20, Busy: true}
		}, "WAL checkpoint", CauseWALReader},
		{"busy, but the put took the time", 10, func(r *Record) { r.Put = Duration(freeze); r.WAL.Busy = true }, "cache put", CausePut},
		{"settle", 10, step(sequencer.StepRemember, freeze), "settle", CauseRemember},
		{"late", 10, func(r *Record) { r.Late = Duration(freeze) }, "late start", CauseLate},
		{"between", 10, func(r *Record) { r.Took = Duration(freeze) }, "between steps", CauseBetween},
		{"skipped", 10, func(r *Record) { r.Skipped = 3 }, "", CauseSkipped},
		{"a slow round of an idle log", 0, step(sequencer.StepPublish, freeze), "publish", CauseFsync},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGenerator()
			g.ordinary(300)
			for range leastSlow {
				g.round(c.entries, c.change)
				g.ordinary(30)
			}
			rep, err := Analyze(g.records, AnalyzeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if rep.Slow != leastSlow || len(rep.Causes) != 1 {
				t.Fatalf("%d slow rounds (%s) of %v", rep.Slow, rep.SlowMeans, rep.Causes)
			}
			for _, s := range rep.Slowest {
				if s.Cause != c.cause || c.part != "" && s.Part != c.part {
					t.Errorf("%s: %s, want %s: %s", s.Part, s.Cause, c.part, c.cause)
				}
			}
		})
	}
}

// TestFreezeAfterQuietSpell is the story of the design: commits froze after
// each quiet spell, and it took samples of every second to tell that files were
// being created from WAL checkpoints. Here the records tell.
func TestFreezeAfterQuietSpell(t *testing.T) {
	created := func(r *Record) {
		r.Put = Duration(freeze)
		r.WAL.File = File{Bytes: 120 << 10, Grew: 120 << 10, New: true}
	}
	grew := func(r *Record) {
		r.Put = Duration(freeze)
		r.WAL.Grew = 200 << 10
		r.WAL.Bytes += r.WAL.Grew
	}
	checkpoint := func(r *Record) {
		r.WALCheckpoint = Duration(freeze)
		r.WAL.Frames = 4000
	}
	for _, c := range []struct {
		name   string
		freeze func(*Record)
		cause  Cause
		with   []string // markers that go with slow rounds; no others do
	}{
		{"WAL file created", created, CauseWALNew, []string{"WAL file made anew", "after a quiet spell"}},
		{"WAL file grew", grew, CauseWALGrew, []string{"WAL file grew", "after a quiet spell"}},
		{"WAL checkpoint", checkpoint, CauseWALCheckpoint, []string{"after a quiet spell"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGenerator()
			for i := range 8 {
				g.ordinary(200)
				if i == 3 {
					// Things that slow rounds must not be blamed on.
					g.round(20, func(r *Record) { r.WAL.Grew = 4096; r.WAL.Bytes += 4096 })
					g.round(20, func(r *Record) { r.WAL.Busy, r.GC.Cycles = true, 1 })
				}
				g.quiet(time.Minute)
				g.round(30, c.freeze)
			}
			rep, err := Analyze(g.records, AnalyzeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Causes) != 1 || rep.Causes[0].Cause != c.cause || rep.Causes[0].Rounds != 8 {
				t.Errorf("causes %v, want 8 rounds of %q", rep.Causes, c.cause)
			}
			var with []string
			for _, m := range rep.Coincidences {
				if m.Verdict == WithSlow {
					with = append(with, m.Marker)
				}
			}
			for _, m := range append(c.with, with...) {
				if !slices.Contains(with, m) || !slices.Contains(c.with, m) {
					t.Errorf("goes with slow rounds: %q, want %q", with, c.with)
					break
				}
			}
		})
	}
}
