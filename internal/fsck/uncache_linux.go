package fsck

import (
	"os"

	"golang.org/x/sys/unix"
)

const euclean = unix.EUCLEAN // what file systems say of their own damage

// uncache asks the system to forget what it has cached of a file, so that the
// disk is read. It is a request: what is dirty or mapped stays.
func uncache(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) {
		_ = unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED)
	})
}
