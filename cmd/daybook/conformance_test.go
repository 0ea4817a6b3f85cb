package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestConformanceCommand(t *testing.T) {
	d := startDevLog(t, t.TempDir())
	defer d.stop(t)
	root := filepath.Join(d.dir, devRoot)

	code, out, stderr := invoke(t, "conformance", "--dev", d.dir, "--roots", root, "--strict", "--only", "R1,R2,R24,R25,R32,S34,T2")
	if code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 8 || !strings.HasPrefix(lines[2], "R24  ok    the SCT's digitally-signed") || !strings.HasPrefix(lines[6], "T2   skip ") || lines[7] != "7 clauses: 6 ok, 1 skipped, 0 failed" {
		t.Errorf("printed %q", lines)
	}

	// With nothing to issue chains, its own entries are what it gets again.
	args := []string{"conformance", "--submission", d.SubmissionPrefix, "--key", d.PublicKey, "--origin", d.Origin}
	code, out, stderr = invoke(t, append(args, "--only", "R5,R24,E01,S34", "--json")...)
	var report struct {
		Results []struct {
			ID             string
			Status, Checks int
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitOK || len(report.Results) != 4 || report.Results[0].Checks == 0 {
		t.Errorf("own entries: exit code %d, %v\n%s%s", code, err, out, stderr)
	}
	code, out, stderr = invoke(t, append(args, "--only", "S11,K1", "--origin", "other.invalid")...)
	if code != exitFailed || !strings.Contains(out, "S11  FAIL  the origin is SUB") || !strings.Contains(stderr, "1 clause of "+d.SubmissionPrefix+" failed") {
		t.Errorf("another origin: exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr = invoke(t, append(args, "--only", "A10")...); code != exitFailed || !strings.Contains(stderr, "nothing was checked") {
		t.Errorf("nothing checked: exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, _ = invoke(t, "conformance", "--list"); code != exitOK || !strings.Contains(out, "R24  MUST    the SCT's digitally-signed") {
		t.Errorf("--list: exit code %d\n%s", code, out)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--submission and --key are needed", nil},
		{exitUsage, "--key: it is neither", []string{"--submission", "http://127.0.0.1:1", "--key", "nonsense"}},
		{exitUsage, "--ca-cert and --ca-key go together", append(args[1:], "--ca-cert", root)},
		{exitUsage, "--ca-key: open", append(args[1:], "--ca-cert", root, "--ca-key", "none.pem")},
		{exitUsage, "--roots: open", append(args[1:], "--roots", "none.pem")},
		{exitUsage, "--window: ", append(args[1:], "--window", "2027")},
		{exitFailed, `there is no clause "R99"`, append(args[1:], "--only", "R99")},
		{exitFailed, "no development log runs in", []string{"--dev", t.TempDir()}},
		{exitFailed, "reading http://127.0.0.1:1/checkpoint", []string{"--submission", "http://127.0.0.1:1", "--key", d.PublicKey}},
	} {
		code, out, stderr := invoke(t, append([]string{"conformance"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || out != "" {
			t.Errorf("%q: exit code %d, want %d and %q\n%s%s", c.args, code, c.code, c.want, out, stderr)
		}
	}
}
