//go:build faultpoints

package posix

import (
	"io/fs"

	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/faultpoint"
)

// faultPoints puts fault points before and after each file operation, for crash
// tests.
func faultPoints(fsys durable.FS) durable.FS {
	if faultpoint.Unsynced(faultpoint.Storage) {
		fsys = unsynced{fsys}
	}
	return durable.Hook(fsys, durable.Hooks{
		Before: func(c durable.Call) error { return faultpoint.At(faultpoint.File+string(c.Op), false) },
		After:  func(c durable.Call, _ error) { _ = faultpoint.At(faultpoint.File+string(c.Op), true) }, // kills only
	})
}

// unsynced is a file layer that says to have made durable what it has not.
type unsynced struct{ durable.FS }

func (u unsynced) Create(name string, perm fs.FileMode) (durable.File, error) {
	f, err := u.FS.Create(name, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error { return nil }

type unsyncedFile struct{ durable.File }

func (unsyncedFile) Sync() error { return nil }
