// Package durabletest has a file layer that can lose power.
package durabletest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/internal/durable"
)

// ErrPower is returned by every operation on a file layer that has lost power.
var ErrPower = errors.New("power is off")

// Disk is a [durable.FS] in memory that keeps apart what is written and what
// is durable: the content of a file is durable as it was at its last Sync, an
// entry of a directory as it was at the last SyncDir. It promises as little as
// POSIX does: entries reach the disk one by one and in any order, a rename is
// two of them, and a file whose name is durable may have no content.
type Disk struct {
	mu     sync.Mutex
	root   *node
	off    bool
	failed func(name string) bool
}

// node is a file or a directory.
type node struct {
	dir bool

	data   []byte
	synced []byte // what is durable of data
	clean  bool   // a Sync of data would not write anything

	entries map[string]*node
	durable map[string]*node
}

func newDirNode() *node {
	return &node{dir: true, entries: make(map[string]*node), durable: make(map[string]*node)}
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{root: newDirNode()} }

// FailSyncs makes the syncs of files fail for which the function returns true;
// nil ends that. As on Linux, what a failed sync did not write is taken for
// written from then on: later syncs succeed and do nothing about it.
func (d *Disk) FailSyncs(f func(name string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = f
}

// PowerLoss turns the disk off and returns what is found on it afterwards. Of
// what was not durable, each entry and each content is decided by a draw from
// r: it was lost, or it was written after all, content also in part. With a
// nil r all of it is lost.
func (d *Disk) PowerLoss(r *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	return &Disk{root: afterLoss(d.root, r, make(map[*node]*node))}
}

func afterLoss(n *node, r *rand.Rand, seen map[*node]*node) *node {
	if s := seen[n]; s != nil {
		return s // a file with two names
	}
	lucky := func() bool { return r != nil && r.IntN(2) == 0 }
	if !n.dir {
		s := &node{data: n.synced, clean: true}
		if !n.clean && lucky() {
			s.data = n.data[:r.IntN(len(n.data)+1)]
		}
		s.data = bytes.Clone(s.data)
		s.synced = s.data
		seen[n] = s
		return s
	}
	s := newDirNode()
	seen[n] = s
	names := maps.Clone(n.durable)
	maps.Copy(names, n.entries)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		child := n.durable[name]
		if now := n.entries[name]; now != child && lucky() {
			child = now
		}
		if child != nil {
			s.entries[name] = afterLoss(child, r, seen)
		}
	}
	maps.Copy(s.durable, s.entries)
	return s
}

// Files returns all files by path.
func (d *Disk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string][]byte)
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for name, child := range n.entries {
			if p := path.Join(prefix, name); child.dir {
				walk(p, child)
			} else {
				all[p] = bytes.Clone(child.data)
			}
		}
	}
	walk("", d.root)
	return all
}

// lookup returns the node of a path. The caller holds mu.
func (d *Disk) lookup(op, name string) (*node, error) {
	if d.off {
		return nil, ErrPower
	}
	n := d.root
	if name == "." {
		return n, nil
	}
	for elem := range strings.SplitSeq(name, "/") {
		if !n.dir {
			return nil, pathError(op, name, errNotDir)
		}
		if n = n.entries[elem]; n == nil {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
	}
	return n, nil
}

var errNotDir = errors.New("not a directory")

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// parent returns the directory of a path. The caller holds mu.
func (d *Disk) parent(op, name string) (*node, string, error) {
	n, err := d.lookup(op, path.Dir(name))
	if err == nil && !n.dir {
		err = pathError(op, name, errNotDir)
	}
	return n, path.Base(name), err
}

// add makes a new entry. The caller holds mu.
func (d *Disk) add(op, name string, n *node) error {
	dir, base, err := d.parent(op, name)
	if err != nil {
		return err
	}
	if dir.entries[base] != nil {
		return pathError(op, name, fs.ErrExist)
	}
	dir.entries[base] = n
	return nil
}

// Open implements [durable.FS].
func (d *Disk) Open(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("open", name)
	if err != nil {
		return nil, err
	}
	return &file{disk: d, node: n, name: name}, nil
}

// ReadDir implements [durable.FS].
func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, pathError("readdir", name, errNotDir)
	}
	var entries []fs.DirEntry
	for base, child := range n.entries {
		entries = append(entries, fs.FileInfoToDirEntry(infoOf(base, child)))
	}
	return entries, nil
}

// Create implements [durable.FS].
func (d *Disk) Create(name string, _ fs.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := &node{clean: true}
	if err := d.add("create", name, n); err != nil {
		return nil, err
	}
	return &file{disk: d, node: n, name: name}, nil
}

// Mkdir implements [durable.FS].
func (d *Disk) Mkdir(name string, _ fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add("mkdir", name, newDirNode())
}

// Link implements [durable.FS].
func (d *Disk) Link(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("link", oldname)
	if err != nil {
		return err
	}
	return d.add("link", newname, n)
}

// Rename implements [durable.FS].
func (d *Disk) Rename(oldname, newname string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("rename", oldname)
	if err != nil {
		return err
	}
	from, fromBase, err := d.parent("rename", oldname)
	if err != nil {
		return err
	}
	to, toBase, err := d.parent("rename", newname)
	if err != nil {
		return err
	}
	if there := to.entries[toBase]; there != nil && there.dir {
		return pathError("rename", newname, errors.New("is a directory"))
	}
	delete(from.entries, fromBase)
	to.entries[toBase] = n
	return nil
}

// Remove implements [durable.FS].
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.lookup("remove", name); err != nil {
		return err
	}
	dir, base, err := d.parent("remove", name)
	if err != nil {
		return err
	}
	delete(dir.entries, base)
	return nil
}

// SyncDir implements [durable.FS].
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("sync", name)
	if err != nil {
		return err
	}
	if !n.dir {
		return pathError("sync", name, errNotDir)
	}
	if d.failed != nil && d.failed(name) {
		return pathError("sync", name, errors.New("input/output error"))
	}
	n.durable = maps.Clone(n.entries)
	return nil
}

// Close implements [durable.FS].
func (d *Disk) Close() error { return nil }

// file is an open file.
type file struct {
	disk *Disk
	node *node
	name string
	read int
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return infoOf(path.Base(f.name), f.node), nil
}

func (f *file) Read(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	switch {
	case f.disk.off:
		return 0, ErrPower
	case f.node.dir:
		return 0, pathError("read", f.name, errors.New("is a directory"))
	case f.read >= len(f.node.data):
		return 0, io.EOF
	}
	n := copy(b, f.node.data[f.read:])
	f.read += n
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.off {
		return 0, ErrPower
	}
	f.node.data = append(f.node.data[:len(f.node.data):len(f.node.data)], b...)
	f.node.clean = false
	return len(b), nil
}

func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.off {
		return ErrPower
	}
	if f.disk.failed != nil && f.disk.failed(f.name) {
		f.node.clean = true
		return pathError("sync", f.name, errors.New("input/output error"))
	}
	if !f.node.clean {
		f.node.synced, f.node.clean = f.node.data, true
	}
	return nil
}

func (f *file) Close() error { return nil }

// info is a fs.FileInfo.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func infoOf(name string, n *node) info {
	i := info{name: name, size: int64(len(n.data)), mode: 0o644}
	if n.dir {
		i.mode = fs.ModeDir | 0o755
	}
	return i
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
func (i info) String() string     { return fmt.Sprintf("%s %d bytes", i.name, i.size) }
