package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCached drops the clean pages of a file from the page cache. Linux keeps
// those that someone has mapped or is just reading.
func dropCached(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
