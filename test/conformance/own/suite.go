package own

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybook-ct/daybook/test/conformance"
)

// Options say how to go about it.
type Options struct {
	Binary string // daybook
	Dir    string // for the logs, exists
	Cases  string // folder of the cases; empty if it is absent
	// Quick leaves out what takes a minute: the idle log, and most entries.
	Quick bool
	Log   func(string)
}

// The window of the synthetic chains.
var (
	windowStart = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	windowLimit = time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
)

func windowFlag() string {
	return windowStart.Format(time.RFC3339) + "/" + windowLimit.Format(time.RFC3339)
}

type suite struct {
	o Options

	mu      sync.Mutex
	reports []*conformance.Report
	errs    []error
}

func (s *suite) interval() time.Duration {
	if s.o.Quick {
		return 50 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// All starts logs, judges each, and returns the sum. It returns an error if a
// log could not be started or judged, beside the report on the others.
func All(ctx context.Context, o Options) (*conformance.Report, error) {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &suite{o: o}
	jobs := []job{{"main", s.mainLog}, {"serve", s.serveLogs}, {"starts", s.starts}}
	if o.Cases == "" {
		o.Log("SKIPPED, NOT TESTED: there is no folder of cases (set DAYBOOK_CASES): real and synthetic chains, odd certificates, odd root files")
	} else {
		more, err := s.caseJobs()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, more...)
	}
	s.work(ctx, jobs)
	return conformance.Merge(s.reports...), errors.Join(s.errs...)
}

type job struct {
	name string
	do   func(context.Context) (*conformance.Report, error)
}

// work does the jobs, three at a time.
func (s *suite) work(ctx context.Context, jobs []job) {
	var wg sync.WaitGroup
	next := make(chan job)
	for range 3 {
		wg.Go(func() {
			for j := range next {
				start := time.Now()
				rep, err := j.do(ctx)
				s.done(j.name, rep, err, time.Since(start))
			}
		})
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wg.Wait()
}

func (s *suite) done(name string, rep *conformance.Report, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rep != nil {
		s.reports = append(s.reports, rep)
	}
	line := fmt.Sprintf("log %s: %.1f s", name, took.Seconds())
	if rep != nil {
		line += ", " + rep.Summary()
	}
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("log %s: %w", name, err))
		line += ", " + err.Error()
	}
	s.o.Log(line)
}

func (s *suite) logFor(name string) func(string) {
	return func(line string) { s.o.Log("log " + name + ": " + line) }
}

// mainLog is judged by all clauses that need no cases: with a test root, a
// window, an origin that follows its prefix, restarts and an idle time.
func (s *suite) mainLog(ctx context.Context) (*conformance.Report, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	d := s.newDev("main", "--listen", address, "--origin", address, "--window", windowFlag())
	t, o, err := s.devTarget(d)
	if err != nil {
		return nil, err
	}
	o.Entries, o.Idle = 1100, 65*time.Second
	if s.o.Quick {
		o.Entries, o.Idle = 300, 0
	}
	t.Origin = address
	t.WindowStart, t.WindowLimit = windowStart, windowLimit
	t.Restart = d.restart
	t.VerifierKey, err = s.verifierKey(filepath.Join(d.dir, "seed.bin"), address)
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return s.judge(ctx, &d.process, t, o)
}

// devTarget starts a development log and returns it as a target.
func (s *suite) devTarget(d *Dev) (t conformance.Target, o conformance.Options, err error) {
	if err := d.run(); err != nil {
		return t, o, err
	}
	if t, err = d.Target(); err != nil {
		return t, o, errors.Join(err, d.stop())
	}
	return t, conformance.Options{Strict: true, Log: s.logFor(filepath.Base(d.dir))}, nil
}

// judge runs the clauses on a log that is up, and ends it.
func (s *suite) judge(ctx context.Context, p *process, t conformance.Target, o conformance.Options) (*conformance.Report, error) {
	rep, err := conformance.Run(ctx, t, o)
	return rep, errors.Join(err, p.stop())
}

// verifierKey asks the tooling for the log's ML-DSA-44 key.
func (s *suite) verifierKey(seed, origin string) (string, error) {
	out, err := exec.Command(s.o.Binary, "keygen", "--print-public", seed, "--origin", origin).Output()
	if err != nil {
		return "", fmt.Errorf("daybook keygen --print-public: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if vkey, ok := strings.CutPrefix(line, "ML-DSA-44:"); ok {
			return strings.TrimSpace(vkey), nil
		}
	}
	return "", errors.New("daybook keygen --print-public prints no ML-DSA-44 key")
}

// caseJobs are a log for each file of accepted roots in the cases.
func (s *suite) caseJobs() (jobs []job, err error) {
	for _, set := range conformance.Sets {
		cases, err := conformance.ReadIndex(s.o.Cases, set.Name)
		if err != nil {
			return nil, err
		}
		var files []string
		for _, c := range cases {
			if !slices.Contains(files, c.Roots) {
				files = append(files, c.Roots)
			}
		}
		for _, f := range files {
			jobs = append(jobs, s.caseJob(set.Name, f))
		}
	}
	return append(jobs, job{"roots", s.rootFiles}), nil
}

func (s *suite) caseJob(set, file string) job {
	name := set + "-" + strings.TrimSuffix(file, ".pem")
	return job{name, func(ctx context.Context) (*conformance.Report, error) {
		roots := filepath.Join(s.o.Cases, set, file)
		args := []string{"--roots", roots}
		if set == "synthetic" {
			args = append(args, "--window", windowFlag())
		}
		d := s.newDev(name, args...)
		t, o, err := s.devTarget(d)
		if err != nil {
			return nil, err
		}
		t.Cases = s.o.Cases
		if t.Roots, err = conformance.ReadRoots(roots); err != nil {
			return nil, errors.Join(err, d.stop())
		}
		if set == "synthetic" {
			t.WindowStart, t.WindowLimit = windowStart, windowLimit
		}
		o.Decide = policy{}.decide
		if s.o.Quick {
			o.Only = conformance.CaseClauses()
		}
		return s.judge(ctx, &d.process, t, o)
	}}
}

// CheckCounts says which rows of the indexes no log was asked about.
func CheckCounts(cases string, rep *conformance.Report) error {
	var errs []error
	for _, set := range conformance.Sets {
		rows, err := conformance.ReadIndex(cases, set.Name)
		if err != nil {
			return err
		}
		if len(rows) < set.Rows {
			errs = append(errs, fmt.Errorf("the index of %s has %d rows, want at least %d", set.Name, len(rows), set.Rows))
		}
		for _, row := range rows {
			if !slices.ContainsFunc(rep.Outcomes, func(o conformance.Outcome) bool { return o.ID == row.ID }) {
				errs = append(errs, fmt.Errorf("row %s of %s was not submitted to any log", row.ID, set.Name))
			}
		}
	}
	return errors.Join(errs...)
}
