package incident

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/load"
	"github.com/daybook-ct/daybook/internal/rounds"
)

func TestTable(t *testing.T) {
	f := &Figures{Name: "a log", Result: load.Result{Took: 2 * time.Second, Accepted: 1500, Answered: 2000, Server: &load.Usage{CPU: time.Second}, Failed: 1, Unsent: 2,
		Latency:        load.Latency{Count: 1500, P50: 210 * time.Millisecond, P99: 1200 * time.Millisecond},
		RefusedLatency: load.Latency{Count: 10, P99: 1234 * time.Microsecond},
		Classes:        map[string]load.ClassResult{"fresh": {Accepted: load.Latency{Count: 3}, Refused: load.Latency{Count: 1}}},
	}}
	at := func(since time.Duration, r rounds.Record) rounds.Record {
		r.Time = time.Unix(1000, 0).Add(since)
		return r
	}
	f.judge([]rounds.Record{
		at(-time.Second, rounds.Record{LockWait: rounds.Duration(time.Hour), Skipped: 7}), // before
		at(0, rounds.Record{LockWait: 1, Took: rounds.Duration(300 * time.Millisecond), Late: rounds.Duration(100 * time.Millisecond), Skipped: 1}),
		at(time.Second, rounds.Record{LockWait: rounds.Duration(20 * time.Millisecond), WaitMax: rounds.Duration(11 * time.Second), HoldMax: rounds.Duration(15 * time.Millisecond), WAL: rounds.WAL{File: rounds.File{Bytes: 3 << 20}}}),
	}, time.Unix(1000, 0))
	none := &Figures{Name: "another"}
	var b bytes.Buffer
	if err := WriteTable(&b, "Title", []*Figures{f, none}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range map[int]string{
		1: "Title",
		5: "| a log | 750 | 75.0% | 210 ms / 1.2 s | 1.2 ms | 3 | - | 20 ms / 11 s | 15 ms | 400 ms | 1 of 3 | 3.0 MiB | 0.50 ms |",
		6: "| another | 0 | - | - / - | - | 0 | - | 0.0 ms / 0.0 ms | 0.0 ms | 0.0 ms | 0 of 0 | 0.0 MiB | - |",
	} {
		if lines[i] != want {
			t.Errorf("line %d is %q, want %q", i, lines[i], want)
		}
	}
	for _, line := range lines[3:7] {
		if strings.Count(line, "|") != len(columns)+1 {
			t.Errorf("%q has not %d columns", line, len(columns))
		}
	}
}

// TestBroken: a log that accepts nothing has collapsed; one that lies is broken,
// and make incident fails.
func TestBroken(t *testing.T) {
	lie := errors.New("2 of 3 answers have no valid SCT")
	for _, c := range []struct {
		f    Figures
		want error
	}{
		{Figures{Result: load.Result{Accepted: 3}}, nil},
		{Figures{Err: errors.New("nothing was accepted")}, nil},
		{Figures{Result: load.Result{Accepted: 3}, Err: lie}, lie},
	} {
		if err := c.f.Broken(); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.f, err, c.want)
		}
	}
}

// TestStory: every remedy that can be switched off is missing alone in one line and
// from all of the last ones, and the time is bounded.
func TestStory(t *testing.T) {
	tables := Story(time.Millisecond)
	var total time.Duration
	for _, table := range tables {
		for _, l := range table.Lines {
			for _, s := range l.Steps {
				if s.Rate <= 0 || s.Clients <= 0 || s.Old > 1 {
					t.Errorf("%s, %s: %+v", table.Title, l.Name, s)
				}
				if s.Duration == 0 {
					s.Duration = 15 * time.Second
				}
				total += s.Duration
			}
		}
	}
	if total > 9*time.Minute {
		t.Errorf("sending alone takes %v", total)
	}
	for _, r := range everything {
		alone := r == "patience" // it only matters without the turnstile
		for _, l := range tables[1].Lines {
			alone = alone || len(l.Off) == 1 && l.Off[0] == r
		}
		if !alone {
			t.Errorf("no line shows what %s is worth", r)
		}
	}
}
