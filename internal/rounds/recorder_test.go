package rounds

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/sequencer"
)

// open returns a recorder that is closed when the test ends.
func open(t *testing.T, o Options) *Recorder {
	t.Helper()
	r, err := NewRecorder(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func okRound(entries int, took time.Duration) sequencer.RoundRecord {
	return sequencer.RoundRecord{Started: time.Now(), Outcome: sequencer.RoundOK, Interval: 200 * time.Millisecond, PoolSize: 150, Entries: entries, Took: took}
}

// TestMemory: an hour of records, or a number of them, and no more.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		max      int
	}{{200 * time.Millisecond, 18_001}, {time.Minute, 61}, {time.Millisecond, memoryCount}, {0, memoryCount}, {2 * time.Hour, 1}} {
		m := newMemory(c.interval)
		if m.max != c.max {
			t.Errorf("interval %v: %d records", c.interval, m.max)
		}
	}
	m := newMemory(time.Minute)
	for n := range 1000 {
		m.add(record(n))
		got := m.since(time.Time{})
		if first, last := entries(t, got); last != n || first != max(0, n-60) {
			t.Fatalf("after record %d: %d to %d", n, first, last)
		}
	}
	if got := m.since(time.Unix(990, 0)); len(got) != 10 || got[0].Entries != 990 {
		t.Errorf("since record 990: %d records", len(got))
	}
	if p := m.points(time.Unix(990, 0)); len(p) != 10 || p[9].Entries != 999 {
		t.Errorf("points %v", p)
	}
}

// TestRecorder: what is recorded is found in memory for an hour, and in the file.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rounds.jsonl")
		metrics := prometheus.NewRegistry()
		fsyncs := int64(5)
		r := open(t, Options{Log: "oak", Interval: time.Minute, PoolSize: 150, Path: path, MaxSize: MinFileSize, Metrics: metrics,
			Fsyncs: func() int64 { fsyncs += 3; return fsyncs }})
		for n := range 90 {
			r.Record(okRound(n, time.Millisecond))
			time.Sleep(time.Minute)
		}
		got := r.Recent(time.Time{})
		if first, last := entries(t, got); first != 30 || last != 89 {
			t.Errorf("in memory: %d to %d", first, last)
		}
		if got[0].Log != "oak" || got[0].Fsyncs != 3 || got[0].Took != Duration(time.Millisecond) {
			t.Errorf("%+v", got[0])
		}
		if got := r.Recent(time.Now().Add(-150 * time.Second)); len(got) != 2 {
			t.Errorf("%d of the last minutes", len(got))
		}
		time.Sleep(flushEvery)
		records, skipped, err := ReadFiles(path, time.Time{})
		if first, last := entries(t, records); err != nil || skipped != 0 || first != 0 || last != 89 {
			t.Errorf("in the file while it is written to: %d to %d, %d skipped, %v", first, last, skipped, err)
		}
		r.Record(okRound(90, time.Millisecond))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		records, _, err = ReadFiles(path, time.Time{})
		if _, last := entries(t, records); err != nil || last != 90 {
			t.Errorf("after Close: up to %d, %v", last, err)
		}
		if families, err := metrics.Gather(); err != nil || len(families) != 0 {
			t.Errorf("metrics left behind: %v, %v", families, err)
		}
	})
}

func TestRecorderOptions(t *testing.T) {
	if _, err := NewRecorder(Options{Path: filepath.Join(t.TempDir(), "x"), MaxSize: MinFileSize - 1}); err == nil {
		t.Error("a file of next to no size was accepted")
	}
	metrics := prometheus.NewRegistry()
	open(t, Options{Log: "a", Metrics: metrics})
	if _, err := NewRecorder(Options{Log: "b", Metrics: metrics}); err == nil {
		t.Error("two recorders have the same metrics")
	}
}

// TestCapacityIsSaid: when a full pool does not fit, the log says so once an
// hour, and metrics always.
func TestCapacityIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		metrics := prometheus.NewRegistry()
		r := open(t, Options{Log: "oak", Interval: 2 * time.Second, PoolSize: 150, Metrics: metrics, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		gauges := func() map[string]float64 {
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			m := make(map[string]float64)
			for _, f := range families {
				m[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
			return m
		}
		flood := func(rounds int, took time.Duration) {
			for range rounds {
				r.Record(okRound(150, took))
				time.Sleep(2 * time.Second)
			}
		}
		if m := gauges(); len(m) != 0 || r.Capacity().Known {
			t.Errorf("at the start: %v, %v", m, r.Capacity())
		}
		flood(150, time.Second)
		time.Sleep(judgeEvery)
		if m := gauges(); m["daybook_capacity_fits"] != 1 || m["daybook_round_full_pool_p99_seconds"] != 1 || m["daybook_pool_size_fitting"] != 270 {
			t.Errorf("while it fits: %v", m)
		}
		if lines.Len() > 0 {
			t.Errorf("said: %s", &lines)
		}
		flood(3*1800, 3*time.Second) // three hours
		if m := gauges(); m["daybook_capacity_fits"] != 0 || m["daybook_round_full_pool_p99_seconds"] != 3 || m["daybook_pool_size_fitting"] != 90 {
			t.Errorf("when it does not fit: %v", m)
		}
		if n := strings.Count(lines.String(), "level=WARN"); n != 3 || !strings.Contains(lines.String(), "pool_size_fitting=90") {
			t.Errorf("said %d times: %s", n, &lines)
		}
		if c := r.Capacity(); !c.Known || c.Fits || !c.Measured {
			t.Errorf("%+v", c)
		}
	})
}

func TestHandler(t *testing.T) {
	var logs []*Recorder
	h := Handler(func() []*Recorder { return logs })
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/rounds"+query, nil))
		if w.Code == http.StatusOK && w.Header().Get("Content-Type") != "application/jsonl; charset=utf-8" {
			t.Errorf("%s: header %v", query, w.Header())
		}
		return w.Code, w.Body.String()
	}
	expect := func(query string, code int, text string) {
		t.Helper()
		if c, body := get(query); c != code || !strings.Contains(body, text) {
			t.Errorf("%q: %d %s", query, c, body)
		}
	}
	expect("", 404, "no log is open yet")
	a := open(t, Options{Log: "a", Interval: time.Second})
	for i, age := range []time.Duration{2 * time.Hour, 30 * time.Minute, time.Second} {
		rr := okRound(i, time.Millisecond)
		rr.Started = rr.Started.Add(-age)
		a.Record(rr)
	}
	logs = append(logs, a)
	count := func(query string, want int) {
		t.Helper()
		code, body := get(query)
		records, skipped, err := Read(strings.NewReader(body), time.Time{})
		if code != 200 || err != nil || skipped != 0 || len(records) != want {
			t.Errorf("%q: %d, %d records, %d skipped, %v", query, code, len(records), skipped, err)
		}
	}
	count("", 2)
	count("?log=a", 2)
	count("?log=a&since=10m", 1)
	count("?since=0s", 0)
	expect("?since=yesterday", 400, "like 10m")
	expect("?since=-1s", 400, "like 10m")
	expect("?log=b", 404, "there are: a")
	logs = append(logs, open(t, Options{Log: "b", Interval: time.Second}))
	count("?log=b", 0)
	expect("", 404, "several logs (a, b)")
}
