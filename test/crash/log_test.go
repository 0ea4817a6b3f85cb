package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/test/witness"
)

const (
	logPath = "/crash/"
	origin  = "ct.example.com/crash"
)

// logDir is the directory of a log: its configuration and all that it is made
// of. Every file is named relative to it, so that a copy is a log, too.
type logDir struct {
	witness.Log
	dir string
}

// configuration of all logs here. Ports are chosen by the system at each start;
// requests find the log by its path.
const configuration = `listen: ["127.0.0.1:0"]
admin: {listen: "127.0.0.1:0"}
logging: {format: json}
lock: {path: LOCK}
on_halt: stay
logs:
  - name: crash
    submission_prefix: https://ct.example.com/crash/
    monitoring_prefix: MONITORING
    key: seed.bin
    storage: {directory: data, min_free: FLOOR, warn_free: FLOOR, min_free_inodes: 0, scrub_rate: 50}
    cache: {path: CACHE, page_cache: 16MiB}
    roots: {files: [roots.pem]}
    interval: INTERVAL
    pool_size: 300
`

// layout says where the parts of a log are; the zero value is beside the
// configuration.
type layout struct {
	lock, cache string
	monitoring  string // prefix for the public; the tests go by the submission prefix
	floor       string // of free space; none by default
	interval    time.Duration
}

func (o layout) configuration() []byte {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	if o.interval == 0 {
		o.interval = 50 * time.Millisecond
	}
	return []byte(strings.NewReplacer("LOCK", or(o.lock, "lock.db"), "CACHE", or(o.cache, "cache.db"),
		"MONITORING", or(o.monitoring, "https://ct.example.com/crash/"), "FLOOR", or(o.floor, "0B"),
		"INTERVAL", o.interval.String()).Replace(configuration))
}

// newLog creates a log in an empty directory.
func newLog(t testing.TB, dir string, o layout) *logDir {
	t.Helper()
	l := &logDir{dir: dir}
	l.write(t, "daybook.yaml", o.configuration())
	l.write(t, "roots.pem", chains.CA.RootPEM())
	out, err := exec.Command(normal.Path(t), "init", "-c", l.at("daybook.yaml")).CombinedOutput()
	if err != nil {
		t.Fatalf("daybook init: %v\n%s", err, out)
	}
	if l.Log, err = witness.ReadLog(origin, logPath, string(out)); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *logDir) at(name string) string { return filepath.Join(l.dir, name) }

func (l *logDir) write(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(l.at(name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *logDir) read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(l.at(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (l *logDir) remove(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(l.at(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// restore puts a part of another copy of the log in the place of this one's.
func (l *logDir) restore(t testing.TB, from *logDir, names ...string) {
	t.Helper()
	l.remove(t, names...)
	for _, name := range names {
		if out, err := exec.Command("cp", "-a", from.at(name), l.at(name)).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
	}
}

// copy copies the log, which must not be running, to a directory that does not
// exist.
func (l *logDir) copy(t testing.TB, dir string) *logDir {
	t.Helper()
	c := *l
	c.dir = dir
	if out, err := exec.Command("cp", "-a", l.dir, c.dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	return &c
}

// inFile returns the published tree head, as it stands in the storage.
func (l *logDir) inFile(t testing.TB) checkpoint.TreeHead {
	t.Helper()
	head, err := l.Verifier.Verify(l.read(t, "data/checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// leftovers are the files that a process which was killed may leave.
func (l *logDir) leftovers(t testing.TB) (temps, bundles []string) {
	t.Helper()
	entries, err := os.ReadDir(l.at("data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".tmp-") {
			temps = append(temps, e.Name())
		}
	}
	staged, err := os.ReadDir(l.at("data/staging"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range staged {
		bundles = append(bundles, "staging/"+e.Name())
	}
	return temps, bundles
}

// tilePath returns the path of tile n of a level ("0", "data", "names") of
// less than 1000, w wide.
func tilePath(level string, n, w int64) string {
	if w == 256 {
		return fmt.Sprintf("data/tile/%s/%03d", level, n)
	}
	return fmt.Sprintf("data/tile/%s/%03d.p/%d", level, n, w)
}
