package durable

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

var (
	// ErrSync means that an fsync failed. What the operating system has in its
	// cache may then never reach the disk, although later reads and fsyncs
	// succeed, so it must not be trusted: stop, and let a new process write
	// the files again from where they are durable. A [Dir] that returned it
	// refuses all further writes with it.
	ErrSync = errors.New("fsync failed, what was written may be lost")

	// ErrDifferent means that a file to be kept exists with other content.
	ErrDifferent = errors.New("file exists with different content")

	// ErrTooLarge means that a file is larger than the reader allows.
	ErrTooLarge = errors.New("file is too large")
)

// Mode says what to do with a file that exists.
type Mode int

// The modes.
const (
	// Replace puts the new content in the place of the old, atomically.
	Replace Mode = iota
	// Keep accepts a file with equal content and fails with ErrDifferent
	// otherwise. The equal file is written again, because whoever wrote it may
	// have crashed or met a failing disk before it was durable, and fsync on
	// pages that are clean in the cache does not tell.
	Keep
	// New fails with fs.ErrExist.
	New
)

// Content is a file to write.
type Content struct {
	Name string // slash-separated path below the directory
	Data []byte
	Mode Mode
	Perm fs.FileMode // before umask; 0 stands for 0644
}

const (
	filePerm = 0o644
	dirPerm  = 0o755

	// tempPrefix marks temporary files. They all stand in the top directory,
	// so that leftovers are found without walking a tree of millions of files.
	tempPrefix = ".tmp-"

	// parallel bounds the goroutines of one Write. More fsyncs at a time bring
	// nothing: the file system commits what waits for it together.
	parallel = 16

	// maxKnown bounds Dir.known, at about 100 bytes each.
	maxKnown = 4096
)

// IsTemp reports whether a file name (without directory) is one of a temporary
// file, which must not be served.
func IsTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }

// Dir writes files below one directory durably. It is safe for concurrent use.
type Dir struct {
	fs FS

	mu     sync.Mutex
	failed error // first ErrSync
	// known holds directories whose own entry, and those of all directories
	// above, are durable. Others may stand there since a process that crashed
	// before it could sync them.
	known map[string]bool
	// Of files that Show has made visible: the directories to be made durable, and
	// those whose entries will be durable then.
	unsynced, made map[string]bool
}

// NewDir returns a Dir on a file layer.
func NewDir(fsys FS) *Dir {
	return &Dir{fs: fsys, known: make(map[string]bool), unsynced: make(map[string]bool), made: make(map[string]bool)}
}

// Close closes the file layer.
func (d *Dir) Close() error { return d.fs.Close() }

// Err returns the ErrSync that has ended writing, or nil.
func (d *Dir) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// syncFailed returns err as an ErrSync and ends writing.
func (d *Dir) syncFailed(name string, err error) error {
	err = fmt.Errorf("%w: %s: %w", ErrSync, name, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = err
	}
	return err
}

// pending is a file on its way.
type pending struct {
	Content
	temp   string // exists as long as it is not ""
	rename bool   // rather than link
}

// Write writes files and returns nil only when all of them, their names and
// their directories are durable. Contents are written and made durable in
// parallel; only when all are does the first become visible; each directory is
// made durable once. A name may be given twice, if with equal data.
//
// After an error any of the files may be visible, whole, and no temporary file
// is left.
func (d *Dir) Write(files ...Content) error {
	dirs, made, err := d.write(files)
	if err != nil {
		return err
	}
	if err := each(len(dirs), func(i int) error { return d.syncDir(dirs[i]) }); err != nil {
		return err
	}
	d.learn(made)
	return nil
}

// Show is Write, but for the names and directories, which Sync makes durable.
// Until then a power cut may take files away again, or bring back those they
// replaced, but never leaves half of one.
func (d *Dir) Show(files ...Content) error {
	dirs, made, err := d.write(files)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dir := range dirs {
		d.unsynced[dir] = true
	}
	for _, dir := range made {
		d.made[dir] = true
	}
	return nil
}

