package server

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/internal/testlog"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/posix"
	"github.com/daybook-ct/daybook/tlog"
)

func TestJudge(t *testing.T) {
	f := floors{bytes: 1000, warnBytes: 5000, inodes: 100}
	for _, c := range []struct {
		name          string
		f             floors
		bytes, inodes int64
		total         int64     // inodes
		want          [3]supply // after ample, scant, spent
	}{
		{"much", f, 9000, 9000, 9999, [3]supply{ample, ample, ample}},
		{"at the warning", f, 5000, 9000, 9999, [3]supply{ample, scant, scant}},
		{"a tenth above the warning", f, 5500, 9000, 9999, [3]supply{ample, ample, ample}},
		{"below the warning", f, 4999, 9000, 9999, [3]supply{scant, scant, scant}},
		{"a tenth above the floor", f, 1100, 9000, 9999, [3]supply{scant, scant, scant}},
		{"at the floor", f, 1000, 9000, 9999, [3]supply{scant, scant, spent}},
		{"below the floor", f, 999, 9000, 9999, [3]supply{spent, spent, spent}},
		{"full", f, 0, 9000, 9999, [3]supply{spent, spent, spent}},
		{"inodes at the warning", f, 9000, 200, 9999, [3]supply{ample, scant, scant}},
		{"inodes below the warning", f, 9000, 199, 9999, [3]supply{scant, scant, scant}},
		{"inodes at the floor", f, 9000, 100, 9999, [3]supply{scant, scant, spent}},
		{"inodes below the floor", f, 9000, 99, 9999, [3]supply{spent, spent, spent}},
		{"no inodes", f, 9000, 0, 9999, [3]supply{spent, spent, spent}},
		{"inodes without number", f, 9000, 0, 0, [3]supply{ample, ample, ample}},
		{"no bounds", floors{}, 0, 0, 9999, [3]supply{ample, ample, ample}},
		{"warning alone", floors{warnBytes: 10}, 5, 0, 9999, [3]supply{scant, scant, scant}},
	} {
		for before, want := range c.want {
			if got := c.f.judge(supply(before), posix.Free{Bytes: c.bytes, Inodes: c.inodes, TotalInodes: c.total}); got != want {
				t.Errorf("%s, after %d: %d, want %d", c.name, before, got, want)
			}
		}
	}
}

// TestGuard: each change is told once, the log is blocked as long as any of its
// file systems is low, and a file system that cannot be asked changes nothing.
func TestGuard(t *testing.T) {
	out := new(testlog.Lines)
	free := map[string]posix.Free{"a": {Bytes: 900}, "b": {Bytes: 900}}
	broken := map[string]bool{}
	var reason error
	reg := prometheus.NewRegistry()
	g, err := newGuard(LogOptions{StorageDirectory: t.TempDir(), CachePath: "cache.db", LockPath: "lock.db", MinFree: 100, WarnFree: 500},
		slog.New(slog.NewTextHandler(out, nil)), new(sequencer.Log), reg)
	if err != nil {
		t.Fatal(err)
	}
	g.volumes = []volume{{what: []string{"storage", "lock"}, dir: "a"}, {what: []string{"cache"}, dir: "b"}}
	g.block, g.unblock = func(r error) { reason = r }, func() { reason = nil }
	g.free = func(dir string) (posix.Free, error) {
		if broken[dir] {
			return posix.Free{}, errors.New("no answer")
		}
		return free[dir], nil
	}
	step := func(what string, blocked bool, low map[string]float64, logged ...string) {
		t.Helper()
		out.Reset()
		for range 3 {
			g.check()
		}
		if (reason != nil) != blocked || reason != nil && !errors.Is(reason, sequencer.ErrStorage) {
			t.Errorf("%s: blocked by %v", what, reason)
		}
		for label, want := range low {
			if got := gaugeOf(t, reg, "daybook_storage_low", label); got != want {
				t.Errorf("%s: daybook_storage_low of %s is %v, want %v", what, label, got, want)
			}
		}
		got := slices.Collect(strings.Lines(out.String()))
		if len(got) != len(logged) {
			t.Fatalf("%s: %d lines logged, want %d:\n%s", what, len(got), len(logged), out)
		}
		for i := range got {
			if !strings.Contains(got[i], logged[i]) {
				t.Errorf("%s: logged %s, want %q", what, got[i], logged[i])
			}
		}
	}
	step("much", false, map[string]float64{"storage": 0, "lock": 0, "cache": 0})
	if got := gaugeOf(t, reg, "daybook_storage_free_bytes", "cache"); got != 900 {
		t.Errorf("%v bytes are free", got)
	}
	free["a"] = posix.Free{Bytes: 499}
	step("short", false, map[string]float64{"storage": 1, "lock": 1, "cache": 0}, `level=WARN msg="storage runs short`)
	free["a"] = posix.Free{Bytes: 99}
	step("low", true, map[string]float64{"storage": 2, "lock": 2, "cache": 0}, `level=ERROR msg="storage is low: entries are refused`)
	if !strings.Contains(reason.Error(), "storage, lock (a)") {
		t.Errorf("reason: %v", reason)
	}
	free["b"] = posix.Free{Bytes: 99}
	step("both low", true, map[string]float64{"cache": 2}, "storage is low")
	free["a"] = posix.Free{Bytes: 900}
	step("one still low", true, map[string]float64{"storage": 0, "cache": 2}, "storage is ample again")
	broken["b"] = true
	free["b"] = posix.Free{Bytes: 900}
	step("no answer", true, map[string]float64{"cache": 2}, "the free space is not known")
	broken["b"] = false
	free["b"] = posix.Free{Bytes: 105}
	step("just above the floor", true, map[string]float64{"cache": 2})
	free["b"] = posix.Free{Bytes: 110}
	step("above the floor", false, map[string]float64{"cache": 1}, "enough to take entries again, but still short")
}

// gaugeOf returns the value of a gauge by its label what.
func gaugeOf(t *testing.T, reg prometheus.Gatherer, name, what string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "what" && l.GetValue() == what {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Errorf("there is no metric %s of %s", name, what)
	return -1
}

// promise reads the SCT that leaf number n got.
func (p *testPlace) promise(n uint64, answer string) monitor.Promise {
	p.t.Helper()
	chain, err := p.ca.Make(n, testca.Leaf{})
	if err != nil {
		p.t.Fatal(err)
	}
	var sct struct {
		Timestamp  int64
		Extensions []byte
	}
	if err := json.Unmarshal([]byte(answer), &sct); err != nil {
		p.t.Fatal(err)
	}
	index, err := tlog.ParseExtensions(sct.Extensions)
	if err != nil {
		p.t.Fatal(err)
	}
	e, err := tlog.NewX509Entry(chain.Certificates[0], nil, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return monitor.Promise{Key: e.Key(), Position: tlog.Position{Index: index, Timestamp: sct.Timestamp}}
}
