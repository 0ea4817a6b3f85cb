package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Reread makes what is read of a file from now on be what the disk has, as far
// as the operating system lets it: what was not written yet is written, and what
// its cache holds is dropped. An absent file is no error.
//
// A process that starts after another one needs this for files that the other
// one appended to. If an fsync of them failed, Linux keeps what the disk did not
// take in its cache, clean, so that it is read as if it were there and never
// written again. What is appended then comes after a hole, and is lost with it
// when the power fails.
func Reread(name string) (err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return RereadFile(f)
}

// RereadFile is Reread of a file that is open for writing and stays so. To open
// and close it once more would free the locks that the process holds on it.
func RereadFile(f *os.File) error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSync, f.Name(), err)
	}
	if err := DropCached(f); err != nil {
		return fmt.Errorf("dropping what is cached of %s: %w", f.Name(), err)
	}
	return nil
}
