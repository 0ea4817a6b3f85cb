package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/daybook-ct/daybook/internal/testca"
)

const (
	// dialers is how many connections are made at a time.
	dialers = 64
	// probes is how many submissions are timed, and probers how many at a time.
	probes, probers = 500, 50
	// patience is what an answer may take.
	patience = 10 * time.Second
	// filesOfServer is what daybook dev keeps open or in reserve for itself, and
	// filesOfConnection what it reckons for a connection (internal/server).
	filesOfServer, filesOfConnection = 224, 3
)

// measureConnections measures what idle keep-alive connections cost a log in
// memory, and whether it still answers beside them.
func measureConnections(ctx context.Context, o *options) error {
	n, err := connectionsPossible(o)
	if err != nil {
		return err
	}
	return withDev(ctx, o, o.daybook, func(d *dev) error { return measureOpen(ctx, o, d, n) })
}

// measureOpen measures n idle connections to a log.
func measureOpen(ctx context.Context, o *options, d *dev, n int) error {
	ca, err := d.ca()
	if err != nil {
		return err
	}
	p := &prober{d: d, ca: ca}
	if _, err := p.probe(ctx); err != nil { // warms it up
		return err
	}
	before, err := p.probe(ctx)
	if err != nil {
		return err
	}
	t := &table{head: []string{"idle connections", "RSS", "kB a connection", "of that in use", "submissions beside them"}}
	empty, err := d.memory(ctx)
	if err != nil {
		return err
	}
	t.add("0", size(empty.rss), "-", "-", before.String())
	conns, err := p.open(ctx, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close() // nothing is lost with it
		}
	}()
	if err != nil {
		return err
	}
	full, err := d.memory(ctx)
	if err != nil {
		return err
	}
	beside, err := p.probe(ctx)
	if err != nil {
		return err
	}
	if err := p.check(ctx, conns); err != nil {
		return err
	}
	again, err := d.memory(ctx)
	if err != nil {
		return err
	}
	each := func(from, to int64) string { return fmt.Sprintf("%.1f", float64(to-from)/float64(n)/1e3) }
	t.add(thousands(int64(n)), size(full.rss), each(empty.rss, full.rss), each(empty.inUse, full.inUse), beside.String())
	t.add(thousands(int64(n))+", all used again", size(again.rss), each(empty.rss, again.rss), each(empty.inUse, again.inUse), "-")
	return t.print(o.out, fmt.Sprintf("Memory of `daybook dev` by keep-alive connections on which one submission was answered each; %d submissions of %d clients, median / 99th percentile. In use: heap and stacks after a garbage collection.", probes, probers))
}

// connectionsPossible raises the limit of open files as far as it may, and returns
// how many of the connections both ends can then have.
func connectionsPossible(o *options) (int, error) {
	var files syscall.Rlimit
	want := uint64(filesOfServer + filesOfConnection*(o.conns+probers))
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, err
	}
	if files.Cur < want {
		raised := syscall.Rlimit{Cur: want, Max: max(want, files.Max)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
			raised = syscall.Rlimit{Cur: files.Max, Max: files.Max}
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
				return 0, err
			}
		}
		files = raised
	}
	n := (int(min(files.Cur, 1<<30)) - filesOfServer) / filesOfConnection
	if n -= probers; n >= o.conns {
		return o.conns, nil
	}
	if n <= 0 {
		return 0, fmt.Errorf("the open-file limit of %d is too low for any connection: raise it (ulimit -n %d)", files.Cur, want)
	}
	o.say("the open-file limit of %d, which cannot be raised, lets a log take %d idle connections; for %d it has to be %d", files.Cur, n, o.conns, want)
	return n, nil
}

// dev is a running daybook dev.
type dev struct {
	SubmissionPrefix string `json:"submission_prefix"`
	Metrics          string `json:"metrics"`
	PID              int    `json:"pid"`

	dir string
	cmd *exec.Cmd
}

func startDev(ctx context.Context, program, dir string) (d *dev, err error) {
	log, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }() // the process has its own
	cmd := exec.Command(program, "dev", "--dir", dir, "--pool-size", "0")
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s (make build): %w", program, err)
	}
	d = &dev{dir: dir, cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), d)
	}
	if err != nil {
		lines, _ := os.ReadFile(log.Name()) // what there is
		return nil, errors.Join(fmt.Errorf("%s dev did not come up: %w\n%s", program, err, lines), d.stop())
	}
	return d, ctx.Err()
}

// url returns where a chain is submitted.
func (d *dev) url(c testca.Chain) string {
	return strings.TrimSuffix(d.SubmissionPrefix, "/") + "/" + c.Endpoint()
}

// stop ends it in order.
func (d *dev) stop() error {
	return errors.Join(d.cmd.Process.Signal(syscall.SIGTERM), d.cmd.Wait())
}

