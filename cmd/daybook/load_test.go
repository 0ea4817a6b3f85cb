package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, devInfo)
	if err := os.WriteFile(bad, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := []string{"--submission", "http://127.0.0.1:1/", "--monitoring", "http://127.0.0.1:1/", "--root", bad, "--root-key", bad}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--submission is missing (or --dev DIR)"},
		{given[:4], exitUsage, "--root is missing"},
		{append(given, "x"), exitUsage, "unknown command"},
		{append(given, "--key", "x"), exitUsage, "--key: "},
		{append(given, "--not-after", "tomorrow"), exitUsage, "--not-after: "},
		{append(given, "--intermediate", "dsa"), exitUsage, `"dsa" is none of p256, p384, rsa2048, rsa4096`},
		{given, exitFailed, "root has no PEM block"},
		{append(given, "--root", filepath.Join(dir, "none")), exitFailed, "reading the root: "},
		{append(given, "--root-key", filepath.Join(dir, "none")), exitFailed, "reading the root's key: "},
		{[]string{"--dev", dir}, exitFailed, "invalid character"},
		{[]string{"--dev", filepath.Join(dir, "none")}, exitFailed, "no development log runs in"},
	} {
		code, out, stderr := invoke(t, append([]string{"load"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || out != "" {
			t.Errorf("load %q: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, stderr)
		}
	}
}

// TestLoadFlags loads a log that is given by its parts, in open loop, with all
// kinds of entries.
func TestLoadFlags(t *testing.T) {
	d := startDevLog(t, t.TempDir())
	defer d.stop(t)
	code, out, stderr := invoke(t, "load", "--submission", d.SubmissionPrefix, "--monitoring", d.MonitoringPrefix,
		"--root", filepath.Join(d.dir, devRoot), "--root-key", filepath.Join(d.dir, devRootKey), "--key", d.PublicKey, "--origin", d.Origin,
		"--rate", "100", "--duration", "3s", "--duplicates", "0.5", "--old", "0.5", "--precerts", "0", "--intermediate", "p384", "--sources", "3", "--seed", "7")
	if code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	for _, want := range []string{"\nduplicate ", "\nfresh ", "\nold ", "\nverified ", "\nclient "} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\nserver ") {
		t.Errorf("usage of an unknown process:\n%s", out)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(1000, 0)
	p := newProgress(&b)
	p.now = func() time.Time { return now }
	p.start = now
	step := func(d time.Duration, phase string, done, total int64, more string) string {
		b.Reset()
		now = now.Add(d)
		p.show(phase, done, total, more)
		return b.String()
	}
	for i, c := range []struct {
		after       time.Duration
		phase       string
		done, total int64
		more, want  string
	}{
		{time.Second, "reading", 100, 1000, "", ""}, // quick so far
		{time.Second, "reading", 250, 1000, "1 MiB", "reading    25% 250 of 1,000, 3s left, 1 MiB\n"},
		{time.Second, "reading", 300, 1000, "", ""}, // shown a second ago
		{4 * time.Second, "sending", 1234567, 0, "", "sending   1,234,567\n"},
		{5 * time.Second, "sending", 7, 7, "", "sending   100% 7 of 7\n"},
	} {
		if got := step(c.after, c.phase, c.done, c.total, c.more); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
	if p.end(); b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		t.Errorf("after the end: %q", b.String())
	}

	p.terminal = true
	first := step(time.Second, "reading", 500, 1000, "many entries")
	if want := "\rreading   [###############...............]  50% 500 of 1,000, many entries"; first != want {
		t.Errorf("bar %q, want %q", first, want)
	}
	second := step(time.Second, "reading", 1000, 1000, "")
	if want := "\rreading   [##############################] 100% 1,000 of 1,000"; !strings.HasPrefix(second, want) || len(second) != len(first) {
		t.Errorf("bar %q, want %q and spaces", second, want)
	}
	b.Reset()
	if p.end(); b.Len() == 0 || strings.Trim(b.String(), "\r ") != "" {
		t.Errorf("bar is removed by %q", b.String())
	}
	if isTerminal(&b) {
		t.Error("a buffer is no terminal")
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{5: "5 bytes", 10 << 10: "10 KiB", 12 << 20: "12 MiB", 2000 << 30: "2,000 GiB"} {
		if got := bytesize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{1500 * time.Microsecond: "1.5 ms", 123456 * time.Microsecond: "123 ms"} {
		if got := milliseconds(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
