package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/test/program"
)

// patience bounds every wait for something that is sure to come on a machine
// that is not broken.
const patience = 30 * time.Second

// process is a running daybook serve.
type process struct{ *program.Process }

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
	binary := normal
	if h.plan != "" || h.clock != "" {
		binary = faulty
	}
	args := append(append([]string{}, h.wrapper...), binary.Path(t), "serve", "-c", l.at("daybook.yaml"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "DAYBOOK_FAULT="+h.plan, "DAYBOOK_FAULT_ARM="+h.arm, "DAYBOOK_FAULT_CLOCK="+h.clock)
	cmd.Env = append(cmd.Env, h.env...)
	return run(t, cmd)
}

// run starts a command, which is killed at the end of the test.
func run(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	out := program.NewOutput(patience)
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, err := program.Start(cmd, out)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{started}
	t.Cleanup(p.kill)
	return p
}

// serve starts the log and waits until it serves.
func (l *logDir) serve(t testing.TB, h how) *process {
	t.Helper()
	p := l.start(t, h)
	if !p.ready() {
		t.Fatalf("the log does not start:\n%s", p.Out.Text())
	}
	return p
}

// refuses starts the log, which must not start, and returns the message with
// which it ended.
func (l *logDir) refuses(t testing.TB, h how) string {
	t.Helper()
	p := l.start(t, h)
	if p.ready() {
		t.Fatalf("the log starts:\n%s", p.Out.Text())
	}
	if code := p.State().ExitCode(); code != 1 {
		t.Fatalf("ended with %v, not with exit code 1:\n%s", p.State(), p.Out.Text())
	}
	lines := strings.Split(strings.TrimSpace(p.Out.Text()), "\n")
	return lines[len(lines)-1]
}

// ready waits until the process serves or ends.
func (p *process) ready() bool {
	ok, err := p.Ready()
	if !ok && err == nil {
		<-p.Done
	}
	return ok
}

// kill ends the process, and a wrapper around it, as kill -9 does.
func (p *process) kill() {
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.Done
}

// stop ends the process in order.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end.
func (p *process) ended(t testing.TB) {
	t.Helper()
	if err := p.Ended(); err != nil {
		t.Fatal(err)
	}
}

// diedByKill waits for the end, which must be by SIGKILL.
func (p *process) diedByKill(t testing.TB) {
	t.Helper()
	p.ended(t)
	if s := p.State().Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Fatalf("ended with %v, not by SIGKILL:\n%s", p.State(), p.Out.Text())
	}
}

// says waits for a line with this text on standard error.
func (p *process) says(t testing.TB, text string) string {
	t.Helper()
	line, ok := p.Out.Wait(text)
	if !ok {
		t.Fatalf("it does not say %q:\n%s", text, p.Out.Text())
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
	if status, body := p.get(t, "http://"+p.Admin+"/health"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"halted"`) {
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
		if status, body = p.get(t, "http://"+p.Admin+"/health"); status == http.StatusOK {
			return
		}
	}
	t.Fatalf("not healthy: %s\n%s", body, p.Out.Text())
}

// metric returns the sum of a metric over its series with these labels.
func (p *process) metric(t testing.TB, name string, labels ...string) (sum float64) {
	t.Helper()
	_, body := p.get(t, "http://"+p.Admin+"/metrics")
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
		t.Fatalf("%v\n%s", err, p.Out.Text())
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
