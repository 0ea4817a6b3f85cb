package sequencer

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybook-ct/daybook/tlog"
)

// errContradicted means that the tree has not what the dedup cache says.
var errContradicted = errors.New("the dedup cache contradicts the tree")

// confirm holds a position that the dedup cache gave against the tree: the leaf
// that an SCT would promise must be the one whose hash stands there. So neither
// a damaged cache nor that of another log makes this one promise what it does
// not have (S8). It costs the read of one hash tile, and so stays outside of
// the turnstile (S9).
func (l *Log) confirm(ctx context.Context, e *tlog.Entry, p tlog.Position) error {
	size := l.status.Load().Tree.N
	if p.Index >= size {
		return fmt.Errorf("%w: it has an entry at index %d, but the tree ends at %d: is it this log's cache, or were lock and storage restored from a backup?",
			errContradicted, p.Index, size)
	}
	first := p.Index / tlog.TileWidth * tlog.TileWidth
	t := tlog.Tile{L: 0, N: p.Index / tlog.TileWidth, W: int(min(size-first, tlog.TileWidth))}
	b, err := l.c.Store.Get(ctx, t.Path())
	if err != nil {
		return fmt.Errorf("confirming what the dedup cache says: %w", err)
	}
	hashes, err := tlog.ParseHashTile(t, b)
	if err != nil {
		return fmt.Errorf("confirming what the dedup cache says: %w", err)
	}
	if hashes[p.Index-first] != (tlog.Leaf{Entry: e, Position: p}).Hash() {
		return fmt.Errorf("%w: it has entry %x at index %d with timestamp %d, where the tree has another leaf: stop the log and rebuild its cache",
			errContradicted, e.Key(), p.Index, p.Timestamp)
	}
	return nil
}
