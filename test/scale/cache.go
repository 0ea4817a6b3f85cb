package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	// batch is how many new entries a round has.
	batch = 150
	// coldShare is the part of the pages, one in so many, that gets may read before
	// a cache is not cold any more.
	coldShare = 20
	// innerFanOut is less than the number of pages below an inner page of the
	// B-tree, so that gets so many pages apart visit every inner page.
	innerFanOut = 32
	pageSize    = 4096
	frameHead   = 24 // of a frame of the WAL
	// warmTime bounds the reading of the whole cache into memory.
	warmTime = 30 * time.Second
	// leastRounds is how many rounds are measured however long they take.
	leastRounds = 5
)

// errWrong means that the cache has not what it should, or more.
var errWrong = errors.New("a key that was put was not found, or one that was not put was: remove the file, which is made anew")

// state is what of a cache is in memory when it is measured.
type state string

const (
	cold  state = "nothing"
	inner state = "inner pages" // in the page cache of the connection; the leaves on the disk
	warm  state = "all that fits"
)

// pageCaches are the sizes of SQLite's page cache that are compared, and what is
// then measured: inner pages without leaves need one that holds them.
var pageCaches = []struct {
	bytes  int64
	states []state
}{
	{2 << 20, []state{cold, warm}},
	{1 << 30, []state{cold, inner, warm}},
}

// cacheResult is what a dedup cache takes in one state.
type cacheResult struct {
	hit, miss samples // of a get
	// Of a round of new entries: all its gets together, the put, the WAL checkpoint.
	gets, put, checkpoint samples
	written               int64 // bytes that the rounds sent to the disk, as the system counts
	bySQLite              int64 // bytes that SQLite wrote, to the WAL and back
	frames                int64 // of the WAL
}

// measureCaches measures dedup caches of every size.
func measureCaches(ctx context.Context, o *options) error {
	t := &table{head: []string{"rows", "file", "page cache", "in memory", "filter", "get, hit", "get, miss",
		fmt.Sprintf("%d gets of a round", batch), "put", "WAL checkpoint", "written a key"}}
	for _, rows := range o.rows {
		if err := measureCache(ctx, o, rows, t); err != nil {
			return fmt.Errorf("%s rows: %w", thousands(rows), err)
		}
	}
	above := fmt.Sprintf("Dedup cache: rounds of %d new entries, each looked up and then put; median / 99th percentile, or [worst] of fewer than 100. Written: frames of the WAL; by SQLite / by the system's count.", batch)
	if !durable.Drops {
		above += " Here files cannot be taken out of memory, so that nothing is cold."
	}
	return t.print(o.out, above)
}

func measureCache(ctx context.Context, o *options, rows int64, t *table) (err error) {
	original, err := database(ctx, o, rows)
	if err != nil {
		return err
	}
	m := &cacheMeter{o: o, rows: rows, path: original + ".used", rnd: rand.New(rand.NewPCG(2, uint64(rows)))}
	if err := removeDatabase(m.path); err != nil {
		return err
	}
	// What is put would make the next run measure another file.
	if err := copyFile(original, m.path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeDatabase(m.path)) }()
	if m.file, err = os.OpenFile(m.path, os.O_RDWR, 0); err != nil {
		return err
	}
	// To close the file while SQLite has it open would free SQLite's locks.
	defer func() { err = errors.Join(err, m.file.Close()) }()
	info, err := m.file.Stat()
	if err != nil {
		return err
	}
	m.pages = info.Size() / pageSize
	filters := []int64{0}
	if n := int64(o.filter * float64(rows)); n > 0 {
		filters = append(filters, n)
	}
	for _, p := range pageCaches {
		for _, s := range p.states {
			for _, f := range filters {
				if s == warm && f > 0 {
					continue // it is for what is not in memory
				}
				r, err := m.measure(ctx, s, p.bytes, f)
				if err != nil {
					return fmt.Errorf("%s in memory: %w", s, err)
				}
				with := "none"
				if f > 0 {
					with = size(f)
				}
				t.add(thousands(rows), size(info.Size()), size(p.bytes), string(s), with, r.hit.String(), r.miss.String(),
					r.gets.String(), r.put.String(), r.checkpoint.String(), r.writtenPerKey())
				o.say("cache of %s rows, page cache %s, %s in memory, filter %s: get %v, %d gets %v, put %v",
					thousands(rows), size(p.bytes), s, with, r.miss, batch, r.gets, r.put)
			}
		}
	}
	return nil
}

func (r *cacheResult) writtenPerKey() string {
	keys := float64(len(r.put) * batch)
	if keys == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f frames; %.1f / %.1f kB", float64(r.frames)/keys, float64(r.bySQLite)/keys/1e3, float64(r.written)/keys/1e3)
}

// cacheMeter measures one dedup cache.
type cacheMeter struct {
	o     *options
	rows  int64
	pages int64
	path  string
	file  *os.File // to have the system forget it
	rnd   *rand.Rand
	fresh uint64 // keys that were made up so far
}

// old returns a key that is there.
func (m *cacheMeter) old() tlog.Key { return rowKey(m.rnd.Int64N(m.rows), m.rows) }

// next returns a key that is not.
func (m *cacheMeter) next() tlog.Key {
	m.fresh++
	return freshKey(m.fresh)
}

