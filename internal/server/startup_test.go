package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage"
	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
	"github.com/daybook-ct/daybook/tlog"
)

// syntheticTree calls put with the objects of a tree of size leaves, which all
// hold the same few bytes, and returns the tree. What later objects replace is
// left out.
func syntheticTree(tb testing.TB, size int64, at int64, put func(storage.Object)) tlog.Tree {
	tb.Helper()
	e, err := tlog.NewX509Entry([]byte("a small certificate"), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	edge := tlog.NewEdge()
	for first := int64(0); first < size; {
		leaves := make([]tlog.Leaf, min(size-first, 1<<16))
		for i := range leaves {
			leaves[i] = tlog.Leaf{Entry: e, Position: tlog.Position{Index: first + int64(i), Timestamp: at}}
		}
		var growth *tlog.Growth
		if edge, growth, err = edge.Append(leaves); err != nil {
			tb.Fatal(err)
		}
		for _, o := range growth.Objects {
			put(o)
		}
		first += int64(len(leaves))
	}
	return edge.Tree()
}

// counter counts what is read from a store.
type counter struct {
	storage.Store
	gets []string
}

func (c *counter) Get(ctx context.Context, name string) ([]byte, error) {
	c.gets = append(c.gets, name)
	return c.Store.Get(ctx, name)
}

// TestStartupReads: opening a log reads the checkpoint, at most two hash tiles a
// level, and the last data and names tile.
func TestStartupReads(t *testing.T) {
	signer, err := ReadKey(seedFile(t), "ct.example.com/alpha")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	for _, size := range []int64{0, 1, 255, 256, 257, 10_000, 65_536, 65_537, 66_000, 1 << 18} {
		store := &counter{Store: memory.NewStore()}
		lock := memory.NewLock()
		tree := syntheticTree(t, size, now, func(o storage.Object) {
			if err := store.Put(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		})
		if size == 0 {
			tree.Hash = tlog.EmptyRoot
		}
		signed, err := signer.SignTreeHead(tree, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Put(t.Context(), storage.Object{Name: "checkpoint", Data: signed}), lock.Create(t.Context(), signer.LogID(), signed)); err != nil {
			t.Fatal(err)
		}
		store.gets = nil
		if _, err := sequencer.Open(t.Context(), sequencer.Config{Interval: time.Second, Signer: signer, Store: store, Lock: lock, Cache: memory.NewCache()}); err != nil {
			t.Fatal(err)
		}
		levels := (bits.Len64(uint64(size)) + tlog.TileHeight - 1) / tlog.TileHeight
		if most := 1 + 2*levels + 2; len(store.gets) > most {
			t.Errorf("size %d: %d reads, want at most %d:\n%s", size, len(store.gets), most, strings.Join(store.gets, "\n"))
		}
	}
}

func seedFile(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "seed")
	if err := os.WriteFile(path, []byte("a seed of thirty-two bytes, here"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// BenchmarkStartup opens and closes a whole log, as serve does: key, roots,
// storage directory, lock, cache, recovery, handlers. The time must not grow
// with the log.
func BenchmarkStartup(b *testing.B) {
	for _, size := range []int64{10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := syntheticLog(b, size)
			loader, err := newRootLoader(&Options{Logs: []LogOptions{o}, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
			if err != nil {
				b.Fatal(err)
			}
			least := time.Hour // what a machine with other things to do takes
			for b.Loop() {
				start := time.Now()
				l, err := open(b.Context(), o, nil, loader, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
				if err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(start))
				if got := l.sequencer.Status().Tree.N; got != size {
					b.Fatalf("opened a log of %d entries", got)
				}
				if err := l.close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(least.Nanoseconds()), "least-ns/open")
		})
	}
}

// syntheticLog makes the files of a log, with an empty dedup cache.
func syntheticLog(b *testing.B, size int64) LogOptions {
	b.Helper()
	dir := b.TempDir()
	ca, err := testca.New(testca.Options{})
	if err != nil {
		b.Fatal(err)
	}
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, ca.RootPEM(), 0o600); err != nil {
		b.Fatal(err)
	}
	o := LogOptions{Name: "alpha", SubmissionPrefix: "https://ct.example.com/alpha", KeyFile: seedFile(b), StorageDirectory: filepath.Join(dir, "data"),
		LockPath: filepath.Join(dir, "lock.db"), CachePath: filepath.Join(dir, "cache.db"), PageCache: 1 << 20, RootFiles: []string{roots},
		Interval: time.Second, PoolSize: 100, MinFree: 1}
	if _, err := Create(b.Context(), o, true); err != nil {
		b.Fatal(err)
	}
	signer, err := ReadKey(o.KeyFile, "ct.example.com/alpha")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UnixMilli()
	write := func(obj storage.Object) { // without the fsyncs of a store
		path := filepath.Join(o.StorageDirectory, obj.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, obj.Data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	signed, err := signer.SignTreeHead(syntheticTree(b, size, now, write), now)
	if err != nil {
		b.Fatal(err)
	}
	write(storage.Object{Name: "checkpoint", Data: signed})
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{})
	if err != nil {
		b.Fatal(err)
	}
	old, err := lock.Fetch(b.Context(), signer.LogID())
	if err == nil {
		err = lock.Swap(b.Context(), signer.LogID(), old, signed)
	}
	if err := errors.Join(err, lock.Close()); err != nil {
		b.Fatal(err)
	}
	unix.Sync() // or the first fsync of a log that starts pays for it
	return o
}
