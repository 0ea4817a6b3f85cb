package incident

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopyFile copies a file and forgets both copies, as Cold does.
func CopyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return errors.Join(forget(in), forget(out))
}

// Cold makes the system forget what it has in memory of a file, as after a start of
// the machine, or when other files have taken the memory.
func Cold(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return forget(f)
}

// forget drops what is on the disk already, so the rest is written first.
func forget(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("making the system forget %s: %w", f.Name(), err)
	}
	return nil
}
