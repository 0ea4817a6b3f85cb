package storagetest

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// TestCache runs the contract of [storage.Cache]. newCache returns a new,
// empty cache, and registers what it needs to release with tb.Cleanup.
//
// A cache may forget, but one that did would fail here: the suite is for
// caches that nothing happens to.
func TestCache(t *testing.T, newCache func(tb testing.TB) storage.Cache) {
	for _, c := range cacheCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, newCache(t)) })
	}
}

// TestCacheReopen checks that records survive the cache. It works as
// [TestStoreReopen] does.
func TestCacheReopen(t *testing.T, newPlace func(tb testing.TB) (open func() storage.Cache)) {
	testCacheReopen(t, newPlace)
}

type cacheCase struct {
	name string
	run  func(t testing.TB, c storage.Cache)
}

var cacheCases = []cacheCase{
	{"Miss", cacheMiss},
	{"PutGet", cachePutGet},
	{"AllKeyBytesCount", cacheAllKeyBytesCount},
	{"FirstPositionWins", cacheFirstPositionWins},
	{"Empty", cacheEmpty},
	{"Many", cacheMany},
	{"Copies", cacheCopies},
	{"Cancelled", cacheCancelled},
	{"Checkpoint", cacheCheckpoint},
	{"GetWhilePutting", cacheGetWhilePutting},
}

func key(s string) tlog.Key { return sha256.Sum256([]byte(s)) }

func rec(s string, index, timestamp int64) storage.Record {
	return storage.Record{Key: key(s), Position: tlog.Position{Index: index, Timestamp: timestamp}}
}

func remember(t testing.TB, c storage.Cache, records ...storage.Record) {
	t.Helper()
	noErr(t, fmt.Sprintf("putting %d records", len(records)), c.Put(t.Context(), records))
}

func hit(t testing.TB, c storage.Cache, r storage.Record) {
	t.Helper()
	p, ok, err := c.Get(t.Context(), r.Key)
	switch {
	case err != nil:
		t.Errorf("getting %x: %v", r.Key[:4], err)
	case !ok:
		t.Errorf("getting %x: a miss, want %+v", r.Key[:4], r.Position)
	case p != r.Position:
		t.Errorf("getting %x: got %+v, want %+v", r.Key[:4], p, r.Position)
	}
}

func miss(t testing.TB, c storage.Cache, k tlog.Key) {
	t.Helper()
	p, ok, err := c.Get(t.Context(), k)
	switch {
	case err != nil:
		t.Errorf("getting %x: %v, want a miss", k[:4], err)
	case ok:
		t.Errorf("getting %x: got %+v, want a miss", k[:4], p)
	}
}

func cacheMiss(t testing.TB, c storage.Cache) {
	miss(t, c, key("a"))
	miss(t, c, tlog.Key{})
	remember(t, c, rec("b", 1, 1))
	miss(t, c, key("a"))
	miss(t, c, tlog.Key{})
}

func cachePutGet(t testing.TB, c storage.Cache) {
	records := []storage.Record{
		rec("zero", 0, 0),
		rec("usual", 123456, 1_790_000_000_000),
		rec("past 32 bits", 1<<32+5, 1<<41),
		rec("last index", 1<<40-1, math.MaxInt64),
		{Key: tlog.Key{}, Position: tlog.Position{Index: 7, Timestamp: 8}},
	}
	for _, r := range records {
		miss(t, c, r.Key)
		remember(t, c, r)
		hit(t, c, r)
	}
	for range 2 {
		for _, r := range records {
			hit(t, c, r)
		}
	}
}

// cacheAllKeyBytesCount is invariant S8: a truncated key would be a wrong hit.
func cacheAllKeyBytesCount(t testing.TB, c storage.Cache) {
	base := key("base")
	base[3] = 0
	var records []storage.Record
	for i := range base {
		for _, flip := range []byte{0x01, 0x80, base[i]} { // the last makes the byte zero
			k := base
			k[i] ^= flip
			if k == base {
				continue
			}
			records = append(records, storage.Record{Key: k, Position: tlog.Position{Index: int64(len(records)), Timestamp: 1}})
		}
	}
	for i, r := range records {
		miss(t, c, r.Key)
		remember(t, c, r)
		hit(t, c, records[i/2])
	}
	miss(t, c, base)
	for _, r := range records {
		hit(t, c, r)
	}
}

func cacheFirstPositionWins(t testing.TB, c storage.Cache) {
	first := rec("a", 10, 1000)
	remember(t, c, first)
	remember(t, c, rec("a", 5, 500), rec("b", 11, 1001), rec("a", 20, 2000))
	hit(t, c, first)
	hit(t, c, rec("b", 11, 1001))
	remember(t, c, rec("c", 1, 1), rec("c", 2, 2), rec("d", 3, 3))
	hit(t, c, rec("c", 1, 1))
	hit(t, c, rec("d", 3, 3))
	remember(t, c, first, first)
	hit(t, c, first)
}

func cacheEmpty(t testing.TB, c storage.Cache) {
	if err := c.Put(t.Context(), nil); err != nil {
		t.Errorf("putting no records: %v", err)
	}
	if err := c.Put(t.Context(), []storage.Record{}); err != nil {
		t.Errorf("putting no records: %v", err)
	}
	miss(t, c, key("a"))
	remember(t, c, rec("a", 1, 1))
	if err := c.Put(t.Context(), nil); err != nil {
		t.Errorf("putting no records: %v", err)
	}
	hit(t, c, rec("a", 1, 1))
}

