package load

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/tlog"
)

func newCA(t testing.TB) *testca.CA {
	t.Helper()
	ca, err := testca.New(testca.Options{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func options(t *testing.T, l *fakeLog) Options {
	t.Helper()
	prefix := l.start()
	return Options{Submission: prefix, Monitoring: prefix, CA: newCA(t), Count: 40, Clients: 4}
}

func TestRunClosed(t *testing.T) {
	l := newFakeLog(t)
	o := options(t, l)
	o.Count, o.PID = 300, os.Getpid()
	phases := map[string]int64{}
	o.Progress = func(p Progress) { phases[p.Phase] = p.Done }
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered != 300 || r.Accepted != 300 || r.SCTs != 300 || r.Distinct != 300 || r.TreeBefore != 0 || r.TreeAfter != 300 || r.Statuses[200] != 300 {
		t.Errorf("result %+v", r)
	}
	if p := r.Parity; p == nil || p.Promises != 300 || p.Entries != 300 || p.Issuers != 2 || p.Precerts < 90 || p.Precerts > 210 {
		t.Errorf("parity %+v", p)
	}
	if f := r.Classes["fresh"]; f.Accepted != r.Latency || r.Latency.P50 <= 0 || r.Latency.P50 > r.Latency.P99 || r.Latency.P99 > r.Latency.Max {
		t.Errorf("latency %+v, fresh %+v", r.Latency, f)
	}
	if r.Client.CPU <= 0 || r.Server == nil || r.Server.CPU <= 0 || r.Server.PeakRSS < 1<<20 || r.Rate() <= 0 {
		t.Errorf("usage %+v %+v, rate %v", r.Client, r.Server, r.Rate())
	}
	if phases["sending"] == 0 && r.Took > time.Second {
		t.Errorf("progress %v", phases)
	}
	checkJSON(t, r)
}

func checkJSON(t *testing.T, r *Result) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Accepted int64
		Latency  struct {
			P99 float64 `json:"p99_seconds"`
		}
		Server struct {
			CPU float64 `json:"cpu_seconds_per_10000_accepted"`
		}
		Parity struct {
			Kept int64  `json:"promises_kept"`
			Root string `json:"root"`
		}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if out.Accepted != r.Accepted || out.Latency.P99 != r.Latency.P99.Seconds() || out.Parity.Kept != int64(r.Parity.Promises) || out.Parity.Root != r.Parity.Tree.Hash.String() {
		t.Errorf("JSON %s", b)
	}
	if want := r.Server.CPU.Seconds() / float64(r.Accepted) * 1e4; math.Abs(out.Server.CPU-want) > 1e-9 {
		t.Errorf("CPU for 10,000: %v, want %v", out.Server.CPU, want)
	}
}

// TestRunOpen: requests are sent when they are due, whatever becomes of those
// before them, and latency counts from then on.
func TestRunOpen(t *testing.T) {
	l := newFakeLog(t)
	o := options(t, l)
	o.Count, o.Rate, o.Clients = 50, 200, 0
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Accepted != 50 || r.Unsent != 0 || r.Took < 245*time.Millisecond {
		t.Errorf("result %+v", r)
	}
}

func TestRunOpenSaturated(t *testing.T) {
	l := newFakeLog(t)
	l.intercept = func(http.ResponseWriter, *http.Request) bool { time.Sleep(40 * time.Millisecond); return false }
	o := options(t, l)
	o.Count, o.Rate, o.Clients = 60, 1000, 3
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unsent == 0 || r.Accepted+r.Unsent != 60 {
		t.Errorf("result %+v", r)
	}
}

// TestRunDuplicates: a duplicate is promised what the entry was promised.
func TestRunDuplicates(t *testing.T) {
	l := newFakeLog(t)
	o := options(t, l)
	o.Count, o.Duplicates, o.Old = 300, 0.6, 0.5
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	d, f, old := r.Classes["duplicate"].Accepted.Count, r.Classes["fresh"].Accepted.Count, r.Classes["old"].Accepted.Count
	if r.Accepted != 300 || d+f+old != 300 || d < 120 || f < 20 || old < 20 || r.Distinct != f+old || r.TreeAfter != f+old || r.Moved != 0 {
		t.Errorf("result %+v", r)
	}
}

// TestRunForgets: a log may log an entry twice, and must keep both promises.
func TestRunForgets(t *testing.T) {
	l := newFakeLog(t)
	l.forget = true
	o := options(t, l)
	o.Count, o.Duplicates = 60, 0.2
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Moved == 0 || r.TreeAfter != 60 || r.Distinct+r.Moved != 60 || r.Parity.Promises != 60 {
		t.Errorf("result %+v", r)
	}
}

func TestRunDuration(t *testing.T) {
	l := newFakeLog(t)
	o := options(t, l)
	o.Count, o.Duration, o.Memory = 0, 300*time.Millisecond, 1
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Accepted == 0 || r.Took < 300*time.Millisecond || r.Took > 20*time.Second || r.SCTs != r.Accepted {
		t.Errorf("result %+v", r)
	}
	if r.CheckpointAge.Count == 0 || r.Parity.Checkpoints < 2 {
		t.Errorf("checkpoints: %+v, parity %+v", r.CheckpointAge, r.Parity)
	}
}

func TestRunRefused(t *testing.T) {
	refuse := func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "0")
		http.Error(w, "pool is full", http.StatusServiceUnavailable)
		return true
	}
	l := newFakeLog(t)
	l.intercept = func(w http.ResponseWriter, _ *http.Request) bool { return l.posts%4 == 0 && refuse(w) }
	r, err := Run(t.Context(), options(t, l))
	if err != nil {
		t.Fatal(err)
	}
	if r.Accepted != 30 || r.Refused != 10 || r.Statuses[503] != 10 || r.RefusedLatency.Count != 10 || r.Classes["fresh"].Refused.Count != 10 || r.Retries != 0 {
		t.Errorf("result %+v", r)
	}

	l = newFakeLog(t)
	l.intercept = func(w http.ResponseWriter, _ *http.Request) bool { return l.posts <= 8 && refuse(w) }
	o := options(t, l)
	o.Retries = 5
	if r, err = Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if r.Accepted != 40 || r.Refused != 0 || r.Statuses[503] != 8 || r.Retries != 8 {
		t.Errorf("result %+v", r)
	}
}

