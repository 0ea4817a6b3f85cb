// Package storage defines what a log writes to: a [Store] of named
// objects, which is what monitors read; a [Lock], the compare-and-swap register
// that holds the last signed checkpoint; and a [Cache] of what was logged before. Implementations live in
// subpackages; package storagetest holds the contract suites that every
// implementation, and every fake, passes.
//
// A log trusts its Lock and its Store for durability: Put and Swap return nil
// only when a power cut right after cannot undo them.
package storage

import (
	"context"
	"errors"

	"github.com/daybook-ct/daybook/tlog"
)

var (
	// ErrNotFound means that the object or register is known to be absent.
	// Nothing else is ever reported as ErrNotFound: a read that failed is not
	// an absence.
	ErrNotFound = errors.New("not found")

	// ErrExists is returned by Lock.Create when the register exists.
	ErrExists = errors.New("already exists")

	// ErrConflict is returned by Lock.Swap when the register does not hold
	// the expected bytes. Nothing was changed.
	ErrConflict = errors.New("checkpoint in the lock is not the expected one")

	// ErrChanged is returned by Store.Put when an immutable object exists
	// with other bytes. The stored object was not changed (invariant S7).
	ErrChanged = errors.New("immutable object exists with different content")

	// ErrNotDurable means that an fsync failed. What was written before it may
	// be lost although it can still be read, so the writer must stop and only
	// a restart, which reads the medium, may go on.
	ErrNotDurable = errors.New("storage could not make a write durable")

	// ErrInvalidName is returned for a name that [KindOf] does not know.
	ErrInvalidName = errors.New("not the name of a log object")
)

// Object is a named sequence of bytes, as stored.
type Object = tlog.Object

// Store keeps the objects of one log under the names of the static-ct-api
// monitoring interface. All methods are safe for concurrent use.
type Store interface {
	// Put stores every given object and returns nil only when all of them,
	// and their names, are durable. Readers see an object whole or not at
	// all. Storing an immutable object (see [Kind.Immutable]) again with equal
	// bytes succeeds; with other bytes it fails with ErrChanged. Mutable
	// objects are replaced atomically. On any error, any subset of the
	// objects may have been stored; their order is not defined.
	Put(ctx context.Context, objects ...Object) error

	// Show is Put, but for how durable the objects are when it returns: a power
	// cut before Sync has returned may undo it, for each object whole or not at
	// all. So it is for what can be shown again from something durable.
	Show(ctx context.Context, objects ...Object) error

	// Sync makes durable what Shows that have returned have stored.
	Sync(ctx context.Context) error

	// Get returns the bytes of an object, or ErrNotFound. The caller owns the
	// returned slice.
	Get(ctx context.Context, name string) ([]byte, error)

	// Delete removes objects. An absent name is no error.
	Delete(ctx context.Context, names ...string) error

	// List returns, sorted, the names of all objects in the folder, which is
	// "staging/" or "issuer/". An absent folder is empty.
	List(ctx context.Context, folder string) ([]string, error)
}

// Lock is a set of registers, one per log ID, each holding the last signed
// checkpoint of a log. Swap is linearizable: of any number of concurrent Swaps
// from the same old bytes at most one succeeds, in this or any other process.
//
// Any error but ErrNotFound, ErrExists and ErrConflict means that the outcome
// is unknown: the write may or may not have happened, now or later.
type Lock interface {
	// Fetch returns the register's bytes, or ErrNotFound.
	Fetch(ctx context.Context, logID [32]byte) ([]byte, error)

	// Create makes the register, or returns ErrExists.
	Create(ctx context.Context, logID [32]byte, body []byte) error

	// Swap replaces old by new, durably. It returns ErrConflict if the
	// register holds anything but old, ErrNotFound if there is none.
	Swap(ctx context.Context, logID [32]byte, old, new []byte) error
}
