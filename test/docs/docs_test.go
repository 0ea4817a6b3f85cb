// Package docs holds what the documents say to the code.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/sequencer"
)

const root = "../.."

// TestNamedTestsExist: every test that a document names is there. The matrix of
// docs/safety.md is worth what its tests are worth.
func TestNamedTestsExist(t *testing.T) {
	tests := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	mention := regexp.MustCompile("`(Test\\w+)(/[^`]*)?`")
	for _, file := range append(files, root+"/README.md", root+"/CHANGELOG.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mention.FindAllSubmatch(text, -1) {
			named++
			if !tests[string(m[1])] {
				t.Errorf("%s names %s, which is no test", filepath.Base(file), m[1])
			}
		}
	}
	if named < 60 {
		t.Errorf("only %d mentions of tests were found", named)
	}
}

// TestEveryGapHasARow: docs/safety.md has a row for each gap between two steps of a
// round, with the tests that end a log there.
func TestEveryGapHasARow(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for s := sequencer.StepClose; s <= sequencer.StepDiscard; s++ {
		steps = append(steps, s.String())
	}
	var want []string
	for i := range len(steps) + 1 {
		var gap, crashes, kills []string
		if i > 0 {
			gap = append(gap, "after "+steps[i-1])
			crashes = append(crashes, fmt.Sprintf("`TestCrashAtEveryStep/%s/after=true`", steps[i-1]))
			kills = append(kills, steps[i-1]+":after")
		}
		if i < len(steps) {
			gap = append(gap, "before "+steps[i])
			crashes = append(crashes, fmt.Sprintf("`TestCrashAtEveryStep/%s/after=false`", steps[i]))
			kills = append(kills, steps[i]+":before")
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s |", strings.Join(gap, ", "), strings.Join(crashes, ", "), strings.Join(kills, ", ")))
	}
	if table := strings.Join(want, "\n"); !strings.Contains(string(text), table+"\n") {
		t.Errorf("docs/safety.md has not these rows:\n%s", table)
	}
}
