package incident

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// build makes the program with some tags, once.
type build struct {
	tags string
	once sync.Once
	path string
	err  error
}

var (
	ordinary   = build{}
	switchable = build{tags: "incident"}
	faulty     = build{tags: "faultpoints"}

	binaries string // directory
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "daybook-incident-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	return m.Run()
}

func (b *build) binary(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		b.path = filepath.Join(binaries, "daybook"+b.tags)
		if out, err := exec.Command("go", "build", "-tags", b.tags, "-o", b.path, "../../cmd/daybook").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("building the program: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// invoke runs a command to its end.
func invoke(t testing.TB, env []string, binary string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(os.Environ(), env...)
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// startLog makes and starts a log, which ends with the test.
func startLog(t testing.TB, binary string, s settings, env ...string) *log {
	t.Helper()
	l, err := newLog(t.Context(), binary, t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.start(t.Context(), env...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.kill(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func ignore(string, int64, int64) {}

// TestOrdinaryBinary: nothing in the environment can take a remedy from the program
// that operators run.
func TestOrdinaryBinary(t *testing.T) {
	for _, c := range []struct {
		b    *build
		want bool
	}{{&ordinary, false}, {&switchable, true}} {
		program, err := os.ReadFile(c.b.binary(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"DAYBOOK_INCIDENT", "early-refusal", "daybook/internal/incident."} {
			if has := bytes.Contains(program, []byte(text)); has != c.want {
				t.Errorf("binary with tags %q has %q: %v", c.b.tags, text, has)
			}
		}
	}
}

// TestUnknownRemedy: a misspelt remedy would show that it is worth nothing.
func TestUnknownRemedy(t *testing.T) {
	code, _, stderr := invoke(t, []string{"DAYBOOK_INCIDENT_OFF=turnstile,turnstyle"}, switchable.binary(t), "version")
	if want := `there is no remedy "turnstyle"`; code != 2 || !bytes.Contains([]byte(stderr), []byte(want)) {
		t.Errorf("exit code %d, %q; want 2 and %q", code, stderr, want)
	}
	if code, _, stderr := invoke(t, []string{"DAYBOOK_INCIDENT_READ=5"}, switchable.binary(t), "version"); code != 2 {
		t.Errorf("a time without unit: exit code %d, %q", code, stderr)
	}
}

var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
