package main

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be the program.
const asProgram = "DAYBOOK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// start creates the log, runs daybook serve as a process of its own, and returns
// when it serves.
func start(t *testing.T, path string) (*exec.Cmd, *serving) {
	t.Helper()
	if code, _, stderr := invoke(t, "init", "-c", path); code != exitOK {
		t.Fatalf("init: exit code %d: %s", code, stderr)
	}
	return serve(t, path)
}

// serve is start for a log that exists.
func serve(t *testing.T, path string) (*exec.Cmd, *serving) {
	t.Helper()
	log := &serving{ready: make(chan struct{})}
	lines, w := io.Pipe()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "-c", path)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = w
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go log.copy(lines)
	<-log.ready
	return cmd, log
}

// copy passes lines on, one a Write.
func (s *serving) copy(r io.Reader) {
	var rest string
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		rest += string(buf[:n])
		for {
			line, after, ok := strings.Cut(rest, "\n")
			if !ok {
				break
			}
			rest = after
			_, _ = s.Write([]byte(line + "\n")) // never fails
		}
		if err != nil {
			return
		}
	}
}

func TestSignals(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd, log := start(t, place(t, ""))
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %v: %v\n%s", signal, err, log)
		}
		if !strings.Contains(log.String(), `"msg":"drained"`) {
			t.Errorf("after %v the log has not drained:\n%s", signal, log)
		}
	}
}

// A second signal does not wait for what the first one waits for.
func TestSecondSignal(t *testing.T) {
	cmd, log := start(t, place(t, ""))
	conn, err := net.Dial("tcp", log.address)
	if err != nil {
		t.Fatal(err)
	}
	// A submission whose body never comes keeps the orderly end waiting.
	head := "POST /a/ct/v1/add-chain HTTP/1.1\r\nHost: ct.example.com\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 100)); err != nil { // 100 Continue: it reads the body
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	log.await(t, `"msg":"drained"`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("after the second signal: %v\n%s", err, log)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// await waits for a part of a line, which must come within a minute.
func (s *serving) await(t *testing.T, part string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.String(), part); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s\n%s", part, s)
		}
	}
}
