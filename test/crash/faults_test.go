package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// under runs f while the log is under load, and waits for both.
func (s *subject) under(t *testing.T, p *process, connections int, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stop := s.watch(t, p)
	var load sync.WaitGroup
	load.Go(func() { s.load(ctx, p, connections) })
	f()
	cancel()
	load.Wait()
	stop()
}

// grows waits until count more entries are promised.
func (s *subject) grows(t *testing.T, p *process, count int) {
	t.Helper()
	want := s.count() + count
	for deadline := time.Now().Add(patience); s.count() < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no entries are promised any more\n%s", p.Out.Text())
		}
	}
}

// answers waits until some submission is answered with this status.
func (s *subject) answers(t *testing.T, status int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s.Counts().Statuses[status] > 0 {
			return
		}
	}
	t.Fatalf("no submission is answered with %d", status)
}

// TestSuspended stops a process for a while, as a virtual machine that is
// paused is. Submitters wait, and nothing else happens.
func TestSuspended(t *testing.T) {
	t.Parallel()
	s := fork(t, false)
	p := s.serve(t, how{})
	s.under(t, p, 20, func() {
		s.grows(t, p, 50)
		signal(t, p, syscall.SIGSTOP)
		time.Sleep(*pause)
		signal(t, p, syscall.SIGCONT)
		s.grows(t, p, 50)
	})
	p.healthy(t)
	if n := p.metric(t, "daybook_ticks_skipped_total"); n < pause.Seconds()/0.05/2 {
		t.Errorf("%v ticks were skipped", n)
	}
	s.sound(t, p)
	p.stop(t)
}

// stopped waits until a process that stops itself has done so.
func stopped(t *testing.T, p *process) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			return
		}
	}
	t.Fatal("the process does not stop")
}

func signal(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.Cmd.Process.Pid, s); err != nil {
		t.Fatal(err)
	}
}

// TestSuspendedAndReplaced stops a process in the middle of a round; another
// one takes its place, on a copy of the storage; then the first one goes on.
func TestSuspendedAndReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, halts string }{
		{"commit:before", "another process has written this log's lock"},
		{"commit:after", "another process has written this log's lock"},
		{"publish:after", "another process has written this log's lock"},
	} {
		t.Run(c.at, func(t *testing.T) {
			one := fork(t, false)
			p := one.serve(t, how{plan: "new." + c.at + ":2:stop"})
			one.under(t, p, 20, func() {
				p.says(t, "fault point")
				stopped(t, p)
				two := one.fork(t, "")
				two.write(t, "daybook.yaml", layout{lock: one.at("lock.db")}.configuration())
				q := two.serve(t, how{})
				two.under(t, q, 20, func() {
					two.grows(t, q, 50)
					signal(t, p, syscall.SIGCONT)
					if cause := p.halts(t); !strings.Contains(cause, c.halts) {
						t.Errorf("halted with %s", cause)
					}
					two.grows(t, q, 50)
				})
				two.Adopt(one.Witness)
				two.sound(t, q)
			})
		})
	}
}

// TestFsyncFails: after a failed fsync the page cache is not to be trusted, so
// the log halts at once (S4), and recovery writes again what was committed.
func TestFsyncFails(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"stage/file.sync", "stage/file.sync_dir", "apply/file.sync", "publish/file.sync", "discard/file.sync_dir"} {
		t.Run(place, func(t *testing.T) {
			s := fork(t, false)
			p := s.serve(t, how{plan: place + ":before:3:EIO"})
			s.under(t, p, 20, func() {
				cause := p.halts(t)
				if step, _, _ := strings.Cut(place, "/"); !strings.HasPrefix(cause, step+": ") || !strings.Contains(cause, "storage could not make a write durable") {
					t.Errorf("halted with %s", cause)
				}
				t.Log(cause)
			})
			s.refused(t, p, http.StatusInternalServerError)
			p.kill()
			p = s.serve(t, how{})
			s.Resubmit(t.Context(), p.Addr, 50)
			if n := s.sound(t, p); n > 0 {
				t.Errorf("%d entries were logged twice", n)
			}
			p.stop(t)
		})
	}
}

// TestStorageFails has operations of the storage fail for a while: before
// commit entries are refused, past it the operations are repeated.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ plan, says string }{
		{"stage/file.create:before:2:EMFILE", "round failed"},
		{"apply/file.write:before:2:ENOSPC", "storage failed past commit, trying again"},
		{"publish/file.rename:before:2:EIO", "storage failed past commit, trying again"},
		{"discard/file.remove:before:2:EIO", "discarding staging bundles failed"},
	} {
		t.Run(c.plan, func(t *testing.T) {
			s := fork(t, false)
			p := s.serve(t, how{plan: c.plan})
			s.under(t, p, 20, func() {
				t.Log(p.says(t, c.says))
				s.grows(t, p, 50)
			})
			p.healthy(t)
			s.sound(t, p)
			p.stop(t)
			if _, bundles := s.leftovers(t); len(bundles) > 0 {
				t.Errorf("bundles are left: %v", bundles)
			}
		})
	}
}
