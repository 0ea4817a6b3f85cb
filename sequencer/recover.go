package sequencer

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	l := &Log{c: c, log: c.Logger, metrics: m, turnstile: newTurnstile(), limiter: newLimiter(c.DuplicateRate), exempt: newExemptions(c.DuplicateExempt, m.exempt),
		pool: newPool(c.PoolSize), stored: make(map[tlog.Fingerprint]struct{})}
	l.status.Store(&Status{})
	if err := l.recover(ctx); err != nil {
		return nil, fmt.Errorf("opening log %s: %w", c.Signer.Origin(), err)
	}
	l.clock = newClock(c.wall)
	l.trusted.Store(l.clock.trusted())
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
	keys, err := l.reapply(ctx, head.Tree, pending)
	if err != nil {
		return err
	}
	if l.edge, err = tlog.LoadEdge(head.Tree, func(t tlog.Tile) ([]byte, error) { return l.readTile(ctx, t) }, l.c.Names); err != nil {
		return fmt.Errorf("verifying the right edge of the tree: %w", err)
	}
	if err := l.checkPublic(ctx, head); err != nil {
		return err
	}
	l.timestamp = head.Timestamp
	if _, err := waitForClock(l.c.wall, head.Timestamp); err != nil {
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
	l.rememberAgain(ctx, keys)
	if err := l.sweep(ctx); err != nil {
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
	note, err := l.fetchPublic(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.log.WarnContext(ctx, "the public checkpoint could not be compared with the lock: whether lock and storage are both an old copy, as after a rollback of the machine, is not checked",
			"cause", err)
		return nil
	}
	l.metrics.compared.Set(1)
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

// maxChain bounds how many bundles recovery follows: those that a process keeps,
// and some whose discard failed.
const maxChain = 2 * maxBundles

// reapply applies the staging bundles that lead to tree, oldest first. The last is
// that of the round that was not finished, if one is pending; the others are of
// published rounds, whose objects need not be durable yet and whose keys need not
// be in the cache. It returns these keys, of all the rounds.
func (l *Log) reapply(ctx context.Context, tree tlog.Tree, pending bool) (keys []storage.Record, err error) {
	chain, err := l.chain(ctx, tree, pending)
	if err != nil {
		return nil, err
	}
	for i, b := range slices.Backward(chain) {
		objects, err := decodeObjects(b.objects, func(name string) ([]byte, error) { return l.readBase(ctx, name) })
		if err == nil {
			err = l.mendIssuers(ctx, objects)
		}
		if err == nil {
			err = l.apply(ctx, objects)
		}
		switch {
		case err == nil:
		case !(pending && i == 0) && (errors.Is(err, errBundle) || errors.Is(err, ErrInconsistent)):
			// What a published round has written is there or not; the right edge
			// is verified below, and the bundles that follow build on it.
			l.complain(ctx, b.tree, err)
			continue
		default:
			return nil, fmt.Errorf("applying the staging bundle %s: %w", bundleName(b.tree), err)
		}
		if keys, err = appendKeys(keys, objects); err != nil {
			return nil, fmt.Errorf("reading the staging bundle %s: %w", bundleName(b.tree), err)
		}
	}
	return keys, nil
}

// stagedRound is an opened bundle.
type stagedRound struct {
	tree    tlog.Tree // that it leads to
	objects []byte    // encoded
}

// chain returns the bundles that lead to tree, newest first.
func (l *Log) chain(ctx context.Context, tree tlog.Tree, pending bool) (chain []stagedRound, err error) {
	for at := tree; len(chain) < maxChain; {
		b, err := l.c.Store.Get(ctx, bundleName(at))
		switch first := len(chain) == 0; {
		case errors.Is(err, storage.ErrNotFound) && first && pending:
			return nil, fmt.Errorf("%w: the lock holds a tree of %d entries that is not published, and its staging bundle %s is gone: was the storage restored from a backup?",
				ErrInconsistent, at.N, bundleName(at))
		case errors.Is(err, storage.ErrNotFound):
			return chain, nil
		case err != nil:
			return nil, fmt.Errorf("reading a staging bundle: %w", err)
		}
		before, objects, err := openBundle(b)
		switch {
		case err != nil && len(chain) == 0 && pending:
			return nil, fmt.Errorf("reading the staging bundle %s: %w", bundleName(at), err)
		case err != nil:
			l.complain(ctx, at, err)
			return chain, nil
		case before.N >= at.N:
			return nil, fmt.Errorf("%w: %s follows a tree of %d entries", errBundle, bundleName(at), before.N)
		}
		chain = append(chain, stagedRound{at, objects})
		at = before
	}
	return chain, nil
}

// complain tells about a bundle of a published round that is of no use.
func (l *Log) complain(ctx context.Context, of tlog.Tree, err error) {
	l.log.ErrorContext(ctx, "the staging bundle of a published tree is damaged and dropped; the entries of that round may be logged twice; "+
		"if the machine has lost power, let daybook fsck look at the log", "bundle", bundleName(of), "cause", err)
}

func (l *Log) readBase(ctx context.Context, name string) ([]byte, error) {
	base, err := l.c.Store.Get(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		// The bundle is there; it is the tile of the tree before that is not.
		return nil, fmt.Errorf("%w: %s is gone", ErrInconsistent, name)
	}
	return base, err
}

// appendKeys appends the keys of all entries in the data tiles among objects.
func appendKeys(keys []storage.Record, objects []storage.Object) ([]storage.Record, error) {
	for _, o := range objects {
		if storage.KindOf(o.Name) != storage.DataTile {
			continue
		}
		b, err := tlog.Decompress(o.Data, maxTileContent)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		for len(b) > 0 {
			leaf, rest, err := tlog.ReadTileLeaf(b)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.Name, err)
			}
			keys, b = append(keys, storage.Record{Key: leaf.Entry.Key(), Position: leaf.Position}), rest
		}
	}
	return keys, nil
}

// rememberAgain puts keys of published rounds in the cache. Losing them costs
// duplicates only (S8), so a failing cache does not keep a log from starting here;
// its own checks decide that.
func (l *Log) rememberAgain(ctx context.Context, keys []storage.Record) {
	if len(keys) == 0 {
		return
	}
	if err := l.c.Cache.Put(ctx, keys); err != nil {
		l.log.ErrorContext(ctx, "putting the keys of the last rounds in the dedup cache failed; their entries may be logged twice",
			"keys", len(keys), "cause", err)
	}
}

// sweep makes what recovery has written durable and discards all bundles.
func (l *Log) sweep(ctx context.Context) error {
	names, err := l.c.Store.List(ctx, "staging/")
	if err != nil {
		return fmt.Errorf("listing staging bundles: %w", err)
	}
	if err := l.c.Store.Sync(ctx); err != nil {
		return fmt.Errorf("making the last rounds durable: %w", err)
	}
	if len(names) == 0 {
		return nil
	}
	if err := l.c.Store.Delete(ctx, names...); err != nil {
		return fmt.Errorf("discarding staging bundles: %w", err)
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
