package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHealth(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name   string
		state  LogState
		status string
		reason string
	}{
		{"fresh", LogState{Interval: 200 * time.Millisecond, Published: ago(100 * time.Millisecond)}, StatusOK, ""},
		{"at the bound", LogState{Interval: 200 * time.Millisecond, Published: ago(5 * time.Second)}, StatusOK, ""},
		{"over the bound", LogState{Interval: 200 * time.Millisecond, Published: ago(5001 * time.Millisecond)}, StatusStale, "5.001s old, more than 5s"},
		{"long interval, at the bound", LogState{Interval: 2 * time.Second, Published: ago(10 * time.Second)}, StatusOK, ""},
		{"long interval, over the bound", LogState{Interval: 2 * time.Second, Published: ago(10001 * time.Millisecond)}, StatusStale, "more than 10s"},
		{"a little in the future", LogState{Interval: time.Second, Published: ago(-5 * time.Second)}, StatusOK, ""},
		{"in the future", LogState{Interval: time.Second, Published: ago(-time.Minute)}, StatusStale, "1m0s in the future"},
		{"nothing published", LogState{Interval: time.Second}, StatusStarting, "no checkpoint"},
		{"draining", LogState{Interval: time.Second, Published: ago(0), Draining: true}, StatusDraining, "orderly end"},
		{"refusing", LogState{Interval: time.Second, Published: ago(0), Refusing: errors.New("disk is low")}, StatusRefusing, "takes no entries: disk is low"},
		{"refusing and stale", LogState{Interval: time.Second, Published: ago(time.Hour), Refusing: errors.New("the clock")}, StatusStale, "rounds fail or take too long; it takes no entries: the clock"},
		{"refusing and halted", LogState{Interval: time.Second, Published: ago(0), Refusing: errors.New("disk is low"), Halted: errors.New("disk on fire")}, StatusHalted, "disk on fire"},
		{"halted", LogState{Interval: time.Second, Published: ago(0), Halted: errors.New("disk on fire")}, StatusHalted, "disk on fire"},
		{"halted while draining", LogState{Interval: time.Second, Published: ago(0), Draining: true, Halted: errors.New("disk on fire")}, StatusHalted, "disk on fire"},
		{"halted and stale", LogState{Interval: time.Second, Published: ago(time.Hour), Halted: errors.New("disk on fire")}, StatusHalted, "disk on fire"},
	} {
		test.state.Name, test.state.Origin, test.state.Size = "a", "ct.example.org/a", 7
		h := CheckHealth(now, []LogState{test.state})
		l := h.Logs[0]
		if l.Status != test.status || !strings.Contains(l.Reason, test.reason) || (l.Reason == "") != (test.reason == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", test.name, l.Status, l.Reason, test.status, test.reason)
		}
		if (h.Status == StatusOK) != (test.status == StatusOK) {
			t.Errorf("%s: the process is %s", test.name, h.Status)
		}
		if (l.Age == nil) != test.state.Published.IsZero() || l.Size != 7 || l.Name != "a" || l.Origin != "ct.example.org/a" {
			t.Errorf("%s: %+v does not tell the state", test.name, l)
		}
	}
}

// One log that is not well makes the process unwell, and so does having none.
func TestHealthHandler(t *testing.T) {
	good := LogState{Name: "a", Interval: time.Second, Published: time.Now()}
	bad := LogState{Name: "b", Interval: time.Second, Halted: errors.New("disk on fire")}
	low := LogState{Name: "c", Interval: time.Second, Published: time.Now(), Refusing: errors.New("disk is low")}
	type states = []LogState
	for _, test := range []struct {
		logs          states
		health, ready int
		status        string
	}{
		{nil, 503, 503, StatusStarting},
		{states{good}, 200, 200, StatusOK},
		{states{good, bad}, 503, 503, StatusFailing},
		{states{bad, good}, 503, 503, StatusFailing},
		{states{good, low}, 200, 503, StatusRefusing},
		{states{low, good}, 200, 503, StatusRefusing},
		{states{low, bad}, 503, 503, StatusFailing},
		{states{bad, low}, 503, 503, StatusFailing},
	} {
		w, ready := httptest.NewRecorder(), httptest.NewRecorder()
		healthHandler(func() []LogState { return test.logs }, false).ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
		healthHandler(func() []LogState { return test.logs }, true).ServeHTTP(ready, httptest.NewRequest("GET", "/ready", nil))
		if ready.Code != test.ready {
			t.Errorf("%d logs, ready: %d %s", len(test.logs), ready.Code, ready.Body)
		}
		var h Health
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		if w.Code != test.health || h.Status != test.status || len(h.Logs) != len(test.logs) {
			t.Errorf("%d logs: %d %s", len(test.logs), w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", w.Header())
		}
	}
}

func TestAdmin(t *testing.T) {
	build := ReadBuild()
	registry, err := NewRegistry(build)
	if err != nil {
		t.Fatal(err)
	}
	admin := NewAdmin(AdminOptions{Build: build, Registry: registry, Logs: func() []LogState { return nil }})
	for _, test := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/metrics", 200, "daybook_build_info{"},
		{"GET", "/metrics", 200, "go_goroutines"},
		{"GET", "/metrics", 200, "process_open_fds"},
		{"GET", "/health", 503, `"status": "starting"`},
		{"GET", "/ready", 503, `"status": "starting"`},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/", 200, build.String()},
		{"GET", "/other", 404, ""},
		{"POST", "/health", 405, ""},
	} {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: %d, without %q: %.200s", test.method, test.path, w.Code, test.body, w.Body)
		}
	}
}

