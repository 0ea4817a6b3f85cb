package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/internal/fsck"
)

// TestFsckCommand follows an operator: all is well, then the cache is lost, is
// rebuilt beside the running log, and a file is damaged.
func TestFsckCommand(t *testing.T) {
	d := startDevLog(t, t.TempDir())
	if code, out, stderr := invoke(t, "load", "--dev", d.dir, "--count", "30", "--clients", "30"); code != exitOK {
		t.Fatalf("load: exit code %d\n%s%s", code, out, stderr)
	}
	data, lock, cache := filepath.Join(d.dir, devData), filepath.Join(d.dir, "lock.db"), filepath.Join(d.dir, "cache.db")
	runs := func(code int, args ...string) (stdout, stderr string) {
		t.Helper()
		got, stdout, stderr := invoke(t, args...)
		if got != code {
			t.Errorf("%q: exit code %d, want %d\n%s%s", args, got, code, stdout, stderr)
		}
		return stdout, stderr
	}
	has := func(s string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(s, p) {
				t.Errorf("got\n%s\nwant %q", s, p)
			}
		}
	}
	all := []string{"fsck", data, "--lock", lock, "--cache", cache, "--all", "--signatures", "--origin", d.Origin, "--key", d.PublicKey}
	out, _ := runs(exitOK, all...)
	has(out, "origin      "+d.Origin+"\n", "tree        30 entries, root ", "verified    30 entries", "1 data tiles, 1 names tiles, 1 hash tiles",
		"lock        compared", "cache       30 rows, 30 of them", "found       nothing, in ")
	out, _ = runs(exitOK, "fsck", d.MonitoringPrefix, "--cache", cache, "--sample", "7")
	has(out, "rows, chosen at random", "found       nothing")

	// Without the cache the log goes on; at its next start it has an empty one.
	d.stop(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(cache + suffix); err != nil && suffix == "" {
			t.Fatal(err)
		}
	}
	out, stderr := runs(exitFailed, all...)
	has(out, "cache: there is no dedup cache at "+cache, "found       1 finding,")
	has(stderr, "something is wrong with the log: 1 finding\n")
	d = startDevLog(t, d.dir)
	defer d.stop(t)
	out, _ = runs(exitFailed, all...)
	has(out, "cache, entry 0: has no row of entries", "(and 29 more like this)")
	out, _ = runs(exitOK, "cache", "rebuild", "--storage", data, "--cache", cache, "--origin", d.Origin, "--key", d.PublicKey, "--resume", filepath.Join(t.TempDir(), "state"))
	has(out, "tree        30 entries, of which 30 were read and verified\n", "cache       30 rows added, 0 were there; 0 entries are copies")
	runs(exitOK, all...)

	if err := os.Remove(filepath.Join(data, "tile/names/000.p/30")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "index.html"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Glob(filepath.Join(data, "issuer", "*"))
	if err != nil || len(name) == 0 {
		t.Fatalf("issuers %v, %v", name, err)
	}
	if err := os.WriteFile(name[0], []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ = runs(exitFailed, append(all, "--print", "1")...)
	has(out, "... and 1 finding more", "found       2 findings")
	out, _ = runs(exitFailed, append(all, "--json")...)
	var report struct {
		Count    int
		Findings []fsck.Finding
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Count != 2 || len(report.Findings) != 2 ||
		report.Findings[0].Object != "index.html" || report.Findings[1].Object != "issuer/"+filepath.Base(name[0]) || report.Findings[1].Count == 0 {
		t.Errorf("JSON %+v, %v", report, err)
	}
}

// TestFsckOfConfiguration takes everything from the configuration.
func TestFsckOfConfiguration(t *testing.T) {
	c := place(t, second)
	for _, name := range []string{"a", "b"} {
		if code, _, stderr := invoke(t, "init", "-c", c, "--log", name); code != exitOK {
			t.Fatal(stderr)
		}
	}
	code, out, stderr := invoke(t, "fsck", "-c", c, "--log", "a", "--all")
	if code != exitOK || !strings.Contains(out, "lock        compared") || !strings.Contains(out, "cache       0 rows") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr := invoke(t, "cache", "rebuild", "-c", c, "--log", "b"); code != exitOK || !strings.Contains(out, "origin      ct.example.com/b\n") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"a directory, a URL or -c FILE is needed", []string{"fsck"}},
		{"not two of them", []string{"fsck", "somewhere", "-c", c}},
		{"say which one with --log", []string{"fsck", "-c", c}},
		{"do not give both", []string{"fsck", "-c", c, "--log", "a", "--lock", "x"}},
		{"--log names a log of a configuration", []string{"fsck", "somewhere", "--log", "a"}},
		{"--all is about the dedup cache", []string{"fsck", "somewhere", "--all"}},
		{"must not be negative", []string{"fsck", "somewhere", "--rate", "-1"}},
		{"--key: it is neither", []string{"fsck", "somewhere", "--key", "nonsense"}},
		{"is not an http or https URL", []string{"fsck", "http://"}},
		{"a command is needed", []string{"cache"}},
		{"-c FILE is needed, or --storage DIR and --cache FILE", []string{"cache", "rebuild", "--storage", "x"}},
		{"do not give both", []string{"cache", "rebuild", "-c", c, "--log", "a", "--cache", "x"}},
	} {
		if code, out, stderr := invoke(t, test.args...); code != exitUsage || !strings.Contains(stderr, test.want) || strings.Contains(out, "findings") {
			t.Errorf("%q: exit code %d, want %q\n%s%s", test.args, code, test.want, out, stderr)
		}
	}
	if code, _, stderr := invoke(t, "fsck", filepath.Join(t.TempDir(), "nowhere")); code != exitFailed || !strings.Contains(stderr, "opening the storage directory") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
