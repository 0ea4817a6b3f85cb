package crash

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onSmallDisk returns a log with one part, a folder of its directory, on a
// small file system of its own.
func onSmallDisk(t *testing.T, part string, o layout) (s *subject, disk string) {
	t.Helper()
	dir := t.TempDir()
	disk = dir + "/" + part
	mounted(t, disk, "24M")
	s = subjectOf(t, newLog(t, dir, o))
	return s, disk
}

// TestDiskFull: a log on a full disk refuses rounds before they commit, and so
// all entries; with room again it goes on by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	t.Run("storage, to the floor", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{floor: "12MiB"})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			full := fillUp(t, disk, 10<<20)
			t.Log(p.says(t, "storage is low: entries are refused"))
			s.answers(t, http.StatusServiceUnavailable)
			s.refused(t, p, http.StatusServiceUnavailable)
			before := s.head(t, p).Timestamp
			for s.head(t, p).Timestamp <= before+200 { // checkpoints go on
			}
			p.healthy(t)
			full.free(t)
			s.grows(t, p, 50)
		})
		if _, failed := p.Out.Seen("no space left on device"); failed {
			t.Error("the disk was full")
		}
		s.sound(t, p)
	})
	t.Run("storage, for a moment", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			full := fillUp(t, disk, 0)
			t.Log(p.says(t, "no space left on device"))
			full.free(t)
			s.grows(t, p, 50)
		})
		p.healthy(t)
		s.sound(t, p)
	})
	t.Run("storage", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			full := fillUp(t, disk, 600<<10) // less than a round asks for, and more than one that runs needs
			t.Log(p.says(t, "no room for the round"))
			rest := fillUp(t, disk, 0)
			s.refused(t, p, http.StatusServiceUnavailable)
			// Nothing is committed, so nothing has to be published: this can go
			// on for longer than the log waits past commit.
			before := s.head(t, p)
			for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				if head := s.head(t, p); head != before {
					t.Fatalf("a checkpoint of %d is published on a full disk, after one of %d", head.Timestamp, before.Timestamp)
				}
			}
			if _, halted := p.Out.Seen(`"msg":"log has halted`); halted {
				t.Fatal("it has halted")
			}
			rest.free(t)
			full.free(t)
			t.Log(p.says(t, "rounds commit again"))
			s.grows(t, p, 50)
		})
		p.healthy(t)
		s.sound(t, p)
	})
	t.Run("storage, at a start", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() { s.grows(t, p, 50) })
		p.stop(t)
		full := fillUp(t, disk, 0)
		message := s.refuses(t, how{})
		if !strings.Contains(message, "no space left on device") {
			t.Error(message)
		}
		t.Log(message)
		full.free(t)
		p = s.serve(t, how{})
		s.Resubmit(t.Context(), p.Addr, 50)
		s.sound(t, p)
	})
	t.Run("lock", func(t *testing.T) {
		s, disk := onSmallDisk(t, "locks", layout{lock: "locks/lock.db"})
		p := s.serve(t, how{})
		var full filler
		s.under(t, p, 10, func() {
			s.grows(t, p, 20)
			full = fillUp(t, disk, 0)
			// Once its WAL is as large as it gets, it needs no more room.
			for enough := s.count() + 1000; s.count() < enough; time.Sleep(5 * time.Millisecond) {
				if _, halted := p.Out.Seen(`"msg":"log has halted`); halted {
					break
				}
			}
		})
		if _, halted := p.Out.Seen(`"msg":"log has halted`); halted {
			cause := p.halts(t)
			if !strings.Contains(cause, "the outcome of the lock swap is unknown") {
				t.Error(cause)
			}
			t.Log(cause)
		}
		p.kill()
		full.free(t)
		p = s.serve(t, how{})
		s.Resubmit(t.Context(), p.Addr, 50)
		s.sound(t, p)
	})
	t.Run("cache", func(t *testing.T) {
		s, disk := onSmallDisk(t, "caches", layout{cache: "caches/cache.db"})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			full := fillUp(t, disk, 0)
			t.Log(p.says(t, "dedup cache put failed"))
			s.grows(t, p, 50) // the log goes on, and memory answers for the cache
			s.failed(t)
			full.free(t)
			s.grows(t, p, 50)
		})
		p.healthy(t)
		if n := p.metric(t, "daybook_unremembered_entries"); n != 0 {
			t.Errorf("%v keys are not in the cache", n)
		}
		p.stop(t)
		p = s.serve(t, how{})
		s.Resubmit(t.Context(), p.Addr, 100)
		if n := s.sound(t, p); n > 0 {
			t.Errorf("%d entries were logged twice", n)
		}
	})
}

// TestReadOnlyRemount: what a kernel does with a file system that has errors.
func TestReadOnlyRemount(t *testing.T) {
	t.Parallel()
	s, disk := onSmallDisk(t, "data", layout{})
	remount := func(flags uintptr) {
		t.Helper()
		err := syscall.EBUSY // while a file is being written
		for deadline := time.Now().Add(patience); err == syscall.EBUSY && time.Now().Before(deadline); {
			err, _ = syscall.Mount("daybook-crash", disk, "tmpfs", syscall.MS_REMOUNT|flags, "").(syscall.Errno)
		}
		if err != 0 {
			t.Fatal(err)
		}
	}
	p := s.serve(t, how{})
	halted := false
	s.under(t, p, 10, func() {
		s.grows(t, p, 50)
		remount(syscall.MS_RDONLY)
		t.Log(p.says(t, "read-only file system"))
		// A round is refused before its commit. One that was past it just then
		// cannot be finished, and the log halts after some seconds.
		refused := false
		for end := time.Now().Add(patience); !halted && !refused && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			_, halted = p.Out.Seen(`"msg":"log has halted`)
			_, refused = p.Out.Seen("no room for the round")
		}
		if refused {
			s.refused(t, p, http.StatusServiceUnavailable)
		} else {
			t.Log(p.halts(t))
		}
		s.head(t, p) // is still served
		if halted {
			return
		}
		remount(0)
		t.Log(p.says(t, "rounds commit again"))
		s.grows(t, p, 50)
		p.healthy(t)
		remount(syscall.MS_RDONLY)
	})
	p.kill()
	message := s.refuses(t, how{})
	if !strings.Contains(message, "read-only file system") {
		t.Error(message)
	}
	t.Log(message)
	remount(0)
	p = s.serve(t, how{})
	s.Resubmit(t.Context(), p.Addr, 50)
	s.sound(t, p)
}

// mounted mounts a small file system of its own on a folder of a log.
func mounted(t *testing.T, path, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root may mount a file system")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("daybook-crash", path, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: no file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// filler is a file that takes the room of a file system.
type filler struct{ f *os.File }

// fillUp fills the file system of a directory, but for so many bytes.
func fillUp(t *testing.T, dir string, leave int64) filler {
	t.Helper()
	f, err := os.CreateTemp(dir, "filler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	block := make([]byte, 4096)
	for err == nil {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if leave > 0 && int64(st.Bavail)*int64(st.Bsize) <= leave {
			return filler{f}
		}
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return filler{f}
}

// free makes room again.
func (f filler) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(f.f.Name()); err != nil {
		t.Fatal(err)
	}
	if err := f.f.Close(); err != nil {
		t.Fatal(err)
	}
}
