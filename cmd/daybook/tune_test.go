package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/daybook-ct/daybook/internal/tune"
)

// TestTune: a host is measured for a log that need not exist, and nothing is
// left behind.
func TestTune(t *testing.T) {
	path := place(t, "")
	before := files(t, path)
	code, stdout, stderr := invoke(t, "tune", "-c", path, "--time", "1s")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, part := range []string{"log a: interval 50ms, pool size 150", "fsync of 4 KiB", "sign (ML-DSA-44)", "request, without network",
		"cache as it is: ", "cache ten times larger: ", "put of 150", "600 entries, ", "\nlimited by ", "pool_size"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%q is missing:\n%s", part, stdout)
		}
	}
	if after := files(t, path); !reflect.DeepEqual(before, after) {
		t.Errorf("files before %q, after %q", before, after)
	}
}

func TestTuneOptions(t *testing.T) {
	path := place(t, second)
	dir := t.TempDir()
	left := filepath.Join(dir, ".daybook-tune-1")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := invoke(t, "tune", "-c", path, "--log", "b", "--dir", dir, "--time", "100ms", "--json")
	var r tune.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if r.PoolSize != 150 || len(r.Rounds.Sizes) == 0 || !slices.ContainsFunc(r.Disks, func(d tune.Disk) bool { return d.Path == dir }) {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(stderr, left+" is of a measurement that did not end") {
		t.Errorf("the leftover is not mentioned: %s", stderr)
	}
	for _, test := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{}, 2, "-c FILE is needed"},
		{[]string{"-c", path}, 2, "there are several logs (a, b)"},
		{[]string{"-c", path, "--log", "a", "--time", "0s"}, 2, "--time must be positive"},
		{[]string{"-c", path, "--log", "a", "--dir", filepath.Join(dir, "none")}, 1, "no such file"},
	} {
		if code, stdout, stderr := invoke(t, append([]string{"tune"}, test.args...)...); code != test.code || !strings.Contains(stderr, test.text) || stdout != "" {
			t.Errorf("%v: exit code %d\n%s%s", test.args, code, stdout, stderr)
		}
	}
}
