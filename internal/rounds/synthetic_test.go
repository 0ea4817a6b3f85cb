package rounds

import (
	"math/rand/v2"
	"time"

	"github.com/daybook-ct/daybook/sequencer"
)

// generator makes the records of a log on an ordinary disk, the same ones each
// time: an fsync takes about a millisecond, and a put some 10 µs an entry.
type generator struct {
	rnd     *rand.Rand
	at      time.Time
	size    int64
	wal     int64 // bytes
	records []Record
}

func newGenerator() *generator {
	return &generator{rnd: rand.New(rand.NewPCG(1, 2)), at: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), wal: 400 << 10}
}

// jitter varies a duration by up to a fifth.
func (g *generator) jitter(d time.Duration) time.Duration {
	return d + time.Duration((g.rnd.Float64()-0.5)*0.4*float64(d))
}

// round adds a round of so many entries, changed by more, if given.
func (g *generator) round(entries int, more ...func(*Record)) {
	g.size += int64(entries)
	r := Record{Time: g.at, Log: "oak2027h1", Outcome: outcomeOK, Interval: Duration(200 * time.Millisecond), PoolSize: 150, Size: g.size,
		Entries: entries, High: Counts{Admitted: int64(entries)}, Fsyncs: 3, GC: GC{Heap: 40 << 20},
		WAL: WAL{File: File{Bytes: g.wal}, Frames: 2 + entries}, CPU: Duration(time.Duration(entries) * 500 * time.Microsecond)}
	set := func(s sequencer.Step, d time.Duration) { r.Steps[s] = g.jitter(d) }
	set(sequencer.StepSign, 300*time.Microsecond)
	set(sequencer.StepCommit, 1500*time.Microsecond)
	set(sequencer.StepPublish, 2*time.Millisecond)
	if entries > 0 {
		r.Fsyncs = 12
		set(sequencer.StepGrow, time.Duration(entries)*30*time.Microsecond)
		set(sequencer.StepStage, 3*time.Millisecond+time.Duration(entries)*15*time.Microsecond)
		set(sequencer.StepApply, 5*time.Millisecond+time.Duration(entries)*15*time.Microsecond)
		set(sequencer.StepDiscard, time.Millisecond)
		r.Put = Duration(g.jitter(time.Millisecond + time.Duration(entries)*10*time.Microsecond))
	}
	r.WALCheckpoint = Duration(g.jitter(1500 * time.Microsecond))
	for _, f := range more {
		f(&r)
	}
	r.Steps[sequencer.StepRemember] += time.Duration(r.Put + r.WALCheckpoint)
	if r.Took == 0 {
		for _, d := range r.Steps {
			r.Took += Duration(d)
		}
	}
	if over := r.cost() / time.Duration(r.Interval); over > 0 && r.Skipped == 0 {
		r.Skipped = int(over)
	}
	g.wal = r.WAL.Bytes
	g.at = g.at.Add(time.Duration(r.Interval) * time.Duration(1+r.Skipped))
	g.records = append(g.records, r)
}

// ordinary adds rounds under ordinary load.
func (g *generator) ordinary(n int) {
	for range n {
		g.round(1 + g.rnd.IntN(40))
	}
}

// quiet adds rounds without entries.
func (g *generator) quiet(d time.Duration) {
	for end := g.at.Add(d); g.at.Before(end); {
		g.round(0)
	}
}
