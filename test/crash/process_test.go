package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that is sure to come on a machine
// that is not broken.
const patience = 30 * time.Second

// process is a running daybook serve.
type process struct {
	cmd         *exec.Cmd
	out         output
	addr, admin string // once it serves
	done        chan struct{}
	state       *os.ProcessState // once done is closed
}

// how a process is started.
type how struct {
	plan    string   // of faults; needs fault points
	arm     string   // file that arms the plan
	clock   string   // file with the error of the clock
	wrapper []string // command that runs the program
	env     []string // further variables
}

// start starts the log and does not wait for it.
func (l *logDir) start(t testing.TB, h how) *process {
	t.Helper()
	binary := &normal
	if h.plan != "" || h.clock != "" {
		binary = &faulty
	}
	args := append(append([]string{}, h.wrapper...), binary.binary(t), "serve", "-c", l.at("daybook.yaml"))
	p := &process{cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "DAYBOOK_FAULT="+h.plan, "DAYBOOK_FAULT_ARM="+h.arm, "DAYBOOK_FAULT_CLOCK="+h.clock)
	p.cmd.Env = append(p.cmd.Env, h.env...)
	p.run(t)
	return p
}

// run runs the command of a process.
func (p *process) run(t testing.TB) {
	t.Helper()
	p.cmd.Stderr = &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState says it all
		p.state = p.cmd.ProcessState
		p.out.close()
		close(p.done)
	}()
	t.Cleanup(p.kill)
}

// serve starts the log and waits until it serves.
func (l *logDir) serve(t testing.TB, h how) *process {
	t.Helper()
	p := l.start(t, h)
	if !p.ready() {
		t.Fatalf("the log does not start:\n%s", p.out.text())
	}
	return p
}

// refuses starts the log, which must not start, and returns the message with
// which it ended.
func (l *logDir) refuses(t testing.TB, h how) string {
	t.Helper()
	p := l.start(t, h)
	if p.ready() {
		t.Fatalf("the log starts:\n%s", p.out.text())
	}
	if code := p.state.ExitCode(); code != 1 {
		t.Fatalf("ended with %v, not with exit code 1:\n%s", p.state, p.out.text())
	}
	lines := strings.Split(strings.TrimSpace(p.out.text()), "\n")
	return lines[len(lines)-1]
}

// ready waits until the process serves or ends.
func (p *process) ready() bool {
	line, ok := p.out.wait(`"msg":"serving"`)
	if !ok {
		<-p.done
		return false
	}
	var record struct{ Addresses, Admin string }
	if err := json.Unmarshal([]byte(line), &record); err != nil {
		return false
	}
	p.addr, p.admin = strings.Trim(record.Addresses, "[]"), record.Admin
	return true
}

// kill ends the process, and a wrapper around it, as kill -9 does.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.done
}

// stop ends the process in order.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ended(t)
	if code := p.state.ExitCode(); code != 0 {
		t.Fatalf("ended with %v after SIGTERM:\n%s", p.state, p.out.text())
	}
}

// ended waits for the end.
func (p *process) ended(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("the process does not end:\n%s", p.out.text())
	}
}

// diedByKill waits for the end, which must be by SIGKILL.
func (p *process) diedByKill(t testing.TB) {
	t.Helper()
	p.ended(t)
	if s := p.state.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Fatalf("ended with %v, not by SIGKILL:\n%s", p.state, p.out.text())
	}
}

// says waits for a line with this text on standard error.
func (p *process) says(t testing.TB, text string) string {
	t.Helper()
	line, ok := p.out.wait(text)
	if !ok {
		t.Fatalf("it does not say %q:\n%s", text, p.out.text())
	}
	return line
}

// halts waits until the log has halted, and returns the cause. The process
// stays, serves the tree and fails its health check.
func (p *process) halts(t testing.TB) string {
	t.Helper()
	var record struct{ Cause string }
	if err := json.Unmarshal([]byte(p.says(t, `"msg":"log has halted`)), &record); err != nil {
		t.Fatal(err)
	}
	if status, body := p.get(t, "http://"+p.admin+"/health"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"halted"`) {
		t.Errorf("/health of a halted log: %d %s", status, body)
	}
	return record.Cause
}

// healthy waits until the health check passes.
func (p *process) healthy(t testing.TB) {
	t.Helper()
	var body string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var status int
		if status, body = p.get(t, "http://"+p.admin+"/health"); status == http.StatusOK {
			return
		}
	}
	t.Fatalf("not healthy: %s\n%s", body, p.out.text())
}

// metric returns the sum of a metric over its series with these labels.
func (p *process) metric(t testing.TB, name string, labels ...string) (sum float64) {
	t.Helper()
	_, body := p.get(t, "http://"+p.admin+"/metrics")
	found := false
	for line := range strings.SplitSeq(body, "\n") {
		wanted := !slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(line, label) })
		if rest, ok := strings.CutPrefix(line, name); ok && wanted && (rest[0] == '{' || rest[0] == ' ') {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
				t.Fatal(err)
			}
			sum, found = sum+v, true
		}
	}
	if !found {
		t.Fatalf("there is no metric %s", name)
	}
	return sum
}

func (p *process) get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.out.text())
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// output keeps what a process says, by lines.
type output struct {
	mu      sync.Mutex
	rest    []byte
	lines   []string
	ended   bool
	changed chan struct{} // closed when something is added
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			break
		}
		o.lines, o.rest = append(o.lines, string(line)), rest
	}
	o.wake()
	return len(b), nil
}

func (o *output) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.wake()
}

// wait returns the first line with this text. It fails if the process ends
// without, or when patience is at its end.
func (o *output) wait(text string) (line string, ok bool) {
	timeout := time.After(patience)
	for {
		o.mu.Lock()
		for _, line := range o.lines {
			if strings.Contains(line, text) {
				o.mu.Unlock()
				return line, true
			}
		}
		if o.ended {
			o.mu.Unlock()
			return "", false
		}
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			return "", false
		}
	}
}

// seen returns the first line with this text, if it is there already.
func (o *output) seen(text string) (line string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, line := range o.lines {
		if strings.Contains(line, text) {
			return line, true
		}
	}
	return "", false
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n") + "\n" + string(o.rest)
}
