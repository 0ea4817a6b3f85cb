package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/cases"
	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/server/prefix"
	"github.com/daybook-ct/daybook/monitor"
)

// sunlightLog returns the directory of a log that Sunlight made; see the README
// there for its provenance.
func sunlightLog(t *testing.T) string {
	t.Helper()
	return cases.Dir(t, "sunlight-log")
}

// log.v3.json of a log that is taken over says the same as before, but for the
// software.
func TestLogInfoOfSunlight(t *testing.T) {
	old, err := os.ReadFile(filepath.Join(sunlightLog(t), "data/log.v3.json"))
	if err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(sunlightLog(t), "seed.bin")
	signer, err := ReadKey(seed, "rome.harness.example/2027h1")
	if err != nil {
		t.Fatal(err)
	}
	l := &openLog{id: IdentityOf(signer), o: LogOptions{
		Name:             "rome2027h1",
		SubmissionPrefix: "https://rome.harness.example/2027h1",
		MonitoringPrefix: "http://127.0.0.1:7190",
		WindowStart:      time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		WindowLimit:      time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC),
	}}
	if l.sub, l.mon, _, err = l.o.prefixes(); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)
	info, err := makeLogInfo(l, obs.Build{Version: "(devel)"}, old, now)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(old), "filippo.io/sunlight", "daybook", 1) + "\n"
	if string(info) != want {
		t.Errorf("log.v3.json:\n%s\nwant\n%s", info, want)
	}
	// Without the old file the log is active since today.
	info, err = makeLogInfo(l, obs.Build{Version: "(devel)"}, []byte("garbage"), now)
	if err != nil {
		t.Fatal(err)
	}
	if want = strings.Replace(want, `"status_timestamp": "2026-11-30T`, `"status_timestamp": "2027-02-03T`, 1); string(info) != want {
		t.Errorf("log.v3.json:\n%s\nwant\n%s", info, want)
	}
}

// A log of Sunlight goes on in place: known entries keep their positions, new
// ones are added, and the tree stays whole.
func TestTakeOver(t *testing.T) {
	source := sunlightLog(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755) // the cases are read-only
		}
		return os.Chmod(path, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &testPlace{t: t, dir: dir}
	sub, err := prefix.Parse("https://rome.harness.example/2027h1")
	if err != nil {
		t.Fatal(err)
	}
	r := p.start(Options{Logs: []LogOptions{{
		Name: "rome2027h1", SubmissionPrefix: sub.String(), MonitoringPrefix: "http://127.0.0.1:7190",
		KeyFile: p.path("seed.bin"), StorageDirectory: p.path("data"), LockPath: p.path("checkpoints.db"), CachePath: p.path("cache.db"),
		RootFiles: []string{p.path("root.pem")}, Interval: 10 * time.Millisecond, PageCache: 1 << 20,
		WindowStart: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), WindowLimit: time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC),
	}}})
	bodies := readLines(t, p.path("submissions.jsonl.gz"))
	if len(bodies) != 700 {
		t.Fatalf("%d submissions, want 700", len(bodies))
	}
	const known = 600
	for i, body := range bodies {
		if i%20 != 0 && i < known {
			continue // a sample of those that Sunlight logged
		}
		code, answer := r.do("POST", sub.Host, sub.Path+"ct/v1/add-pre-chain", body)
		var sct struct {
			Timestamp  int64
			Extensions []byte
		}
		if err := json.Unmarshal([]byte(answer), &sct); code != 200 || err != nil || len(sct.Extensions) != 8 {
			t.Fatalf("submission %d: %d %s", i, code, answer)
		}
		index := int(sct.Extensions[6])<<8 | int(sct.Extensions[7])
		if isNew := index >= known; isNew != (i >= known) {
			t.Errorf("submission %d has the index %d", i, index)
		}
	}
	report, err := monitor.Verify(t.Context(), monitor.Options{Prefix: "http://" + r.Addrs()[0].String() + "/", Signatures: true})
	if err != nil {
		t.Fatal(err)
	}
	if report.Entries != 700 || report.Origin != sub.Origin() {
		t.Errorf("the log %s has %d entries, want 700", report.Origin, report.Entries)
	}
	if !r.logs.Has("log opened", "size=600") {
		t.Errorf("it was not opened with 600 entries:\n%s", r.logs)
	}
}

func readLines(t *testing.T, path string) (list [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b := bufio.NewReader(z)
	for {
		line, err := b.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			list = append(list, line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			break
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return list
}
