package crash

import (
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// strace returns a command that makes system calls on a file fail with an
// error, as a broken disk would.
func strace(t *testing.T, path, calls, errno string) []string {
	t.Helper()
	program, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED: there is no strace on this machine")
	}
	command := []string{program, "-f", "-o", "/dev/null", "-P", path, "-e", "trace=" + calls, "-e", "inject=" + calls + ":error=" + errno}
	if out, err := exec.Command(command[0], append(command[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: strace may not trace here: %v\n%s", err, out)
	}
	return command
}

// failing makes system calls of a running process on a file fail, until the
// returned function is called.
func (p *process) failing(t *testing.T, path, calls, errno string) (mend func()) {
	t.Helper()
	command := append(strace(t, path, calls, errno), "-p", strconv.Itoa(p.Cmd.Process.Pid))
	s := run(t, exec.Command(command[0], command[1:]...))
	s.says(t, "attached")
	return func() { signal(t, s, syscall.SIGINT); s.ended(t) } // which detaches
}

// TestDatabaseFails has system calls on the databases fail with EIO.
func TestDatabaseFails(t *testing.T) {
	t.Parallel()
	const syncs = "fsync,fdatasync"
	t.Run("fsync of the lock", func(t *testing.T) {
		s := fork(t, false)
		p := s.serve(t, how{})
		s.under(t, p, 20, func() {
			s.grows(t, p, 20)
			mend := p.failing(t, s.at("lock.db-wal"), syncs, "EIO")
			cause := p.halts(t)
			if !strings.Contains(cause, "the outcome of the lock swap is unknown") {
				t.Errorf("halted with %s", cause)
			}
			t.Log(cause)
			mend()
		})
		s.refused(t, p, http.StatusInternalServerError)
		p.kill()
		p = s.serve(t, how{})
		s.Resubmit(t.Context(), p.Addr, 50)
		s.sound(t, p)
	})
	t.Run("writes of the cache", func(t *testing.T) {
		s := fork(t, false)
		p := s.serve(t, how{})
		s.under(t, p, 20, func() {
			s.grows(t, p, 20)
			mend := p.failing(t, s.at("cache.db-wal"), "pwrite64", "EIO")
			t.Log(p.says(t, "dedup cache put failed"))
			s.grows(t, p, 50)
			mend()
			s.grows(t, p, 50)
		})
		p.healthy(t)
		if n := s.sound(t, p); n > 0 {
			t.Errorf("%d entries were logged twice", n)
		}
	})
	t.Run("WAL checkpoint of the cache", func(t *testing.T) {
		s := fork(t, false)
		p := s.serve(t, how{})
		s.under(t, p, 20, func() {
			s.grows(t, p, 20)
			mend := p.failing(t, s.at("cache.db"), syncs+",pwrite64", "EIO")
			t.Log(p.says(t, "WAL checkpoint of the dedup cache failed"))
			s.grows(t, p, 50)
			mend()
			s.grows(t, p, 50)
		})
		p.healthy(t)
		if n := s.sound(t, p); n > 0 {
			t.Errorf("%d entries were logged twice", n)
		}
	})
	t.Run("reads of the cache", func(t *testing.T) {
		s := fork(t, false)
		p := s.serve(t, how{})
		mend := p.failing(t, s.at("cache.db"), "pread64", "EIO") // nothing was looked up yet
		s.refused(t, p, http.StatusInternalServerError)
		t.Log(p.says(t, "cache"))
		mend()
		s.Resubmit(t.Context(), p.Addr, 50)
		if n := s.sound(t, p); n > 0 {
			t.Errorf("%d entries were logged twice: an error was taken for a miss", n)
		}
	})
	t.Run("reads of the right edge", func(t *testing.T) {
		s := fork(t, false)
		message := s.refuses(t, how{wrapper: strace(t, s.at(edge("data")), "read,pread64", "EIO")})
		if !strings.Contains(message, "input/output error") {
			t.Error(message)
		}
		t.Log(message)
		s.sound(t, s.serve(t, how{}))
	})
}
