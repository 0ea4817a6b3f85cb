package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile writes one file outside of a [Dir], with everything Write
// promises. The directory must exist.
func WriteFile(name string, data []byte, mode Mode, perm fs.FileMode) error {
	fsys, err := OpenOS(filepath.Dir(name))
	if err != nil {
		return err
	}
	err = NewDir(fsys).Write(Content{Name: filepath.Base(name), Data: data, Mode: mode, Perm: perm})
	return errors.Join(err, fsys.Close())
}

// MkdirAll creates a directory, mode 0755 before umask, and those above it
// that do not exist, durably.
func MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is not a directory", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := MkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// SyncDir makes the entries of a directory durable, for files that others
// create. Its error is an ErrSync.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("%w: directory %s: %w", ErrSync, dir, err)
	}
	return nil
}
