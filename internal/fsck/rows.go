package fsck

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

// openCache opens the dedup cache, if one is to be checked. One that cannot be
// used is a finding, and is not checked further.
func (r *run) openCache(ctx context.Context) error {
	if r.o.Cache == "" {
		return nil
	}
	d, err := openDatabase(r.o.Cache)
	if err == nil {
		c := rows{d}
		if _, _, err = c.get(ctx, tlog.Key{}); err == nil {
			r.cache = &c
			return nil
		}
		err = errors.Join(err, d.Close())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.found.fault(damagef(CacheObject, "there is no dedup cache at %s: losing it costs duplicate entries only; `daybook cache rebuild` makes it anew", r.o.Cache))
	case errors.Is(err, errDamaged):
		return r.found.fault(damagef(CacheObject, "%v", err))
	}
	return fmt.Errorf("opening the dedup cache: %w", err)
}

// cacheFault returns a finding about rows of the cache.
func cacheFault(entry int64, what string) *monitor.Fault {
	return &monitor.Fault{Object: CacheObject, Entry: entry, What: what}
}

// What is found about rows. The key is in it, so that a row is one finding.
func rowOf(key []byte, index int64) string {
	return fmt.Sprintf("row of key %x points at entry %d", key, index)
}

// leafRows checks the rows of leaves.
type leafRows struct {
	get    func(context.Context, tlog.Key) (tlog.Position, bool, error)
	leaves *leafReader
	size   int64     // of the tree
	until  time.Time // until when a row may be missing because it is about to be made
}

// check checks that a verified leaf has its row. Leaves that are there several
// times share the row of one of them.
func (c *leafRows) check(ctx context.Context, leaf tlog.Leaf, n *Counts, found *findings) error {
	key := leaf.Entry.Key()
	p, ok, err := c.get(ctx, key)
	for err == nil && !ok && time.Now().Before(c.until) {
		// The round that published the entry may be about to remember it.
		if err = sleep(ctx, 20*time.Millisecond); err == nil {
			p, ok, err = c.get(ctx, key)
		}
	}
	switch {
	case errors.Is(err, errDamaged):
		return found.fault(cacheFault(leaf.Index, "rows cannot be read: "+err.Error()))
	case err != nil:
		return fmt.Errorf("reading the dedup cache: %w", err)
	case !ok:
		return found.fault(cacheFault(leaf.Index, "has no row of entries: if they come again, they are logged again"))
	case p == leaf.Position:
		n.Matched++
		return nil
	case p.Index == leaf.Index:
		f := cacheFault(leaf.Index, fmt.Sprintf("row of key %x has another timestamp than the entry", key))
		f.Got, f.Want = fmt.Sprint(p.Timestamp), fmt.Sprint(leaf.Timestamp)
		return found.fault(f)
	case p.Index < 0 || p.Index >= c.size:
		return found.fault(cacheFault(leaf.Index, rowOf(key[:], p.Index)+fmt.Sprintf(", beyond the %d of the tree; its entry stands at %d", c.size, leaf.Index)))
	}
	there, whole, err := c.leaves.leaf(ctx, p.Index)
	switch {
	case err != nil || !whole: // a damaged tile is told, but not by this
		return err
	case there.Entry.Key() != key:
		return found.fault(cacheFault(leaf.Index, rowOf(key[:], p.Index)+fmt.Sprintf(", which is another entry; its own stands at %d", leaf.Index)))
	}
	// The row is compared at the leaf that it points at. That is the first one, or,
	// if the cache had lost what it knew, a later one.
	n.Duplicates++
	return nil
}

// checkRows checks the rows that the leaves do not lead to: all, or a sample.
func (r *run) checkRows(ctx context.Context) error {
	if !r.o.All {
		return r.sampleRows(ctx)
	}
	c := &rowCount{run: r}
	if err := c.count(ctx); err != nil {
		return err
	}
	// Each leaf that matched accounts for one row, as no two leaves have one
	// row. The rest was told as the row of a leaf, or belongs to no leaf.
	if c.inTree > r.report.Matched {
		return c.judgeAll(ctx)
	}
	return nil
}

// rowChunk is the number of rows that are read at a time; it bounds how long the
// log's WAL checkpoints may have to wait.
const rowChunk = 2000

type rowCount struct {
	*run
	inTree int64 // rows that point into the tree
	seen   int64
}

// count counts the rows, and looks at what can be seen of each alone.
func (c *rowCount) count(ctx context.Context) error {
	err := c.each(ctx, func(list []row) error { return c.look(ctx, list) })
	c.report.Rows = c.seen
	return err
}

// points tells whether a row points into the tree that is checked.
func (c *rowCount) points(w row) bool {
	return len(w.key) == len(tlog.Key{}) && w.timestamp >= 0 && w.index >= 0 && w.index < c.head.Tree.N
}

// look counts the rows that point into the tree, and tells what is wrong with
// the others.
func (c *rowCount) look(ctx context.Context, list []row) error {
	var beyond []row
	for _, w := range list {
		var f *monitor.Fault
		switch {
		case c.points(w):
			c.inTree++
		case len(w.key) != len(tlog.Key{}):
			f = cacheFault(-1, fmt.Sprintf("row has a key of %d bytes: %x", len(w.key), w.key))
		case w.index < 0 || w.timestamp < 0:
			f = cacheFault(-1, rowOf(w.key, w.index)+fmt.Sprintf(" with the timestamp %d, which is impossible", w.timestamp))
		default:
			beyond = append(beyond, w)
		}
		if f != nil {
			if err := c.rowFault(w, f); err != nil {
				return err
			}
		}
	}
	return c.judgeBeyond(ctx, beyond)
}

