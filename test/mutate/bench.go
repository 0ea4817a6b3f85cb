package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutation is a small change of the source that breaks a promise.
type mutation struct {
	name  string
	why   string // what goes wrong in a log that has it
	edits []edit
	pkg   string   // whose tests are run, below the module
	tests []string // at least one of them must fail
}

// edit replaces the only occurrence of a text in a file.
type edit struct{ file, old, new string }

type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	skipped  verdict = "SKIPPED" // its tests do not run here, for lack of test data
	broken   verdict = "BROKEN"  // the text is not there, or the result does not compile
)

// result is the outcome of one mutation.
type result struct {
	mutation
	verdict verdict
	by      string // the tests that failed
	detail  string // of a broken one
	took    time.Duration
}

// testTimeout bounds the tests of one mutation. Some hang, and that is how they
// are caught; soundTimeout, without a mutation, bounds all tests of a package.
const (
	testTimeout  = 30 * time.Second
	soundTimeout = 5 * time.Minute
)

// bench is where mutations are tried: the module, and a folder for what is built.
type bench struct{ module, scratch string }

func newBench() (*bench, error) {
	module, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "daybook-mutate-")
	if err != nil {
		return nil, err
	}
	return &bench{module, scratch}, nil
}

func (b *bench) close() {
	if err := os.RemoveAll(b.scratch); err != nil {
		fmt.Fprintln(os.Stderr, "mutate: removing what was built:", err)
	}
}

// moduleRoot returns the folder of go.mod at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the working directory")
		}
		dir = parent
	}
}

// mutated returns the changed files of a mutation, by path below the module.
func (b *bench) mutated(m mutation) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range m.edits {
		text, ok := files[e.file]
		if !ok {
			content, err := os.ReadFile(filepath.Join(b.module, e.file))
			if err != nil {
				return nil, err
			}
			text = string(content)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("the old text is %d times in %s, not once:\n%s", n, e.file, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}

// baseline makes sure that all named tests pass before anything is broken.
func (b *bench) baseline(ctx context.Context, list []mutation) error {
	tests := make(map[string][]string)
	for _, m := range list {
		tests[m.pkg] = append(tests[m.pkg], m.tests...)
	}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		binary, out, err := b.compile(ctx, pkg, nil)
		if err != nil {
			return fmt.Errorf("%s does not compile as it is: %w\n%s", pkg, err, out)
		}
		slices.Sort(tests[pkg])
		if out, err := b.test(ctx, binary, pkg, soundTimeout, slices.Compact(tests[pkg])); err != nil {
			return fmt.Errorf("the tests of %s fail without any mutation: %w\n%s", pkg, err, tail(out))
		}
		fmt.Fprintf(os.Stderr, "sound    %s\n", pkg)
	}
	return ctx.Err()
}

// try runs the tests of one mutation.
func (b *bench) try(ctx context.Context, m mutation) (r result) {
	start := time.Now()
	r = result{mutation: m, verdict: broken}
	defer func() { r.took = time.Since(start) }()
	files, err := b.mutated(m)
	if err != nil {
		r.detail = err.Error()
		return r
	}
	binary, out, err := b.compile(ctx, m.pkg, files)
	if err != nil {
		r.detail = "it does not compile: " + tail(out)
		return r
	}
	defer func() { _ = os.Remove(binary) }() // the folder goes in the end
	out, err = b.test(ctx, binary, m.pkg, testTimeout, m.tests)
	switch {
	case ctx.Err() != nil:
		r.detail = ctx.Err().Error()
	case err == nil && skipLine.MatchString(out):
		r.verdict = skipped
	case err == nil:
		r.verdict = survived
	default:
		r.verdict, r.by = caught, failed(out)
	}
	return r
}

// compile builds the test binary of a package with files changed.
func (b *bench) compile(ctx context.Context, pkg string, files map[string]string) (binary, out string, err error) {
	dir, err := os.MkdirTemp(b.scratch, "")
	if err != nil {
		return "", "", err
	}
	replace := make(map[string]string)
	for file, text := range files {
		replace[filepath.Join(b.module, file)] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(replace[filepath.Join(b.module, file)], []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", "", err
	}
	binary = filepath.Join(dir, "test.binary")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "-overlay", filepath.Join(dir, "overlay.json"), "./"+pkg)
	cmd.Dir = b.module
	text, err := cmd.CombinedOutput()
	return binary, string(text), err
}

// test runs tests of a compiled package in its folder.
func (b *bench) test(ctx context.Context, binary, pkg string, bound time.Duration, tests []string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^("+strings.Join(tests, "|")+")$", "-test.count=1", "-test.failfast", "-test.v",
		"-test.timeout", bound.String())
	cmd.Dir = filepath.Join(b.module, pkg)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	return text.String(), err
}

var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	skipLine = regexp.MustCompile(`(?m)^ *--- SKIP: `)
)

// failed names the tests that an output says have failed.
func failed(out string) string {
	var names []string
	for _, m := range failLine.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	switch {
	case strings.Contains(out, "panic: test timed out"):
		names = append(names, "(it hangs)")
	case len(names) == 0:
		names = append(names, "(it ends the process)")
	}
	return strings.Join(names, ", ")
}

// tail returns the last lines of an output.
func tail(out string) string {
	const most = 2000 // bytes
	if len(out) > most {
		out = "... " + out[len(out)-most:]
	}
	return out
}
