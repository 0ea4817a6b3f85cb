package durable_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybook-ct/daybook/internal/durable"
)

// BenchmarkEightObjects compares the ways to make the objects of a round
// durable: one after the other, as a batch, and with syncfs, which a batch
// could use in place of its fsyncs. The ways take turns in each iteration, so
// that what else runs on the machine hits all of them; medians are reported.
//
// In the noisy runs a neighbour on the same file system, such as the dedup
// cache's WAL checkpoint, has written 4 MiB that nobody waits for. syncfs
// waits for it, fsync does not.
func BenchmarkEightObjects(b *testing.B) {
	for _, size := range []int{2_000, 20_000, 200_000} {
		for _, neighbour := range []int{0, 4 << 20} {
			b.Run(fmt.Sprintf("size=%d/neighbour=%d", size, neighbour), func(b *testing.B) {
				benchmarkWays(b, size, neighbour)
			})
		}
	}
}

func benchmarkWays(b *testing.B, size, neighbour int) {
	d, dir := openOS(b)
	folders := []string{"tile/0/x001", "tile/data/x001", "tile/names/x001", "tile/1", "tile/2", "issuer", "tile/0/x001/000.p", "tile/data/x001/000.p"}
	data := make([]byte, size)
	round := 0
	files := func() (files []durable.Content) {
		round++
		for _, folder := range folders {
			files = append(files, durable.Content{Name: fmt.Sprintf("%s/%d", folder, round), Data: data, Mode: durable.Keep})
		}
		return files
	}
	if err := d.Write(files()...); err != nil { // makes the directories
		b.Fatal(err)
	}
	noise, err := os.Create(filepath.Join(dir, "neighbour"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = noise.Close() }()
	top, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = top.Close() }()

	ways := []struct {
		name string
		f    func() error
	}{
		{"one-by-one", func() error {
			for _, f := range files() {
				if err := d.Write(f); err != nil {
					return err
				}
			}
			return nil
		}},
		{"batch", func() error { return d.Write(files()...) }},
		{"syncfs", func() error { return withSyncfs(dir, int(top.Fd()), files()) }},
	}
	took := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			if _, err := noise.WriteAt(make([]byte, neighbour), 0); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if err := way.f(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i, way := range ways {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2].Seconds()*1e3, way.name+"-ms")
		b.ReportMetric(took[i][len(took[i])*9/10].Seconds()*1e3, way.name+"-p90-ms")
	}
}

// withSyncfs keeps the same order as a batch: contents are durable before they
// are visible.
func withSyncfs(dir string, fd int, files []durable.Content) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name+".new"), f.Data, 0o644); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(fd); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Rename(filepath.Join(dir, f.Name+".new"), filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return unix.Syncfs(fd)
}
