package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/daybook-ct/daybook/config"
	"github.com/daybook-ct/daybook/internal/testca"
)

// invoke runs the program and returns exit code, standard output and error.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// place writes a configuration with the logs a and b and their roots into a
// new directory, and returns the file.
func place(t *testing.T, more string) string {
	t.Helper()
	dir := t.TempDir()
	ca, err := testca.New(testca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := `listen: ["127.0.0.1:0"]
admin: {listen: "127.0.0.1:0"}
logging: {format: json}
lock: {path: lock.db}
logs:
  - name: a
    submission_prefix: https://ct.example.com/a/
    key: a.seed
    storage: {directory: a}
    cache: {path: a.db, page_cache: 1MiB}
    roots: {files: [roots.pem]}
    interval: 50ms
` + more
	for name, data := range map[string]string{"daybook.yaml": text, "roots.pem": string(ca.RootPEM())} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "daybook.yaml")
}

const second = `  - name: b
    submission_prefix: https://ct.example.com/b/
    key: b.seed
    storage: {directory: b}
    cache: {path: b.db, page_cache: 1MiB}
    roots: {files: [roots.pem]}
`

// files returns the names below the directory of a configuration file.
func files(t *testing.T, path string) (names []string) {
	t.Helper()
	dir := filepath.Dir(path)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The exit codes are what scripts and supervisors go by.
func TestExitCodes(t *testing.T) {
	bad := place(t, "    interval: 200\ncolour: red\n")
	good := place(t, "")
	for _, test := range []struct {
		args   []string
		code   int
		stdout string // a part of it; "" for none at all
		stderr string // a part of it; "" for none at all
	}{
		{nil, 2, "", "a command is needed"},
		{[]string{"--help"}, 0, "daybook init  -c daybook.yaml", ""},
		{[]string{"help", "serve"}, 0, "SIGTERM", ""},
		{[]string{"nonsense"}, 2, "", `there is no command "nonsense"`},
		{[]string{"--nonsense"}, 2, "", "unknown flag: --nonsense"},
		{[]string{"serve"}, 2, "", "daybook: -c FILE is needed: it names the configuration\nSee 'daybook serve --help'."},
		{[]string{"serve", "-c"}, 2, "", "flag needs an argument"},
		{[]string{"serve", "-c", good, "more"}, 2, "", "unknown command"},
		{[]string{"serve", "-c", filepath.Join(t.TempDir(), "none.yaml")}, 2, "", "no such file"},
		{[]string{"serve", "-c", bad}, 2, "", ":14: colour: is not a key"},
		{[]string{"serve", "-c", good}, 1, "", "not started: log a: reading the log's key: open "},
		{[]string{"check", "-c", bad}, 2, "", "the configuration cannot be used (2 to mend):\n"},
		{[]string{"check", "-c", good}, 0, "# capacity of a: 150 / 50ms = 3000 new entries a second\n", "warning: " + good + ":6: logs[0].window: is missing"},
		{[]string{"check", "-c", good, "--strict"}, 2, "listen:", "there are warnings"},
		{[]string{"init", "-c", bad}, 2, "", "logs[0].interval: is here twice"},
		{[]string{"init", "-c", good, "--log", "x"}, 2, "", `the configuration has no log "x": it has a`},
		{[]string{"init", "-c", place(t, second)}, 2, "", "there are several logs (a, b): say which one with --log"},
		{[]string{"init", "-c", good, "--existing-key"}, 1, "", "there is no key"},
		{[]string{"keygen"}, 2, "", "accepts 1 arg(s)"},
		{[]string{"keygen", filepath.Join(t.TempDir(), "none", "a.seed")}, 1, "", "no such file"},
		{[]string{"version"}, 0, "daybook ", ""},
		{[]string{"version", "x"}, 2, "", "unknown command"},
	} {
		code, stdout, stderr := invoke(t, test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) ||
			test.stdout == "" && stdout != "" || test.stderr == "" && stderr != "" {
			t.Errorf("daybook %q: exit code %d, want %d\nstdout: %s\nstderr: %s", test.args, code, test.code, stdout, stderr)
		}
	}
}

// Every command says what it does, in lines that a terminal can show.
func TestHelp(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Short == "" || c.Long == "" && c.Name() != "version" {
			t.Errorf("%s has no description", c.Name())
		}
		for line := range strings.Lines(c.Long) {
			if len(line) > 90 {
				t.Errorf("help of %s is too wide for a terminal: %s", c.Name(), line)
			}
		}
	}
}

// check prints what is in effect, and touches nothing.
func TestCheck(t *testing.T) {
	path := place(t, second)
	before := files(t, path)
	code, stdout, stderr := invoke(t, "check", "-c", path)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var effective config.Config
	if err := yaml.Unmarshal([]byte(stdout), new(any)); err != nil {
		t.Errorf("the output is not YAML: %v\n%s", err, stdout)
	}
	c, err := config.Parse([]byte(stdout), "/elsewhere/daybook.yaml")
	if err != nil {
		t.Fatalf("the output is no configuration: %v\n%s", err, stdout)
	}
	if effective = *c; effective.Logs[1].Interval.String() != "200ms" || effective.Logs[1].Key != filepath.Join(filepath.Dir(path), "b.seed") {
		t.Errorf("defaults and paths are not filled in:\n%s", stdout)
	}
	if !strings.Contains(stderr, "does not exist: `daybook init` makes it") {
		t.Errorf("nothing says what is missing: %s", stderr)
	}
	if after := files(t, path); len(after) != len(before) {
		t.Errorf("files before %q, after %q", before, after)
	}
}

