// Package posix is a [storage.Store] on a directory. What it holds is what
// monitors are served: any static file server can be pointed at it, if it
// hides files whose names start with a dot, and the folder "staging".
//
// A Put is durable, and atomic for each object, by the means of package
// durable: temporary file, fsync, link or rename, fsync of the directory. The
// directory is to be on one local file system with POSIX semantics: hard links,
// atomic rename, and an fsync that means it. Links and mounts below it are not
// supported.
package posix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
)

var (
	// ErrInUse means that another process has the directory open for writing.
	ErrInUse = errors.New("another daybook process is writing to it")

	// ErrReadOnly is returned by Put and Delete of a store that was opened
	// with Options.ReadOnly.
	ErrReadOnly = errors.New("store was opened for reading only")

	// ErrTooLarge is returned for objects of more than MaxObject bytes.
	ErrTooLarge = durable.ErrTooLarge
)

// MaxObject is the size of the largest object, in bytes. It bounds what a Get
// reads into memory, and so it also bounds a Put.
const MaxObject = 1 << 30

// Options of a store. The zero value is for writing.
type Options struct {
	// ReadOnly opens the store without the lock that a writer has, and so
	// also beside one.
	ReadOnly bool
	// Logger is told about leftovers. Nil is silent.
	Logger *slog.Logger
	// Metrics gets daybook_storage_operation_seconds and
	// daybook_storage_fsyncs_total; nil stands for none. A process with
	// several stores gives each a Registerer with a label of its own. The
	// metrics are unregistered by Close.
	Metrics prometheus.Registerer
}

// Store implements [storage.Store]. After an fsync has failed, all writes
// return storage.ErrNotDurable; a new process, which writes the same objects
// again, is the way out.
type Store struct {
	path     string
	dir      *durable.Dir
	readOnly bool
	lock     *os.File // holds the flock; nil if there is none
	metrics  *metrics
}

var _ storage.Store = (*Store)(nil)

// Open opens a directory as a store. Unless it is for reading only, the
// directory is locked with flock(2), or refused with ErrInUse, and temporary
// files that a crash has left are removed. A directory that does not exist is
// not created: that of a log is missing when something was not mounted.
func Open(dir string, o Options) (*Store, error) {
	fsys, err := durable.OpenOS(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("storage directory %s does not exist: mount it, or create the log first: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening storage directory: %w", err)
	}
	var lock *os.File
	if !o.ReadOnly {
		if lock, err = flock(dir); err != nil {
			return nil, errors.Join(err, fsys.Close())
		}
	}
	s, err := newStore(dir, faultPoints(fsys), lock, o)
	if err != nil {
		return nil, fmt.Errorf("storage directory %s: %w", dir, err)
	}
	return s, nil
}

