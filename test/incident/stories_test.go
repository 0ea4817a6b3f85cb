package incident

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/load"
	"github.com/daybook-ct/daybook/internal/rounds"
)

// startDev runs a development log in a directory, until the test ends, and returns
// its prefix.
func startDev(t *testing.T, binary string, env ...string) (dir, prefix string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command(binary, "dev", "--dir", dir)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()                          // how is not what these tests are about
	})
	var d struct {
		Prefix string `json:"submission_prefix"`
	}
	if err := json.NewDecoder(out).Decode(&d); err != nil {
		t.Fatalf("the log does not start: %v", err)
	}
	return dir, d.Prefix
}

// TestNothingMoves: a log gives SCTs, and its published tree stands still. That is
// the ingestion that lied: whoever looks at answers alone sees a log in good
// health. Whatever is said about the run, it must end with an error.
func TestNothingMoves(t *testing.T) {
	t.Parallel()
	dir, prefix := startDev(t, ordinary.binary(t))
	target, err := url.Parse(prefix)
	if err != nil {
		t.Fatal(err)
	}
	// What stands between the log and its readers shows the first checkpoint for
	// ever.
	resp, err := http.Get(prefix + "/checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	first, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(target)
	stuck := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/checkpoint" {
			_, _ = w.Write(first)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	defer stuck.Close()

	args := []string{"load", "--dev", dir, "--count", "20"}
	code, stdout, stderr := invoke(t, nil, ordinary.binary(t), args...)
	if code != 0 || !strings.Contains(stdout, "20 promised entries") {
		t.Fatalf("a log that moves: exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, more := range [][]string{nil, {"--skip-parity"}} {
		code, stdout, stderr = invoke(t, nil, ordinary.binary(t), append(append(args, "--monitoring", stuck.URL), more...)...)
		if want := "the tree grew by 0 entries, from 0 to 0, although 20 new ones were promised"; code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, want 1 and %q\n%s%s", more, code, want, stdout, stderr)
		}
		if !strings.Contains(stdout, "accepted    20,") {
			t.Errorf("%v: no SCTs were given, so it was another story\n%s", more, stdout)
		}
	}
}

// TestPublishFails: the same from inside. Every publish fails, and neither load nor
// demo calls that a success.
func TestPublishFails(t *testing.T) {
	t.Parallel()
	const always = "DAYBOOK_FAULT=new.publish:before:1+:EIO"
	dir, _ := startDev(t, faulty.binary(t), always)
	code, stdout, stderr := invoke(t, nil, ordinary.binary(t), "load", "--dev", dir, "--count", "20")
	if code != 1 || !strings.Contains(stderr, "nothing was accepted") {
		t.Errorf("load: exit code %d, want 1\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = invoke(t, []string{always}, faulty.binary(t), "demo", "--once", "--count", "20")
	if code != 1 || !strings.Contains(stderr, "nothing was accepted") {
		t.Errorf("demo: exit code %d, want 1\n%s%s", code, stdout, stderr)
	}
}

// TestPlaceholder: whichever value of the sample configuration is left as a template
// has it, no command that starts from it does anything.
func TestPlaceholder(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("../../docs/examples/daybook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(sample), "\n")
	values := 0
	for i, line := range lines {
		key, value, ok := strings.Cut(line, ": ")
		if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		values++
		text := "CHANGE_ME"
		if strings.HasPrefix(value, "[") {
			text = `["CHANGE_ME"]`
		}
		changed := append([]string(nil), lines...)
		changed[i] = key + ": " + text
		dir := t.TempDir()
		file := filepath.Join(dir, "daybook.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.Join(changed, "\n"), "/var/lib/daybook/", dir+"/")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"check", "init", "serve"} {
			code, stdout, stderr := invoke(t, nil, ordinary.binary(t), command, "-c", file)
			name := strings.Trim(key, " -")
			if code != 2 || !strings.Contains(stderr, "still has the placeholder CHANGE_ME") || !strings.Contains(stderr, name) {
				t.Errorf("%s with %q: exit code %d, want 2 and the key %s\n%s%s", command, changed[i], code, name, stdout, stderr)
			}
		}
		if there, err := os.ReadDir(dir); err != nil || len(there) != 1 {
			t.Errorf("%q: something was made: %v, %v", changed[i], there, err)
		}
	}
	if values < 12 {
		t.Errorf("only %d values of the sample were tried", values)
	}
}

// TestFreezeAfterQuietSpell: a log is quiet; meanwhile somebody truncates the WAL of
// its dedup cache; the next burst has to make the file anew, which takes long.
// daybook rounds says that, and that it goes with quiet spells. A log that is as quiet, but
// whose WAL is left alone, has no freeze.
func TestFreezeAfterQuietSpell(t *testing.T) {
	const freeze = 3 * time.Second // no put takes so long by itself
	for _, c := range []struct {
		name  string
		spoil string
		cause rounds.Cause
	}{
		{"truncated", "PRAGMA wal_checkpoint(TRUNCATE)", rounds.CauseWALNew},
		{"reused", "SELECT 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLog(t, switchable.binary(t), settings{pageCache: "1MiB", pool: 100, interval: 50 * time.Millisecond}, "DAYBOOK_INCIDENT_WAL="+freeze.String())
			burst := func() {
				t.Helper()
				ca, err := l.newCA()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := load.Run(t.Context(), load.Options{Submission: l.prefix, Monitoring: l.prefix, CA: ca, Count: 500, Clients: 10, SkipParity: true}); err != nil {
					t.Fatal(err)
				}
			}
			burst() // of more than two seconds, so with two puts, which make the WAL, as after every start
			since := time.Now()
			// What makes the spell is the time that the records show, so that it
			// cannot be made shorter.
			time.Sleep(11 * time.Second)
			other, err := open(l.at("cache.db"))
			if err != nil {
				t.Fatal(err)
			}
			if err := execute(other, c.spoil); err != nil {
				t.Fatal(err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			burst()
			if _, err := l.stop(patience); err != nil {
				t.Fatal(err)
			}
			report := roundsOf(t, l.at("rounds.jsonl"), since)
			froze := 0
			for _, s := range report.Slowest {
				if s.Record.Put >= rounds.Duration(freeze) {
					froze++
					if s.Cause != c.cause || s.Part != "cache put" {
						t.Errorf("a round of %v is put down to %q of %s, want %q of cache put", s.Record.Took, s.Cause, s.Part, c.cause)
					}
				}
			}
			if want := min(1, len(c.cause)); froze != want {
				t.Errorf("%d rounds froze, want %d", froze, want)
			}
			for _, m := range report.Coincidences {
				if seen := m.Slow > 0; m.Marker == "WAL file made anew" && seen != (c.cause != "") {
					t.Errorf("marker %q in %d slow rounds", m.Marker, m.Slow)
				}
				if m.Marker == "after a quiet spell" && (m.Slow+m.Others == 0 || c.cause != "" && m.Slow == 0) {
					t.Errorf("marker %q in %d slow rounds and %d others", m.Marker, m.Slow, m.Others)
				}
			}
		})
	}
}

// roundsOf returns what daybook rounds says of a file since a time.
func roundsOf(t *testing.T, path string, since time.Time) (report rounds.Report) {
	t.Helper()
	code, stdout, stderr := invoke(t, nil, ordinary.binary(t), "rounds", path, "--json", "--since", since.Format(time.RFC3339Nano))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	return report
}
