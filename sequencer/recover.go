package sequencer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// maxTileContent bounds a decompressed data or names tile: 256 entries of a
// certificate, a TBSCertificate and a chain, with the submission body bounded
// to 512 KiB, stay well below it.
const maxTileContent = 512 << 20

// Create makes a new, empty log: its register in the lock, then its first
// checkpoint. It refuses with storage.ErrExists where there is one already.
//
// It is a command of its own so that no mistake in a configuration can make a
// second tree in the place of a lost one.
func Create(ctx context.Context, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	switch _, err := c.Store.Get(ctx, "checkpoint"); {
	case err == nil:
		return fmt.Errorf("the storage holds the checkpoint of a log: %w", storage.ErrExists)
	case !errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("looking for a checkpoint in the storage: %w", err)
	}
	head, err := c.Signer.SignTreeHead(tlog.Tree{Hash: tlog.EmptyRoot}, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("signing the first checkpoint: %w", err)
	}
	if err := c.Lock.Create(ctx, c.Signer.LogID(), head); err != nil {
		return fmt.Errorf("creating the log's register in the lock: %w", err)
	}
	if err := c.Store.Put(ctx, storage.Object{Name: "checkpoint", Data: head}); err != nil {
		return fmt.Errorf("publishing the first checkpoint: %w", err)
	}
	return nil
}

// ErrNoLog means that the lock has no register for this key.
var ErrNoLog = errors.New("there is no log with this key: create it first")

// ErrInconsistent means that lock and storage do not belong together, or that
// one of them is older than the other may be. Nothing was changed.
var ErrInconsistent = errors.New("lock and storage contradict each other")

// Open recovers a log and returns it ready to Run. It finishes the last
// committed round if a crash kept it from that, verifies the right edge of the
// tree, and refuses (ErrNoLog, ErrInconsistent, tlog.ErrMismatch) rather than
// guess.
func Open(ctx context.Context, c Config) (*Log, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	opened := c.faultPoints()
	m, err := newMetrics(c.Metrics, &c)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	l := &Log{c: c, log: c.Logger, metrics: m, turnstile: newTurnstile(), limiter: newLimiter(c.DuplicateRate),
		pool: newPool(c.PoolSize), stored: make(map[tlog.Fingerprint]struct{})}
	l.status.Store(&Status{})
	if err := l.recover(ctx); err != nil {
		return nil, fmt.Errorf("opening log %s: %w", c.Signer.Origin(), err)
	}
	opened()
	return l, nil
}

func (l *Log) recover(ctx context.Context) error {
	var err error
	l.head, err = l.c.Lock.Fetch(ctx, l.c.Signer.LogID())
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return ErrNoLog
	case err != nil:
		return fmt.Errorf("reading the lock: %w", err)
	}
	head, err := l.c.Signer.Verifier().Verify(l.head)
	if err != nil {
		return fmt.Errorf("the checkpoint in the lock is not this log's: %w", err)
	}
	published, err := l.c.Store.Get(ctx, "checkpoint")
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("reading the published checkpoint: %w", err)
	}
	pending, err := l.pending(head, published)
	if err != nil {
		return err
	}
	if pending {
		if err := l.reapply(ctx, head.Tree); err != nil {
			return err
		}
	}
	if l.edge, err = tlog.LoadEdge(head.Tree, func(t tlog.Tile) ([]byte, error) { return l.readTile(ctx, t) }, l.c.Names); err != nil {
		return fmt.Errorf("verifying the right edge of the tree: %w", err)
	}
	if err := l.checkPublic(ctx, head); err != nil {
		return err
	}
	l.timestamp = head.Timestamp
	if _, err := waitForClock(head.Timestamp); err != nil {
		return err
	}
	// Also if it is there already: a process may have ended before that was
	// durable, and the bundle, by which it could be done again, goes next.
	if err := l.publish(ctx, head.Tree, head.Timestamp, l.head); err != nil {
		return fmt.Errorf("publishing the checkpoint of the lock: %w", err)
	}
	l.metrics.size.Set(float64(head.Tree.N))
	l.metrics.timestamp.Set(float64(head.Timestamp) / 1e3)
	l.setStatus(func(s *Status) { s.Tree, s.Published = head.Tree, time.UnixMilli(head.Timestamp) })
	if err := l.sweep(ctx, head.Tree); err != nil {
		return err
	}
	l.log.InfoContext(ctx, "log opened", "origin", head.Origin, "size", head.Tree.N, "root", head.Tree.Hash.String(),
		"checkpoint_time", time.UnixMilli(head.Timestamp).UTC(), "finished_round", pending)
	return nil
}