// newStore takes over fsys and lock, also on failure.
func newStore(dir string, fsys durable.FS, lock *os.File, o Options) (*Store, error) {
	s := &Store{path: dir, readOnly: o.ReadOnly, lock: lock, metrics: newMetrics(o.Metrics)}
	s.dir = durable.NewDir(s.metrics.counting(fsys))
	if err := s.metrics.register(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if o.ReadOnly {
		return s, nil
	}
	removed, err := s.dir.RemoveTemp()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if removed > 0 && o.Logger != nil {
		o.Logger.Info("removed temporary files of a process that did not end cleanly", "path", dir, "files", removed)
	}
	return s, nil
}

// flock locks a directory for as long as the returned file is open, or until
// the process ends, however it ends.
func flock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening storage directory: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == nil:
		return f, nil
	case err == unix.EWOULDBLOCK:
		err = fmt.Errorf("storage directory %s: %w; stop that process first", dir, ErrInUse)
	default:
		err = fmt.Errorf("locking storage directory %s, which must be on a local file system: %w", dir, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Close releases the directory. No method may be running or be called later.
func (s *Store) Close() error {
	s.metrics.unregister()
	err := s.dir.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Put implements [storage.Store]. A context that has ended is an error before
// anything is done; later it is not looked at.
//
// Contents are written and made durable in parallel, before the first object
// becomes visible; then each directory is made durable once. So call Put
// seldom, with many objects.
func (s *Store) Put(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, "put", s.dir.Write, objects)
}

// Show implements [storage.Store]. Contents are durable when it returns, so a
// power cut leaves no half of one; names and directories are not.
func (s *Store) Show(ctx context.Context, objects ...storage.Object) error {
	return s.write(ctx, "show", s.dir.Show, objects)
}

// Sync implements [storage.Store]. It makes each directory durable once, however
// many Shows have written to it.
func (s *Store) Sync(ctx context.Context) error {
	defer s.metrics.observe("sync", "mixed")()
	if err := s.mayWrite(ctx); err != nil {
		return err
	}
	return s.written(s.dir.Sync())
}

func (s *Store) write(ctx context.Context, op string, write func(...durable.Content) error, objects []storage.Object) error {
	defer s.metrics.observe(op, kindOf(len(objects), func(i int) string { return objects[i].Name }))()
	if err := s.mayWrite(ctx); err != nil {
		return err
	}
	files := make([]durable.Content, 0, len(objects))
	for _, o := range objects {
		kind := storage.KindOf(o.Name)
		if kind == storage.Invalid {
			return invalid(o.Name)
		}
		if len(o.Data) > MaxObject {
			return fmt.Errorf("%s: %w: it has %d bytes", o.Name, ErrTooLarge, len(o.Data))
		}
		f := durable.Content{Name: o.Name, Data: o.Data, Mode: durable.Replace}
		if kind.Immutable() {
			f.Mode = durable.Keep
		}
		files = append(files, f)
	}
	return s.written(write(files...))
}

func (s *Store) mayWrite(ctx context.Context) error {
	if s.readOnly {
		return fmt.Errorf("storage directory %s: %w", s.path, ErrReadOnly)
	}
	return ctx.Err()
}

// written puts the outcome of a write in the words of the contract.
func (s *Store) written(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, durable.ErrSync):
		return fmt.Errorf("storage directory %s: %w: %w", s.path, storage.ErrNotDurable, err)
	case errors.Is(err, durable.ErrDifferent):
		return fmt.Errorf("storage directory %s: %w: %w", s.path, storage.ErrChanged, err)
	}
	return fmt.Errorf("storage directory %s: %w", s.path, err)
}

func invalid(name string) error { return fmt.Errorf("%w: %q", storage.ErrInvalidName, name) }

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, name string) ([]byte, error) {
	kind := storage.KindOf(name)
	defer s.metrics.observe("get", kind.String())()
	if kind == storage.Invalid {
		return nil, invalid(name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := s.dir.Read(name, MaxObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, storage.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("storage directory %s: %w", s.path, err)
	}
	return data, nil
}

// Delete implements [storage.Store]. The removal is durable when it returns.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	defer s.metrics.observe("delete", kindOf(len(names), func(i int) string { return names[i] }))()
	if err := s.mayWrite(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if storage.KindOf(name) == storage.Invalid {
			return invalid(name)
		}
	}
	return s.written(s.dir.Remove(names...))
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, folder string) ([]string, error) {
	var kind storage.Kind
	switch folder {
	case "staging/":
		kind = storage.Staging
	case "issuer/":
		kind = storage.Issuer
	default:
		return nil, fmt.Errorf("%w: folder %q", storage.ErrInvalidName, folder)
	}
	defer s.metrics.observe("list", kind.String())()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files, err := s.dir.List(path.Clean(folder))
	if err != nil {
		return nil, fmt.Errorf("storage directory %s: %w", s.path, err)
	}
	var names []string
	for _, file := range files {
		// What others have put there is not ours.
		if name := folder + file; storage.KindOf(name) == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