// Sync makes durable what Shows that have returned have written.
func (d *Dir) Sync() error {
	if err := d.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	dirs, made := slices.Collect(maps.Keys(d.unsynced)), slices.Collect(maps.Keys(d.made))
	clear(d.unsynced)
	clear(d.made)
	d.mu.Unlock()
	if err := each(len(dirs), func(i int) error { return d.syncDir(dirs[i]) }); err != nil {
		return err
	}
	d.learn(made)
	return nil
}

// write makes files visible, with durable content. It returns the directories to
// be made durable, and those of them whose entries will be durable then.
func (d *Dir) write(files []Content) (dirs, made []string, err error) {
	if err := d.Err(); err != nil {
		return nil, nil, err
	}
	batch, err := distinct(files)
	if err != nil {
		return nil, nil, err
	}
	err = each(len(batch), func(i int) error { return d.stage(&batch[i]) })
	if err == nil {
		dirs, made, err = d.expose(batch)
	}
	if err != nil {
		for i := range batch {
			err = errors.Join(err, d.discard(&batch[i]))
		}
		return nil, nil, err
	}
	return dirs, made, nil
}

// distinct drops repeated files.
func distinct(files []Content) ([]pending, error) {
	batch := make([]pending, 0, len(files))
	index := make(map[string]int, len(files))
	for _, f := range files {
		if !fs.ValidPath(f.Name) || f.Name == "." || IsTemp(path.Base(f.Name)) {
			return nil, fmt.Errorf("invalid file name %q", f.Name)
		}
		if i, ok := index[f.Name]; ok {
			if !bytes.Equal(batch[i].Data, f.Data) {
				return nil, fmt.Errorf("%w: %s is to be written twice at once", ErrDifferent, f.Name)
			}
			continue
		}
		if f.Perm == 0 {
			f.Perm = filePerm
		}
		index[f.Name] = len(batch)
		batch = append(batch, pending{Content: f})
	}
	return batch, nil
}

// stage writes a file under a temporary name and makes its content durable.
func (d *Dir) stage(p *pending) (err error) {
	p.rename = p.Mode == Replace
	if p.Mode == Keep {
		if p.rename, err = d.equal(p); err != nil {
			return err
		}
	}
	temp := tempPrefix + rand.Text()
	f, err := d.fs.Create(temp, p.Perm)
	if err != nil {
		return fmt.Errorf("writing %s: %w", p.Name, err)
	}
	p.temp = temp
	if _, err := f.Write(p.Data); err != nil {
		return fmt.Errorf("writing %s: %w", p.Name, errors.Join(err, f.Close()))
	}
	if err := f.Sync(); err != nil {
		return errors.Join(d.syncFailed(p.Name, err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", p.Name, err)
	}
	return nil
}

// equal reports whether the file is there with the same content. If it is
// there with another, that is ErrDifferent.
func (d *Dir) equal(p *pending) (bool, error) {
	old, err := d.Read(p.Name, int64(len(p.Data)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, ErrTooLarge), err == nil && !bytes.Equal(old, p.Data):
		return false, fmt.Errorf("%w: %s", ErrDifferent, p.Name)
	case err != nil:
		return false, fmt.Errorf("comparing with the file that is there: %w", err)
	}
	return true, nil
}

// expose makes a batch visible under its names. It returns the directories to
// be made durable, and those of them whose entries will be durable then.
func (d *Dir) expose(batch []pending) (dirs, made []string, err error) {
	changed := make(map[string]bool)
	add := func(dir string) {
		if !changed[dir] {
			changed[dir] = true
			dirs = append(dirs, dir)
		}
	}
	for i := range batch {
		parent := path.Dir(batch[i].Name)
		unknown, err := d.makeDirs(parent)
		if err != nil {
			return nil, nil, err
		}
		for _, dir := range unknown {
			add(path.Dir(dir))
		}
		made = append(made, unknown...)
		if err := d.show(&batch[i]); err != nil {
			return nil, nil, err
		}
		add(parent)
	}
	return dirs, made, nil
}

// makeDirs creates a directory and those above it, and returns the ones whose
// entries may not be durable yet.
func (d *Dir) makeDirs(dir string) (unknown []string, err error) {
	d.mu.Lock()
	known := d.known[dir]
	d.mu.Unlock()
	if dir == "." || known {
		return nil, nil
	}
	if unknown, err = d.makeDirs(path.Dir(dir)); err != nil {
		return nil, err
	}
	if err := d.fs.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("creating directory: %w", err)
	}
	return append(unknown, dir), nil
}

// learn notes directories whose entries are durable.
func (d *Dir) learn(made []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known)+len(made) > maxKnown {
		clear(d.known) // costs some needless fsyncs, and nothing else
	}
	for _, dir := range made {
		d.known[dir] = true
	}
}

