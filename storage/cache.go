package storage

import (
	"context"

	"github.com/daybook-ct/daybook/tlog"
)

// Cache is the dedup cache: it remembers where the entries of one log stand.
// It may forget, but must never invent (S8), and an error is never a miss.
type Cache interface {
	// Get returns the position of the entry with this key. It is called by
	// one goroutine at a time.
	Get(ctx context.Context, key tlog.Key) (p tlog.Position, ok bool, err error)
	// Put remembers all records in one transaction. A key that is there
	// already keeps its first position.
	Put(ctx context.Context, records []Record) error
	// Checkpoint runs a RESTART WAL checkpoint.
	Checkpoint(ctx context.Context) (WAL, error)
}

// Record is a row of the dedup cache.
type Record struct {
	Key      tlog.Key
	Position tlog.Position
}

// WAL is the outcome of a WAL checkpoint.
type WAL struct {
	Busy         bool // readers kept it from finishing
	Frames       int  // frames in the WAL
	Checkpointed int  // of those, written back
}