func cacheMany(t testing.TB, c storage.Cache) {
	var records []storage.Record
	for i := range 5000 {
		records = append(records, rec(fmt.Sprint(i), int64(i), int64(i)+1_790_000_000_000))
	}
	remember(t, c, records...)
	for _, r := range records {
		hit(t, c, r)
	}
	miss(t, c, key("5000"))
}

// cacheCopies checks that the caller's slice is neither kept nor changed.
func cacheCopies(t testing.TB, c storage.Cache) {
	a, b := rec("a", 1, 1), rec("b", 2, 2)
	for i, order := range [][]storage.Record{{b, a}, {a, b}} {
		given := append([]storage.Record(nil), order...)
		remember(t, c, given...)
		if given[0] != order[0] || given[1] != order[1] {
			t.Errorf("put %d changed the records it was given", i)
		}
		given[0], given[1] = rec("x", 9, 9), rec("y", 9, 9)
		hit(t, c, a)
		hit(t, c, b)
		miss(t, c, key("x"))
	}
}

func cacheCancelled(t testing.TB, c storage.Cache) {
	known := rec("known", 1, 1)
	remember(t, c, known)
	ctx := cancelled(t)
	p, ok, err := c.Get(ctx, known.Key)
	switch {
	case err == nil && !ok:
		t.Error("getting with a cancelled context: a read that did not happen is reported as a miss")
	case err == nil && p != known.Position:
		t.Errorf("getting with a cancelled context: got %+v, want %+v", p, known.Position)
	case err != nil && ok:
		t.Errorf("getting with a cancelled context: a hit along with the error %v", err)
	}

	// One transaction: all records or none.
	var records []storage.Record
	for i := range 100 {
		records = append(records, rec(fmt.Sprint("new", i), int64(i), 1))
	}
	if err := c.Put(ctx, records); err == nil {
		t.Error("putting with a cancelled context: no error")
	}
	found := 0
	for _, r := range records {
		if _, ok, err := c.Get(t.Context(), r.Key); err != nil {
			t.Errorf("getting after a cancelled put: %v", err)
		} else if ok {
			found++
		}
	}
	if found != 0 && found != len(records) {
		t.Errorf("a cancelled put of %d records left %d of them", len(records), found)
	}
	if _, err := c.Checkpoint(ctx); err == nil {
		t.Error("WAL checkpoint with a cancelled context: no error")
	}
	// The cancellation of one call is not that of the next.
	hit(t, c, known)
	remember(t, c, records...)
	hit(t, c, records[99])
	if _, err := c.Checkpoint(t.Context()); err != nil {
		t.Errorf("WAL checkpoint: %v", err)
	}
}

func cacheCheckpoint(t testing.TB, c storage.Cache) {
	if w, err := c.Checkpoint(t.Context()); err != nil || w.Busy {
		t.Errorf("WAL checkpoint of a new cache: %+v, %v", w, err)
	}
	for i := range 5 {
		r := rec(fmt.Sprint(i), int64(i), 1)
		remember(t, c, r)
		hit(t, c, r)
		w, err := c.Checkpoint(t.Context())
		switch {
		case err != nil:
			t.Errorf("WAL checkpoint: %v", err)
		case w.Busy:
			t.Error("WAL checkpoint: busy, though nobody reads")
		case w.Frames <= 0:
			t.Errorf("WAL checkpoint after a put: %d frames in the WAL, want some", w.Frames)
		case w.Checkpointed != w.Frames:
			t.Errorf("WAL checkpoint: %d of %d frames written back, want all", w.Checkpointed, w.Frames)
		}
		hit(t, c, r)
	}
}

// cacheGetWhilePutting gets and puts as a log does: one goroutine each.
func cacheGetWhilePutting(t testing.TB, c storage.Cache) {
	const rounds, batch = 30, 50
	batchOf := func(r int) (records []storage.Record) {
		for i := range batch {
			records = append(records, rec(fmt.Sprint(r, "-", i), int64(r*batch+i), int64(r)))
		}
		return records
	}
	put := make(chan int, rounds)
	go func() {
		defer close(put)
		for r := range rounds {
			if err := c.Put(t.Context(), batchOf(r)); err != nil {
				t.Errorf("putting: %v", err)
				return
			}
			put <- r
			if _, err := c.Checkpoint(t.Context()); err != nil {
				t.Errorf("WAL checkpoint while getting: %v", err)
				return
			}
		}
	}()
	for r := range put {
		for _, rec := range batchOf(r) {
			hit(t, c, rec)
		}
		miss(t, c, key("never put"))
	}
}

func testCacheReopen(t testing.TB, newPlace func(tb testing.TB) func() storage.Cache) {
	open := newPlace(t)
	c := open()
	a, b := rec("a", 1, 2), rec("b", 1<<40-1, 3)
	remember(t, c, a, b)
	closeIt(t, c)

	c = open()
	hit(t, c, a)
	hit(t, c, b)
	miss(t, c, key("c"))
	remember(t, c, rec("a", 9, 9), rec("c", 5, 5))
	if _, err := c.Checkpoint(t.Context()); err != nil {
		t.Errorf("WAL checkpoint after reopening: %v", err)
	}
	closeIt(t, c)

	c = open()
	hit(t, c, a)
	hit(t, c, rec("c", 5, 5))
	closeIt(t, c)
}
