package monitor

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/daybook-ct/daybook/tlog"
)

// Source reads the objects of one log. It is safe for concurrent use. A
// [Client] is one.
type Source interface {
	// Get returns the content of an object, decompressed, of at most limit
	// bytes. The error wraps ErrNotFound if there is no such object. It is a
	// *[Fault] if the object is wrong in itself. Any other error means that
	// nothing is known.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
}

// Found is told about a fault. If it returns an error, the check ends with that
// error, otherwise it goes on as far as that makes sense. One that is given to
// a [Checker] is called by the goroutine that calls the Checker.
type Found func(*Fault) error

// stop is the Found of those who want to know about the first fault.
func stop(f *Fault) error { return f }

// tell gives the error of a source to found, if it is a fault. What it returns
// ends the check.
func tell(err error, found Found) error {
	if f := (*Fault)(nil); errors.As(err, &f) {
		return found(f)
	}
	return err
}

// readTile reads a tile, and instead of a partial tile that is gone the full one
// (static-ct-api, Merkle Tree). name is the object that was read.
func readTile(ctx context.Context, src Source, t tlog.Tile, limit int64) (b []byte, name string, err error) {
	b, err = src.Get(ctx, t.Path(), limit)
	if !errors.Is(err, ErrNotFound) {
		return b, t.Path(), err
	}
	if t.W == tlog.TileWidth {
		return nil, "", missing(t.Path(), "")
	}
	full := t
	full.W = tlog.TileWidth
	b, err = src.Get(ctx, full.Path(), limit)
	if errors.Is(err, ErrNotFound) {
		return nil, "", missing(t.Path(), ", nor is the full tile")
	}
	return b, full.Path(), err
}

// readHashTile reads a hash tile, unverified but for its length.
func readHashTile(ctx context.Context, src Source, t tlog.Tile) (hashes []tlog.Hash, name string, err error) {
	b, name, err := readTile(ctx, src, t, tlog.TileWidth*sha256.Size)
	if err != nil {
		return nil, "", err
	}
	want := t.W * sha256.Size
	if name != t.Path() {
		want = tlog.TileWidth * sha256.Size
	}
	if len(b) != want {
		return nil, "", fault(name, "wrong length in bytes").values(len(b), want)
	}
	hashes, err = tlog.ParseHashTile(t, b[:t.W*sha256.Size])
	if err != nil {
		return nil, "", fault(name, "%v", err)
	}
	return hashes, name, nil
}
