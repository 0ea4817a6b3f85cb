package conformance_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/test/conformance"
	"github.com/daybook-ct/daybook/test/conformance/own"
)

// TestOwnLogs holds daybook to all clauses: what make conformance does, without
// what takes a minute.
func TestOwnLogs(t *testing.T) {
	path, err := daybookBinary()
	if err != nil {
		t.Fatal(err)
	}
	o := own.Options{Binary: path, Dir: t.TempDir(), Cases: casesDir(), Quick: true, Log: func(s string) { t.Log(s) }}
	report, err := own.All(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, res := range report.Results {
		switch {
		case res.Status == conformance.Failed:
			t.Errorf("%s %s: %q", res.ID, res.Text, res.Faults)
		case res.Status == conformance.Skipped:
			skipped++
			t.Logf("%s skipped: %q", res.ID, res.Notes)
		}
	}
	t.Log(report.Summary())
	if o.Cases == "" {
		t.Log("SKIPPED, NOT TESTED: there is no folder of cases (set DAYBOOK_CASES)")
		return
	}
	// The idle log, and an Ed25519 cosignature, which daybook has not.
	if skipped > 3 {
		t.Errorf("%d clauses were skipped, want 3", skipped)
	}
	if err := own.CheckCounts(o.Cases, report); err != nil {
		t.Error(err)
	}
	if err := own.CheckAdmission(filepath.Join("..", "..", "docs", "admission.md"), o.Cases, report); err != nil {
		t.Error(err)
	}
}

// TestNothingShared checks that what judges a log imports nothing of what makes
// one, but the standard library.
func TestNothingShared(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", file, path)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no imports were looked at")
	}
}
