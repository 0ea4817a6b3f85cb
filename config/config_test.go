package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

var update = flag.Bool("update", false, "write docs/config.md and the golden files anew")

// minimal is the least configuration of one log; %s stands for more keys of it.
const minimal = `lock: {path: lock.db}
logs:
  - name: a
    submission_prefix: https://ct.example.org/a/
    key: a.seed
    storage: {directory: a}
    cache: {path: a.db}
    roots: {files: [roots.pem]}
`

// two is a second log, to be put behind minimal.
const two = `  - name: b
    submission_prefix: https://ct.example.org/b/
    key: b.seed
    storage: {directory: b}
    cache: {path: b.db}
    roots: {files: [roots.pem]}
`

const file = "/etc/daybook/daybook.yaml"

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text), file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems returns what is wrong with a configuration, one "line: key: message" each.
func problems(t *testing.T, text string) []string {
	t.Helper()
	c, err := Parse([]byte(text), file)
	if err == nil {
		return nil
	}
	var all Problems
	if !errors.As(err, &all) || c != nil {
		t.Fatalf("Parse returned %v, %T", c, err)
	}
	var lines []string
	for _, p := range all {
		if p.File != file || !strings.HasPrefix(p.String(), file+":") {
			t.Errorf("problem %q does not name the file", p)
		}
		lines = append(lines, fmt.Sprintf("%d: %s: %s", p.Line, p.Key, p.Message))
	}
	return lines
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, minimal)
	l := c.Logs[0]
	got := fmt.Sprintln(c.Listen, c.Admin.Listen, c.Logging, c.ShutdownTimeout, c.OnHalt, l.Interval, l.PoolSize,
		l.Cache.PageCache, l.AcceptAnyEKU, l.RefusePrecertSigning, l.Window, l.Lock.Path, l.MonitoringPrefix, l.Rounds)
	want := "[127.0.0.1:8080] 127.0.0.1:8081 {info text} 30s stay 200ms 150 " +
		"1GiB false false <nil> /etc/daybook/lock.db https://ct.example.org/a/ {/etc/daybook/a.db.rounds.jsonl 64MiB}\n"
	if got != want {
		t.Errorf("defaults:\n%s\nwant\n%s", got, want)
	}
	if got := l.Capacity(); got != 750 {
		t.Errorf("capacity %v, want 750", got)
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	c := mustParse(t, strings.Replace(minimal, "a.seed", "../keys/./a.seed", 1)+"    lock: {path: /var/lib/l.db}\n    rounds: {path: ../r}\n")
	l := c.Logs[0]
	got := []string{c.Lock.Path, l.Key, l.Storage.Directory, l.Cache.Path, l.Roots.Files[0], l.Lock.Path, l.Rounds.Path}
	want := []string{"/etc/daybook/lock.db", "/etc/keys/a.seed", "/etc/daybook/a", "/etc/daybook/a.db", "/etc/daybook/roots.pem", "/var/lib/l.db", "/etc/r"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

func TestValues(t *testing.T) {
	c := mustParse(t, minimal+"    interval: 1.5s\n    pool_size: 0\n    window: {start: 2027-01-01T01:00:00+01:00, limit: \"2027-07-01T00:00:00Z\"}\n"+
		"trusted_proxies: [127.0.0.1, 2001:db8::/32]\non_halt: exit\n")
	l := c.Logs[0]
	got := fmt.Sprintln(l.Interval, l.PoolSize, l.Window.Start, l.Window.Limit, c.TrustedProxies, c.OnHalt)
	if want := "1.5s 0 2027-01-01T00:00:00Z 2027-07-01T00:00:00Z [127.0.0.1/32 2001:db8::/32] exit\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Anchors and aliases are plain YAML; they let logs share a block.
	c = mustParse(t, strings.Replace(minimal, "{files: [roots.pem]}", "&r {files: [roots.pem]}", 1)+strings.Replace(two, "{files: [roots.pem]}", "*r", 1))
	if got := c.Logs[1].Roots.Files[0]; got != "/etc/daybook/roots.pem" {
		t.Errorf("aliased roots are %q", got)
	}
}

func TestScalars(t *testing.T) {
	for _, test := range []struct {
		s    scalar
		text string
		want string // "" for an error
	}{
		{new(Duration), "200ms", "200ms"}, {new(Duration), "90s", "1m30s"}, {new(Duration), "60m", "1h"}, {new(Duration), "2m", "2m"},
		{new(Duration), "200", ""}, {new(Duration), "0", ""}, {new(Duration), "1e3", ""}, {new(Duration), "fast", ""}, {new(Duration), "1 s", ""},
		{new(Size), "1GiB", "1GiB"}, {new(Size), "1024 MiB", "1GiB"}, {new(Size), "100B", "100B"}, {new(Size), "1025KiB", "1025KiB"}, {new(Size), "0B", "0B"},
		{new(Size), "1024", ""}, {new(Size), "1GB", ""}, {new(Size), "1G", ""}, {new(Size), "1gib", ""}, {new(Size), "-1GiB", ""}, {new(Size), "1.5GiB", ""},
		{new(Size), "8388607TiB", "8388607TiB"}, {new(Size), "8388608TiB", ""}, {new(Size), "GiB", ""},
		{new(Time), "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"}, {new(Time), "2027-01-01", ""}, {new(Time), "2027-01-01 00:00:00", ""},
		{new(Network), "10.0.0.0/8", "10.0.0.0/8"}, {new(Network), "::1", "::1/128"}, {new(Network), "10.0.0.1/8", ""}, {new(Network), "proxy", ""}, {new(Network), "fe80::1%eth0", ""},
		{new(Level), "warn", "warn"}, {new(Level), "WARN", ""}, {new(Format), "json", "json"}, {new(OnHalt), "restart", ""},
	} {
		err := test.s.parse(test.text)
		if test.want == "" {
			if err == nil {
				t.Errorf("%T %q was taken as %s", test.s, test.text, test.s)
			}
			continue
		}
		if err != nil || test.s.String() != test.want {
			t.Errorf("%T %q = %s, %v; want %s", test.s, test.text, test.s, err, test.want)
		}
	}
}

// The effective configuration is what an operator sees in `daybook check`; to
// parse it again must change nothing.
func TestYAML(t *testing.T) {
	text, err := os.ReadFile("testdata/two.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := mustParse(t, string(text))
	golden(t, "testdata/two.effective.yaml", c.YAML())
	again, err := Parse(c.YAML(), "/elsewhere/x.yaml")
	if err != nil {
		t.Fatalf("the effective configuration is refused: %v", err)
	}
	for _, c := range []*Config{c, again} {
		c.file, c.lines = "", nil
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("the effective configuration reads as\n%s", again.YAML())
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is stale (go generate ./config writes it anew); got:\n%s", name, got)
	}
}

// The example is the first thing that users copy.
func TestExample(t *testing.T) {
	c, err := Load("../docs/examples/daybook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Find("example2027h1") == nil || c.Find("x") != nil || !filepath.IsAbs(c.file) {
		t.Errorf("the example has not the log it should have: %s", c.YAML())
	}
	for _, w := range c.Warnings(Host{Now: time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC), Stat: statPrivate}) {
		if !strings.Contains(w.Message, "reserved for examples") {
			t.Errorf("warning about the example: %s", w)
		}
	}
}

// statPrivate is a file system in which everything exists with mode 0600.
func statPrivate(string) (fs.FileInfo, error) {
	return fs.Stat(fstest.MapFS{"f": {Mode: 0o600}}, "f")
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file",
		dir:                             "is a directory",
		large:                           "larger than 1MiB",
	} {
		if c, err := Load(path); err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%s) = %v, %v; want an error with %q", path, c, err, want)
		}
	}
}
