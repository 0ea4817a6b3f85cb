package program

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is a command that was started.
type Process struct {
	Cmd  *exec.Cmd
	Out  *Output
	Done chan struct{} // closed after the end

	Addr, Admin string // of a log that serves
}

// Start starts a command and does not wait for it. The caller has set where its
// output goes, to out or elsewhere, and sees to its end.
func Start(cmd *exec.Cmd, out *Output) (*Process, error) {
	p := &Process{Cmd: cmd, Out: out, Done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // ProcessState says it all
		out.end()
		close(p.Done)
	}()
	return p, nil
}

// Ready waits until daybook serve says where it serves. It reports whether it
// came to that.
func (p *Process) Ready() (bool, error) {
	line, ok := p.Out.Wait(`"msg":"serving"`)
	if !ok {
		return false, nil
	}
	var record struct{ Addresses, Admin string }
	if err := json.Unmarshal([]byte(line), &record); err != nil {
		return false, fmt.Errorf("the line that says where it serves: %w", err)
	}
	p.Addr, p.Admin = strings.Trim(record.Addresses, "[]"), record.Admin
	return true, nil
}

// State is how the process ended. Done must be closed.
func (p *Process) State() *os.ProcessState { return p.Cmd.ProcessState }

// Stop ends the process in order. It must end with exit code 0.
func (p *Process) Stop() error {
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.Ended(); err != nil {
		return err
	}
	if code := p.State().ExitCode(); code != 0 {
		return fmt.Errorf("ended with %v after SIGTERM:\n%s", p.State(), p.Out.Text())
	}
	return nil
}

// Ended waits for the end, as long as for a line.
func (p *Process) Ended() error {
	select {
	case <-p.Done:
		return nil
	case <-time.After(p.Out.patience):
		return fmt.Errorf("the process does not end:\n%s", p.Out.Text())
	}
}
