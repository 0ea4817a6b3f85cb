package sequencer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// slowCache takes its time, and says what a WAL checkpoint found.
type slowCache struct {
	storage.Cache
	mu            sync.Mutex
	get, put, wal time.Duration
	found         storage.WAL
}

func (c *slowCache) set(get, put, wal time.Duration, found storage.WAL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.get, c.put, c.wal, c.found = get, put, wal, found
}

func (c *slowCache) now() (get, put, wal time.Duration, found storage.WAL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get, c.put, c.wal, c.found
}

func (c *slowCache) Get(ctx context.Context, key tlog.Key) (tlog.Position, bool, error) {
	get, _, _, _ := c.now()
	time.Sleep(get)
	return c.Cache.Get(ctx, key)
}

func (c *slowCache) Put(ctx context.Context, records []storage.Record) error {
	_, put, _, _ := c.now()
	time.Sleep(put)
	return c.Cache.Put(ctx, records)
}

func (c *slowCache) Checkpoint(context.Context) (storage.WAL, error) {
	_, _, wal, found := c.now()
	time.Sleep(wal)
	return found, nil
}

// records keeps what Config.Record is told.
type records struct {
	mu  sync.Mutex
	all []RoundRecord
}

func (r *records) add(rec RoundRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
}

func (r *records) take() []RoundRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// open opens a log whose rounds are recorded.
func (r *records) open(t *testing.T, p *probe, poolSize int, cache storage.Cache) *Log {
	t.Helper()
	p.open(t, poolSize)
	c := p.config(t, poolSize)
	c.Record = r.add
	if cache != nil {
		c.Cache = cache
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRecord: a record says what happened at intake since the one before, by
// class, and where the time of the round went.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := newProbe(), new(records)
		cache := &slowCache{Cache: p.cache}
		l := r.open(t, p, 2, cache)
		began := time.Now()
		stop := run(t, l)
		low, first := newEntry(t, 1, Low), newEntry(t, 2, High)
		submit := func(s Submission, want error) {
			t.Helper()
			if _, err := l.Submit(t.Context(), s); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		cache.set(3*time.Millisecond, 150*time.Millisecond, 300*time.Millisecond, storage.WAL{Busy: true, Frames: 70, Checkpointed: 60})
		submit(low, nil)
		submit(first, nil)
		submit(first, nil)                     // joins
		submit(newEntry(t, 9, High), nil)      // evicts the low one (same submitter as the first)
		submit(newEntry(t, 16, High), ErrFull) // holds as much already
		submit(newEntry(t, 3, Low), ErrFull)   // never displaces a high one
		time.Sleep(l.c.Interval + 500*time.Millisecond)
		cache.set(0, 0, 0, storage.WAL{Frames: 4, Checkpointed: 4})
		all := r.take()
		if len(all) != 1 {
			t.Fatalf("%d records: %+v", len(all), all)
		}
		rec := all[0]
		if want := (IntakeCounts{Admitted: 2, Joined: 1, Full: 1}); rec.High != want {
			t.Errorf("high %+v, want %+v", rec.High, want)
		}
		if want := (IntakeCounts{Admitted: 1, Evicted: 1, Full: 1}); rec.Low != want || rec.Low.Refused() != 1 {
			t.Errorf("low %+v, want %+v", rec.Low, want)
		}
		if !rec.Started.Equal(began.Add(l.c.Interval)) || rec.Late != 0 || rec.Took != 450*time.Millisecond || rec.Skipped != 2 {
			t.Errorf("started %v after the log, %v late, took %v, skipped %d", rec.Started.Sub(began), rec.Late, rec.Took, rec.Skipped)
		}
		if rec.Outcome != RoundOK || rec.Cause != nil || rec.Entries != 2 || rec.Size != 2 || rec.PoolSize != 2 || rec.Interval != l.c.Interval {
			t.Errorf("record %+v", rec)
		}
		if rec.Put != 150*time.Millisecond || rec.WALCheckpoint != 300*time.Millisecond || rec.Steps[StepRemember] != 450*time.Millisecond ||
			rec.Steps[StepApply] != 0 || rec.WAL != (storage.WAL{Busy: true, Frames: 70, Checkpointed: 60}) {
			t.Errorf("remember took %v, of which put %v, WAL checkpoint %v: %+v", rec.Steps[StepRemember], rec.Put, rec.WALCheckpoint, rec.WAL)
		}
		if rec.HoldMax != 3*time.Millisecond || rec.LockWait != 0 || rec.WaitMax != 0 {
			t.Errorf("hold %v, waits %v and %v", rec.HoldMax, rec.LockWait, rec.WaitMax)
		}
		// What was counted is not counted again; duplicates are those that the cache knows.
		time.Sleep(l.c.Interval)
		r.take()
		submit(first, nil)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		all = r.take()
		if len(all) != 1 || all[0].High != (IntakeCounts{Duplicate: 1}) || all[0].Low != (IntakeCounts{}) || all[0].HoldMax != 0 || all[0].Entries != 0 {
			t.Errorf("the last round: %+v", all)
		}
	})
}

// TestRecordOfFailedRounds: a round that was refused, and one that halted the
// log, leave a record with the cause, too.
func TestRecordOfFailedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := newProbe(), new(records)
		l := r.open(t, p, 10, nil)
		boom := errors.New("boom")
		fail := func(which string) {
			p.setFault(func(op, name string) error {
				if op == which && (op != "put" || storage.KindOf(name) == storage.Staging) {
					return boom
				}
				return nil
			})
		}
		stop := run(t, l)
		fail("put")
		if _, err := l.Add(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrRound) {
			t.Errorf("staging failed: %v", err)
		}
		fail("swap")
		if _, err := l.Add(t.Context(), newEntry(t, 1, High)); !errors.Is(err, ErrHalted) {
			t.Errorf("the swap failed: %v", err)
		}
		if err := stop(); !errors.Is(err, boom) {
			t.Errorf("Run returned %v", err)
		}
		all := r.take()
		if len(all) != 2 {
			t.Fatalf("%d records: %+v", len(all), all)
		}
		for i, want := range []RoundOutcome{RoundRefused, RoundHalted} {
			if rec := all[i]; rec.Outcome != want || !errors.Is(rec.Cause, boom) || rec.Entries != 1 || rec.Size != 0 {
				t.Errorf("record %d: %+v", i, rec)
			}
		}
		// Who was refused may be back before the record is made.
		if n := all[0].High.Admitted + all[1].High.Admitted; n != 2 {
			t.Errorf("%d entries admitted: %+v", n, all)
		}
	})
}

// TestTallyUnknown: outcomes without a field of their own count as refused.
func TestTallyUnknown(t *testing.T) {
	var c tally
	for _, o := range []outcome{outcomeLimited, outcomeBusy, outcomeClosed, outcomeHalted, outcomeSunset, outcomeCanceled, outcomeCacheError} {
		c.add(o, Low)
	}
	if got := c.classes[Low].take(); got != (IntakeCounts{Limited: 1, Busy: 1, Other: 5}) || got.Refused() != 7 {
		t.Errorf("%+v", got)
	}
}