// opened is a cache in the state in which it is to be measured.
type opened struct {
	db     *cache.DB
	filter *filter // nil without one
	bound  int64   // pages that may be read before it is in another state
}

// get reports whether a key is in the cache, which the filter is asked first.
func (c *opened) get(ctx context.Context, k tlog.Key) (bool, error) {
	absent, err := c.filter.absent(&k)
	if absent || err != nil {
		return false, err
	}
	_, ok, err := c.db.Get(ctx, k)
	return ok, err
}

// measure measures the cache in one state. What is not warm is made anew as
// often as it has warmed up.
func (m *cacheMeter) measure(ctx context.Context, s state, pageCache, filterBytes int64) (r *cacheResult, err error) {
	r = new(cacheResult)
	var f *filter
	if filterBytes > 0 {
		if err := durable.RereadFile(m.file); err != nil {
			return nil, err
		}
		if f, err = newFilter(ctx, m.path, filterBytes); err != nil {
			return nil, err
		}
		m.o.say("filter of %s rows, %s: made from a cold file in %s", thousands(m.rows), size(filterBytes), short(f.took))
		defer func() { err = errors.Join(err, f.close()) }()
	}
	for _, measure := range []func(context.Context, *opened, *cacheResult, func() bool) error{m.gets, m.rounds} {
		spent := time.Duration(0)
		for spent < m.o.time {
			if err := m.once(ctx, s, pageCache, f, func(c *opened) error {
				start := time.Now()
				defer func() { spent += time.Since(start) }()
				return measure(ctx, c, r, func() bool { return spent+time.Since(start) >= m.o.time })
			}); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// once opens the cache, brings it into a state, and lets f measure it.
func (m *cacheMeter) once(ctx context.Context, s state, pageCache int64, with *filter, f func(*opened) error) (err error) {
	if err := durable.RereadFile(m.file); err != nil {
		return err
	}
	db, err := cache.Open(m.path, cache.Options{PageCache: pageCache})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &opened{db: db, filter: with, bound: max(batch, m.pages/coldShare)}
	switch s {
	case warm:
		c.bound = 1 << 40
		if err = readPages(m.file, m.pages); err == nil {
			err = m.touch(ctx, db, m.rows/20) // some 70 rows are in a page
		}
	case inner:
		err = m.touch(ctx, db, max(1, m.pages/innerFanOut))
		if err == nil {
			err = durable.RereadFile(m.file)
		}
	}
	if err != nil {
		return err
	}
	return f(c)
}

// touch gets n keys, evenly spread and in ascending order, for as long as
// warmTime at most.
func (m *cacheMeter) touch(ctx context.Context, db *cache.DB, n int64) error {
	end := time.Now().Add(warmTime)
	for i, k := range sortedKeys(max(1, n), m.rows) {
		if _, ok, err := db.Get(ctx, k); err != nil {
			return err
		} else if !ok {
			return errWrong
		}
		if i%1000 == 0 && time.Now().After(end) {
			return nil
		}
	}
	return nil
}

// gets measures gets of keys that are there and of others, in turn.
func (m *cacheMeter) gets(ctx context.Context, c *opened, r *cacheResult, over func() bool) error {
	for i := int64(0); i < c.bound; i += 2 {
		if i > 0 && i%64 == 0 && over() {
			break
		}
		for _, there := range []bool{true, false} {
			k := m.next
			if there {
				k = m.old
			}
			key := k()
			start := time.Now()
			ok, err := c.get(ctx, key)
			took := time.Since(start)
			if err != nil {
				return err
			} else if ok != there {
				return errWrong
			}
			if there {
				r.hit = append(r.hit, took)
			} else {
				r.miss = append(r.miss, took)
			}
		}
	}
	return nil
}

// rounds measures what rounds of new entries do with the cache.
func (m *cacheMeter) rounds(ctx context.Context, c *opened, r *cacheResult, over func() bool) error {
	records := make([]storage.Record, batch)
	written := writtenBytes()
	for used := int64(0); used < c.bound; used += batch {
		if len(r.put) >= leastRounds && over() {
			break
		}
		for i := range records {
			records[i] = storage.Record{Key: m.next(), Position: tlog.Position{Index: 1, Timestamp: 1}}
		}
		start := time.Now()
		for i := range records {
			if ok, err := c.get(ctx, records[i].Key); err != nil {
				return err
			} else if ok {
				return errWrong
			}
		}
		got := time.Now()
		if c.filter != nil {
			for i := range records {
				c.filter.add(&records[i].Key)
			}
		}
		if err := c.db.Put(ctx, records); err != nil {
			return err
		}
		put := time.Now()
		wal, err := c.db.Checkpoint(ctx)
		if err != nil {
			return err
		}
		r.gets, r.put, r.checkpoint = append(r.gets, got.Sub(start)), append(r.put, put.Sub(got)), append(r.checkpoint, time.Since(put))
		r.frames += int64(wal.Frames)
		r.bySQLite += int64(wal.Frames)*(pageSize+frameHead) + int64(wal.Checkpointed)*pageSize
	}
	r.written += writtenBytes() - written
	return nil
}

// writtenBytes is what this process has sent to the disk so far, 0 where /proc
// does not tell.
func writtenBytes() int64 {
	return procField(filepath.Join("/proc", "self", "io"), "write_bytes:")
}