// usage is what a log takes of the memory, in bytes.
type usage struct {
	rss   int64
	inUse int64 // by heap and stacks
}

// memory reads the RSS as it is, and then what is in use after a collection.
func (d *dev) memory(ctx context.Context) (u usage, err error) {
	u.rss = procField(filepath.Join("/proc", strconv.Itoa(d.PID), "status"), "VmRSS:") << 10
	if _, err := get(ctx, strings.TrimSuffix(d.Metrics, "/metrics")+"/debug/pprof/heap?gc=1"); err != nil {
		return u, err
	}
	metrics, err := get(ctx, d.Metrics)
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "go_memstats_heap_inuse_bytes" && name != "go_memstats_stack_inuse_bytes" {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return u, fmt.Errorf("reading %s: %w", name, err)
		}
		u.inUse += int64(v)
	}
	if err == nil && u.inUse == 0 {
		err = errors.New("the metrics say nothing of the heap")
	}
	return u, err
}

func get(ctx context.Context, url string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, a.Body.Close()) }()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s was answered %s", url, a.Status)
	}
	return string(b), err
}

// ca returns a CA under the root that it accepts.
func (d *dev) ca() (*testca.CA, error) {
	root, err := os.ReadFile(filepath.Join(d.dir, "root.pem"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(d.dir, "root-key.pem"))
	if err != nil {
		return nil, err
	}
	return testca.Load(root, key, testca.Options{})
}

// prober submits to a log.
type prober struct {
	d    *dev
	ca   *testca.CA
	next uint64 // number of the next chain
}

// chain returns the next new chain.
func (p *prober) chain() (testca.Chain, error) {
	p.next++
	now := time.Now()
	return p.ca.Make(p.next, testca.Leaf{Precert: true, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 3, 0)})
}

// probe submits new chains, and returns what the answers took.
func (p *prober) probe(ctx context.Context) (samples, error) {
	took := make(samples, probes)
	chains := make([]testca.Chain, probes)
	for i := range chains {
		c, err := p.chain()
		if err != nil {
			return nil, err
		}
		chains[i] = c
	}
	transport := &http.Transport{MaxIdleConnsPerHost: probers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	g, ctx := errgroup.WithContext(ctx)
	for w := range probers {
		g.Go(func() error {
			for i := w; i < probes; i += probers {
				start := time.Now()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.d.url(chains[i]), strings.NewReader(string(chains[i].Body())))
				if err != nil {
					return err
				}
				a, err := client.Do(r)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, a.Body)
				if err = errors.Join(err, a.Body.Close()); err != nil {
					return err
				}
				if a.StatusCode != http.StatusOK {
					return fmt.Errorf("a submission was answered %s", a.Status)
				}
				took[i] = time.Since(start)
			}
			return nil
		})
	}
	return took, g.Wait()
}

// request is a submission as bytes on the wire.
func (p *prober) request(host string, c testca.Chain) string {
	body := string(c.Body())
	return fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.Endpoint(), host, len(body), body)
}

// open makes connections and submits one chain on each. The same chain serves
// all: what is measured is the connection.
func (p *prober) open(ctx context.Context, n int) ([]net.Conn, error) {
	u, err := url.Parse(p.d.SubmissionPrefix)
	if err != nil {
		return nil, err
	}
	c, err := p.chain()
	if err != nil {
		return nil, err
	}
	request := p.request(u.Host, c)
	conns := make([]net.Conn, n)
	g, ctx := errgroup.WithContext(ctx)
	for w := range dialers {
		g.Go(func() error {
			for i := w; i < n; i += dialers {
				var d net.Dialer
				c, err := d.DialContext(ctx, "tcp", u.Host)
				if err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
				conns[i] = c
				if err := exchange(c, request); err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
			}
			return nil
		})
	}
	err = g.Wait()
	open := conns[:0]
	for _, c := range conns {
		if c != nil {
			open = append(open, c)
		}
	}
	return open, err
}

// check submits once more on each connection, which must not have been closed.
func (p *prober) check(ctx context.Context, conns []net.Conn) error {
	c, err := p.chain()
	if err != nil {
		return err
	}
	u, err := url.Parse(p.d.SubmissionPrefix)
	if err != nil {
		return err
	}
	request := p.request(u.Host, c)
	g, ctx := errgroup.WithContext(ctx)
	for w := range dialers {
		g.Go(func() error {
			for i := w; i < len(conns); i += dialers {
				if err := errors.Join(ctx.Err(), exchange(conns[i], request)); err != nil {
					return fmt.Errorf("connection %d did not stay open: %w", i, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// exchange sends a request and reads the whole answer, which must be an SCT.
func exchange(c net.Conn, request string) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	a, err := http.ReadResponse(bufio.NewReaderSize(c, 2048), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, a.Body)
	if err = errors.Join(err, a.Body.Close()); err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("a submission was answered %s", a.Status)
	}
	return err
}