// rowFault tells what is wrong with a row, if leafRows did not: it does where there
// is a leaf with the row's key.
func (r *run) rowFault(w row, f *monitor.Fault) error {
	if r.inTiles.hasPrefix(CacheObject, rowOf(w.key, w.index)) {
		return nil
	}
	return r.found.fault(f)
}

// judgeBeyond looks at rows that point beyond the tree that is checked. They may
// point into a larger one, since a row is made after its entry was published.
func (r *run) judgeBeyond(ctx context.Context, list []row) error {
	if len(list) == 0 {
		return nil
	}
	size, err := r.size(ctx)
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.index < size {
			r.report.NewerRows++
			continue
		}
		f := cacheFault(w.index, "rows point beyond the tree")
		f.Got, f.Want = fmt.Sprintf("row of key %x", w.key), fmt.Sprintf("entries below %d", size)
		if err := r.rowFault(w, f); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with all rows, in the order of their keys, some at a time. A
// part of the database that cannot be read is a finding, and ends it.
func (c *rowCount) each(ctx context.Context, f func([]row) error) error {
	c.seen = 0
	last, first := []byte{}, true
	for {
		list, err := c.cache.from(ctx, last, first, rowChunk)
		switch {
		case errors.Is(err, errDamaged):
			return c.found.fault(damagef(CacheObject, "rows after key %x cannot be read: %v", last, err))
		case err != nil:
			return fmt.Errorf("reading the dedup cache: %w", err)
		case len(list) == 0:
			return nil
		}
		for _, w := range list {
			if bytes.Compare(w.key, last) <= 0 && !first {
				return c.found.fault(damagef(CacheObject, "rows are not in the order of their keys after key %x: the database is damaged", last))
			}
			last, first = w.key, false
		}
		c.seen += int64(len(list))
		if err := f(list); err != nil {
			return err
		}
		c.progress("rows", c.seen, 0)
	}
}

// judgeChunk is the number of rows that are put in the order of the tiles at a
// time, some 100 bytes each.
const judgeChunk = 1 << 20

// judgeAll compares every row that points into the tree with the leaf there.
// It takes long, but only where it is known that something is to be found.
func (c *rowCount) judgeAll(ctx context.Context) error {
	var pending []row
	judge := func() error {
		err := c.judgeRows(ctx, pending)
		pending = pending[:0]
		return err
	}
	err := c.each(ctx, func(list []row) error {
		for _, w := range list {
			if c.points(w) {
				pending = append(pending, w)
			}
		}
		if len(pending) < judgeChunk {
			return nil
		}
		return judge()
	})
	if err != nil {
		return err
	}
	return judge()
}

// judgeRows compares rows with the leaves that they point at.
func (r *run) judgeRows(ctx context.Context, list []row) error {
	slices.SortFunc(list, func(a, b row) int { return int(a.index - b.index) })
	for _, w := range list {
		leaf, whole, err := r.leaves.leaf(ctx, w.index)
		if err != nil {
			return err
		}
		if !whole { // a damaged tile is told, but not by this
			continue
		}
		key := leaf.Entry.Key()
		switch {
		case !bytes.Equal(key[:], w.key):
			f := cacheFault(w.index, rowOf(w.key, w.index)+", which is another entry")
			f.Got, f.Want = fmt.Sprintf("%x", w.key), fmt.Sprintf("%x", key)
			err = r.rowFault(w, f)
		case leaf.Timestamp != w.timestamp && !r.o.All:
			f := cacheFault(w.index, fmt.Sprintf("row of key %x has another timestamp than the entry", w.key))
			f.Got, f.Want = fmt.Sprint(w.timestamp), fmt.Sprint(leaf.Timestamp)
			err = r.found.fault(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sampleRows checks rows chosen at random. Keys are hashes, so a random place
// among them is a fair choice.
func (r *run) sampleRows(ctx context.Context) error {
	var list []row
	chosen := map[string]bool{}
	for i := range r.o.Sample {
		place := make([]byte, len(tlog.Key{}))
		rand.Read(place) // never fails
		next, err := r.cache.from(ctx, place, true, 1)
		if err == nil && len(next) == 0 { // after the last one comes the first
			next, err = r.cache.from(ctx, nil, true, 1)
		}
		switch {
		case errors.Is(err, errDamaged):
			return r.found.fault(damagef(CacheObject, "rows cannot be read: %v", err))
		case err != nil:
			return fmt.Errorf("reading the dedup cache: %w", err)
		case len(next) == 0:
			return nil
		}
		if w := next[0]; !chosen[string(w.key)] {
			chosen[string(w.key)] = true
			list = append(list, w)
		}
		r.progress("rows", int64(i), int64(r.o.Sample))
	}
	r.report.Sampled = int64(len(list))
	c := &rowCount{run: r}
	if err := c.look(ctx, list); err != nil {
		return err
	}
	return r.judgeRows(ctx, slices.DeleteFunc(list, func(w row) bool { return !c.points(w) }))
}
