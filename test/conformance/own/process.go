// Package own starts daybook's own logs, as processes of their own, and holds
// them to the clauses of package conformance: what make conformance does.
package own

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/daybook-ct/daybook/test/conformance"
)

// Build builds daybook into a directory and returns its path. The current
// directory must be in the module.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "daybook")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/daybook-ct/daybook/cmd/daybook").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building daybook: %w: %s", err, out)
	}
	return path, nil
}

const (
	// startTimeout bounds the start of a log, and stopTimeout its end.
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// process is daybook as a child. It is not safe for concurrent use.
type process struct {
	binary string
	args   []string
	log    string // file for its standard error

	cmd  *exec.Cmd
	line []byte // the first line of its standard output, if it was waited for
	out  *bufio.Reader
	done chan struct{} // closed when it has ended
	err  error         // how, set before done is closed
}

// start starts the process. If ready is set, it waits for the first line that
// it prints.
func (p *process) start(ready bool) error {
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stderr = file
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, file.Close()); err != nil { // the child has a copy
		return fmt.Errorf("starting %s: %w", p.binary, err)
	}
	p.cmd, p.out, p.done = cmd, bufio.NewReader(stdout), make(chan struct{})
	if !ready {
		p.await()
		return nil
	}
	line := make(chan []byte, 1)
	go func() { // ends with the child's output
		b, _ := p.out.ReadBytes('\n') // nothing is what a failed start prints
		line <- b
	}()
	select {
	case p.line = <-line:
	case <-time.After(startTimeout):
		err := cmd.Process.Kill()
		<-line
		p.await()
		<-p.done
		p.cmd = nil
		return errors.Join(errors.New("it was not ready in time"), err)
	}
	p.await()
	if len(p.line) == 0 {
		<-p.done
		p.cmd = nil
		return fmt.Errorf("daybook %s ended: %v: %s", strings.Join(p.args, " "), p.err, p.lastLine())
	}
	return nil
}

// await collects the end of the process.
func (p *process) await() {
	out, cmd, done := p.out, p.cmd, p.done
	go func() { // ends with the process
		defer close(done)
		_, _ = io.Copy(io.Discard, out) // to its end, so that Wait may close the pipe
		p.err = cmd.Wait()
	}()
}

func (p *process) lastLine() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// stop ends the process in order.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		p.cmd = nil
		if p.err != nil {
			return fmt.Errorf("ending daybook: %w: %s", p.err, p.lastLine())
		}
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(errors.New("daybook did not end in time"), p.kill())
	}
}

// kill ends the process without a warning.
func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.done
	p.cmd = nil
	return err
}

// Dev is a log that daybook dev runs. It is not safe for concurrent use.
type Dev struct {
	process
	dir string

	Submission string `json:"submission_prefix"`
	Monitoring string `json:"monitoring_prefix"`
	Origin     string `json:"origin"`
	Key        string `json:"public_key"`
}

func newDev(binary, dir string, args ...string) *Dev {
	return &Dev{dir: dir, process: process{binary: binary, log: dir + ".log", args: append([]string{"dev", "--dir", dir, "--pool-size", "0"}, args...)}}
}

func (s *suite) newDev(name string, args ...string) *Dev {
	return newDev(s.o.Binary, filepath.Join(s.o.Dir, name), append([]string{"--interval", s.interval().String()}, args...)...)
}

// StartDev runs daybook dev on a directory.
func StartDev(binary, dir string, args ...string) (*Dev, error) {
	d := newDev(binary, dir, args...)
	return d, d.run()
}

// Dir is the log's directory.
func (d *Dev) Dir() string { return d.dir }

// Stop ends the log in order.
func (d *Dev) Stop() error { return d.stop() }

// Target is the log with its test root, if it has one.
func (d *Dev) Target() (t conformance.Target, err error) {
	t = conformance.Target{Submission: d.Submission, Monitoring: d.Monitoring, Origin: d.Origin}
	if t.PublicKey, err = conformance.ReadKey(d.Key); err != nil {
		return t, err
	}
	cert, err := os.ReadFile(filepath.Join(d.dir, "root.pem"))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	key, err := os.ReadFile(filepath.Join(d.dir, "root-key.pem"))
	if err != nil {
		return t, err
	}
	if t.Issuer, err = conformance.NewIssuer(cert, key); err != nil {
		return t, err
	}
	t.Roots = [][]byte{t.Issuer.Certificate()}
	return t, nil
}

// run starts the log and reads where it is.
func (d *Dev) run() error {
	if err := d.start(true); err != nil {
		return err
	}
	if err := json.Unmarshal(d.line, d); err != nil {
		return errors.Join(fmt.Errorf("reading %q: %w", d.line, err), d.stop())
	}
	return nil
}

// restart ends the log and starts it again.
func (d *Dev) restart(_ context.Context, kill bool) error {
	end := d.stop
	if kill {
		end = d.kill
	}
	if err := end(); err != nil {
		return err
	}
	return d.run()
}

// freeAddress returns a loopback address that nobody listens on. Somebody else
// may take it before it is used; then the start fails and says so.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