// pending compares the published checkpoint with the one in the lock. It
// reports whether the tree in the lock may still have to be applied.
func (l *Log) pending(head checkpoint.TreeHead, published []byte) (bool, error) {
	if published == nil {
		if head.Tree.N > 0 {
			return false, fmt.Errorf("%w: the lock holds a tree of %d entries, but the storage has no checkpoint: is this the right storage?",
				ErrInconsistent, head.Tree.N)
		}
		return false, nil
	}
	p, err := l.c.Signer.Verifier().Verify(published)
	switch {
	case err != nil:
		return false, fmt.Errorf("the published checkpoint is not this log's: %w", err)
	case p.Tree.N > head.Tree.N || p.Timestamp > head.Timestamp:
		return false, fmt.Errorf("%w: the published checkpoint (size %d, %s) is newer than the lock's (size %d, %s): was the lock restored from a backup?",
			ErrInconsistent, p.Tree.N, time.UnixMilli(p.Timestamp).UTC().Format(time.RFC3339), head.Tree.N, time.UnixMilli(head.Timestamp).UTC().Format(time.RFC3339))
	case p.Tree.N == head.Tree.N && p.Tree.Hash != head.Tree.Hash:
		return false, fmt.Errorf("%w: two different trees of %d entries are signed: do not start this log, it has forked",
			ErrInconsistent, p.Tree.N)
	}
	return p.Tree.N < head.Tree.N, nil
}

// checkPublic compares what the public sees with the tree in the lock. A cache in
// between may show an older checkpoint, but never one of another tree.
func (l *Log) checkPublic(ctx context.Context, head checkpoint.TreeHead) error {
	if l.c.Public == nil {
		return nil
	}
	note, err := l.c.Public(ctx)
	if err != nil {
		l.log.WarnContext(ctx, "the public checkpoint could not be compared with the lock", "cause", err)
		return nil
	}
	p, err := l.c.Signer.Verifier().Verify(note)
	switch {
	case err != nil:
		return fmt.Errorf("the monitoring prefix shows a checkpoint that is not this log's: is it the right prefix? %w", err)
	case p.Tree.N > head.Tree.N || p.Timestamp > head.Timestamp:
		return fmt.Errorf("%w: the monitoring prefix shows a checkpoint (size %d, %s) that is newer than the lock's (size %d, %s): was the lock restored from a backup?",
			ErrInconsistent, p.Tree.N, time.UnixMilli(p.Timestamp).UTC().Format(time.RFC3339), head.Tree.N, time.UnixMilli(head.Timestamp).UTC().Format(time.RFC3339))
	}
	root, err := tlog.RootAt(ctx, head.Tree, p.Tree.N, l.readTile)
	switch {
	case err != nil:
		return fmt.Errorf("comparing the public checkpoint with the tree: %w", err)
	case root != p.Tree.Hash:
		return fmt.Errorf("%w: the monitoring prefix shows another tree of %d entries: do not start this log, it has forked", ErrInconsistent, p.Tree.N)
	}
	return nil
}

// reapply finishes the round that led to tree, from its staging bundle.
func (l *Log) reapply(ctx context.Context, tree tlog.Tree) error {
	objects, err := l.readBundle(ctx, tree)
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%w: the lock holds a tree of %d entries that is not published, and its staging bundle %s is gone: was the storage restored from a backup?",
			ErrInconsistent, tree.N, bundleName(tree))
	} else if err != nil {
		return fmt.Errorf("reading the staging bundle: %w", err)
	}
	if err := l.apply(ctx, objects); err != nil {
		return fmt.Errorf("applying the staging bundle: %w", err)
	}
	return nil
}

