package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
)

// ExistsError means that a log was not created, as parts of it are there
// already. Nothing was changed. It matches storage.ErrExists.
type ExistsError struct {
	Parts []string // what is there, a phrase each
}

func (e *ExistsError) Error() string {
	return "not created, since these exist already: " + strings.Join(e.Parts, "; ")
}

// Is reports whether target is storage.ErrExists.
func (e *ExistsError) Is(target error) bool { return target == storage.ErrExists }

// Create makes a new, empty log: a key file with a new seed, the storage
// directory, the dedup cache, the log's register in the lock and the first
// checkpoint. If existingKey, the key file must be there already. Directories
// around them are not made.
//
// It refuses with an *ExistsError if any part is there. When it fails later on,
// what it has made stays, and the error says so.
func Create(ctx context.Context, o LogOptions, existingKey bool) (Identity, error) {
	_, _, origin, err := o.prefixes()
	if err != nil {
		return Identity{}, err
	}
	if err := checkpoint.CheckOrigin(origin); err != nil {
		return Identity{}, err
	}
	parts, err := existing(o, existingKey)
	if err != nil {
		return Identity{}, err
	}
	if existingKey {
		part, err := existingRegister(ctx, o, origin)
		if err != nil {
			return Identity{}, err
		}
		parts = append(parts, part...)
	}
	if len(parts) > 0 {
		return Identity{}, &ExistsError{parts}
	}
	var made []string
	id, err := create(ctx, o, origin, existingKey, &made)
	if err != nil && len(made) > 0 {
		err = fmt.Errorf("%w; made before that, and to be removed before another try: %s", err, strings.Join(made, "; "))
	}
	return id, err
}

// create makes the parts, and notes in made which ones it has made. The key
// comes first, as nothing can be repaired without it; the register and the
// checkpoint, which make it a log, come last.
func create(ctx context.Context, o LogOptions, origin string, existingKey bool, made *[]string) (id Identity, err error) {
	if !existingKey {
		seed := make([]byte, checkpoint.SeedSize)
		rand.Read(seed) // never fails
		if err := durable.WriteFile(o.KeyFile, seed, durable.New, 0o600); err != nil {
			return id, fmt.Errorf("writing the key: %w", err)
		}
		*made = append(*made, "the key "+o.KeyFile)
	}
	signer, err := ReadKey(o.KeyFile, origin)
	if err != nil {
		return id, err
	}
	if err := os.Mkdir(o.StorageDirectory, 0o755); err == nil {
		*made = append(*made, "the storage directory "+o.StorageDirectory)
		if err := durable.SyncDir(filepath.Dir(o.StorageDirectory)); err != nil {
			return id, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return id, fmt.Errorf("making the storage directory: %w", err)
	}
	store, err := posix.Open(o.StorageDirectory, posix.Options{})
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	dedup, err := cache.Open(o.CachePath, cache.Options{Create: true, PageCache: o.PageCache})
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, dedup.Close()) }()
	*made = append(*made, "the cache "+o.CachePath)
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{Create: true})
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	err = sequencer.Create(ctx, sequencer.Config{Interval: o.Interval, PoolSize: o.PoolSize, Signer: signer, Store: store, Lock: lock, Cache: dedup})
	return IdentityOf(signer), err
}

// existing returns the parts of a log that are there.
func existing(o LogOptions, existingKey bool) (parts []string, err error) {
	switch there, err := exists(o.KeyFile); {
	case err != nil:
		return nil, fmt.Errorf("looking for the key: %w", err)
	case there && !existingKey:
		parts = append(parts, "the key "+o.KeyFile)
	case !there && existingKey:
		return nil, fmt.Errorf("there is no key %s, although an existing one is to be used", o.KeyFile)
	}
	entries, err := os.ReadDir(o.StorageDirectory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking into the storage directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "lost+found" {
			continue // an empty file system
		}
		parts = append(parts, fmt.Sprintf("the storage directory %s, which is not empty (it has %q)", o.StorageDirectory, e.Name()))
		break
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		switch there, err := exists(o.CachePath + suffix); {
		case err != nil:
			return nil, fmt.Errorf("looking for the cache: %w", err)
		case there:
			parts = append(parts, "the cache "+o.CachePath+suffix)
		}
	}
	return parts, nil
}

// existingRegister looks for a register of the log's key in the lock. A new
// key can have none.
func existingRegister(ctx context.Context, o LogOptions, origin string) (parts []string, err error) {
	signer, err := ReadKey(o.KeyFile, origin)
	if err != nil {
		return nil, err
	}
	if there, err := exists(o.LockPath); err != nil {
		return nil, fmt.Errorf("looking for the lock: %w", err)
	} else if !there {
		return nil, nil
	}
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	switch _, err := lock.Fetch(ctx, signer.LogID()); {
	case err == nil:
		return []string{fmt.Sprintf("a log with this key (log ID %s) in the lock %s", IdentityOf(signer).LogIDBase64(), o.LockPath)}, nil
	case !errors.Is(err, storage.ErrNotFound):
		return nil, fmt.Errorf("reading the lock: %w", err)
	}
	return nil, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
