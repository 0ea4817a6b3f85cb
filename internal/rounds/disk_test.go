package rounds

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func record(n int) Record {
	return Record{Time: time.Unix(int64(n), 0).UTC(), Log: "oak", Outcome: outcomeOK, Interval: Duration(time.Second), Entries: n}
}

func quietDisk(path string, maxSize int64) *disk {
	return newDisk(path, maxSize, slog.New(slog.DiscardHandler))
}

// write writes records n.. as the goroutine would.
func (d *disk) writeAll(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		r := record(n)
		if err := d.write(&r); err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// entries returns the numbers of records, which must follow each other.
func entries(t *testing.T, records []Record) (first, last int) {
	t.Helper()
	for i, r := range records {
		if r.Entries != records[0].Entries+i {
			t.Fatalf("record %d follows record %d", r.Entries, records[i-1].Entries)
		}
	}
	if len(records) == 0 {
		return -1, -1
	}
	return records[0].Entries, records[len(records)-1].Entries
}

// value returns the value of a counter or a gauge.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("not one metric: %v, %v", families, err)
	}
	m := families[0].GetMetric()[0]
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// TestDiskCap: however much is written, over restarts and with a smaller limit,
// too, both files together stay below the limit, and hold the latest records.
func TestDiskCap(t *testing.T) {
	const limit = 20_000
	path := filepath.Join(t.TempDir(), "rounds.jsonl")
	n := 0
	for range 5 {
		d := quietDisk(path, limit)
		for range 37 {
			d.writeAll(t, n, n+10)
			n += 10
			if total := size(t, path) + size(t, older(path)); total > limit {
				t.Fatalf("%d bytes after %d records", total, n)
			}
		}
		d.close()
		records, skipped, err := ReadFiles(path, time.Time{})
		if err != nil || skipped != 0 {
			t.Fatalf("skipped %d, %v", skipped, err)
		}
		first, last := entries(t, records)
		if total := size(t, path) + size(t, older(path)); last != n-1 || first == 0 || total < limit/3 {
			t.Errorf("records %d to %d of %d in %d bytes", first, last, n, total)
		}
	}
	d := quietDisk(path, limit/4)
	d.writeAll(t, n, n+1)
	d.close()
	if total := size(t, path) + size(t, older(path)); total > limit/4 && size(t, older(path)) > limit/8 {
		// The file that was the newer one may be too large until it is the older one.
		t.Errorf("%d bytes after the limit was lowered", total)
	}
	d = quietDisk(path, limit/4)
	d.writeAll(t, n+1, n+100)
	d.close()
	if total := size(t, path) + size(t, older(path)); total > limit/4 {
		t.Errorf("%d bytes well after the limit was lowered to %d", total, limit/4)
	}
}

// TestTornLine: a line that a crash has cut is skipped, and what comes after it
// is not lost.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds.jsonl")
	d := quietDisk(path, MinFileSize)
	d.writeAll(t, 0, 10)
	d.close()
	if err := os.Truncate(path, size(t, path)-20); err != nil {
		t.Fatal(err)
	}
	check := func(count, last int) {
		t.Helper()
		records, skipped, err := ReadFiles(path, time.Time{})
		if err != nil || skipped != 1 || len(records) != count || records[count-1].Entries != last {
			t.Errorf("%d records, %d skipped, %v; want %d up to %d", len(records), skipped, err, count, last)
		}
	}
	check(9, 8)
	d = quietDisk(path, MinFileSize)
	d.writeAll(t, 10, 12)
	d.close()
	check(11, 11) // all but record 9
}

// TestReadWhileRotating: a file that became the older one between two looks is
// read once.
func TestReadWhileRotating(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds.jsonl")
	d := quietDisk(path, MinFileSize)
	d.writeAll(t, 0, 10)
	d.close()
	if err := os.Link(path, older(path)); err != nil {
		t.Fatal(err)
	}
	records, skipped, err := ReadFiles(path, time.Time{})
	if first, last := entries(t, records); err != nil || skipped != 0 || first != 0 || last != 9 {
		t.Errorf("%d to %d, %d skipped, %v", first, last, skipped, err)
	}
}

