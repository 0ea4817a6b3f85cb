// Package durable writes files so that a power cut right after cannot undo
// them, and so that nobody ever sees half of one.
//
// A file is written under a temporary name, its content is made durable, then
// it becomes visible under its own name, then the directory is made durable;
// so are the directories above it, as far as their entries may be new. Package
// durabletest holds a file layer that forgets what was not made durable, which
// is how this is tested.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Op labels an operation on the file layer.
type Op string

// The operations of [FS] and [File].
const (
	OpOpen    Op = "open"
	OpRead    Op = "read"
	OpReadDir Op = "read_dir"
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpMkdir   Op = "mkdir"
	OpLink    Op = "link"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpSyncDir Op = "sync_dir"
)

// FS is the file layer: the operations below one directory, of which each is
// what the system call of that name is. Names are slash-separated, relative
// and clean; "." is the directory itself. Errors satisfy errors.Is with the
// errors of io/fs. An FS is safe for concurrent use.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// ReadDir returns the entries of a directory in any order.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Create creates a file for writing, or fails with fs.ErrExist.
	Create(name string, perm fs.FileMode) (File, error)
	// Mkdir creates a directory, or fails with fs.ErrExist.
	Mkdir(name string, perm fs.FileMode) error
	// Link gives a file another name, or fails with fs.ErrExist.
	Link(oldname, newname string) error
	// Rename renames a file and replaces the one that has the new name.
	Rename(oldname, newname string) error
	// Remove removes a file, or fails with fs.ErrNotExist.
	Remove(name string) error
	// SyncDir makes the entries of a directory durable, but not what they
	// stand for.
	SyncDir(name string) error
	// Close releases the directory.
	Close() error
}

// File is an open file.
type File interface {
	fs.File
	io.Writer
	// Sync makes the content durable, but not the name.
	Sync() error
}

// ErrGone means that the directory of an FS was removed while it was open, so
// that the absence of a file in it says nothing.
var ErrGone = errors.New("directory was removed while it was in use")

// OS is an [FS] on the operating system. Paths cannot leave its directory, not
// by symbolic links either.
type OS struct{ root *os.Root }

// OpenOS opens a directory.
func OpenOS(dir string) (*OS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &OS{root}, nil
}

// Open implements [FS].
func (o *OS) Open(name string) (File, error) {
	f, err := o.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, o.absence(err)
	}
	return f, nil
}

// absence returns err, or ErrGone if err says that a file does not exist only
// because the whole directory does not anymore.
func (o *OS) absence(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, statErr := o.root.Stat(".")
	if statErr != nil {
		// %v: this must not look like an absence.
		return fmt.Errorf("%w: %v", ErrGone, statErr)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
		return fmt.Errorf("%w: %s", ErrGone, o.root.Name())
	}
	return err
}

// ReadDir implements [FS].
func (o *OS) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := o.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, o.absence(err)
	}
	defer func() { _ = f.Close() }() // only read
	return f.ReadDir(-1)
}

// Create implements [FS].
func (o *OS) Create(name string, perm fs.FileMode) (File, error) {
	f, err := o.root.OpenFile(filepath.FromSlash(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, o.absence(err)
	}
	return f, nil
}

// Mkdir implements [FS].
func (o *OS) Mkdir(name string, perm fs.FileMode) error {
	return o.root.Mkdir(filepath.FromSlash(name), perm)
}

// Link implements [FS].
func (o *OS) Link(oldname, newname string) error {
	return o.root.Link(filepath.FromSlash(oldname), filepath.FromSlash(newname))
}

// Rename implements [FS].
func (o *OS) Rename(oldname, newname string) error {
	return o.root.Rename(filepath.FromSlash(oldname), filepath.FromSlash(newname))
}

// Remove implements [FS].
func (o *OS) Remove(name string) error {
	return o.absence(o.root.Remove(filepath.FromSlash(name)))
}

// SyncDir implements [FS].
func (o *OS) SyncDir(name string) error {
	f, err := o.root.Open(filepath.FromSlash(name))
	if err != nil {
		return o.absence(err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close implements [FS].
func (o *OS) Close() error { return o.root.Close() }

// Call describes an operation for a hook. Name is the file's or directory's;
// for OpLink and OpRename it is the old one, and To the new one.
type Call struct {
	Op   Op
	Name string
	To   string
}

func (c Call) String() string {
	if c.To != "" {
		return fmt.Sprintf("%s %s %s", c.Op, c.Name, c.To)
	}
	return fmt.Sprintf("%s %s", c.Op, c.Name)
}

// Hooks observe the operations of an FS and its files. Each may be nil. They
// are called by whoever does the operation, so concurrently.
type Hooks struct {
	// Before is called before each operation. If it returns an error, the
	// operation is not done and fails with it.
	Before func(Call) error
	// After is called after each operation that was done, with its error.
	After func(Call, error)
}

// Hook returns an FS that calls the hooks for each operation of fsys.
func Hook(fsys FS, h Hooks) FS { return &hooked{fsys, h} }

type hooked struct {
	fs    FS
	hooks Hooks
}

func (h *hooked) do(c Call, f func() error) error {
	if h.hooks.Before != nil {
		if err := h.hooks.Before(c); err != nil {
			return err
		}
	}
	err := f()
	if h.hooks.After != nil {
		h.hooks.After(c, err)
	}
	return err
}

func (h *hooked) Open(name string) (f File, err error) {
	err = h.do(Call{Op: OpOpen, Name: name}, func() (err error) { f, err = h.fs.Open(name); return err })
	if err != nil {
		return nil, err
	}
	return &hookedFile{f, h, name}, nil
}

func (h *hooked) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = h.do(Call{Op: OpReadDir, Name: name}, func() (err error) { entries, err = h.fs.ReadDir(name); return err })
	return entries, err
}

func (h *hooked) Create(name string, perm fs.FileMode) (f File, err error) {
	err = h.do(Call{Op: OpCreate, Name: name}, func() (err error) { f, err = h.fs.Create(name, perm); return err })
	if err != nil {
		return nil, err
	}
	return &hookedFile{f, h, name}, nil
}

func (h *hooked) Mkdir(name string, perm fs.FileMode) error {
	return h.do(Call{Op: OpMkdir, Name: name}, func() error { return h.fs.Mkdir(name, perm) })
}

func (h *hooked) Link(oldname, newname string) error {
	return h.do(Call{OpLink, oldname, newname}, func() error { return h.fs.Link(oldname, newname) })
}

func (h *hooked) Rename(oldname, newname string) error {
	return h.do(Call{OpRename, oldname, newname}, func() error { return h.fs.Rename(oldname, newname) })
}

func (h *hooked) Remove(name string) error {
	return h.do(Call{Op: OpRemove, Name: name}, func() error { return h.fs.Remove(name) })
}

func (h *hooked) SyncDir(name string) error {
	return h.do(Call{Op: OpSyncDir, Name: name}, func() error { return h.fs.SyncDir(name) })
}

func (h *hooked) Close() error { return h.fs.Close() }

type hookedFile struct {
	File
	fs   *hooked
	name string
}

func (f *hookedFile) Read(b []byte) (n int, err error) {
	err = f.fs.do(Call{Op: OpRead, Name: f.name}, func() (err error) { n, err = f.File.Read(b); return err })
	return n, err
}

func (f *hookedFile) Write(b []byte) (n int, err error) {
	err = f.fs.do(Call{Op: OpWrite, Name: f.name}, func() (err error) { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *hookedFile) Sync() error {
	return f.fs.do(Call{Op: OpSync, Name: f.name}, f.File.Sync)
}
