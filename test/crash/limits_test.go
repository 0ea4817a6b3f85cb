package crash

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// limited is a command that runs a program with a limit of open files.
func limited(t *testing.T, files int) []string {
	t.Helper()
	prlimit, err := exec.LookPath("prlimit")
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: there is no prlimit on this machine")
	}
	return []string{prlimit, fmt.Sprintf("--nofile=%d:%d", files, files)}
}

// TestFileLimit has more clients connect than the process may have files open.
// They wait; the log goes on writing, and those who are connected are served.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	const files = 330
	s := fork(t, false)
	p := s.serve(t, how{wrapper: limited(t, files)})
	s.under(t, p, 10, func() {
		s.grows(t, p, 50)
		var idle []net.Conn
		for range files + 50 {
			c, err := net.DialTimeout("tcp", p.Addr, patience)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		p.says(t, "all connections are taken")
		// Rounds go on meanwhile, for longer than they would be tried again.
		before := s.inFile(t).Timestamp
		for s.inFile(t).Timestamp < before+6000 {
			time.Sleep(100 * time.Millisecond)
		}
		for _, c := range idle {
			_ = c.Close() // nothing was said on it
		}
		s.grows(t, p, 50)
	})
	if s.Counts().Statuses[500]+s.Counts().Statuses[503] > 0 {
		t.Errorf("answers by status: %v", s.Counts().Statuses)
	}
	p.healthy(t) // the operator has connections of his own
	if text, failed := p.Out.Seen("too many open files"); failed {
		t.Error(text)
	}
}

// TestFileLimitTooLow: a limit with which the log could halt one day is refused
// at start.
func TestFileLimitTooLow(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	message := s.refuses(t, how{wrapper: limited(t, 100)})
	if !strings.Contains(message, "the open-file limit is 100, and 1 logs need at least") {
		t.Error(message)
	}
	t.Log(message)
}
