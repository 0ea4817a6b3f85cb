package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
)

// TestRounds: the rounds of a running log are on the operator's listener and in
// the file, with what the sequencer, the storage and the caches know of them.
func TestRounds(t *testing.T) {
	p := newPlace(t)
	a, b := p.log("a"), p.log("b")
	p.create(a)
	p.create(b)
	a.RoundsPath, a.RoundsSize = p.path("a-rounds.jsonl"), rounds.MinFileSize
	r := p.start(Options{Logs: []LogOptions{a, b}})
	for n := range 3 {
		if code, body := p.submit(r, "a", uint64(n%2)); code != http.StatusOK {
			t.Fatalf("submission: %d %s", code, body)
		}
	}
	get := func(path string) (int, string) { return request(t, "GET", r.AdminAddr(), "", path, nil) }
	if code, body := get("/rounds"); code != http.StatusNotFound || !strings.Contains(body, "(a, b)") {
		t.Errorf("no log named: %d %s", code, body)
	}
	if code, body := get("/submitters"); code != http.StatusOK || !strings.Contains(body, "log a\n") || !strings.Contains(body, "log b\n") {
		t.Errorf("/submitters: %d %s", code, body)
	}
	if code, body := get("/"); code != http.StatusOK || !strings.Contains(body, "\n/rounds\n") || !strings.Contains(body, "capacity of a: not known yet") {
		t.Errorf("first page: %d %s", code, body)
	}
	var records []rounds.Record
	var put rounds.Record // rounds share cache puts
	await(t, "all three submissions and their cache put are recorded", func() bool {
		code, body := get("/rounds?log=a")
		var skipped int
		var err error
		if records, skipped, err = rounds.Read(strings.NewReader(body), time.Time{}); code != http.StatusOK || skipped != 0 || err != nil {
			t.Fatalf("%d, %d skipped, %v: %s", code, skipped, err, body)
		}
		var counted int64
		for _, rec := range records {
			counted += rec.High.Admitted + rec.High.Duplicate + rec.High.Joined
		}
		put = lastPut(records)
		return counted >= 3 && put.Put > 0
	})
	var admitted, duplicates, fsyncs, cpu int64
	var busiest rounds.Record
	for _, rec := range records {
		admitted += rec.High.Admitted
		duplicates += rec.High.Duplicate + rec.High.Joined
		fsyncs += rec.Fsyncs
		cpu += int64(rec.CPU)
		if rec.Entries > busiest.Entries {
			busiest = rec
		}
	}
	if admitted != 2 || duplicates != 1 || fsyncs < 6 || cpu <= 0 {
		t.Errorf("admitted %d, duplicates %d, %d fsyncs, CPU %v", admitted, duplicates, fsyncs, time.Duration(cpu))
	}
	if busiest.Log != "a" || busiest.PoolSize != 150 || busiest.WALCheckpoint <= 0 || busiest.LockWAL.Bytes == 0 || busiest.Fsyncs < 6 || busiest.GC.Heap == 0 {
		t.Errorf("%+v", busiest)
	}
	if put.WALCheckpoint <= 0 || put.WAL.Frames == 0 || put.WAL.Bytes == 0 {
		t.Errorf("%+v", put)
	}
	if _, body := get("/rounds?log=b"); !strings.Contains(body, `"log":"b"`) || strings.Contains(body, `"log":"a"`) {
		t.Errorf("rounds of b: %s", body)
	}
	r.stop()
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	kept, skipped, err := rounds.ReadFiles(a.RoundsPath, time.Time{})
	if err != nil || skipped != 0 || len(kept) < len(records) || !kept[0].Time.Equal(records[0].Time) {
		t.Errorf("in the file: %d records, %d skipped, %v; %d were in memory", len(kept), skipped, err, len(records))
	}
}

// lastPut returns the record of the last round that put keys in the cache, if any.
func lastPut(records []rounds.Record) (last rounds.Record) {
	for _, rec := range records {
		if rec.Put > 0 {
			last = rec
		}
	}
	return last
}

// TestRoundsFileFails: a file that cannot be written is said, and nothing else.
func TestRoundsFileFails(t *testing.T) {
	p := newPlace(t)
	a := p.log("a")
	p.create(a)
	a.RoundsPath, a.RoundsSize = p.path("none/a.jsonl"), rounds.MinFileSize
	r := p.start(Options{Logs: []LogOptions{a}})
	if code, body := p.submit(r, "a", 1); code != http.StatusOK {
		t.Errorf("submission: %d %s", code, body)
	}
	await(t, "the log says so", func() bool { return r.logs.Has("level=WARN", "round records cannot be written", "none/a.jsonl") })
	r.stop()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}
