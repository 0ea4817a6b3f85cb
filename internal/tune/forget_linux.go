package tune

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// forget takes a file that nobody has open out of the system's page cache.
func forget(path string) (dropped bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil { // what is not written yet cannot be dropped
		return false, err
	}
	return true, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
