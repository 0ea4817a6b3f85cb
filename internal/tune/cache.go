package tune

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/daybook-ct/daybook/cache"
	"github.com/daybook-ct/daybook/internal/durable"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/tlog"
)

const (
	// leastCache is the size in bytes of the smallest cache that is measured: a
	// smaller one says nothing.
	leastCache = 8 << 20
	// growth is how much larger the second cache is.
	growth = 10
	// spaceShare is the part of the free space, one in so many, that a cache may take.
	spaceShare = 4
	// rowBytes is what a row takes in the file, at least.
	rowBytes = 45
	// buildBatch is how many rows are put at once to make a cache.
	buildBatch = 10_000
	// defaultBatch is how many a round puts if the pool has no limit.
	defaultBatch = 150
)

// Cache is what the dedup cache takes at a size.
type Cache struct {
	Wanted int64 `json:"wanted_bytes"` // size that was to be measured
	Bytes  int64 `json:"bytes"`        // size that was, less if time or space ran out
	Rows   int64 `json:"rows"`

	Batch         int    `json:"batch"` // rows of a Put
	Put           Timing `json:"put"`
	WALCheckpoint Timing `json:"wal_checkpoint"` // after the Put
	Hit           Timing `json:"get_hit"`
	Miss          Timing `json:"get_miss"`
	// Cold is a get of a key that is not there right after opening, with none of
	// the file in memory: what each get costs when the cache has outgrown the
	// memory. Dropped is false if the system could not be told to forget the file.
	Cold    Timing `json:"get_cold"`
	Dropped bool   `json:"cold_dropped"`
}

