package own

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/test/conformance"
)

// fakeBinary is a daybook that does what a shell script says.
func fakeBinary(t *testing.T, script string) *suite {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "daybook")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	return &suite{o: Options{Binary: path, Dir: logs, Log: func(string) {}}}
}

func wantFailed(t *testing.T, rep *conformance.Report, ids string) {
	t.Helper()
	for id := range strings.FieldsSeq(ids) {
		if res := rep.Result(id); res.Status != conformance.Failed {
			t.Errorf("%s is %v", id, res.Status)
		} else {
			t.Logf("%s: %s", id, res.Faults[0])
		}
	}
}

// A daybook that starts with anything breaks the clauses on what must not
// start.
func TestStartsAnything(t *testing.T) {
	s := fakeBinary(t, `trap 'exit 0' TERM
echo '{"submission_prefix":"http://127.0.0.1:1","public_key":"AAAA"}'
while :; do sleep 0.05; done
`)
	rep, err := s.starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, rep, "R3 K2 N3 T1")
}

// One that panics where it must refuse does so, too.
func TestStartsWithPanic(t *testing.T) {
	s := fakeBinary(t, `echo "panic: runtime error
goroutine 1 [running]:" >&2
exit 2
`)
	rep, err := s.starts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, rep, "R3 K2 N3")
}

// One that does not start with an odd file of roots breaks those on root files.
func TestStartsWithoutOddRoots(t *testing.T) {
	s := fakeBinary(t, "echo 'daybook: x509: negative serial number' >&2\nexit 1\n")
	rep, err := s.rootFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, rep, "B01 B04 H14")
}

// A log that works under none of its prefixes breaks those on prefixes.
func TestJudgePrefixes(t *testing.T) {
	rep, sum := conformance.NewReport(), conformance.NewReport()
	rep.CheckAll("S9 S11 R32 S33", true, "")
	rep.Check("R5", false, "status 404")
	judgePrefixes(sum, &served{submission: "http://log.example/a/"}, rep)
	wantFailed(t, sum, "R34 S1")
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		policy        policy
		id, expect    string
		accept, known bool
	}{
		{policy{}, "x", "accept", true, true},
		{policy{}, "x", "reject", false, true},
		{policy{}, "x", "accept-lax", true, true},
		{policy{}, "x", "reject-if-eku-filter", false, true},
		{policy{anyEKU: true}, "x", "reject-if-eku-filter", true, true},
		{policy{}, "x", "accept-or-psc-reject", true, true},
		{policy{refusePSC: true}, "x", "accept-or-psc-reject", false, true},
		{policy{}, "sa06-chain-of-42", "either", true, true},
		{policy{}, "x", "either", false, false},
	} {
		if accept, known := c.policy.decide(conformance.Case{ID: c.id, Expect: c.expect}); accept != c.accept || known != c.known {
			t.Errorf("%+v: %v, %v", c, accept, known)
		}
	}
}

// The tables have each row once, and say of mixed lines which rows differ.
func TestVerdict(t *testing.T) {
	list := []conformance.Outcome{
		{Case: conformance.Case{ID: "a1-x", Peers: map[string]string{"sunlight_eku": "accept(3)", "sunlight_noeku": "accept(3)"}}, Status: 200},
		{Case: conformance.Case{ID: "a2-x", Peers: map[string]string{"sunlight_eku": "refuse", "sunlight_noeku": "accept(3)"}}, Status: 400},
		{Case: conformance.Case{ID: "a3-x", Peers: map[string]string{"sunlight_eku": "refuse", "sunlight_noeku": "accept(2)"}}, Status: 200},
	}
	if got := verdict(list, daybookVerdict); got != "accepts; a2: refuses" {
		t.Error(got)
	}
	if got := verdict(list, peerVerdict("sunlight")); got != "refuses by its EKU filter; a1: accepts" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, table := range quirkTables {
		for _, q := range table.quirks {
			for row := range strings.FieldsSeq(q.rows) {
				if seen[row] {
					t.Errorf("%s is in two quirks", row)
				}
				seen[row] = true
			}
		}
	}
	if len(seen) != 168 {
		t.Errorf("%d rows, want 168", len(seen))
	}
}
