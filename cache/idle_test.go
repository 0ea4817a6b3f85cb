package cache

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestBurstAfterIdling: a log idles for an hour, which is 18,000 rounds of 200 ms,
// here without the waiting in between: each runs a WAL checkpoint with nothing
// to do, and now and then a get. The WAL is then the same file, as large as the busiest
// round has made it, and the first burst writes into what is there: nothing has to
// be made while a round waits.
func TestBurstAfterIdling(t *testing.T) {
	const (
		idleRounds = 18_000
		burst      = 300 // entries
		freeze     = time.Second
	)
	db := newTest(t)
	wal := db.path + "-wal"
	look := func() os.FileInfo {
		t.Helper()
		info, err := os.Stat(wal)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	next := int64(0)
	round := func() time.Duration {
		t.Helper()
		start := time.Now()
		mustPut(t, db, batch(next, burst)...)
		if w := mustCheckpoint(t, db); w.Busy || w.Frames == 0 || w.Checkpointed != w.Frames {
			t.Fatalf("WAL checkpoint of a burst: %+v", w)
		}
		next += burst
		return time.Since(start)
	}
	mustPut(t, db, batch(1_000_000, 200*burst)...) // touches more pages than any burst to come
	mustCheckpoint(t, db)
	var usual []time.Duration
	for range 20 {
		usual = append(usual, round())
	}
	before := look()

	for i := range idleRounds {
		if i%100 == 0 {
			wantHit(t, db, numbered(int64(i)%next))
		}
		if w := mustCheckpoint(t, db); w.Busy || w.Frames != w.Checkpointed {
			t.Fatalf("WAL checkpoint of empty round %d: %+v", i, w)
		}
		if now := look(); !os.SameFile(now, before) || now.Size() != before.Size() {
			t.Fatalf("empty round %d: the WAL has %d bytes, had %d; the same file: %v", i, now.Size(), before.Size(), os.SameFile(now, before))
		}
	}

	took := round()
	if now := look(); !os.SameFile(now, before) || now.Size() != before.Size() {
		t.Errorf("the first burst: the WAL has %d bytes, had %d; the same file: %v", now.Size(), before.Size(), os.SameFile(now, before))
	}
	slices.Sort(usual)
	t.Logf("the first burst took %v; before, half of them took up to %v", took, usual[len(usual)/2])
	if took > freeze && took > 10*usual[len(usual)-1] {
		t.Errorf("the first burst took %v, those before up to %v: it froze", took, usual[len(usual)-1])
	}
	wantHit(t, db, numbered(next-1))
}
