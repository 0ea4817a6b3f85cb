package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/conformance"
)

// fault is a way to be wrong, and the clauses that must notice.
type fault struct {
	name    string
	clauses string
	roots   string // file of the cases with the log's roots; empty: a test root
	options func(*conformance.Options)
	target  func(*conformance.Target)
	// intercept answers without the log if it returns true.
	intercept func(p *proxy, x *exchange) bool
	// change changes the log's answer.
	change func(p *proxy, x *exchange)
}

// unfaulted are the clauses that no log in front of the suite can break: they
// are decided by starting logs, and package own tests its own checks.
var unfaulted = map[string]bool{"R3": true, "R34": true, "S1": true, "B04": true}

// TestFaults shows that each clause can fail.
func TestFaults(t *testing.T) {
	var all []fault
	for _, list := range [][]fault{checkpointFaults, submissionFaults, treeFaults, readFaults} {
		all = append(all, list...)
	}
	covered := make(map[string]bool)
	for _, f := range all {
		for id := range strings.FieldsSeq(f.clauses) {
			covered[id] = true
		}
	}
	for _, c := range conformance.Clauses() {
		if !covered[c.ID] && !unfaulted[c.ID] {
			t.Errorf("no fault breaks %s: %s", c.ID, c.Text)
		}
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) { t.Parallel(); f.test(t) })
	}
}

func (f fault) test(t *testing.T) {
	args := []string{"--window", testWindow}
	name := "good"
	if f.roots != "" {
		name = strings.NewReplacer("/", "-", ".pem", "").Replace(f.roots)
		args = []string{"--roots", requireCases(t) + "/" + f.roots}
		if strings.HasPrefix(f.roots, "synthetic") {
			args = append(args, "--window", testWindow)
		}
	}
	p := newProxy(t, goodLog(t, name, args...), f)
	report := f.judge(t, p, name)
	for id := range strings.FieldsSeq(f.clauses) {
		res := report.Result(id)
		if res.Status != conformance.Failed {
			t.Errorf("%s is %v (%d checks, %q)", id, res.Status, res.Checks, res.Notes)
			continue
		}
		t.Logf("%s: %s", id, res.Faults[0])
	}
}

const testWindow = "2027-01-01T00:00:00Z/2027-07-01T00:00:00Z"

func (f fault) judge(t *testing.T, p *proxy, log string) *conformance.Report {
	d := goodLog(t, log)
	target, err := d.Target()
	if err != nil {
		t.Fatal(err)
	}
	target.Submission, target.Monitoring = p.server.URL, p.server.URL
	if strings.ContainsAny(f.clauses, "GNT") { // ML-DSA takes its time with the race detector
		target.VerifierKey = p.signer.MLDSAVerifierKey()
	}
	if f.roots != "" {
		target.Cases = casesDir()
	}
	if f.roots == "" || strings.HasPrefix(f.roots, "synthetic") {
		target.WindowStart = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		target.WindowLimit = time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
	}
	o := conformance.Options{Strict: true, Only: strings.Fields(f.clauses), Scan: 256, Poll: 100 * time.Millisecond, MergeDelay: 5 * time.Second}
	if f.options != nil {
		f.options(&o)
	}
	if f.target != nil {
		f.target(&target)
	}
	report, err := conformance.Run(t.Context(), target, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestNoFault shows that the proxy by itself breaks nothing.
func TestNoFault(t *testing.T) {
	all := strings.Fields("")
	for _, c := range conformance.Clauses() {
		if !slices.Contains([]string{"R29", "D12"}, c.ID) {
			all = append(all, c.ID)
		}
	}
	f := fault{clauses: strings.Join(all, " "), options: func(o *conformance.Options) { o.Entries = 300 }}
	p := newProxy(t, goodLog(t, "good", "--window", testWindow), f)
	report := f.judge(t, p, "good")
	for _, res := range report.Results {
		if res.Status == conformance.Failed {
			t.Errorf("%s: %q", res.ID, res.Faults)
		}
	}
	if n := report.Count(conformance.OK); n < 140 {
		t.Errorf("%s", report.Summary())
	}
}
