package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/daybook-ct/daybook/internal/durable"
)

// Disk is what one file system takes to make things durable.
type Disk struct {
	Path string   `json:"path"`
	Of   []string `json:"of"` // what stands there: storage, lock, cache

	Fsync   Timing `json:"fsync"`    // of 4 KiB written in place, as SQLite does
	NewFile Timing `json:"new_file"` // of a new file of 8 KiB: write, fsync, close
	SyncDir Timing `json:"sync_dir"` // of a directory with a new name
}

// disks measures each file system once.
func (t *tuner) disks(ctx context.Context) ([]Disk, error) {
	type use struct{ what, configured, dir string }
	byDevice := make(map[uint64]int)
	var disks []Disk
	var dirs []string
	for _, u := range []use{{"storage", t.o.StorageDir, t.places.storage}, {"lock", t.o.LockDir, t.places.lock}, {"cache", t.o.CacheDir, t.places.cache}} {
		dev, err := device(u.dir)
		if err != nil {
			return nil, err
		}
		i, seen := byDevice[dev]
		if !seen {
			i = len(disks)
			byDevice[dev] = i
			disks = append(disks, Disk{Path: u.configured})
			dirs = append(dirs, u.dir)
		}
		disks[i].Of = append(disks[i].Of, u.what)
	}
	for i := range disks {
		if err := t.disk(ctx, &disks[i], dirs[i], shareDisk/float64(len(disks))); err != nil {
			return nil, err
		}
	}
	return disks, nil
}

func (t *tuner) disk(ctx context.Context, d *Disk, dir string, percent float64) (err error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := t.material.bytes(4096)
	if d.Fsync, err = t.phase("fsync", percent/3).measure(ctx, func() error {
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		return f.Sync()
	}); err != nil {
		return err
	}
	content := t.material.bytes(8192)
	n := 0
	if d.NewFile, err = t.phase("new files", percent/3).measure(ctx, func() error {
		n++
		return newFile(filepath.Join(dir, fmt.Sprintf("new-%d", n)), content)
	}); err != nil {
		return err
	}
	n = 0
	d.SyncDir, err = t.phase("dir sync", percent/3).measure(ctx, func() error {
		n++
		// A rename is what makes the directory have something to sync.
		if err := os.Rename(filepath.Join(dir, "fsync"), filepath.Join(dir, "fsync-x")); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "fsync-x"), filepath.Join(dir, "fsync")); err != nil {
			return err
		}
		return durable.SyncDir(dir)
	})
	return err
}

func newFile(path string, content []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}