// TestRunFails are logs that break a promise, or do nothing, each in its own
// way. None may pass.
func TestRunFails(t *testing.T) {
	other := newFakeLog(t) // its key is the same, its tree is not
	for _, c := range []struct {
		name  string
		setup func(l *fakeLog, o *Options)
		want  string
	}{
		{"all refused", func(l *fakeLog, _ *Options) {
			l.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "full", http.StatusServiceUnavailable)
				return true
			}
		}, "nothing was accepted"},
		{"nobody there", func(_ *fakeLog, o *Options) { o.Submission = "http://127.0.0.1:1/" }, "nothing was accepted: "},
		{"everything wrong", func(l *fakeLog, _ *Options) {
			l.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "unknown root", http.StatusBadRequest)
				return true
			}
		}, `40 unexpected answers, the first: status 400: "unknown root\n"`},
		{"one error", func(l *fakeLog, _ *Options) {
			l.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				if l.posts == 7 {
					http.Error(w, "oh", http.StatusInternalServerError)
				}
				return l.posts == 7
			}
		}, "1 unexpected answers, the first: status 500"},
		{"no SCT", func(l *fakeLog, _ *Options) {
			l.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte(`{"sct_version":0}`))
				return true
			}
		}, "40 of 40 answers have no valid SCT, the first: answer to chain"},
		{"SCT of another entry", func(l *fakeLog, _ *Options) {
			l.intercept = func(w http.ResponseWriter, r *http.Request) bool {
				if l.posts != 20 {
					return false
				}
				for _, leaf := range l.known {
					sct, err := l.signer.SCT(leaf)
					if err != nil {
						l.t.Error(err)
					}
					_, _ = w.Write(sct.AppendJSON(nil))
					break
				}
				return true
			}
		}, "1 of 40 answers have no valid SCT"},
		{"tree of another log", func(_ *fakeLog, o *Options) { o.Monitoring = other.start() }, "the tree grew by 0 entries"},
		{"one entry never logged", func(l *fakeLog, _ *Options) {
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) { return leaf, l.posts != 40 }
		}, "the tree grew by 39 entries"},
		{"one entry at another place", func(l *fakeLog, _ *Options) {
			var held *tlog.Entry
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) {
				switch l.posts {
				case 10:
					held = leaf.Entry
				case 11:
					leaf.Entry = held
				}
				return leaf, true
			}
		}, "is not the promised entry"},
		{"one entry at another time", func(l *fakeLog, _ *Options) {
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) {
				if l.posts == 12 {
					leaf.Timestamp--
				}
				return leaf, true
			}
		}, "does not have the promised timestamp"},
		{"second promise for one entry", func(l *fakeLog, o *Options) {
			o.Count, o.Duplicates, l.forget = 60, 0.3, true
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) {
				if _, again := l.known[leaf.Entry.Key()]; again {
					leaf.Timestamp--
				}
				return leaf, true
			}
		}, "does not have the promised timestamp"},
		{"wrong key", func(l *fakeLog, o *Options) { o.Key = []byte("no key") }, "public key"},
		{"no issuers", func(l *fakeLog, _ *Options) {
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) {
				if l.posts == 40 {
					maps.DeleteFunc(l.objects, func(name string, _ []byte) bool { return strings.HasPrefix(name, "issuer/") })
				}
				return leaf, true
			}
		}, "issuer/"},
		{"checkpoint goes back", func(l *fakeLog, o *Options) {
			l.lie = func(leaf tlog.Leaf) (tlog.Leaf, bool) {
				if l.posts >= 20 {
					l.time -= 5000
				}
				return leaf, true
			}
			l.intercept = func(http.ResponseWriter, *http.Request) bool { time.Sleep(15 * time.Millisecond); return false }
		}, "checkpoint went back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newFakeLog(t)
			o := options(t, l)
			c.setup(l, &o)
			_, err := Run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestRunCancelled(t *testing.T) {
	l := newFakeLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.intercept = func(http.ResponseWriter, *http.Request) bool {
		if l.posts == 30 {
			cancel()
		}
		return false
	}
	o := options(t, l)
	o.Count, o.Memory = 100000, 1
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("promises made before the end were not kept: %v", err)
	}
	if r.Accepted < 20 || r.Accepted > 200 || r.SCTs != r.Accepted {
		t.Errorf("result %+v", r)
	}
}

