package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// Drops says whether DropCached has an effect on this system.
const Drops = true

// DropCached drops the clean pages of a file from the page cache, so that the disk
// is read. Linux keeps those that someone has mapped or is just reading.
func DropCached(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