// caches measures the cache at its present size and at ten times that.
func (t *tuner) caches(ctx context.Context) ([]Cache, error) {
	var present int64
	if t.o.CacheFile != "" {
		info, err := os.Stat(t.o.CacheFile)
		switch {
		case err == nil:
			present = info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	free, err := posix.FreeSpace(t.places.cache)
	if err != nil {
		return nil, err
	}
	wanted := max(present, leastCache)
	t.cache = filepath.Join(t.places.cache, "present.db")
	first, err := t.measureCache(ctx, t.cache, wanted, free.Bytes/spaceShare, "1x", shareCache*0.17, shareCache*0.13)
	if err != nil {
		return nil, err
	}
	large := filepath.Join(t.places.cache, "large.db")
	second, err := t.measureCache(ctx, large, growth*wanted, free.Bytes/spaceShare, "10x", shareCache*0.5, shareCache*0.2)
	if err != nil {
		return nil, err
	}
	return []Cache{first, second}, os.Remove(large)
}

func (t *tuner) measureCache(ctx context.Context, path string, wanted, atMost int64, name string, build, measure float64) (c Cache, err error) {
	options := cache.Options{Create: true, PageCache: t.o.PageCache}
	db, err := cache.Open(path, options)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.Wanted, c.Batch = wanted, t.o.PoolSize
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	rows := &rowMaker{t: t, step: ^uint64(0) / uint64(wanted/rowBytes+buildBatch)}
	if err := rows.build(ctx, db, path, min(wanted, atMost), t.phase("cache "+name, build), &c); err != nil {
		return c, err
	}
	if err := c.puts(ctx, db, rows, t.phase("cache put", measure*0.4)); err != nil {
		return c, err
	}
	if c.Hit, err = gets(ctx, db, t.phase("cache get", measure*0.1), true, rows.old); err != nil {
		return c, err
	}
	if c.Miss, err = gets(ctx, db, t.phase("cache get", measure*0.1), false, rows.fresh); err != nil {
		return c, err
	}
	if err := db.Close(); err != nil {
		return c, err
	}
	options.Create = false
	return c, c.coldGets(ctx, path, options, t.phase("cache get", measure*0.4), rows.fresh)
}

// coldShare is the part of the pages, one in so many, that may be read before a
// cache is not cold any more.
const coldShare = 20

// coldGets measures reads while next to nothing of the file is in memory.
func (c *Cache) coldGets(ctx context.Context, path string, o cache.Options, p *phase, key func() tlog.Key) error {
	var took []time.Duration
	for {
		more, err := p.left(ctx, "")
		if err != nil || !more && len(took) > 0 {
			c.Cold = timing(took)
			return err
		}
		if err := durable.Reread(path); err != nil {
			return fmt.Errorf("taking the cache out of memory: %w", err)
		}
		c.Dropped = durable.Drops
		db, err := cache.Open(path, o)
		if err != nil {
			return err
		}
		for range max(1, c.Bytes/4096/coldShare) {
			start := time.Now()
			_, ok, err := db.Get(ctx, key())
			if took = append(took, time.Since(start)); err != nil || ok {
				return errors.Join(fmt.Errorf("a key that was not put was found: %v", ok), err, db.Close())
			}
			if time.Since(p.began) > p.time {
				break
			}
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
}

// rowMaker makes the rows of a cache in the order of their keys, which fills
// the file fastest. The keys are spread evenly.
type rowMaker struct {
	t    *tuner
	step uint64 // between the first eight bytes of two keys
	rows uint64
}

// key returns the key of row i.
func (m *rowMaker) key(i uint64) (k tlog.Key) {
	binary.BigEndian.PutUint64(k[:], i*m.step)
	for j := 8; j < len(k); j += 8 {
		// A step of SplitMix64 makes bytes that do not compress.
		z := (i*4 + uint64(j)) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.BigEndian.PutUint64(k[j:], z^z>>31)
	}
	return k
}

// old returns the key of a row that is there.
func (m *rowMaker) old() tlog.Key { return m.key(m.t.material.rnd.Uint64() % m.rows) }

// fresh returns a key between two of them.
func (m *rowMaker) fresh() (k tlog.Key) {
	copy(k[:], m.t.material.bytes(len(k)))
	binary.BigEndian.PutUint64(k[:], binary.BigEndian.Uint64(k[:])%(m.rows*m.step))
	return k
}

// build puts rows until the file has a size, or until the time is over.
func (m *rowMaker) build(ctx context.Context, db *cache.DB, path string, size int64, p *phase, c *Cache) error {
	records := make([]storage.Record, buildBatch)
	for {
		for i := range records {
			records[i] = storage.Record{Key: m.key(m.rows), Position: tlog.Position{Index: int64(m.rows), Timestamp: 1_800_000_000_000}}
			m.rows++
		}
		if err := db.Put(ctx, records); err != nil {
			return err
		}
		if _, err := db.Checkpoint(ctx); err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		c.Rows, c.Bytes = int64(m.rows), info.Size()
		// There has to be at least one batch, whatever the time.
		more, err := p.left(ctx, fmt.Sprintf("%d MB of %d", c.Bytes>>20, size>>20))
		if err != nil || !more || c.Bytes >= size {
			return err
		}
	}
}

// puts measures what the end of a round does.
func (c *Cache) puts(ctx context.Context, db *cache.DB, rows *rowMaker, p *phase) error {
	var put, checkpoint []time.Duration
	records := make([]storage.Record, c.Batch)
	for {
		more, err := p.left(ctx, "")
		if err != nil || !more && len(put) >= 3 {
			c.Put, c.WALCheckpoint = timing(put), timing(checkpoint)
			return err
		}
		for i := range records {
			records[i] = storage.Record{Key: rows.fresh(), Position: tlog.Position{Index: 1, Timestamp: 1}}
		}
		start := time.Now()
		if err := db.Put(ctx, records); err != nil {
			return err
		}
		done := time.Now()
		if _, err := db.Checkpoint(ctx); err != nil {
			return err
		}
		put, checkpoint = append(put, done.Sub(start)), append(checkpoint, time.Since(done))
	}
}

// gets measures reads of keys that are, or are not, there.
func gets(ctx context.Context, db *cache.DB, p *phase, there bool, key func() tlog.Key) (Timing, error) {
	return p.measure(ctx, func() error {
		_, ok, err := db.Get(ctx, key())
		if err == nil && ok != there {
			return fmt.Errorf("a key that was put: %v, was found: %v", there, ok)
		}
		return err
	})
}

// get returns what a get takes in the ordinary case.
func (c *Cache) get() time.Duration {
	return time.Duration(max(c.Hit.P50, c.Miss.P50, rounds.Duration(1)))
}
