package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/testlog"
)

// runningDev is daybook dev in a goroutine of the test.
type runningDev struct {
	devDescription
	dir    string
	line   string
	stderr *testlog.Lines
	cancel context.CancelFunc
	code   chan int
}

// startDevLog runs daybook dev in dir, and returns when it is ready.
func startDevLog(t *testing.T, dir string, args ...string) *runningDev {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &runningDev{dir: dir, stderr: new(testlog.Lines), cancel: cancel, code: make(chan int, 1)}
	out, w := io.Pipe()
	go func() {
		d.code <- run(ctx, append([]string{"dev", "--dir", dir, "--interval", "20ms"}, args...), strings.NewReader(""), w, d.stderr)
		_ = w.Close()
	}()
	t.Cleanup(cancel)
	var err error
	if d.line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("daybook dev %q: %v\n%s", args, err, d.stderr)
	}
	if err := json.Unmarshal([]byte(d.line), &d.devDescription); err != nil {
		t.Fatalf("%v: %s", err, d.line)
	}
	return d
}

// stop ends it, which must be in order.
func (d *runningDev) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	if code := <-d.code; code != exitOK {
		t.Errorf("daybook dev: exit code %d\n%s", code, d.stderr)
	}
	if _, err := os.Stat(filepath.Join(d.dir, devInfo)); !os.IsNotExist(err) {
		t.Errorf("%s is still there after the end: %v", devInfo, err)
	}
}