// show makes one file visible.
func (d *Dir) show(p *pending) error {
	if !p.rename {
		err := d.fs.Link(p.temp, p.Name)
		if err == nil {
			return d.discard(p)
		}
		// Someone was faster.
		if p.Mode != Keep || !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("writing %s: %w", p.Name, err)
		}
		if equal, err := d.equal(p); err != nil {
			return err
		} else if !equal {
			return fmt.Errorf("writing %s: it was created and removed by someone else", p.Name)
		}
	}
	if err := d.fs.Rename(p.temp, p.Name); err != nil {
		return fmt.Errorf("writing %s: %w", p.Name, err)
	}
	p.temp = ""
	return nil
}

// discard removes a temporary file, if there is one.
func (d *Dir) discard(p *pending) error {
	if p.temp == "" {
		return nil
	}
	if err := d.fs.Remove(p.temp); err != nil {
		return fmt.Errorf("removing the temporary file of %s: %w", p.Name, err)
	}
	p.temp = ""
	return nil
}

func (d *Dir) syncDir(name string) error {
	if err := d.fs.SyncDir(name); err != nil {
		return d.syncFailed("directory "+name, err)
	}
	return nil
}

// Read returns a whole file of at most limit bytes. Absence is fs.ErrNotExist,
// and nothing else is.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, err := d.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%w: %s has %d bytes, more than %d", ErrTooLarge, name, info.Size(), limit)
	}
	// One byte more, so that the end is met without growing the slice.
	b := make([]byte, info.Size()+1)
	n, err := io.ReadFull(f, b)
	switch {
	case err == nil:
		return nil, fmt.Errorf("%s grew while it was read", name)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if int64(n) != info.Size() {
			return nil, fmt.Errorf("%s shrank while it was read", name)
		}
		return b[:n:n], nil
	}
	return nil, fmt.Errorf("reading %s: %w", name, err)
}

// Remove removes files durably. An absent one is no error; if its directory is
// there, its absence is made durable, too.
func (d *Dir) Remove(names ...string) error {
	if err := d.Err(); err != nil {
		return err
	}
	var dirs []string
	changed := make(map[string]bool)
	for _, name := range names {
		if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing: %w", err)
		}
		if dir := path.Dir(name); !changed[dir] {
			changed[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return each(len(dirs), func(i int) error {
		err := d.fs.SyncDir(dirs[i])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return d.syncFailed("directory "+dirs[i], err)
		}
		return nil
	})
}

// List returns the names of the regular files in a directory, without
// temporary ones, in any order. An absent directory is empty.
func (d *Dir) List(dir string) ([]string, error) {
	entries, err := d.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !IsTemp(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// RemoveTemp removes temporary files that a crash has left, and returns how
// many there were. Nobody else may be writing.
func (d *Dir) RemoveTemp() (int, error) {
	entries, err := d.fs.ReadDir(".")
	if err != nil {
		return 0, err
	}
	removed := 0
	for _, e := range entries {
		if !IsTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := d.fs.Remove(e.Name()); err != nil {
			return removed, fmt.Errorf("removing a leftover: %w", err)
		}
		removed++
	}
	return removed, nil
}

// each calls f for 0 to n-1, some at a time, and waits for all. After an error
// it starts no more, and returns the first.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	for range min(n, parallel) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				if i == n || first != nil {
					mu.Unlock()
					return
				}
				next++
				mu.Unlock()
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}
