// Package sqlitelock keeps the last checkpoints of logs in an SQLite database.
//
// The database is what makes a log's promises: it runs in WAL mode with
// synchronous=FULL, so that a Swap that returned nil has been fsynced. The
// table is the one that Sunlight uses. Its WAL is folded back by SQLite's own
// automatic WAL checkpoints, which are cheap for a database of a few pages, and
// the file is reused.
package sqlitelock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/daybook-ct/daybook/storage"
)

// Options of Open.
type Options struct {
	// Create makes the database if it does not exist. Only creating a log has
	// a reason to do so.
	Create bool
	// BusyTimeout bounds the wait for another process that is writing; 0 means
	// five seconds.
	BusyTimeout time.Duration
}

const (
	defaultBusyTimeout = 5 * time.Second

	fetchSQL  = "SELECT body FROM checkpoints WHERE logID = ?"
	createSQL = "INSERT INTO checkpoints (logID, body) VALUES (?, ?) ON CONFLICT (logID) DO NOTHING"
	swapSQL   = "UPDATE checkpoints SET body = ? WHERE logID = ? AND body = ?"
)

// Lock implements [storage.Lock]. All methods are safe for concurrent use, in
// this and any other process on this machine.
//
// A context is honoured as long as an operation waits for its turn. Once it
// runs it is not interrupted: it is short, it could not be interrupted in the
// fsync that it spends its time in, and an interruption would turn a known
// outcome into an unknown one.
type Lock struct {
	path        string
	busyTimeout time.Duration

	// turn holds a token while nobody uses what follows.
	turn                chan struct{}
	conn                *sqlite.Conn // nil when closed
	fetch, create, swap *sqlite.Stmt
	failed              error // an I/O error, after which nothing is written
}

var _ storage.Lock = (*Lock)(nil)

// Close closes the database. It waits for an operation in progress.
func (l *Lock) Close() error {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}

// Fetch implements [storage.Lock].
func (l *Lock) Fetch(ctx context.Context, logID [32]byte) (body []byte, err error) {
	err = l.with(ctx, "reading", func() error {
		body, err = l.row(logID)
		return err
	})
	return body, err
}

// row returns the register's bytes, never nil.
func (l *Lock) row(logID [32]byte) (body []byte, err error) {
	// A read that is not reset would keep the WAL from being reused.
	defer func() { _ = l.fetch.Reset() }() // repeats the error of Step
	l.fetch.BindBytes(1, logID[:])
	ok, err := l.fetch.Step()
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("log ID %x: %w", logID, storage.ErrNotFound)
	}
	body = make([]byte, l.fetch.ColumnLen(0))
	l.fetch.ColumnBytes(0, body)
	return body, nil
}

// Create implements [storage.Lock].
func (l *Lock) Create(ctx context.Context, logID [32]byte, body []byte) error {
	return l.with(ctx, "creating a register in", func() error {
		changed, err := l.change(l.create, logID[:], body)
		if err == nil && changed == 0 {
			return fmt.Errorf("log ID %x: %w", logID, storage.ErrExists)
		}
		return err
	})
}

// Swap implements [storage.Lock]. It is one UPDATE, which SQLite runs under its
// write lock, so that of several processes one succeeds.
func (l *Lock) Swap(ctx context.Context, logID [32]byte, old, new []byte) error {
	return l.with(ctx, "swapping a register in", func() error {
		changed, err := l.change(l.swap, new, logID[:], old)
		if err != nil || changed == 1 {
			return err
		}
		// The UPDATE found nothing to change. Why can change in between, but
		// not in the hands of those who keep to this contract: registers are
		// never removed, and checkpoints never come back.
		found, err := l.row(logID)
		switch {
		case err != nil: // ErrNotFound among them
			return err
		case bytes.Equal(found, old):
			return errors.New("the register holds the expected bytes, but they could not be replaced")
		}
		return fmt.Errorf("log ID %x: %w", logID, storage.ErrConflict)
	})
}

// change runs a statement with these blobs and returns how many rows it
// changed. An empty slice is an empty blob, not NULL.
func (l *Lock) change(stmt *sqlite.Stmt, blobs ...[]byte) (changed int, err error) {
	if l.failed != nil {
		return 0, l.failed
	}
	defer func() { _ = stmt.Reset() }() // repeats the error of Step
	for i, b := range blobs {
		stmt.BindBytes(i+1, b)
	}
	if _, err := stmt.Step(); err != nil {
		return 0, l.ioError(err)
	}
	return l.conn.Changes(), nil
}

// ioError returns err, and ends writing if it says that the disk failed: later
// writes would follow, in the WAL, one that may never have reached the disk,
// and be lost with it.
func (l *Lock) ioError(err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultIOErr {
		return err
	}
	l.failed = fmt.Errorf("%w: %w", storage.ErrNotDurable, err)
	return l.failed
}

// with runs f when it is its turn, and again as long as another process keeps
// it from writing. SQLite's own waiting would not end with the context.
func (l *Lock) with(ctx context.Context, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	what = fmt.Sprintf("%s the lock %s", what, filepath.Base(l.path))
	select {
	case <-l.turn:
	case <-ctx.Done():
		return fmt.Errorf("%s: waiting for another operation: %w", what, ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	if l.conn == nil {
		return fmt.Errorf("%s: it is closed", what)
	}
	if err := waitWhileBusy(ctx, l.busyTimeout, f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// waitWhileBusy calls f until it does not fail for another writer. When
// it does, nothing was done: a statement of its own in WAL mode is only ever
// busy before its first write.
func waitWhileBusy(ctx context.Context, timeout time.Duration, f func() error) error {
	const first, longest = time.Millisecond, 50 * time.Millisecond
	deadline := time.Now().Add(timeout)
	for wait := first; ; wait = min(2*wait, longest) {
		err := f()
		if err == nil || sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			return err
		}
		if time.Until(deadline) < wait {
			return fmt.Errorf("another process has been writing for %v: %w", timeout, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("waiting for another process that is writing: %w", ctx.Err())
		}
	}
}