func (l *Log) readBundle(ctx context.Context, tree tlog.Tree) ([]storage.Object, error) {
	b, err := l.c.Store.Get(ctx, bundleName(tree))
	if err != nil {
		return nil, err
	}
	return decodeBundle(b, func(name string) ([]byte, error) {
		base, err := l.c.Store.Get(ctx, name)
		if errors.Is(err, storage.ErrNotFound) {
			// The bundle is there; it is the tile of the tree before that is not.
			return nil, fmt.Errorf("%w: %s is gone", ErrInconsistent, name)
		}
		return base, err
	})
}

// sweep looks at what rounds have left in staging. The bundles of published
// rounds may hold keys that did not come to be put in the cache, so that is done
// now; then all bundles go.
func (l *Log) sweep(ctx context.Context, tree tlog.Tree) error {
	names, err := l.c.Store.List(ctx, "staging/")
	if err != nil {
		return fmt.Errorf("listing staging bundles: %w", err)
	}
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		of, ok := bundleTree(name)
		if !ok || of.N > tree.N {
			continue // of a round that was not committed
		}
		err := l.rememberBundle(ctx, tree, of)
		switch {
		case errors.Is(err, errBundle), errors.Is(err, ErrInconsistent):
			// The tree is published, so all that the bundle is still good for
			// are the keys, which may be lost (S8).
			l.log.ErrorContext(ctx, "the staging bundle of a published tree is damaged and dropped; the entries of that round may be logged twice",
				"bundle", name, "cause", err)
		case err != nil:
			return err
		}
	}
	if err := l.c.Store.Delete(ctx, names...); err != nil {
		return fmt.Errorf("discarding staging bundles: %w", err)
	}
	return nil
}

// rememberBundle puts the keys of the round that led to the tree of in the cache,
// if that tree is part of the present one. It is not if the round failed.
func (l *Log) rememberBundle(ctx context.Context, tree, of tlog.Tree) error {
	root, err := tlog.RootAt(ctx, tree, of.N, l.readTile)
	switch {
	case errors.Is(err, tlog.ErrMismatch), errors.Is(err, storage.ErrNotFound):
		// The right edge is whole, so this is damage further back, and for others
		// to find. Without the root nothing vouches for the keys.
		return fmt.Errorf("%w: %w", ErrInconsistent, err)
	case err != nil:
		return fmt.Errorf("comparing a staging bundle with the tree: %w", err)
	case root != of.Hash:
		return nil
	}
	objects, err := l.readBundle(ctx, of)
	if err != nil {
		return fmt.Errorf("reading the staging bundle: %w", err)
	}
	var records []storage.Record
	for _, o := range objects {
		if storage.KindOf(o.Name) != storage.DataTile {
			continue
		}
		b, err := tlog.Decompress(o.Data, maxTileContent)
		if err != nil {
			return fmt.Errorf("reading %s in the staging bundle: %w", o.Name, err)
		}
		for len(b) > 0 {
			leaf, rest, err := tlog.ReadTileLeaf(b)
			if err != nil {
				return fmt.Errorf("reading %s in the staging bundle: %w", o.Name, err)
			}
			records, b = append(records, storage.Record{Key: leaf.Entry.Key(), Position: leaf.Position}), rest
		}
	}
	// Losing keys costs duplicates only (S8), so a failing cache does not
	// keep a log from starting here; its own checks decide that.
	if err := l.c.Cache.Put(ctx, records); err != nil {
		l.log.ErrorContext(ctx, "putting the keys of a finished round in the dedup cache failed; its entries may be logged twice",
			"keys", len(records), "cause", err)
	}
	return nil
}

func (l *Log) readTile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	b, err := l.c.Store.Get(ctx, t.Path())
	if errors.Is(err, storage.ErrNotFound) && t.L == tlog.NamesLevel {
		return nil, tlog.ErrNoTile
	} else if err != nil {
		return nil, err
	}
	if storage.KindOf(t.Path()).Gzip() {
		return tlog.Decompress(b, maxTileContent)
	}
	return b, nil
}
