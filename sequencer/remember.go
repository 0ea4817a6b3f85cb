package sequencer

import (
	"context"
	"errors"
	"time"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	// rememberBatch is how many keys do not wait for RememberEvery: from there on
	// a put costs about as much for each key, however many they are.
	rememberBatch = 1000

	// backlogPerRound bounds how many keys of earlier rounds a round puts beside
	// its own. It is not less than rememberBatch, so that only a cache that fails
	// leaves some for the next put.
	backlogPerRound = rememberBatch

	// maxUnremembered bounds the keys kept in memory while the cache fails; a
	// key takes about 200 bytes.
	maxUnremembered = 200_000

	// maxBundles bounds the bundles kept while the cache fails.
	maxBundles = 64

	// maxLeftover bounds the bundles that are kept in mind while they cannot be
	// removed; a start removes them all.
	maxLeftover = 300

	// putFailuresPerLine is how many failing cache puts share a line in the log.
	putFailuresPerLine = 300
)

// bundle is the staging bundle of a published round.
type bundle struct {
	name string
	end  int64 // size of the tree that the round led to
}

// remember puts the keys that wait in the dedup cache, if that is due, and folds
// the cache's WAL back. Until a put is done, the round in flight answers for its
// keys, and later memory does (S6); if it fails, later rounds try again.
func (l *Log) remember(ctx context.Context, r *round) error {
	if len(l.toRemember) == 0 {
		l.waiting = time.Now()
	}
	before := len(l.toRemember)
	for _, leaf := range r.leaves {
		l.toRemember = append(l.toRemember, storage.Record{Key: leaf.Entry.Key(), Position: leaf.Position})
	}
	put := 0
	if l.putDue() {
		start := time.Now()
		put = l.put(ctx, len(r.leaves)+backlogPerRound)
		r.putTook = time.Since(start)
	}
	l.settle(before, put)
	start := time.Now()
	var err error
	r.wal, err = l.c.Cache.Checkpoint(ctx)
	r.walTook = time.Since(start)
	if err != nil {
		l.log.ErrorContext(ctx, "WAL checkpoint of the dedup cache failed", "cause", err)
		return nil
	}
	l.metrics.walFrames.Set(float64(r.wal.Frames))
	if r.wal.Busy {
		l.metrics.walBusy.Inc()
	}
	return nil
}

// settle drops the round in flight. Of the keys to remember memory has the first
// before, and the cache now has the first put.
func (l *Log) settle(before, put int) {
	gone := max(put, len(l.toRemember)-max(maxUnremembered, len(l.toRemember)-before))
	l.privileged(func() {
		l.inFlight = nil
		if l.unremembered == nil {
			l.unremembered = make(map[tlog.Key]tlog.Position)
		}
		for _, rec := range l.toRemember[:min(before, gone)] {
			delete(l.unremembered, rec.Key)
		}
		for _, rec := range l.toRemember[max(before, gone):] {
			l.unremembered[rec.Key] = rec.Position
		}
	})
	// The array is kept, so that it does not grow anew with each put.
	l.toRemember = l.toRemember[:copy(l.toRemember, l.toRemember[gone:])]
	l.metrics.forgotten.Add(float64(gone - put))
	if l.putFailures == 0 {
		l.metrics.remembering.Set(0)
	} else {
		l.metrics.remembering.Set(float64(len(l.toRemember)))
	}
}

// putDue reports whether keys are to be put in the cache with this round.
func (l *Log) putDue() bool {
	if len(l.toRemember) == 0 {
		return false
	}
	draining := l.closed != nil // written by this goroutine alone
	return draining || l.putFailures > 0 || len(l.toRemember) >= rememberBatch || time.Since(l.waiting) >= l.c.RememberEvery
}

// put puts up to n of the keys that wait in the cache, and returns how many.
func (l *Log) put(ctx context.Context, n int) int {
	n = min(n, len(l.toRemember))
	if err := l.c.Cache.Put(ctx, l.toRemember[:n]); err != nil {
		// A full disk or a forgotten shell lasts many rounds.
		if l.putFailures++; l.putFailures%putFailuresPerLine == 1 {
			l.log.ErrorContext(ctx, "dedup cache put failed; its keys stay in memory for the next rounds",
				"keys", len(l.toRemember), "rounds", l.putFailures, "cause", err)
		}
		return 0
	}
	l.waiting = time.Now()
	if l.putFailures > 0 {
		l.log.InfoContext(ctx, "dedup cache takes keys again", "rounds", l.putFailures, "keys_left", len(l.toRemember)-n)
		l.putFailures = 0
	}
	return n
}

// discard deletes the bundles of rounds that failed, and of those whose keys are
// in the cache, once their objects are durable in their places (S2). That is not
// tried again: like any fsync that fails, it halts the log.
func (l *Log) discard(ctx context.Context, r *round) error {
	if len(r.objects) > 0 {
		l.bundles = append(l.bundles, bundle{bundleName(r.growth.Tree), r.growth.Tree.N})
	}
	remembered := l.edge.Tree().N
	if len(l.toRemember) > 0 {
		remembered = l.toRemember[0].Position.Index
	}
	names := l.leftover[max(0, len(l.leftover)-maxLeftover):]
	known := len(names)
	for i, b := range l.bundles {
		if b.end > remembered && len(l.bundles)-i <= maxBundles {
			break
		}
		names = append(names, b.name)
	}
	l.bundles = l.bundles[len(names)-known:]
	draining := l.closed != nil // written by this goroutine alone
	if len(names) == 0 && !draining {
		return nil
	}
	if err := l.c.Store.Sync(ctx); errors.Is(err, storage.ErrNotDurable) {
		return err
	} else if err != nil {
		l.leftover = names
		l.log.WarnContext(ctx, "syncing the storage failed; the next round tries again", "cause", err)
		return nil
	}
	if len(names) == 0 {
		return nil
	}
	if err := l.c.Store.Delete(ctx, names...); err != nil {
		l.leftover = names
		l.log.WarnContext(ctx, "discarding staging bundles failed; the next round tries again", "bundles", len(names), "cause", err)
		return nil
	}
	l.leftover = nil
	return nil
}
