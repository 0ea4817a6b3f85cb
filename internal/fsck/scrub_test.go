package fsck

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/monitor"
)

// TestScrub: a scrub reads at its rate, names what is wrong, once an hour and
// not each pass, counts it each time, sees what is damaged later, and changes
// nothing.
func TestScrub(t *testing.T) {
	l := makeLog(t, t.TempDir())
	before := snapshot(t, l.place)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		s, err := NewScrubber(ScrubOptions{Directory: l.dir(), Verifier: l.signer.Verifier(), Rate: 2,
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: reg})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()

		// A pass takes four ticks: the head and three tiles. The first may be shorter.
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if passes, tiles := value(t, reg, "daybook_scrub_passes_total"), value(t, reg, "daybook_scrub_tiles_total"); passes < 9 || passes > 11 || tiles < 28 || tiles > 31 {
			t.Errorf("%v passes, %v tiles", passes, tiles)
		}
		if value(t, reg, "daybook_scrub_findings_total") != 0 || log.Len() > 0 {
			t.Errorf("findings of a whole log: %s", &log)
		}
		flip("tile/0/001", 32*7)(t, l)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := value(t, reg, "daybook_scrub_findings_total"); n < 9 || n > 11 {
			t.Errorf("%v findings, want one each pass", n)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "object=tile/0/001") || !strings.Contains(log.String(), "hash 7 is wrong") {
			t.Errorf("log: %s", &log)
		}
		// Gone on with, also while the checkpoint is damaged.
		l.write(t, "checkpoint", []byte("nonsense"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !strings.Contains(log.String(), "object=checkpoint") {
			t.Errorf("log: %s", &log)
		}
		if n := value(t, reg, "daybook_scrub_failures_total"); n != 0 {
			t.Errorf("%v failures", n)
		}
		stop()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	flip("tile/0/001", 32*7)(t, l)
	l.write(t, "checkpoint", l.heads[len(l.heads)-1])
	for path, b := range snapshot(t, l.place) {
		if before[path] != b {
			t.Errorf("%s was changed", path)
		}
	}
}

// TestScrubTellsAgain: what is found again and again is logged each hour.
func TestScrubTellsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reg := prometheus.NewRegistry()
		s, err := NewScrubber(ScrubOptions{Directory: t.TempDir(), Rate: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: reg})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * 60 {
			s.tell(Finding{Object: "a", What: "is missing"})
			s.tell(Finding{Object: "b", What: "is missing"})
			time.Sleep(time.Minute)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 6 || value(t, reg, "daybook_scrub_findings_total") != 360 {
			t.Errorf("log after three hours: %s", &log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestScrubFails: what cannot be read for another reason is no finding.
func TestScrubFails(t *testing.T) {
	l := makeLog(t, t.TempDir())
	var log bytes.Buffer
	reg := prometheus.NewRegistry()
	s, err := NewScrubber(ScrubOptions{Directory: l.dir(), Verifier: l.signer.Verifier(), Rate: 1000,
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: reg})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // so that every read fails
		t.Fatal(err)
	}
	tick := make(chan time.Time, 1)
	tick <- time.Now()
	if s.pass(t.Context(), tick, 0) {
		t.Error("a pass that could read nothing came to its end")
	}
	if n := value(t, reg, "daybook_scrub_failures_total"); n != 1 || value(t, reg, "daybook_scrub_findings_total") != 0 || !strings.Contains(log.String(), "scrubbing failed") {
		t.Errorf("%v failures, log: %s", n, &log)
	}
}

// TestPacer: reading keeps to its rate.
func TestPacer(t *testing.T) {
	for _, c := range []struct {
		bytes, objects int64
		want           time.Duration // for ten objects of 1 MiB, of which the first is not waited for
	}{
		{0, 0, 0},
		{1 << 20, 0, 9 * time.Second},
		{0, 20, 450 * time.Millisecond},
		{2 << 20, 2, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			src := paced{fixed(make([]byte, 1<<20)), newPacer(c.bytes, c.objects)}
			for range 10 {
				if _, err := src.Get(t.Context(), "tile/data/000", 1<<20); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(start); took != c.want || src.pace.bytes.Load() != 10<<20 {
				t.Errorf("%d bytes/s, %d objects/s: took %v, want %v", c.bytes, c.objects, took, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := src.Get(ctx, "tile/data/000", 1<<20); err == nil {
				t.Error("read although it was cancelled")
			}
		})
	}
}

// fixed is a source of one content.
type fixed []byte

func (f fixed) Get(context.Context, string, int64) ([]byte, error) { return f, nil }

var _ monitor.Source = fixed{}

// value returns the value of a counter.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
