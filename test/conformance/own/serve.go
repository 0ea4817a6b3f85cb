package own

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybook-ct/daybook/test/conformance"
)

// served is a log of the configuration that serveLogs writes.
type served struct {
	name, submission, monitoring string
	roots                        string // PEM file
	options                      string // lines of YAML
	target                       conformance.Target
	policy                       policy
}

// serveLogs judges two logs of one daybook serve: one with its prefixes apart,
// each with a path and a port, and one under a name of its own, with the
// options that are off by default.
func (s *suite) serveLogs(ctx context.Context) (*conformance.Report, error) {
	dir := filepath.Join(s.o.Dir, "serve")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	issuer, pem := conformance.NewRoot("Conformance Root")
	own := filepath.Join(dir, "root.pem")
	if err := os.WriteFile(own, pem, 0o644); err != nil {
		return nil, err
	}
	window := fmt.Sprintf("    window: {start: %s, limit: %s}\n", windowStart.Format(time.RFC3339), windowLimit.Format(time.RFC3339))
	apart := &served{name: "apart", submission: "http://" + listen + "/sub/2027h1/", monitoring: "http://" + listen + "/mon/2027h1/", roots: own, options: window}
	apart.target = conformance.Target{Issuer: issuer, Roots: [][]byte{issuer.Certificate()}, Origin: listen + "/sub/2027h1"}
	named := &served{name: "named", submission: "https://Log.Conformance.example:8443/a/b/", roots: own,
		options: window + "    accept_any_eku: true\n    refuse_precert_signing: true\n", policy: policy{anyEKU: true, refusePSC: true}}
	named.target = conformance.Target{Issuer: issuer, Roots: [][]byte{issuer.Certificate()}}
	if s.o.Cases != "" {
		named.roots = filepath.Join(s.o.Cases, "synthetic", "roots.pem")
		named.target = conformance.Target{Cases: s.o.Cases}
	}
	// As a reverse proxy would, plain HTTP to the listener with the Host header.
	named.target.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, listen)
	}
	p, err := s.serve(dir, listen, admin, apart, named)
	if err != nil {
		return nil, err
	}
	named.target.Submission = "http://Log.Conformance.example:8443/a/b/"
	named.target.Origin = "Log.Conformance.example:8443/a/b"
	sum := conformance.NewReport()
	for _, l := range []*served{apart, named} {
		l.target.WindowStart, l.target.WindowLimit = windowStart, windowLimit
		o := conformance.Options{Strict: true, Log: s.logFor("serve " + l.name), Decide: l.policy.decide}
		rep, err := conformance.Run(ctx, l.target, o)
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
		judgePrefixes(sum, l, rep)
		rep.Outcomes = nil // those of the default options are what counts
		sum = conformance.Merge(sum, rep)
	}
	return sum, p.stop()
}

// judgePrefixes concludes from a report that its log's prefixes work.
func judgePrefixes(sum *conformance.Report, l *served, rep *conformance.Report) {
	for _, id := range []string{"R5", "S9", "S11", "R32", "S33"} {
		res := rep.Result(id)
		sum.Check("R34", res.Status == conformance.OK, "with the prefix %s, %s: %v %q", l.submission, id, res.Status, res.Faults)
		sum.Check("S1", res.Status == conformance.OK, "with the prefixes %s and %s, %s: %v %q", l.submission, l.monitoring, id, res.Status, res.Faults)
	}
}

// serve writes the configuration, creates the logs and starts them.
func (s *suite) serve(dir, listen, admin string, logs ...*served) (*process, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: [%q]\nadmin: {listen: %q}\nlock: {path: lock.db}\nlogs:\n", listen, admin)
	for _, l := range logs {
		fmt.Fprintf(&b, "  - name: %s\n    submission_prefix: %s\n", l.name, l.submission)
		if l.monitoring != "" {
			fmt.Fprintf(&b, "    monitoring_prefix: %s\n", l.monitoring)
			l.target.Submission, l.target.Monitoring = l.submission, l.monitoring
		}
		fmt.Fprintf(&b, "    key: %s.seed\n    storage: {directory: %s}\n    cache: {path: %s.db, page_cache: 16MiB}\n    roots: {files: [%q]}\n    interval: %v\n%s",
			l.name, l.name, l.name, l.roots, s.interval(), l.options)
	}
	file := filepath.Join(dir, "daybook.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	for _, l := range logs {
		out, err := exec.Command(s.o.Binary, "init", "-c", file, "--log", l.name).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("daybook init --log %s: %w: %s", l.name, err, out)
		}
		key, err := s.publicKey(filepath.Join(dir, l.name+".seed"))
		if err != nil {
			return nil, err
		}
		l.target.PublicKey = key
	}
	p := &process{binary: s.o.Binary, args: []string{"serve", "-c", file}, log: filepath.Join(dir, "serve.log")}
	if err := p.start(false); err != nil {
		return nil, err
	}
	if err := p.waitHealthy("http://" + admin + "/health"); err != nil {
		return nil, errors.Join(fmt.Errorf("daybook serve: %w: %s", err, p.lastLine()), p.kill())
	}
	return p, nil
}

// waitHealthy waits until the admin listener says that all is well.
func (p *process) waitHealthy(url string) error {
	client := &http.Client{Timeout: time.Second}
	limit := time.Now().Add(startTimeout)
	for {
		resp, err := client.Get(url)
		if err == nil {
			line, _ := bufio.NewReader(resp.Body).ReadString('\n') // for the error alone
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("health is %d: %s", resp.StatusCode, strings.TrimSpace(line))
		}
		if time.Now().After(limit) {
			return err
		}
		select {
		case <-p.done:
			return errors.New("it has ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// publicKey asks the tooling for the public key of a key file.
func (s *suite) publicKey(path string) ([]byte, error) {
	out, err := exec.Command(s.o.Binary, "keygen", "--print-public", path).Output()
	if err != nil {
		return nil, fmt.Errorf("daybook keygen --print-public: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if key, ok := strings.CutPrefix(line, "public key:"); ok {
			return conformance.ReadKey(strings.TrimSpace(key))
		}
	}
	return nil, errors.New("daybook keygen --print-public prints no public key")
}
