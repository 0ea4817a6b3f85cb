package crash

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// onSmallDisk returns a log with one part, a folder of its directory, on a
// small file system of its own.
func onSmallDisk(t *testing.T, part string, o layout) (s *subject, disk string) {
	t.Helper()
	dir := t.TempDir()
	disk = dir + "/" + part
	mounted(t, disk, "6M")
	s = subjectOf(t, newLog(t, dir, o))
	return s, disk
}

// TestDiskFull: a log on a full disk refuses entries, and halts if it cannot
// publish for some seconds; with room again it goes on, after a restart if it
// has halted.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	t.Run("storage, to the floor", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{floor: "2MiB"})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			free := fillUp(t, disk, 1<<20)
			t.Log(p.says(t, "storage is low: entries are refused"))
			s.refused(t, p, http.StatusServiceUnavailable)
			before := s.head(t, p).Timestamp
			for s.head(t, p).Timestamp <= before+200 { // checkpoints go on
			}
			p.healthy(t)
			free()
			s.grows(t, p, 50)
		})
		if _, failed := p.out.seen("no space left on device"); failed {
			t.Error("the disk was full")
		}
		s.sound(t, p)
	})
	t.Run("storage, for a moment", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			free := fillUp(t, disk, 0)
			t.Log(p.says(t, "no space left on device"))
			free()
			s.grows(t, p, 50)
		})
		p.healthy(t)
		s.sound(t, p)
	})
	t.Run("storage", func(t *testing.T) {
		s, disk := onSmallDisk(t, "data", layout{})
		p := s.serve(t, how{})
		var free func()
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			free = fillUp(t, disk, 0)
			t.Log(p.says(t, "no space left on device"))
		})
		// A round with entries is refused before its commit, one without is not.
		cause := p.halts(t)
		if !strings.Contains(cause, "no space left on device") {
			t.Error(cause)
		}
		t.Log(cause)
		s.refused(t, p, http.StatusInternalServerError)
		s.head(t, p) // is still served
		p.kill()
		message := s.refuses(t, how{})
		if !strings.Contains(message, "no space left on device") {
			t.Error(message)
		}
		t.Log(message)
		free()
		p = s.serve(t, how{})
		s.resubmit(t, p.addr, 50)
		s.sound(t, p)
	})
	t.Run("lock", func(t *testing.T) {
		s, disk := onSmallDisk(t, "locks", layout{lock: "locks/lock.db"})
		p := s.serve(t, how{})
		var free func()
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			free = fillUp(t, disk, 0)
			cause := p.halts(t)
			if !strings.Contains(cause, "commit: ") {
				t.Error(cause)
			}
			t.Log(cause)
		})
		p.kill()
		free()
		p = s.serve(t, how{})
		s.resubmit(t, p.addr, 50)
		s.sound(t, p)
	})
	t.Run("cache", func(t *testing.T) {
		s, disk := onSmallDisk(t, "caches", layout{cache: "caches/cache.db"})
		p := s.serve(t, how{})
		s.under(t, p, 10, func() {
			s.grows(t, p, 50)
			free := fillUp(t, disk, 0)
			t.Log(p.says(t, "dedup cache put failed"))
			s.grows(t, p, 50) // the log goes on, and memory answers for the cache
			s.submitters.failed(t)
			free()
			s.grows(t, p, 50)
		})
		p.healthy(t)
		if n := p.metric(t, "daybook_unremembered_entries"); n != 0 {
			t.Errorf("%v keys are not in the cache", n)
		}
		p.stop(t)
		p = s.serve(t, how{})
		s.resubmit(t, p.addr, 100)
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
		if err := syscall.Mount("daybook-crash", disk, "tmpfs", syscall.MS_REMOUNT|flags, ""); errors.Is(err, syscall.EBUSY) {
			t.Fatal("EBUSY")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	p := s.serve(t, how{})
	s.under(t, p, 10, func() {
		s.grows(t, p, 50)
		for syscall.Mount("daybook-crash", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") != nil {
		} // EBUSY while a file is being written
		t.Log(p.says(t, "read-only file system"))
	})
	// A round with entries is refused before its commit, one without is not.
	cause := p.halts(t)
	if !strings.Contains(cause, "read-only file system") {
		t.Error(cause)
	}
	t.Log(cause)
	s.head(t, p) // is still served
	p.kill()
	message := s.refuses(t, how{})
	if !strings.Contains(message, "read-only file system") {
		t.Error(message)
	}
	t.Log(message)
	remount(0)
	p = s.serve(t, how{})
	s.resubmit(t, p.addr, 50)
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

// fillUp fills the file system of a directory, but for so many bytes. The
// returned function makes room again.
func fillUp(t *testing.T, dir string, leave int64) (free func()) {
	t.Helper()
	name := dir + "/filler"
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	var size int64
	for ; err == nil; size += int64(len(block)) {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if leave > 0 {
		err = f.Truncate(size - leave)
	} else {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
