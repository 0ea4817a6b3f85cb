package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/sequencer"
)

// roundLines returns records of n ordinary rounds and one whose cache put froze
// while the WAL file was made anew, one every ten minutes up to now.
func roundLines(t *testing.T, log string, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n + 1 {
		r := rounds.Record{Time: time.Now().Add(time.Duration(i-n) * 10 * time.Minute), Log: log, Outcome: "ok",
			Interval: rounds.Duration(200 * time.Millisecond), PoolSize: 150, Entries: 5, Took: rounds.Duration(20 * time.Millisecond)}
		if i == n {
			r.Took, r.Put, r.WAL.New = rounds.Duration(2*time.Second), rounds.Duration(2*time.Second), true
			r.Steps[sequencer.StepRemember] = 2 * time.Second
		}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}

func TestRoundsOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.rounds.jsonl")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := roundLines(t, "a", 100)
	half := strings.Index(lines[len(lines)/2:], "\n") + len(lines)/2 + 1
	write(path+".1", lines[:half])
	write(path, lines[half:]+lines[:30])
	code, stdout, stderr := invoke(t, "rounds", path)
	if code != 0 || !strings.Contains(stdout, "101 rounds") || !strings.Contains(stdout, "WAL file made anew") || !strings.Contains(stderr, "1 lines are no round records") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = invoke(t, "rounds", path, "--since", "95m", "--slow", "1s", "--top", "1", "--json")
	var report rounds.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if report.Rounds != 10 || report.Slow != 1 || len(report.Slowest) != 1 || report.Slowest[0].Cause != rounds.CauseWALNew {
		t.Errorf("%+v", report)
	}
	// Records of two logs.
	write(path, roundLines(t, "a", 3)+roundLines(t, "b", 3))
	for _, test := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{path}, 2, "several logs: a, b: say which one with --log"},
		{[]string{path, "--log", "c"}, 1, "they are of a, b"},
		{[]string{path, "--log", "b"}, 0, "4 rounds"},
		{[]string{path, "--since", "0s"}, 2, "--since"},
		{[]string{path, "--since", "2900-01-01T00:00:00Z"}, 2, "--since"},
		{[]string{path, "--since", "2026-01-01T00:00:00Z", "--log", "b"}, 0, "4 rounds"},
		{[]string{path, "--top", "0"}, 2, "--top"},
		{[]string{path, path}, 2, "accepts 1 arg"},
		{[]string{filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
	} {
		if code, stdout, stderr := invoke(t, append([]string{"rounds"}, test.args...)...); code != test.code || !strings.Contains(stdout+stderr, test.text) {
			t.Errorf("%v: exit code %d\n%s%s", test.args, code, stdout, stderr)
		}
	}
}

func TestRoundsOfURL(t *testing.T) {
	r, err := rounds.NewRecorder(rounds.Options{Log: "a", Interval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for age := range 30 {
		r.Record(sequencer.RoundRecord{Started: time.Now().Add(time.Duration(age-30) * time.Minute), Outcome: sequencer.RoundOK, Interval: time.Second, Took: time.Millisecond})
	}
	s := httptest.NewServer(rounds.Handler(func() []*rounds.Recorder { return []*rounds.Recorder{r} }))
	defer s.Close()
	for _, test := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{s.URL}, 0, "30 rounds"},
		{[]string{s.URL + "/rounds", "--log", "a", "--since", "630s"}, 0, "10 rounds"},
		{[]string{s.URL, "--log", "b"}, 1, "404 Not Found: there is no such log"},
		{[]string{"http://127.0.0.1:1"}, 1, "refused"},
	} {
		if code, stdout, stderr := invoke(t, append([]string{"rounds"}, test.args...)...); code != test.code || !strings.Contains(stdout+stderr, test.text) {
			t.Errorf("%v: exit code %d\n%s%s", test.args, code, stdout, stderr)
		}
	}
}
