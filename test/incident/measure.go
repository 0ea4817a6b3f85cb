package incident

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/internal/load"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/sequencer"
)

// Figures are what a step came to.
type Figures struct {
	Name   string
	Result load.Result
	Err    error // of verifying what was promised

	Rounds   int
	Skipped  int           // ticks
	LockWait time.Duration // the longest of the sequencer for the pool
	SubWait  time.Duration // the longest of a submitter for it
	Hold     time.Duration // the longest stay of a submitter inside: mostly a cache get
	RoundP99 time.Duration // from the tick to the end
	WALPeak  int64         // bytes
	Hidden   bool          // of the step
}

// Runner measures lines.
type Runner struct {
	Binary   string        // built with the tag incident
	Dir      string        // for logs, which are removed again
	Big      string        // the dedup cache to copy
	Duration time.Duration // of sending
	Progress Progress

	work string // the copy that logs use; "" if there is none
}

// patience is when submissions count as lost. Real submitters give up earlier,
// but then a collapse would hide in what they did not wait for.
const patience = 20 * time.Second

// Run measures a line: the figures of its steps, in their order.
func (r *Runner) Run(ctx context.Context, line Line) (figures []*Figures, err error) {
	dir, err := os.MkdirTemp(r.Dir, "log-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := settings{pageCache: line.PageCache, pool: line.Pool, interval: interval}
	if !line.Small {
		if s.cache, err = r.coldCache(); err != nil {
			return nil, err
		}
	}
	l, err := newLog(ctx, r.Binary, dir, s)
	if err != nil {
		return nil, err
	}
	if err := l.start(ctx, environment(line)...); err != nil {
		return nil, err
	}
	figures, err = r.steps(ctx, l, line)
	clean, serr := l.stop(patience)
	if !clean && !line.Small {
		r.work = "" // what a killed log leaves in the WAL is not for the next one
	}
	return figures, errors.Join(err, serr)
}

// environment switches remedies off.
func environment(line Line) []string {
	names := make([]string, len(line.Off))
	for i, o := range line.Off {
		names[i] = string(o)
	}
	return []string{"DAYBOOK_INCIDENT_OFF=" + strings.Join(names, ","), "DAYBOOK_INCIDENT_READ=" + line.Read.String()}
}

// coldCache returns the big cache's copy. Each line leaves some thousand rows in it.
func (r *Runner) coldCache() (string, error) {
	if r.work != "" {
		return r.work, Cold(r.work)
	}
	work := filepath.Join(r.Dir, "cache.db")
	if err := removeDatabase(work); err != nil {
		return "", err
	}
	if err := CopyFile(r.Big, work); err != nil {
		return "", fmt.Errorf("copying the dedup cache: %w", err)
	}
	r.work = work
	return work, nil
}

// steps takes the steps of a line.
func (r *Runner) steps(ctx context.Context, l *log, line Line) (figures []*Figures, err error) {
	end := func() error { return nil } // of the reader
	defer func() { err = errors.Join(err, end()) }()
	reading := false
	for _, step := range line.Steps {
		if step.Reader && !reading {
			cache := r.work
			if line.Small {
				cache = l.at("cache.db")
			}
			if end, err = holdReader(cache); err != nil {
				return nil, fmt.Errorf("opening a reader: %w", err)
			}
			reading = true
		}
		f, err := r.flood(ctx, l, step)
		if err != nil {
			return nil, err
		}
		f.Name = strings.Trim(line.Name+", "+step.Name, ", ")
		figures = append(figures, f)
	}
	return figures, nil
}

// flood takes a step, and reads what its rounds were like.
func (r *Runner) flood(ctx context.Context, l *log, step Step) (*Figures, error) {
	ca, err := l.newCA()
	if err != nil {
		return nil, err
	}
	duration := cmp.Or(step.Duration, r.Duration)
	began := time.Now()
	result, lerr := load.Run(ctx, load.Options{Submission: l.prefix, Monitoring: l.prefix, CA: ca, PID: l.cmd.Process.Pid,
		Rate: step.Rate, Duration: duration, Clients: step.Clients, Old: step.Old, Timeout: patience, Memory: 512 << 20,
		Progress: func(p load.Progress) {
			if p.Phase == load.Sending {
				p.Total = int64(step.Rate * duration.Seconds())
			}
			r.Progress(p.Phase, p.Done, p.Total)
		}})
	if result == nil || result.Answered == 0 {
		return nil, errors.Join(lerr, errors.New("nothing was sent"))
	}
	f := &Figures{Result: *result, Err: lerr, Hidden: step.Hidden}
	records, err := l.records(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the rounds: %w", err)
	}
	f.judge(records, began)
	return f, ctx.Err()
}

// judge sums up the records of the rounds that began since.
func (f *Figures) judge(records []rounds.Record, began time.Time) {
	var took []time.Duration
	for i := range records {
		rec := &records[i]
		if rec.Time.Before(began) {
			continue
		}
		f.Rounds++
		f.Skipped += rec.Skipped
		// It waits twice a round: to close the pool, and, in step remember, to drop
		// the round in flight.
		settle := rec.Steps[sequencer.StepRemember] - time.Duration(rec.Put+rec.WALCheckpoint)
		f.LockWait = max(f.LockWait, time.Duration(rec.LockWait), settle)
		f.SubWait = max(f.SubWait, time.Duration(rec.WaitMax))
		f.Hold = max(f.Hold, time.Duration(rec.HoldMax))
		f.WALPeak = max(f.WALPeak, rec.WAL.Bytes)
		took = append(took, time.Duration(rec.Late+rec.Took))
	}
	f.RoundP99 = percentile(took, 99)
}

// holdReader opens a read transaction on a dedup cache, as a shell or a backup
// does, until end is called.
func holdReader(path string) (end func() error, err error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := execute(c, "BEGIN", "SELECT count(*) FROM (SELECT key FROM cache256 LIMIT 1)"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return func() error { return errors.Join(execute(c, "ROLLBACK"), c.Close()) }, nil
}