func TestRead(t *testing.T) {
	const good = `{"time":"2027-03-01T12:00:00Z","interval_seconds":0.2}` + "\n"
	for _, c := range []struct {
		name, text    string
		good, skipped int
	}{
		{"nothing", "", 0, 0},
		{"no newline at the end", good + strings.TrimSuffix(good, "\n"), 2, 0},
		{"blank lines", "\n" + good + "\n\n", 1, 0},
		{"not JSON", "hello\n" + good, 1, 1},
		{"other JSON", `{"a":1}` + "\n" + good + "[]\n1\n", 1, 3},
		{"no interval", `{"time":"2027-03-01T12:00:00Z"}` + "\n", 0, 1},
		{"a long line", strings.Repeat("x", 3*maxLine+5) + "\n" + good, 1, 1},
		{"a long line at the end", good + strings.Repeat("x", 2*maxLine), 1, 1},
		{"zeros, as after a power cut", good + strings.Repeat("\x00", 5000), 1, 1},
	} {
		records, skipped, err := Read(strings.NewReader(c.text), time.Time{})
		if err != nil || len(records) != c.good || skipped != c.skipped {
			t.Errorf("%s: %d records, %d skipped, %v", c.name, len(records), skipped, err)
		}
	}
	if records, _, err := Read(strings.NewReader(good), time.Date(2027, 3, 1, 12, 0, 0, 1, time.UTC)); err != nil || len(records) != 0 {
		t.Errorf("rounds from before were read: %v, %v", records, err)
	}
	if _, _, err := ReadFiles(filepath.Join(t.TempDir(), "none"), time.Time{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	boom := errors.New("boom")
	if _, _, err := Read(io.MultiReader(strings.NewReader(good), brokenReader{boom}), time.Time{}); !errors.Is(err, boom) {
		t.Errorf("a broken disk: %v", err)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// faultyFile is a file in memory that may fail or hang.
type faultyFile struct {
	mu     sync.Mutex
	b      bytes.Buffer
	err    error
	hang   chan struct{} // writes wait until it is closed
	opened int
}

func (f *faultyFile) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faultyFile) open(string) (io.WriteCloser, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	return f, int64(f.b.Len()), f.err
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	return f.b.Write(p)
}

func (f *faultyFile) Close() error { return nil }

// TestFailingDisk: records of a disk that fails are dropped and counted, the
// log says so once, the file is not tried at every round, and when the disk is
// well again, writing goes on.
func TestFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		f := &faultyFile{err: errors.New("input/output error")}
		d := newDisk(filepath.Join(t.TempDir(), "x"), MinFileSize, slog.New(slog.NewTextHandler(&lines, nil)))
		d.open = f.open
		var wg sync.WaitGroup
		wg.Go(d.run)
		n := 0
		rounds := func(count int) {
			for range count {
				d.add(record(n))
				n++
				time.Sleep(200 * time.Millisecond)
			}
		}
		rounds(300) // a minute
		if lost, failed := value(t, d.lost), value(t, d.failed); lost != 300 || failed != 6 || f.opened != 6 {
			t.Errorf("lost %v, %v errors, opened %d times", lost, failed, f.opened)
		}
		if told := strings.Count(lines.String(), "\n"); told != 1 || !strings.Contains(lines.String(), "input/output error") {
			t.Errorf("%d lines: %s", told, &lines)
		}
		f.set(nil)
		rounds(100)
		lost := int(value(t, d.lost))
		if lost < 300 || lost > 350 {
			t.Errorf("lost %d of 400", lost)
		}
		// Now the disk fails under an open file.
		f.set(errors.New("read-only file system"))
		rounds(20)
		if failed := value(t, d.failed); failed != 7 {
			t.Errorf("%v errors", failed)
		}
		close(d.queue)
		wg.Wait()
		records, skipped, err := Read(&f.b, time.Time{})
		if err != nil || skipped != 0 {
			t.Errorf("skipped %d, %v", skipped, err)
		}
		if first, last := entries(t, records); first != lost || last != 399 {
			t.Errorf("records %d to %d were written, %d lost", first, last, lost)
		}
	})
}

// TestHangingDisk: adding records does not wait for a disk that hangs.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faultyFile{hang: make(chan struct{})}
		d := quietDisk(filepath.Join(t.TempDir(), "x"), 1<<40)
		d.open = f.open
		var wg sync.WaitGroup
		wg.Go(d.run)
		start := time.Now()
		const many = 20_000
		for n := range many {
			d.add(record(n))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("waited %v", took)
		}
		close(f.hang)
		close(d.queue)
		wg.Wait()
		records, _, err := Read(&f.b, time.Time{})
		if lost := int(value(t, d.lost)); err != nil || lost == 0 || len(records)+lost != many {
			t.Errorf("%d records written, %d lost of %d, %v", len(records), lost, many, err)
		}
	})
}

// TestNotAFile: what stands in the way is an error, not a crash.
func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "x"), "/dev/null"} {
		if f, _, err := openRing(path); err == nil {
			_ = f.Close()
			t.Errorf("%s was opened", path)
		}
	}
}