func TestKeygen(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"a.seed", nil, "log ID:      "},
		{"a.pem", []string{"--pem"}, "ML-DSA-44:   none"},
		{"b.seed", []string{"--origin", "ct.example.com/b"}, "ML-DSA-44:   ct.example.com/b+"},
	} {
		path := filepath.Join(dir, test.name)
		code, made, stderr := invoke(t, append([]string{"keygen", path}, test.flags...)...)
		if code != exitOK || !strings.Contains(made, test.want) || !strings.Contains(made, "public key:  MFkwEwYHKoZIzj0C") {
			t.Errorf("keygen %s: exit code %d, %s%s", test.name, code, made, stderr)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, %v", test.name, info.Mode(), err)
		}
		key, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := invoke(t, append([]string{"keygen", path}, test.flags...)...); code != exitFailed || !strings.Contains(stderr, "never overwritten") {
			t.Errorf("keygen %s again: exit code %d, %s", test.name, code, stderr)
		}
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(key, again) {
			t.Errorf("%s was overwritten, %v", test.name, err)
		}
		args := []string{"keygen", "--print-public", path}
		if !strings.HasSuffix(test.name, ".pem") {
			args = append(args, test.flags...)
		}
		if code, shown, stderr := invoke(t, args...); code != exitOK || shown != made {
			t.Errorf("keygen --print-public: exit code %d, %s%s, want %s", code, shown, stderr, made)
		}
	}
	missing := filepath.Join(dir, "none.seed")
	if code, _, stderr := invoke(t, "keygen", "--print-public", missing); code != exitFailed || !strings.Contains(stderr, "no such file") {
		t.Errorf("--print-public of nothing: exit code %d, %s", code, stderr)
	}
	for _, flags := range [][]string{{"--pem", "--print-public"}, {"--origin", "https://x"}} {
		if code, _, stderr := invoke(t, append([]string{"keygen", missing}, flags...)...); code != exitUsage {
			t.Errorf("keygen %q: exit code %d, %s", flags, code, stderr)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused command made a file: %v", err)
	}
}

// The way of a new operator: init, serve, submit, stop.
func TestInitAndServe(t *testing.T) {
	path := place(t, second)
	for _, log := range []string{"a", "b"} {
		code, stdout, stderr := invoke(t, "init", "-c", path, "--log", log)
		if code != exitOK || !strings.Contains(stdout, "origin:      ct.example.com/"+log+"\n") ||
			!strings.Contains(stdout, "ML-DSA-44:   ct.example.com/"+log+"+") || !strings.Contains(stdout, "daybook serve -c "+path) {
			t.Fatalf("init %s: exit code %d, %s%s", log, code, stdout, stderr)
		}
		code, shown, _ := invoke(t, "keygen", "--print-public", filepath.Join(filepath.Dir(path), log+".seed"))
		for line := range strings.Lines(shown) {
			if !strings.Contains(stdout, line) {
				t.Errorf("init and keygen do not agree (%d) about %s", code, line)
			}
		}
		if code, _, stderr := invoke(t, "init", "-c", path, "--log", log); code != exitFailed || !strings.Contains(stderr, "not created, since these exist already: the key ") {
			t.Errorf("init %s again: exit code %d, %s", log, code, stderr)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	log := &serving{ready: make(chan struct{})}
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"serve", "-c", path}, strings.NewReader(""), &out, log) }()
	select {
	case <-log.ready:
	case code := <-ended:
		t.Fatalf("serve: exit code %d\n%s", code, log)
	}
	if code, body := get(t, "http://"+log.address+"/b/checkpoint"); code != 200 || !strings.HasPrefix(body, "ct.example.com/b\n") {
		t.Errorf("checkpoint: %d %s", code, body)
	}
	if code, body := get(t, "http://"+log.admin+"/metrics"); code != 200 || !strings.Contains(body, `daybook_log_lines_total{level="error"} 0`) {
		t.Errorf("metrics: %d, without the count of error lines", code)
	}
	stop()
	if code := <-ended; code != exitOK || out.Len() > 0 {
		t.Errorf("serve: exit code %d, stdout %s\n%s", code, &out, log)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// serving reads the log of serve, and is ready when serve says so.
type serving struct {
	mu      sync.Mutex
	text    bytes.Buffer
	ready   chan struct{}
	address string // set before ready is closed, like admin
	admin   string
}

func (s *serving) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var record struct{ Msg, Addresses, Admin string }
	if json.Unmarshal(line, &record) == nil && record.Msg == "serving" {
		s.address, s.admin = strings.Trim(record.Addresses, "[]"), record.Admin
		close(s.ready)
	}
	return s.text.Write(line)
}

func (s *serving) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
