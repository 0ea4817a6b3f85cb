package sequencer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/storage/memory"
	"github.com/daybook-ct/daybook/tlog"
)

// benchLog opens a log on memory, so that what is measured is its own cost.
func benchLog(b *testing.B, poolSize int) *Log {
	b.Helper()
	c := Config{Interval: time.Second, PoolSize: poolSize, Signer: newTestSigner(b), Store: memory.NewStore(), Lock: memory.NewLock(),
		Cache: memory.NewCache(), Logger: slog.New(slog.DiscardHandler)}
	if err := Create(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	l, err := Open(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// benchSubmissions makes precertificate entries of ordinary size.
func benchSubmissions(b *testing.B, n int) []Submission {
	b.Helper()
	rnd := rand.NewChaCha8([32]byte{})
	subs := make([]Submission, n)
	for i := range subs {
		tbs := make([]byte, 1100)
		_, _ = rnd.Read(tbs)
		e, err := tlog.NewPrecertEntry(tbs, [32]byte{1}, append(tbs[:len(tbs):len(tbs)], make([]byte, 100)...),
			[]tlog.Fingerprint{sha256.Sum256(testIssuer)}, []byte(`{"DNS":["www.example.com","example.com"]}`))
		if err != nil {
			b.Fatal(err)
		}
		subs[i] = Submission{Entry: e, Issuers: [][]byte{testIssuer}, Submitter: network(i % 20)}
	}
	return subs
}

// BenchmarkIntake is one admission, and one refusal by a full pool, with
// submitters in parallel.
func BenchmarkIntake(b *testing.B) {
	b.Run("admit", func(b *testing.B) {
		l := benchLog(b, 0)
		subs := benchSubmissions(b, 20_000)
		var mu sync.Mutex
		next := 0
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				mu.Lock()
				s := subs[next%len(subs)]
				if next++; next%len(subs) == 0 {
					l.privileged(func() { l.openPool() })
				}
				mu.Unlock()
				if _, err := l.Submit(context.Background(), s); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("duplicate", func(b *testing.B) {
		l := benchLog(b, 0)
		subs := benchSubmissions(b, 1000)
		for _, s := range subs {
			if _, err := l.Submit(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.round(b.Context()); err != nil {
			b.Fatal(err)
		}
		var next atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Add(context.Background(), subs[next.Add(1)%1000]); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("refuse", func(b *testing.B) {
		l := benchLog(b, 150)
		subs := benchSubmissions(b, 200)
		for _, s := range subs[:150] {
			if _, err := l.Submit(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := l.Submit(context.Background(), subs[199]); err != ErrFull {
					b.Error(err)
				}
			}
		})
	})
}

// BenchmarkRound is a whole round on memory, without disk and SQLite.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{0, 1, 150, 750} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := benchLog(b, 0)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				subs := benchSubmissions(b, n)
				rnd := rand.Uint64()
				for i, s := range subs {
					tbs := append(fmt.Appendf(nil, "%d %d", rnd, i), s.Entry.Certificate()...)
					e, err := tlog.NewPrecertEntry(tbs, [32]byte{1}, s.Entry.Precertificate(), s.Entry.Chain(), nil)
					if err != nil {
						b.Fatal(err)
					}
					s.Entry = e
					if _, err := l.Submit(b.Context(), s); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := l.round(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
