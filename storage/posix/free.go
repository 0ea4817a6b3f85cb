package posix

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free is what a file system has left for ordinary users, and in total.
type Free struct {
	Bytes, TotalBytes int64
	// Inodes and TotalInodes are 0 on file systems that make inodes as they
	// need them, such as btrfs.
	Inodes, TotalInodes int64
	ReadOnly            bool // mounted for reading only
}

// FreeSpace returns the space of the file system that holds a directory.
func FreeSpace(dir string) (Free, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Free{}, fmt.Errorf("asking for the free space of %s: %w", dir, err)
		}
		break
	}
	// The widths and signs of these fields differ between systems. What is
	// available is negative where the reserve for root is in use.
	block := int64(st.Bsize)
	return Free{
		Bytes:       max(0, int64(st.Bavail)) * block,
		TotalBytes:  int64(st.Blocks) * block,
		Inodes:      max(0, int64(st.Ffree)),
		TotalInodes: int64(st.Files),
		ReadOnly:    st.Flags&readOnlyMount != 0,
	}, nil
}
