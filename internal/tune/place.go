package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// prefix begins the names of temporary directories. It has a dot, so that a
// static file server hides them.
const prefix = ".daybook-tune-"

// places are temporary directories on the file systems of a log.
type places struct {
	storage, lock, cache string
	made                 []string
}

// makePlaces makes one temporary directory in each directory.
func makePlaces(o *Options) (_ *places, err error) {
	p := new(places)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove())
		}
	}()
	for _, d := range []struct {
		in  string
		dir *string
	}{{o.StorageDir, &p.storage}, {o.LockDir, &p.lock}, {o.CacheDir, &p.cache}} {
		if *d.dir, err = os.MkdirTemp(d.in, prefix); err != nil {
			return p, fmt.Errorf("making a temporary directory: %w", err)
		}
		p.made = append(p.made, *d.dir)
	}
	return p, nil
}

func (p *places) remove() error {
	var errs []error
	for _, dir := range p.made {
		errs = append(errs, os.RemoveAll(dir))
	}
	p.made = nil
	return errors.Join(errs...)
}

// Beside returns the directory to measure in for a file or directory of a log:
// the one around it, or, if that is on another file system or may not be
// written to, the directory itself. A symbolic link is followed.
func Beside(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) { // not made yet
		return filepath.Dir(path), nil
	}
	if err != nil {
		return "", err
	}
	parent := filepath.Dir(target)
	info, err := os.Stat(target)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return parent, nil
	}
	own, err := device(target)
	if err != nil {
		return "", err
	}
	around, err := device(parent)
	if err != nil {
		return "", err
	}
	if own != around || unix.Access(parent, unix.W_OK) != nil {
		return target, nil
	}
	return parent, nil
}

// device returns the number of the file system that a path is on.
func device(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return uint64(st.Dev), nil
}

// Leftovers returns the temporary directories that a measurement which was
// killed has left in these directories.
func Leftovers(dirs ...string) (left []string) {
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(escape(dir), prefix+"*")) // the pattern is well formed
		left = append(left, found...)
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// escape makes a pattern that matches a path only.
func escape(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}
