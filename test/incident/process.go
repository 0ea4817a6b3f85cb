package incident

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/internal/testca"
)

const configuration = `listen: ["127.0.0.1:0"]
admin: {listen: "127.0.0.1:0"}
logging: {format: json}
lock: {path: lock.db}
shutdown_timeout: 2s
logs:
  - name: incident
    submission_prefix: https://ct.example.com/incident/
    key: seed.bin
    storage: {directory: data, min_free: 0B, warn_free: 0B, min_free_inodes: 0, scrub_rate: 0}
    cache: {path: CACHE, page_cache: PAGES}
    roots: {files: [roots.pem]}
    interval: INTERVAL
    pool_size: POOL
    rounds: {path: rounds.jsonl}
`

// settings of a log.
type settings struct {
	cache     string // file; "" is a new one
	pageCache string // as in the configuration
	pool      int
	interval  time.Duration
}

// log is a log that was just made, and the process that runs it.
type log struct {
	dir    string
	binary string
	root   *testca.CA // the one whose root the log accepts

	cmd    *exec.Cmd
	stderr tail
	ended  chan struct{}

	prefix string // of submissions and of the tree, as it is reached here
	admin  string // URL
}

// newLog makes a log in an empty directory.
func newLog(ctx context.Context, binary, dir string, s settings) (*log, error) {
	root, err := testca.New(testca.Options{})
	if err != nil {
		return nil, err
	}
	l := &log{dir: dir, binary: binary, root: root, ended: make(chan struct{})}
	write := func(cache string) error {
		text := strings.NewReplacer("CACHE", cache, "PAGES", s.pageCache, "POOL", fmt.Sprint(s.pool), "INTERVAL", s.interval.String()).Replace(configuration)
		return os.WriteFile(l.at("daybook.yaml"), []byte(text), 0o600)
	}
	// `daybook init` does not take a cache that is there.
	if err := errors.Join(write("cache.db"), os.WriteFile(l.at("roots.pem"), root.RootPEM(), 0o600)); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, binary, "init", "-c", l.at("daybook.yaml")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("daybook init: %w\n%s", err, out)
	}
	if s.cache == "" {
		return l, nil
	}
	return l, write(s.cache)
}

// newCA returns a CA that the log accepts and whose entries it has not seen.
func (l *log) newCA() (*testca.CA, error) {
	key, err := l.root.RootKeyPEM()
	if err != nil {
		return nil, err
	}
	return testca.Load(l.root.RootPEM(), key, testca.Options{Seed: rand.Uint64()})
}

func (l *log) at(name string) string { return filepath.Join(l.dir, name) }

// startPatience is for a start on a slow and busy machine.
const startPatience = 60 * time.Second

// start starts the process with further variables in its environment, and waits
// until it serves. The caller ends it with stop or kill.
func (l *log) start(ctx context.Context, env ...string) error {
	l.cmd = exec.Command(l.binary, "serve", "-c", l.at("daybook.yaml"))
	l.cmd.Env = append(os.Environ(), env...)
	l.stderr.found = make(chan string, 1)
	l.cmd.Stderr = &l.stderr
	if err := l.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = l.cmd.Wait() // ProcessState says it all
		close(l.ended)
	}()
	select {
	case line := <-l.stderr.found:
		var record struct{ Addresses, Admin string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			return errors.Join(err, l.kill())
		}
		l.prefix = "http://" + strings.Trim(record.Addresses, "[]") + "/incident/"
		l.admin = "http://" + record.Admin
		return nil
	case <-l.ended:
		return fmt.Errorf("the log does not start: %v\n%s", l.cmd.ProcessState, l.stderr.text())
	case <-time.After(startPatience):
		return errors.Join(fmt.Errorf("the log does not start:\n%s", l.stderr.text()), l.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), l.kill())
	}
}

// stop ends the process in order, or, when that takes too long, at once. clean
// says which.
func (l *log) stop(patience time.Duration) (clean bool, err error) {
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, err
	}
	select {
	case <-l.ended:
		return l.cmd.ProcessState.Success(), nil
	case <-time.After(patience):
		return false, l.kill()
	}
}

func (l *log) kill() error {
	err := l.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-l.ended
	return err
}

// records returns the records of the rounds so far.
func (l *log) records(ctx context.Context) (records []rounds.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.admin+"/rounds", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", req.URL, resp.Status)
	}
	records, _, err = rounds.Read(resp.Body, time.Time{})
	return records, err
}

// tail looks for the line that says that the process serves, and keeps the last
// lines of what it says. It is safe for concurrent use.
type tail struct {
	found chan string

	mu   sync.Mutex
	kept []byte
	rest []byte
}

const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-tailSize):]
	t.rest = append(t.rest, b...)
	for {
		line, rest, ok := bytes.Cut(t.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		if bytes.Contains(line, []byte(`"msg":"serving"`)) {
			select {
			case t.found <- string(line):
			default:
			}
		}
		t.rest = append([]byte(nil), rest...)
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