func TestBuild(t *testing.T) {
	b := Build{Version: "v1.2.3", Go: "go1.27.3", Platform: "linux/amd64"}
	if got, want := b.String(), "daybook v1.2.3, go1.27.3, linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Revision, b.Time, b.Modified = "abc", "2027-01-01T00:00:00Z", true
	if got, want := b.String(), "daybook v1.2.3 (commit abc of 2027-01-01T00:00:00Z, modified), go1.27.3, linux/amd64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogger(t *testing.T) {
	var text bytes.Buffer
	registry := prometheus.NewRegistry()
	log, err := NewLogger(&text, LoggerOptions{Level: slog.LevelWarn, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("log", "a").WithGroup("g")
	log.Info("not written")
	log.Warn("written", "x", 1)
	log.Error("written", "x", 2)
	log.Log(t.Context(), slog.LevelError+1, "written", "x", 3)
	if got := text.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, `level=WARN msg=written log=a g.x=1`) {
		t.Errorf("text lines: %s", got)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "daybook_log_lines_total" {
		t.Fatalf("metrics %v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		level := m.GetLabel()[0].GetValue()
		if want := map[string]float64{"warn": 1, "error": 2}[level]; m.GetCounter().GetValue() != want {
			t.Errorf("%v lines of level %s, want %v", m.GetCounter().GetValue(), level, want)
		}
	}
	if _, err := NewLogger(&text, LoggerOptions{Metrics: registry}); err == nil {
		t.Error("two loggers count in one metric")
	}

	text.Reset()
	if log, err = NewLogger(&text, LoggerOptions{JSON: true}); err != nil {
		t.Fatal(err)
	}
	log.Info("hello", "n", 1)
	var line struct {
		Msg string
		N   int
	}
	if err := json.Unmarshal(text.Bytes(), &line); err != nil || line.Msg != "hello" || line.N != 1 {
		t.Errorf("JSON line %s: %v", text.String(), err)
	}
}

func serve(t *testing.T, h http.HandlerFunc) *HTTP {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ServeHTTP(l, HTTPOptions{Handler: h, Logger: slog.New(slog.DiscardHandler)})
}

// An orderly end answers the request in progress and takes no new ones.
func TestShutdown(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	answer := make(chan string, 1)
	go func() {
		resp, err := http.Get("http://" + s.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		body, err := io.ReadAll(resp.Body)
		answer <- string(body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Error(err)
		}
	}()
	<-entered
	if n := s.Open(); n != 1 {
		t.Errorf("%d connections are open, want 1", n)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	<-s.Done() // takes no more connections; the request is still in progress
	select {
	case err := <-ended:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(release)
	if got := <-answer; got != "done" {
		t.Errorf("request in progress got %q", got)
	}
	if err := errors.Join(<-ended, s.Err()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("still listening")
	}
	for end := time.Now().Add(time.Minute); s.Open() != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections are open in the end", s.Open())
		}
	}
}

// A request that does not end is cut, and said to be.
func TestShutdownCuts(t *testing.T) {
	entered := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	failed := make(chan error, 1)
	go func() {
		_, err := http.Get("http://" + s.Addr().String())
		failed <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cutting 1 connections") {
		t.Errorf("Shutdown: %v", err)
	}
	if <-failed == nil {
		t.Error("the request was not cut")
	}
}

func TestListenerFails(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	if s.Err() != nil {
		t.Errorf("ended: %v", s.Err())
	}
	if err := s.listener.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "serving HTTP on "+s.Addr().String()) {
		t.Errorf("Err: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHeaderLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {})
	req, err := http.NewRequest("GET", "http://"+s.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 2*maxHeader))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("long header: %s", resp.Status)
	}
	if err := errors.Join(resp.Body.Close(), s.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

// A handler that panics is an error that somebody must see; what clients do is not.
func TestFaults(t *testing.T) {
	var text bytes.Buffer
	logger, err := NewLogger(&text, LoggerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := faults{logger}
	for _, line := range []string{"http: panic serving 127.0.0.1:1: oh\ngoroutine 1\n", "http: Accept error: too many open files; retrying in 5ms\n", "http: superfluous response.WriteHeader call\n"} {
		if n, err := io.WriteString(f, line); n != len(line) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "level=ERROR") != 2 || strings.Contains(got, "superfluous") {
		t.Errorf("lines:\n%s", got)
	}
}

// TestPages: further pages are served and listed, below what the operator should know.
func TestPages(t *testing.T) {
	r, err := NewRegistry(Build{})
	if err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") })
	h := NewAdmin(AdminOptions{Registry: r, Logs: func() []LogState { return nil }, Pages: []Page{{"/rounds", page}},
		Notes: func() []string { return []string{"one", "two"} }})
	for path, want := range map[string]string{"/rounds": "the page", "/": "\n\none\ntwo\n\n/health\n/ready\n/metrics\n/rounds\n/debug/pprof/\n"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), want) {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}