func (d *runningDev) tree(t *testing.T) checkpoint.TreeHead {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(d.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := checkpoint.NewVerifier(d.Origin, key)
	if err != nil {
		t.Fatal(err)
	}
	_, b := get(t, d.MonitoringPrefix+"/checkpoint")
	head, err := v.Verify([]byte(b))
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func TestDev(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "log")
	d := startDevLog(t, dir)
	file, err := os.ReadFile(filepath.Join(dir, devInfo))
	if err != nil || string(file) != d.line {
		t.Errorf("%s holds %q, printed was %q, %v", devInfo, file, d.line, err)
	}
	if d.SubmissionPrefix != d.MonitoringPrefix || !strings.HasPrefix(d.SubmissionPrefix, "http://127.0.0.1:") || d.PID != os.Getpid() || !strings.HasPrefix(d.Origin, "dev.daybook.invalid/") {
		t.Errorf("description %s", d.line)
	}
	if _, b := get(t, d.SubmissionPrefix+"/ct/v1/get-roots"); strings.Count(b, `"MII`) != 1 {
		t.Errorf("roots %s", b)
	}
	if code, b := get(t, d.Metrics); code != http.StatusOK || !strings.Contains(b, "daybook_") {
		t.Errorf("metrics: %d", code)
	}
	if code, out, stderr := invoke(t, "load", "--dev", dir, "--count", "100", "--clients", "10", "--json"); code != exitOK || !strings.Contains(out, `"accepted":100,`) {
		t.Errorf("load: exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr := invoke(t, "dev", "--dir", dir); code != exitFailed || !strings.Contains(stderr, "another process runs the log in "+dir) {
		t.Errorf("a second one: exit code %d\n%s%s", code, out, stderr)
	}
	head := d.tree(t)
	d.stop(t)
	for _, name := range []string{devSeed, devLock, devCache, devRoot, devRootKey, filepath.Join(devData, "checkpoint")} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if secret := name == devSeed || name == devRootKey; secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}

	// It goes on where it was, with its key, origin and root.
	root, err := os.ReadFile(filepath.Join(dir, devRoot))
	if err != nil {
		t.Fatal(err)
	}
	again := startDevLog(t, dir, "--origin", d.Origin, "--pool-size", "0")
	if again.Origin != d.Origin || again.PublicKey != d.PublicKey || again.tree(t).Tree != head.Tree || head.Tree.N != 100 {
		t.Errorf("first %s %+v, then %s %+v", d.line, head, again.line, again.tree(t))
	}
	if b, err := os.ReadFile(filepath.Join(dir, devRoot)); err != nil || !bytes.Equal(b, root) {
		t.Errorf("the test root was made again, %v", err)
	}
	if code, out, stderr := invoke(t, "load", "--dev", dir, "--count", "60"); code != exitOK || !strings.Contains(out, "60 promised entries at their index") {
		t.Errorf("load: exit code %d\n%s%s", code, out, stderr)
	}
	if n := again.tree(t).Tree.N; n != 160 {
		t.Errorf("size %d, want 160", n)
	}
	again.stop(t)
	if code, _, stderr := invoke(t, "dev", "--dir", dir, "--origin", "other.invalid/x"); code != exitUsage || !strings.Contains(stderr, `a log keeps its origin for good`) {
		t.Errorf("another origin: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := invoke(t, "load", "--dev", dir); code != exitFailed || !strings.Contains(stderr, "no development log runs in "+dir) {
		t.Errorf("load of a log that does not run: exit code %d, %s", code, stderr)
	}
}

// The window decides by the leaf's NotAfter, and load keeps to it by itself.
func TestDevWindow(t *testing.T) {
	d := startDevLog(t, t.TempDir(), "--window", "2031-01-01T00:00:00Z/2031-07-01T00:00:00Z", "--origin", "window.invalid/2031h1")
	defer d.stop(t)
	if d.Origin != "window.invalid/2031h1" {
		t.Errorf("origin %s", d.Origin)
	}
	if code, out, stderr := invoke(t, "load", "--dev", d.dir, "--count", "5"); code != exitOK {
		t.Errorf("load: exit code %d\n%s%s", code, out, stderr)
	}
	code, out, stderr := invoke(t, "load", "--dev", d.dir, "--count", "5", "--not-after", "2031-07-01T00:00:00Z")
	if code != exitFailed || !strings.Contains(stderr, "5 unexpected answers, the first: status 400") || !strings.Contains(stderr, "nothing was accepted") {
		t.Errorf("load outside of the window: exit code %d\n%s%s", code, out, stderr)
	}
}

func TestDevRefuses(t *testing.T) {
	dir := t.TempDir()
	half := t.TempDir()
	d := startDevLog(t, half)
	d.stop(t)
	if err := os.Remove(filepath.Join(half, devSeed)); err != nil {
		t.Fatal(err)
	}
	leftover := t.TempDir()
	if err := os.WriteFile(filepath.Join(leftover, devCache), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--dir is missing"},
		{[]string{"--dir", dir, "x"}, exitUsage, "unknown command"},
		{[]string{"--dir", dir, "--window", "2031-01-01T00:00:00Z"}, exitUsage, "is not START/LIMIT"},
		{[]string{"--dir", dir, "--window", "2031-01-01/2031-07-01"}, exitUsage, "--window: parsing time"},
		{[]string{"--dir", dir, "--window", "2031-07-01T00:00:00Z/2031-07-01T00:00:00Z"}, exitUsage, "is not before limit"},
		{[]string{"--dir", dir, "--interval", "0s"}, exitUsage, "--interval must be positive"},
		{[]string{"--dir", dir, "--pool-size", "-1"}, exitUsage, "--pool-size must not be negative"},
		{[]string{"--dir", dir, "--listen", "0.0.0.0:0"}, exitUsage, "is not a loopback address"},
		{[]string{"--dir", dir, "--listen", "nonsense"}, exitFailed, "listening: "},
		{[]string{"--dir", dir, "--origin", "https://x/"}, exitUsage, "--origin: "},
		{[]string{"--dir", dir, "--roots", filepath.Join(dir, "none.pem")}, exitFailed, "no such file"},
		{[]string{"--dir", half}, exitFailed, "has a lock lock.db but no key seed.bin"},
		{[]string{"--dir", leftover}, exitFailed, "not created, since these exist already: the cache"},
	} {
		code, out, stderr := invoke(t, append([]string{"dev"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || out != "" {
			t.Errorf("dev %q: exit code %d, want %d\n%s%s", c.args, code, c.code, out, stderr)
		}
	}
}

// TestDevTakesOver continues a log that Sunlight made: see README.md of the
// test data. Known entries keep their places, and the tree only grows.
func TestDevTakesOver(t *testing.T) {
	source := cases.Dir(t, "sunlight-log")
	dir := t.TempDir()
	copyLog(t, source, dir)
	before, err := os.ReadFile(filepath.Join(dir, devData, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	remember := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.WriteFile(remember, before, 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDevLog(t, dir, "--origin", "rome.harness.example/2027h1", "--roots", filepath.Join(dir, devRoot))
	for i, body := range submissions(t, source) {
		if i < 590 {
			continue // ten known ones, then a hundred new ones
		}
		index := submitPrecert(t, d.SubmissionPrefix, body)
		if known := i < 600; known != (index < 600) {
			t.Errorf("submission %d has the index %d", i, index)
		}
	}
	if head := d.tree(t); head.Tree.N != 700 {
		t.Errorf("size %d, want 700", head.Tree.N)
	}
	code, out, stderr := invoke(t, "verify", d.MonitoringPrefix, "--key", d.PublicKey, "--origin", d.Origin, "--signatures", "--remember", remember)
	if code != exitOK || !strings.Contains(out, "700 entries (700 precertificates)") || !strings.Contains(out, "3 names tiles") {
		t.Errorf("verify: exit code %d\n%s%s", code, out, stderr)
	}
	d.stop(t)
}

// copyLog copies a log of Sunlight, with its lock under the name that daybook
// dev looks for.
func copyLog(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name = filepath.Join(to, strings.Replace(name, "checkpoints.db", devLock, 1))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func submissions(t *testing.T, source string) (bodies [][]byte) {
	t.Helper()
	f, err := os.Open(filepath.Join(source, "submissions.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(b), []byte("\n"))
}

func submitPrecert(t *testing.T, prefix string, body []byte) (index int64) {
	t.Helper()
	resp, err := http.Post(prefix+"/ct/v1/add-pre-chain", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	var sct checkpoint.SCT
	if err == nil {
		err = json.Unmarshal(b, &sct)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, b)
	}
	if index, err = sct.Index(); err != nil {
		t.Fatal(err)
	}
	return index
}

// TestDevSignals: a signal ends the process in order.
func TestDevSignals(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "dev", "--dir", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr testlog.Lines
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if want := fmt.Sprintf(`"pid":%d,`, cmd.Process.Pid); !strings.Contains(line, want) {
		t.Errorf("%s lacks %s", line, want)
	}
	if code, out, stderr := invoke(t, "load", "--dev", dir, "--count", "10"); code != exitOK || !strings.Contains(out, "server ") {
		t.Errorf("load: exit code %d\n%s%s", code, out, stderr)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, devInfo)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", devInfo, err)
	}
}
