package program

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const patience = 30 * time.Second

// shell starts a script, which is killed at the end of the test.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	out := NewOutput(patience)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := Start(cmd, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.Done
	})
	return p
}

func TestOutputLines(t *testing.T) {
	o := NewOutput(0)
	for _, part := range []string{"one\r\ntw", "o\n\nthree, again one\nrest of one"} {
		if n, err := o.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := o.Text(), "one\ntwo\n\nthree, again one\nrest of one"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	for _, c := range []struct {
		text string
		nth  int
		want string
		ok   bool
	}{
		{"one", 1, "one", true},
		{"one", 2, "three, again one", true},
		{"one", 3, "", false}, // it has no end yet
		{"two", 1, "two", true},
		{"four", 1, "", false},
	} {
		if line, ok := o.WaitNth(c.text, c.nth); line != c.want || ok != c.ok {
			t.Errorf("line %d with %q: %q, %v", c.nth, c.text, line, ok)
		}
	}
	if line, ok := o.Seen("one"); line != "one" || !ok {
		t.Errorf("the first line with one: %q, %v", line, ok)
	}
	if line, ok := o.Seen("rest"); ok {
		t.Errorf("seen before its end: %q", line)
	}
}

// TestWaitEndsWithProcess: who waits for a line gets it when it comes, and need
// not wait for patience when it cannot come any more.
func TestWaitEndsWithProcess(t *testing.T) {
	began := time.Now()
	p := shell(t, `echo first; read line; echo second`) // its input is empty
	for _, text := range []string{"first", "second"} {
		if line, ok := p.Out.Wait(text); line != text || !ok {
			t.Errorf("%q, %v", line, ok)
		}
	}
	if line, ok := p.Out.Wait("third"); ok {
		t.Errorf("came: %q", line)
	}
	if took := time.Since(began); took >= patience {
		t.Errorf("it took %v", took)
	}
	if err := p.Ended(); err != nil {
		t.Error(err)
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		says        string
		ok          bool
		addr, admin string
		err         string
	}{
		{says: `{"msg":"serving","addresses":"[127.0.0.1:80]","admin":"127.0.0.1:81"}`, ok: true, addr: "127.0.0.1:80", admin: "127.0.0.1:81"},
		{says: `{"msg":"the log does not start"}`},
		{says: `{"msg":"serving",`, err: "where it serves"},
	} {
		p := shell(t, fmt.Sprintf("echo '%s'", c.says))
		ok, err := p.Ready()
		if ok != c.ok || p.Addr != c.addr || p.Admin != c.admin {
			t.Errorf("%s: %v, %q, %q", c.says, ok, p.Addr, p.Admin)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}

// TestStop: an end that is not in order, or none at all, is an error.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		name, trap string
		patience   time.Duration
		want       string
	}{
		{"in order", "exit 0", patience, ""},
		{"with an exit code", "exit 3", patience, "ended with exit status 3"},
		{"not at all", "", time.Millisecond, "does not end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := shell(t, fmt.Sprintf(`trap '%s' TERM; echo ready; while :; do sleep 0.01; done`, c.trap))
			if _, ok := p.Out.Wait("ready"); !ok {
				t.Fatal(p.Out.Text())
			}
			p.Out.patience = c.patience
			err := p.Stop()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestBuildFails(t *testing.T) {
	b := &Build{Dir: t.TempDir(), Package: "test/absent"}
	f := &fatal{TB: t}
	func() {
		defer func() { _ = recover() }() // of Fatal
		b.Path(f)
	}()
	if !strings.Contains(f.said, "building test/absent") {
		t.Errorf("a package that is not there is built: %q", f.said)
	}
}

// fatal keeps what a test would end with.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Fatal(args ...any) { f.said = fmt.Sprint(args...); panic("fatal") }