func TestOptions(t *testing.T) {
	ca := newCA(t)
	for _, o := range []Options{
		{}, {CA: ca}, {Count: 1}, {CA: ca, Count: 1, Duplicates: 2}, {CA: ca, Count: 1, Old: -1}, {CA: ca, Count: 1, Rate: -1}, {CA: ca, Count: 1, Sources: 300}, {CA: ca, Count: 1, Sources: 20, FirstSource: 240},
		{CA: ca, Count: 1, Monitoring: "nonsense"},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("options %+v were taken", o)
		}
	}
}

func TestValidity(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 500, time.UTC)
	day := 24 * time.Hour
	date := func(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		start, limit, want time.Time
	}{
		{time.Time{}, time.Time{}, now.Truncate(time.Second).Add(90 * day)},
		{date(2027, 1, 1), date(2027, 7, 1), now.Truncate(time.Second).Add(90 * day)},
		{date(2027, 7, 1), date(2028, 1, 1), date(2027, 10, 1)},
		{date(2026, 1, 1), date(2027, 1, 1), date(2026, 7, 2).Add(12 * time.Hour)},
		{date(2028, 1, 1), time.Time{}, date(2028, 1, 1).Add(time.Hour)},
	} {
		_, got := validity(Options{}, monitor.LogInfo{Start: c.start, Limit: c.limit}, now)
		if !got.Equal(c.want) {
			t.Errorf("window %v to %v: NotAfter %v, want %v", c.start, c.limit, got, c.want)
		}
	}
}

