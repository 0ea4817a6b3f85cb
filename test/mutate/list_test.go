package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestList: each mutation can be made, names tests that exist, and has a name of
// its own. Whether they are caught takes minutes: make mutate.
func TestList(t *testing.T) {
	b, err := newBench()
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	list := mutations()
	if len(list) < 40 {
		t.Errorf("only %d mutations", len(list))
	}
	names := make(map[string]bool)
	exist := make(map[string]map[string]bool)
	for _, m := range list {
		if names[m.name] {
			t.Errorf("two mutations are called %q", m.name)
		}
		names[m.name] = true
		if _, err := b.mutated(m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if exist[m.pkg] == nil {
			exist[m.pkg] = testsOf(t, filepath.Join(b.module, m.pkg))
		}
		if len(m.tests) == 0 || m.why == "" {
			t.Errorf("%s: it says not which tests catch it, or not why", m.name)
		}
		for _, test := range m.tests {
			if !exist[m.pkg][test] {
				t.Errorf("%s: there is no %s in %s", m.name, test, m.pkg)
			}
		}
	}
}

// testsOf returns the tests of the package in a folder.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	return found
}

// TestReport: one survivor, or one that cannot be made, fails the whole.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		verdicts []verdict
		want     error
	}{
		{[]verdict{caught, caught}, nil},
		{[]verdict{caught, survived}, errSurvived},
		{[]verdict{broken, caught}, errSurvived},
		{[]verdict{caught, skipped}, errSurvived},
	} {
		var results []result
		for _, v := range c.verdicts {
			results = append(results, result{verdict: v})
		}
		if err := report(&discard{}, results, 0); err != c.want {
			t.Errorf("%v: %v, want %v", c.verdicts, err, c.want)
		}
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
