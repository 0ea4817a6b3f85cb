package perf

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// What each of these cost in floors when it was last looked at
// (docs/performance.md). A change that doubles one has to say why.
const (
	recordedHit   = 0.05 // a get of a key that is in a dedup cache of cacheRows rows in memory
	recordedMiss  = 0.05 // of one that is not
	recordedPut   = 0.20 // a key of a round, with its part of the WAL checkpoint
	recordedRound = 0.25 // an entry of a round, with its intake, without disk and SQLite
)

const (
	cacheRows = 100_000
	batch     = 150
	// turns is how often each is measured beside as many floors; the median counts.
	turns         = 7
	floorsPerTurn = 300
)

// inFloors returns the CPU time that work takes for each of its n things, in
// floors: the median of several turns, each beside floors of its own, so that it
// matters little what else the machine does.
func inFloors(t *testing.T, n int, work func()) float64 {
	t.Helper()
	f := floor(t)
	f()
	ratios := make([]float64, turns)
	for i := range ratios {
		runtime.GC() // what came before has its own garbage
		before := cpu(t)
		for range floorsPerTurn {
			f()
		}
		between := cpu(t)
		work()
		ratios[i] = float64(cpu(t)-between) / float64(n) / (float64(between-before) / floorsPerTurn)
	}
	slices.Sort(ratios)
	return ratios[turns/2]
}

// within fails when something costs twice as many floors as recorded.
func within(t *testing.T, what string, got, recorded float64) {
	t.Helper()
	t.Logf("%s costs %.3f floors (recorded: %.2f)", what, got, recorded)
	if got > 2*recorded {
		t.Errorf("%s costs %.3f floors, more than twice the recorded %.2f", what, got, recorded)
	}
}

func skipRace(t *testing.T) {
	if raceEnabled {
		t.Skip("SKIPPED under the race detector, which distorts the ratio; `make perf` runs it without")
	}
}

func record(n uint64) storage.Record {
	return storage.Record{Key: sha256.Sum256(binary.BigEndian.AppendUint64(nil, n)), Position: tlog.Position{Index: int64(n), Timestamp: 1}}
}

// TestCacheInFloors measures gets and puts of a dedup cache that is in memory.
func TestCacheInFloors(t *testing.T) {
	skipRace(t)
	db, err := cache.Open(filepath.Join(t.TempDir(), "cache.db"), cache.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	next := uint64(0)
	put := func(n int) {
		records := make([]storage.Record, n)
		for i := range records {
			records[i] = record(next)
			next++
		}
		if err := db.Put(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for next < cacheRows {
		put(10_000)
	}
	const gets = 4000
	get := func(from uint64, there bool) func() {
		var keys []tlog.Key
		for i := range uint64(gets) {
			keys = append(keys, record(from+i*7919%cacheRows).Key)
		}
		return func() {
			for _, k := range keys {
				if _, ok, err := db.Get(t.Context(), k); err != nil || ok != there {
					t.Fatal(ok, err)
				}
			}
		}
	}
	within(t, "a cache get, hit", inFloors(t, gets, get(0, true)), recordedHit)
	within(t, "a cache get, miss", inFloors(t, gets, get(1<<40, false)), recordedMiss)
	const rounds = 5
	within(t, "a key put in the cache", inFloors(t, rounds*batch, func() {
		for range rounds {
			put(batch)
		}
	}), recordedPut)
}

// TestRoundInFloors measures whole rounds, and the intake of their entries, on a
// log in memory.
func TestRoundInFloors(t *testing.T) {
	skipRace(t)
	keys, err := checkpoint.KeysFromSeed(make([]byte, checkpoint.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := checkpoint.NewSigner("perf.example/log", keys)
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 8
	entries := submissions(t, turns*rounds*batch)
	// Between two rounds the log waits in its record until it is told to go on.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done, proceed := make(chan sequencer.RoundRecord), make(chan struct{})
	c := sequencer.Config{Interval: time.Millisecond, Signer: signer, Store: memory.NewStore(), Lock: memory.NewLock(), Cache: memory.NewCache(),
		Record: func(r sequencer.RoundRecord) {
			select {
			case done <- r:
			case <-ctx.Done():
				return
			}
			select {
			case <-proceed:
			case <-ctx.Done():
			}
		}}
	if err := sequencer.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	log, err := sequencer.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	<-done // an empty one
	ratio := inFloors(t, rounds*batch, func() {
		for range rounds {
			for _, s := range entries[:batch] {
				if _, err := log.Submit(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			entries = entries[batch:]
			proceed <- struct{}{}
			if r := <-done; r.Outcome != sequencer.RoundOK || r.Entries != batch {
				t.Fatalf("a round of %d entries ended with %s: %v", r.Entries, r.Outcome, r.Cause)
			}
		}
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	within(t, "an entry of a round", ratio, recordedRound)
}

// submissions makes entries as a submission handler does.
func submissions(t *testing.T, n int) []sequencer.Submission {
	t.Helper()
	ca, err := testca.New(testca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var chain []tlog.Fingerprint
	for _, der := range ca.Issuers() {
		chain = append(chain, sha256.Sum256(der))
	}
	entries := make([]sequencer.Submission, n)
	now := time.Now()
	for i := range entries {
		made, err := ca.Make(uint64(i), testca.Leaf{Precert: true, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(2000 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := tlog.NewPrecertEntry(made.SignedEntry, ca.IssuerKeyHash(), made.Certificates[0], chain, []byte(`{"DNS":["www.example.com"]}`))
		if err != nil {
			t.Fatal(err)
		}
		entries[i] = sequencer.Submission{Entry: e, Issuers: ca.Issuers()}
	}
	return entries
}
