package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestDemoOnce(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	code, out, stderr := invoke(t, "demo", "--once", "--count", "60", "--clients", "20")
	if code != exitOK || strings.Contains(stderr, "level=ERROR") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	for _, want := range []string{
		`runs at http://127\.0\.0\.1:\d+\n`, `accepted +60, \d+/s\n`, `p50 [\d.]+ ms, p90 [\d.]+ ms, p99 [\d.]+ ms`, `tree +60 entries, 0 before`,
		`60 SCTs`, `60 promised entries at their index with their timestamp`, `up to the root \S{43}=`, `2 issuers served`, `http\S+/checkpoint `, `http\S+/metrics `,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("output lacks %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "Ctrl-C") {
		t.Errorf("it says that it goes on:\n%s", out)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDemoServes: without --once the log is served until the end is asked for.
func TestDemoServes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"demo", "--count", "10"}, strings.NewReader(""), w, io.Discard)
		_ = w.Close()
	}()
	var text string
	buf := make([]byte, 4096)
	for !strings.Contains(text, "Serving until Ctrl-C.\n") {
		n, err := out.Read(buf)
		if text += string(buf[:n]); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	url := regexp.MustCompile(`runs at (\S+)`).FindStringSubmatch(text)[1]
	if code, out, stderr := invoke(t, "verify", url); code != exitOK || !strings.Contains(out, "10 entries") {
		t.Errorf("verify: exit code %d\n%s%s", code, out, stderr)
	}
	cancel()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d\n%s", c, text)
	}
}

// TestDemoInterrupted: what did not come to its end is no success.
func TestDemoInterrupted(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"demo", "--once", "--count", "100000", "--clients", "1"}, strings.NewReader(""), w, io.Discard)
		_ = w.Close()
	}()
	if _, err := out.Read(make([]byte, 4096)); err != nil { // it has begun
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if c := <-code; c != exitFailed {
		t.Errorf("exit code %d", c)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoRefuses(t *testing.T) {
	for _, args := range [][]string{{"demo", "--count", "0"}, {"demo", "--clients", "0"}, {"demo", "x"}} {
		if code, out, stderr := invoke(t, args...); code != exitUsage || out != "" {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, stderr)
		}
	}
}
