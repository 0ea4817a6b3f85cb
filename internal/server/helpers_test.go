package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/testca"
	"github.com/daybook-ct/daybook/internal/testlog"
)

// place is a directory in which a test makes logs.
type testPlace struct {
	t   *testing.T
	dir string
	ca  *testca.CA
}

func newPlace(t *testing.T) *testPlace {
	t.Helper()
	ca, err := testca.New(testca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &testPlace{t: t, dir: t.TempDir(), ca: ca}
	p.write("roots.pem", ca.RootPEM())
	return p
}

func (p *testPlace) path(name string) string { return filepath.Join(p.dir, name) }

func (p *testPlace) write(name string, data []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// log returns the options of a log with this name, which no test creates twice.
func (p *testPlace) log(name string) LogOptions {
	return LogOptions{
		Name: name, SubmissionPrefix: "https://ct.example.com/" + name, MonitoringPrefix: "https://mon.example.com/" + name,
		KeyFile: p.path(name + ".seed"), StorageDirectory: p.path(name), LockPath: p.path("lock.db"), CachePath: p.path(name + ".db"),
		PageCache: 1 << 20, RootFiles: []string{p.path("roots.pem")}, Interval: 20 * time.Millisecond, PoolSize: 150,
	}
}

func (p *testPlace) create(o LogOptions) Identity {
	p.t.Helper()
	id, err := Create(p.t.Context(), o, false)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// running is a server in a test.
type running struct {
	*Server
	t    *testing.T
	stop context.CancelFunc
	logs *testlog.Lines
}

// start runs a server on loopback until the test ends, or stop is called.
func (p *testPlace) start(o Options) *running {
	p.t.Helper()
	ctx, stop := context.WithCancel(p.t.Context())
	r := &running{t: p.t, stop: stop, logs: new(testlog.Lines)}
	var err error
	if o.Logger, err = obs.NewLogger(r.logs, obs.LoggerOptions{}); err != nil {
		p.t.Fatal(err)
	}
	o.Listen, o.AdminListen = []string{"127.0.0.1:0"}, "127.0.0.1:0"
	if r.Server, err = Start(ctx, o); err != nil {
		stop()
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		stop()
		<-r.done
		if p.t.Failed() {
			p.t.Log(r.logs.String())
		}
	})
	return r
}

// do sends a request to the first address and returns status and body. A host of
// "" is that of the address.
func (r *running) do(method, host, path string, body []byte) (int, string) {
	r.t.Helper()
	return request(r.t, method, r.Addrs()[0], host, path, body)
}

func request(t *testing.T, method string, addr net.Addr, host, path string, body []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+addr.String()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return 0, ""
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}

// submit submits leaf number n to the log.
func (p *testPlace) submit(r *running, log string, n uint64) (int, string) {
	p.t.Helper()
	chain, err := p.ca.Make(n, testca.Leaf{})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.do("POST", "ct.example.com", "/"+log+"/"+chain.Endpoint(), chain.Body())
}

// health returns the status and the answer of /health.
func (r *running) health() (int, obs.Health) {
	r.t.Helper()
	code, body := request(r.t, "GET", r.AdminAddr(), "", "/health", nil)
	var h obs.Health
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		r.t.Errorf("health %q: %v", body, err)
	}
	return code, h
}

// await waits until a condition holds, which it must within a minute.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