func TestLatency(t *testing.T) {
	if got := latency(nil); got != (Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
	if got, want := latency([]time.Duration{7}), (Latency{1, 7, 7, 7, 7, 7}); got != want {
		t.Errorf("of one: %+v", got)
	}
	var d []time.Duration
	for i := range 1000 {
		d = append(d, time.Duration((i*7919)%1000+1))
	}
	if got, want := latency(d), (Latency{1000, 500, 500, 900, 990, 1000}); got != want {
		t.Errorf("of 1 to 1000: %+v, want %+v", got, want)
	}
}

// TestAnswersWait: SCTs are verified after the run, and before only as far as
// memory asks for it.
func TestAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t)
		p := &plan{ca: newCA(t), notBefore: time.Now(), notAfter: time.Now().Add(time.Hour)}
		const size = 1000
		a := newAnswers(p, l.signer.Verifier(), 20*size)
		add := func(n int) {
			for range n {
				a.add(request{}, make([]byte, size-pendingSize))
			}
			synctest.Wait()
		}
		add(20)
		if n := a.verified.Load(); n != 0 || len(a.waiting) != 20 {
			t.Errorf("%d verified, %d wait; want 0 and 20", n, len(a.waiting))
		}
		add(1)
		if n := a.verified.Load(); n != 11 || len(a.waiting) != 10 || a.bytes != 10*size {
			t.Errorf("%d verified, %d wait with %d bytes; want 11, and 10 with half the limit", n, len(a.waiting), a.bytes)
		}
		a.finish(func(int64, int64) {})
		if n := a.verified.Load(); n != 21 || a.failures != 21 || len(a.waiting) != 0 {
			t.Errorf("%d verified, %d failed, %d wait; want all 21", n, a.failures, len(a.waiting))
		}
	})
}

// TestPlan: shares are met, and what a number means does not change.
func TestPlan(t *testing.T) {
	p := &plan{ca: newCA(t), target: mustTarget(t, "http://x/", time.Second), seed: 9, duplicates: 0.3, old: 0.2, precerts: 0.5, notBefore: time.Now(), notAfter: time.Now().Add(time.Hour)}
	const n = 20000
	var duplicates, old, precerts int
	for i := range uint64(n) {
		if p.isDuplicate(i) {
			duplicates++
		}
		class, l := p.leaf(i)
		again, m := p.leaf(i)
		if class != again || l.Precert != m.Precert {
			t.Fatalf("number %d is not what it was", i)
		}
		if class == Old {
			old++
			if !l.Precert || p.notBefore.Sub(l.NotBefore) < 48*time.Hour {
				t.Errorf("old leaf %+v", l)
			}
		} else if l.Precert {
			precerts++
		}
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"duplicates", float64(duplicates) / n, 0.3}, {"old", float64(old) / n, 0.2}, {"precertificates", float64(precerts) / n, 0.4}} {
		if math.Abs(c.got-c.want) > 0.02 {
			t.Errorf("share of %s is %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestUsage(t *testing.T) {
	if u, err := processUsage(os.Getpid()); err != nil || u.PeakRSS < 1<<20 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := processUsage(1 << 30); err == nil {
		t.Error("usage of no process")
	}
	own, other := ownUsage(), Usage{}
	other, err := processUsage(os.Getpid())
	if err != nil || (own.CPU-other.CPU).Abs() > time.Second {
		t.Errorf("own %v, by /proc %v, %v", own.CPU, other.CPU, err)
	}
}
