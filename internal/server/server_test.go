package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/monitor"
	"github.com/daybook-ct/daybook/sequencer"
	"github.com/daybook-ct/daybook/storage/sqlitelock"
)

// Two logs in one process, one on two hosts and one on a single prefix; what
// they promise is in their trees, before and after a restart.
func TestServe(t *testing.T) {
	p := newPlace(t)
	a, b := p.log("a"), p.log("b")
	b.MonitoringPrefix = ""
	ids := []Identity{p.create(a), p.create(b)}
	for restart := range uint64(2) {
		r := p.start(Options{Logs: []LogOptions{a, b}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		for i, id := range r.Identities() {
			if id.LogID != ids[i].LogID || id.Origin != ids[i].Origin {
				t.Errorf("log %d is %v", i, id)
			}
		}
		for n := range uint64(3) {
			for _, log := range []string{"a", "b"} {
				if code, body := p.submit(r, log, 10*restart+n); code != 200 || !strings.Contains(body, `"sct_version":0,"id":"`) {
					t.Errorf("submission %d to %s: %d %s", n, log, code, body)
				}
			}
		}
		if code, body := p.submit(r, "c", 1); code != 404 {
			t.Errorf("unknown log: %d %s", code, body)
		}
		if code, _ := r.do("GET", "ct.example.com", "/a/checkpoint", nil); code != 404 {
			t.Errorf("monitoring on the submission host: %d", code)
		}
		for _, host := range []string{"ct.example.com", "mon.example.com"} {
			log := map[string]string{"ct.example.com": "b", "mon.example.com": "a"}[host]
			if code, body := r.do("GET", host, "/"+log+"/checkpoint", nil); code != 200 || !strings.HasPrefix(body, "ct.example.com/"+log+"\n") {
				t.Errorf("checkpoint of %s: %d %s", log, code, body)
			}
		}
		for i, log := range []string{"a", "b"} {
			// The address names no host of theirs, so the path decides.
			report, err := monitor.Verify(t.Context(), monitor.Options{Prefix: "http://" + r.Addrs()[0].String() + "/" + log + "/", Signatures: true})
			if err != nil {
				t.Fatalf("verifying %s: %v", log, err)
			}
			if want := int64(3 * (restart + 1)); report.Entries != want || report.LogID != ids[i].LogID {
				t.Errorf("log %s has %d entries, want %d", log, report.Entries, want)
			}
		}
		if code, h := r.health(); code != 200 || len(h.Logs) != 2 || h.Logs[0].Name != "a" || h.Logs[1].Size == 0 {
			t.Errorf("health: %d %+v", code, h)
		}
		for _, log := range []string{"a", "b"} {
			if !r.logs.Has(`msg="log is served"`, "log="+log, "origin=ct.example.com/"+log, `capacity="150 / 20ms = 7500/s"`, "log_id=") {
				t.Errorf("no line about log %s:\n%s", log, r.logs)
			}
			if !r.logs.Has("dedup cache opened", "log="+log, "synchronous=") {
				t.Errorf("no line about the cache's durability of %s", log)
			}
		}
		if code, body := request(t, "GET", r.AdminAddr(), "", "/metrics", nil); code != 200 ||
			!strings.Contains(body, `log="a"`) || !strings.Contains(body, `log="b"`) || !strings.Contains(body, "daybook_build_info") {
			t.Errorf("metrics: %d without what they should have", code)
		}
		r.stop()
		if err := r.Wait(); err != nil {
			t.Errorf("the end: %v", err)
		}
		if err := r.Wait(); err != nil {
			t.Errorf("the end, asked again: %v", err)
		}
		for _, wal := range []string{"a.db-wal", "b.db-wal"} {
			if _, err := os.Stat(p.path(wal)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", wal, err)
			}
		}
	}
}

// An orderly end: those who were admitted get their SCTs from the last round,
// others get a 503, and no later promise is made.
func TestDrain(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	o.Interval = time.Hour // the last round is the only one
	p.create(o)
	r := p.start(Options{Logs: []LogOptions{o}})
	type answer struct {
		code int
		body string
	}
	waiting := make(chan answer, 1)
	go func() {
		code, body := p.submit(r, "a", 1)
		waiting <- answer{code, body}
	}()
	await(t, "the submission is admitted", func() bool {
		_, body := request(t, "GET", r.AdminAddr(), "", "/metrics", nil)
		return strings.Contains(body, `daybook_intake_total{log="a",outcome="admitted",priority="high"} 1`) ||
			strings.Contains(body, `daybook_intake_total{log="a",outcome="admitted",priority="low"} 1`)
	})
	r.stop()
	if got := <-waiting; got.code != 200 {
		t.Errorf("the admitted submission got %d %s", got.code, got.body)
	}
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", r.Addrs()[0].String()); err == nil {
		t.Error("still listening")
	}
	if _, err := net.Dial("tcp", r.AdminAddr().String()); err == nil {
		t.Error("still listening for the operator")
	}
}

// halt makes a log halt: somebody else writes its lock.
func (p *testPlace) halt(o LogOptions, id Identity) {
	p.t.Helper()
	lock, err := sqlitelock.Open(o.LockPath, sqlitelock.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx := p.t.Context()
	for {
		old, err := lock.Fetch(ctx, id.LogID)
		if err != nil {
			p.t.Fatal(err)
		}
		// The log may have been quicker; then its next round loses.
		if lock.Swap(ctx, id.LogID, old, append(old, '\n')) == nil {
			break
		}
	}
	if err := lock.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// A halted log takes nothing, says so, and shows its tree; the others go on.
func TestHalt(t *testing.T) {
	p := newPlace(t)
	a, b := p.log("a"), p.log("b")
	id := p.create(a)
	p.create(b)
	r := p.start(Options{Logs: []LogOptions{a, b}})
	if code, body := p.submit(r, "a", 1); code != 200 {
		t.Fatalf("before: %d %s", code, body)
	}
	p.halt(a, id)
	await(t, "the log halts", func() bool { code, _ := r.health(); return code == 503 })
	if _, h := r.health(); h.Logs[0].Status != obs.StatusHalted || h.Logs[1].Status != obs.StatusOK {
		t.Errorf("health %+v", h)
	}
	if code, body := p.submit(r, "a", 2); code < 500 {
		t.Errorf("submission to the halted log: %d %s", code, body)
	}
	if code, body := r.do("GET", "mon.example.com", "/a/checkpoint", nil); code != 200 {
		t.Errorf("checkpoint of the halted log: %d %s", code, body)
	}
	if code, body := p.submit(r, "b", 2); code != 200 {
		t.Errorf("submission to the other log: %d %s", code, body)
	}
	if !r.logs.Has("level=ERROR", "log=a", "restart the process") {
		t.Errorf("no line says what to do:\n%s", r.logs)
	}
	select {
	case <-r.done:
		t.Fatal("the server has ended")
	default:
	}
	r.stop()
	if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "ct.example.com/a has halted") {
		t.Errorf("the end: %v", err)
	}
}

// With ExitOnHalt the server ends by itself, in order: the other log drains.
func TestExitOnHalt(t *testing.T) {
	p := newPlace(t)
	a, b := p.log("a"), p.log("b")
	id := p.create(a)
	p.create(b)
	r := p.start(Options{Logs: []LogOptions{a, b}, ExitOnHalt: true})
	p.halt(a, id)
	if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "ct.example.com/a has halted") {
		t.Errorf("the end: %v", err)
	}
	if !r.logs.Has("drained", "log=b") {
		t.Errorf("the other log has not drained:\n%s", r.logs)
	}
}

// A listener that fails ends the server, and is the reason that Wait gives.
func TestListenerFails(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	p.create(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := p.start(Options{Logs: []LogOptions{o}, Listeners: []net.Listener{l}})
	if got := r.Addrs()[0].String(); got != l.Addr().String() {
		t.Errorf("first address %s, want that of the listener %s", got, l.Addr())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "serving HTTP on "+l.Addr().String()) {
		t.Errorf("the end: %v", err)
	}
	if !r.logs.Has("drained", "log=a") {
		t.Error("the log has not drained")
	}
}

func TestStartRefuses(t *testing.T) {
	p := newPlace(t)
	good := p.log("good")
	p.create(good)
	other := p.log("other")
	p.create(other)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := busy.Close(); err != nil {
			t.Error(err)
		}
	}()
	p.write("empty.pem", nil)
	p.write("short.seed", []byte("short"))
	with := func(change func(*LogOptions)) Options {
		o := good
		change(&o)
		return Options{Logs: []LogOptions{o}, Listen: []string{"127.0.0.1:0"}}
	}
	for _, test := range []struct {
		name string
		o    Options
		is   error
		want string
	}{
		{"no log", Options{Listen: []string{"127.0.0.1:0"}}, nil, "no log to serve"},
		{"no address", Options{Logs: []LogOptions{good}}, nil, "no address"},
		{"address in use", Options{Logs: []LogOptions{good}, Listen: []string{busy.Addr().String()}}, nil, "address already in use"},
		{"admin address in use", Options{Logs: []LogOptions{good}, Listen: []string{"127.0.0.1:0"}, AdminListen: busy.Addr().String()}, nil, "for the operator"},
		{"prefix", with(func(o *LogOptions) { o.SubmissionPrefix = "ct.example.com" }), nil, "submission prefix"},
		{"monitoring prefix", with(func(o *LogOptions) { o.MonitoringPrefix = "http://mon.example.com/" }), nil, "monitoring prefix"},
		{"no key", with(func(o *LogOptions) { o.KeyFile = p.path("none.seed") }), fs.ErrNotExist, "log good: reading the log's key"},
		{"bad key", with(func(o *LogOptions) { o.KeyFile = p.path("short.seed") }), nil, "short.seed: no seed and no PEM block"},
		{"key of another log", with(func(o *LogOptions) { o.KeyFile, o.LockPath = other.KeyFile, good.LockPath }), nil, "not this log's"},
		{"key without a log", with(func(o *LogOptions) { o.KeyFile = p.path("new.seed") }), sequencer.ErrNoLog, "is it the right key, and the right lock?"},
		{"another origin", with(func(o *LogOptions) { o.SubmissionPrefix = "https://ct.example.com/renamed/" }), nil, "not this log's"},
		{"storage of another log", with(func(o *LogOptions) { o.StorageDirectory = other.StorageDirectory }), nil, "not this log's"},
		{"no storage", with(func(o *LogOptions) { o.StorageDirectory = p.path("none") }), fs.ErrNotExist, "log good: storage directory "},
		{"no lock", with(func(o *LogOptions) { o.LockPath = p.path("none.db") }), sqlitelock.ErrAbsent, "log good: lock "},
		{"no roots file", with(func(o *LogOptions) { o.RootFiles = []string{p.path("none.pem")} }), fs.ErrNotExist, "accepted roots"},
		{"empty roots file", with(func(o *LogOptions) { o.RootFiles = []string{p.path("empty.pem")} }), nil, "empty.pem: it is no list of roots: no usable root"},
		{"root list over plain HTTP", with(func(o *LogOptions) { o.CCADB = []string{"http://ccadb.example.com/x"} }), nil, "only https is possible"},
		{"no roots", with(func(o *LogOptions) { o.RootFiles = nil }), nil, "no usable root"},
		{"shared prefix", Options{Listen: []string{"127.0.0.1:0"}, Logs: []LogOptions{good, func() LogOptions {
			o := other
			o.MonitoringPrefix = good.MonitoringPrefix
			return o
		}()}}, nil, "the logs good and other share the prefix https://mon.example.com/good/"},
	} {
		p.write("new.seed", make([]byte, 32))
		_, err := Start(t.Context(), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	// Nothing of all that has harmed the logs, or left anything open.
	r := p.start(Options{Logs: []LogOptions{good, other}})
	if code, body := p.submit(r, "good", 1); code != 200 {
		t.Errorf("after all refusals: %d %s", code, body)
	}
}

// A start can be interrupted.
func TestStartIsCancelled(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	p.create(o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := Start(ctx, Options{Logs: []LogOptions{o}, Listen: []string{"127.0.0.1:0"}})
	if err == nil { // it may also have been quick
		err = s.Wait()
	} else if errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		t.Error(err)
	}
}

// The cache may be lost: the log starts, and says what that costs (S8).
func TestLostCache(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	p.create(o)
	serve := func() *running {
		r := p.start(Options{Logs: []LogOptions{o}})
		if code, body := p.submit(r, "a", 1); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		r.stop()
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := serve(); r.logs.Has("the dedup cache was missing") {
		t.Error("the cache is said to be missing when it is not")
	}
	if err := os.Remove(o.CachePath); err != nil {
		t.Fatal(err)
	}
	if r := serve(); !r.logs.Has("level=WARN", "the dedup cache was missing", "size=1") {
		t.Errorf("nothing says that the cache was missing:\n%s", r.logs)
	}
}

// What changes in the configuration shows in the published files, and what
// does not is not written again.
func TestMetadata(t *testing.T) {
	p := newPlace(t)
	o := p.log("a")
	p.create(o)
	run := func() *running {
		r := p.start(Options{Logs: []LogOptions{o}})
		r.stop()
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	read := func(name string) string {
		b, err := os.ReadFile(p.path("a/" + name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	stat := func(name string) fs.FileInfo {
		info, err := os.Stat(p.path("a/" + name))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if r := run(); !r.logs.Has("the accepted roots have changed", "roots=1 added=1") {
		t.Errorf("the roots are not announced:\n%s", r.logs)
	}
	var info logInfo
	if err := json.Unmarshal([]byte(read("log.v3.json")), &info); err != nil {
		t.Fatal(err)
	}
	if info.SubmissionURL != "https://ct.example.com/a/" || info.MonitoringURL != "https://mon.example.com/a/" || info.Software.Name != "daybook" || !info.TLSOnly || info.TemporalInterval != nil {
		t.Errorf("log.v3.json: %+v", info)
	}
	if got, want := read("_roots.pem"), string(p.ca.RootPEM()); got != want {
		t.Errorf("_roots.pem:\n%s\nwant\n%s", got, want)
	}

	before := []fs.FileInfo{stat("log.v3.json"), stat("_roots.pem")}
	run()
	for i, name := range []string{"log.v3.json", "_roots.pem"} {
		if !os.SameFile(before[i], stat(name)) || !before[i].ModTime().Equal(stat(name).ModTime()) {
			t.Errorf("%s was written again", name)
		}
	}

	p.write("roots.pem", newPlace(t).ca.RootPEM())
	o.WindowStart, o.WindowLimit, o.AcceptAnyEKU = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC), true
	if r := run(); !r.logs.Has("the accepted roots have changed", "roots=2 added=1") ||
		!r.logs.Has("accepted roots that no source lists stay accepted", "roots=1") ||
		!r.logs.Has("log is served", "window_start=2027-01-01T00:00:00Z window_limit=2027-07-01T00:00:00Z") {
		t.Errorf("the changes are not announced:\n%s", r.logs)
	}
	if err := json.Unmarshal([]byte(read("log.v3.json")), &info); err != nil {
		t.Fatal(err)
	}
	if info.TLSOnly || info.TemporalInterval.Limit != "2027-07-01T00:00:00Z" || info.PlannedChanges[0].Date != "2027-07-08T00:00:00Z" {
		t.Errorf("log.v3.json: %+v", info)
	}
}
