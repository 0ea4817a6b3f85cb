package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/tlog"
)

// benchRows is how many rows the benchmarks' cache has: DAYBOOK_BENCH_ROWS, or 10^5.
func benchRows(b *testing.B) int64 {
	n := os.Getenv("DAYBOOK_BENCH_ROWS")
	if n == "" {
		return 100_000
	}
	rows, err := strconv.ParseInt(n, 10, 64)
	if err != nil || rows < 1 {
		b.Fatalf("DAYBOOK_BENCH_ROWS is %q, not a number of rows", n)
	}
	return rows
}

func numbered(i int64) storage.Record {
	return storage.Record{
		Key:      sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))),
		Position: tlog.Position{Index: i & maxIndex, Timestamp: 1_800_000_000_000 + i},
	}
}

func batch(from, n int64) []storage.Record {
	records := make([]storage.Record, n)
	for i := range records {
		records[i] = numbered(from + int64(i))
	}
	return records
}

// benchDB returns a cache filled with benchRows rows.
func benchDB(b *testing.B) (*DB, int64) {
	b.Helper()
	db, err := Open(filepath.Join(b.TempDir(), "cache.db"), Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	rows := benchRows(b)
	for i := int64(0); i < rows; i += 10_000 {
		benchPut(b, db, batch(i, min(10_000, rows-i)))
		benchCheckpoint(b, db)
	}
	return db, rows
}

func benchPut(b *testing.B, db *DB, records []storage.Record) {
	if err := db.Put(b.Context(), records); err != nil {
		b.Fatal(err)
	}
}

func benchCheckpoint(b *testing.B, db *DB) {
	if w, err := db.Checkpoint(b.Context()); err != nil || w.Busy {
		b.Fatal(w, err)
	}
}

func benchGet(b *testing.B, db *DB, key tlog.Key, want bool) {
	if _, ok, err := db.Get(b.Context(), key); err != nil || ok != want {
		b.Fatal(ok, err)
	}
}

func BenchmarkGet(b *testing.B) {
	db, rows := benchDB(b)
	keys := make([]tlog.Key, 1<<14)
	fill := func(from int64) {
		for i := range keys {
			keys[i] = numbered(from + int64(i)*7919%rows).Key
		}
	}
	for _, hit := range []bool{true, false} {
		name := "miss"
		fill(1 << 50)
		if hit {
			name = "hit"
			fill(0)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				benchGet(b, db, keys[i%len(keys)], hit)
			}
		})
	}
	// A commit by the other connection empties the reading one's page cache,
	// so this is what the first Gets of a round pay.
	b.Run("afterPut", func(b *testing.B) {
		next := int64(1 << 51)
		for i := 0; b.Loop(); i++ {
			if i%150 == 0 {
				b.StopTimer()
				benchPut(b, db, batch(next, 150))
				benchCheckpoint(b, db)
				next += 150
				b.StartTimer()
			}
			benchGet(b, db, keys[i%len(keys)], false)
		}
	})
}

// BenchmarkPut puts a round of 150 new records. The WAL checkpoint that follows
// is not counted; BenchmarkRound counts both.
func BenchmarkPut(b *testing.B) {
	db, next := benchDB(b)
	for b.Loop() {
		records := batch(next, 150)
		next += 150
		benchPut(b, db, records)
		b.StopTimer()
		benchCheckpoint(b, db)
		b.StartTimer()
	}
}

func BenchmarkRound(b *testing.B) {
	db, next := benchDB(b)
	for b.Loop() {
		benchPut(b, db, batch(next, 150))
		benchCheckpoint(b, db)
		next += 150
	}
}
