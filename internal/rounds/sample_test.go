package rounds

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

func write(t *testing.T, path string, n int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFileWatch: growth in place, a new file and a truncated one are told apart.
func TestFileWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db-wal")
	w := fileWatch{path: path}
	expect := func(what string, want File) {
		t.Helper()
		if got := w.look(); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	expect("not there", File{})
	write(t, path, 100)
	expect("created", File{Bytes: 100, Grew: 100, New: true})
	expect("as before", File{Bytes: 100})
	write(t, path, 180) // in place
	expect("grown", File{Bytes: 180, Grew: 80})
	write(t, path, 50)
	expect("truncated", File{Bytes: 50, Grew: 50, New: true})
	write(t, path, 0)
	expect("emptied", File{})
	expect("empty", File{})
	write(t, path, 20) // the round that has to fill it is the one that pays
	expect("filled again", File{Bytes: 20, Grew: 20, New: true})
	other := path + ".other"
	write(t, other, 70)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	expect("replaced by a larger one", File{Bytes: 70, Grew: 70, New: true})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("removed", File{})
	write(t, path, 10)
	expect("made again", File{Bytes: 10, Grew: 10, New: true})
	if none := (&fileWatch{}).look(); none != (File{}) {
		t.Errorf("no file: %+v", none)
	}
}

// TestSampler: a record covers what has happened since the one before.
func TestSampler(t *testing.T) {
	fsyncs := int64(1000)
	wal := filepath.Join(t.TempDir(), "wal")
	write(t, wal, 10)
	s := newSampler(wal, "", func() int64 { return fsyncs })
	fsyncs += 7
	runtime.GC()
	runtime.GC()
	var r, next Record
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(runtime.Gosched)
	}
	wg.Wait()
	s.sample(&r)
	if r.SchedMax <= 0 || r.SchedMax > Duration(time.Minute) {
		t.Errorf("longest wait for a CPU: %v", r.SchedMax)
	}
	if r.Fsyncs != 7 || r.GC.Cycles < 2 || r.GC.Pause <= 0 || r.GC.Heap <= 0 || r.CPU <= 0 || r.WAL.File != (File{Bytes: 10}) {
		t.Errorf("%+v", r)
	}
	s.sample(&next)
	if next.Fsyncs != 0 || next.CPU > r.CPU || next.GC.Pause > r.GC.Pause {
		t.Errorf("then %+v", next)
	}
}

func BenchmarkSample(b *testing.B) {
	path := filepath.Join(b.TempDir(), "wal")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		b.Fatal(err)
	}
	s := newSampler(path, path, func() int64 { return 0 })
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		s.sample(&r)
	}
}
