package fsck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybook-ct/daybook/checkpoint"
	"github.com/daybook-ct/daybook/monitor"
)

// ScrubOptions say what a Scrubber does. All are required.
type ScrubOptions struct {
	Directory string // storage directory
	Verifier  *checkpoint.Verifier
	// Rate is the number of data tiles per second that are read, each with its
	// names tile, its hash tile and, where they were not read lately, the hash
	// tiles above it and the issuers.
	Rate    int
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Scrubber reads a log's storage again and again, slowly, and says what is
// wrong with it, so that a disk that goes bad is noticed while there is a copy.
// It changes nothing.
type Scrubber struct {
	o    ScrubOptions
	dir  *directory
	told map[reason]time.Time // when a finding was last logged; belongs to Run

	tiles, findings, failures, passes prometheus.Counter
	last                              prometheus.Gauge
}

// NewScrubber opens the storage directory and registers the metrics.
func NewScrubber(o ScrubOptions) (*Scrubber, error) {
	if o.Rate <= 0 {
		return nil, fmt.Errorf("scrub rate of %d tiles a second is not possible", o.Rate)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	s := &Scrubber{o: o, told: map[reason]time.Time{},
		tiles:    counter("daybook_scrub_tiles_total", "Data tiles that were read and verified again, with all that belongs to them."),
		findings: counter("daybook_scrub_findings_total", "What the scrub found to be wrong; each pass counts it again."),
		failures: counter("daybook_scrub_failures_total", "Tiles that the scrub could not read for reasons that are not theirs."),
		passes:   counter("daybook_scrub_passes_total", "Times that the scrub came to the end of the tree."),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_scrub_pass_timestamp_seconds",
			Help: "Unix time at which the scrub last came to the end of the tree; 0 before the first time."}),
	}
	for _, c := range []prometheus.Collector{s.tiles, s.findings, s.failures, s.passes, s.last} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	var err error
	s.dir, err = openDirectory(o.Directory, newPacer(0, 0))
	return s, err
}

// Close closes the directory. Run must have returned.
func (s *Scrubber) Close() error { return s.dir.Close() }

// scrubIssuers bounds the issuers that a scrub keeps, so that it takes some tens
// of MiB at most.
const scrubIssuers = 4000

// Run scrubs until ctx is done. The first pass begins at random, as a process
// may never come to the end of a large tree.
func (s *Scrubber) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(s.o.Rate))
	defer tick.Stop()
	place := rand.Float64()
	for ctx.Err() == nil {
		if s.pass(ctx, tick.C, place) {
			s.passes.Inc()
			s.last.SetToCurrentTime()
		}
		place = 0
	}
}

// pass scrubs the tree that is published now, from a place in it (0 is the
// start, 1 the end) on. It reports whether it came to the end.
func (s *Scrubber) pass(ctx context.Context, tick <-chan time.Time, place float64) bool {
	if !wait(ctx, tick) {
		return false
	}
	found := newFindings(s.tell)
	c, err := s.open(ctx, found)
	if f := (*monitor.Fault)(nil); errors.As(err, &f) {
		_ = found.fault(f) // never fails
		return false
	}
	if err != nil {
		s.failed(ctx, "the tree", err)
		return false
	}
	for n := int64(place * float64(c.Tiles())); n < c.Tiles(); n++ {
		if !wait(ctx, tick) {
			return false
		}
		if _, err := c.Tile(ctx, n, found.fault); err != nil {
			s.failed(ctx, fmt.Sprintf("data tile %d", n), err)
			continue
		}
		s.tiles.Inc()
	}
	return true
}

// A finding is logged again after tellAgain, however short the passes are.
// mostTold bounds those that are known to be logged.
const (
	tellAgain = time.Hour
	mostTold  = 10_000
)

// tell counts a finding of a pass, and logs it.
func (s *Scrubber) tell(f Finding) {
	s.findings.Inc()
	r := reason{f.Object, f.What}
	if last, ok := s.told[r]; ok && time.Since(last) < tellAgain {
		return
	}
	if len(s.told) >= mostTold {
		clear(s.told)
	}
	s.told[r] = time.Now()
	s.o.Logger.Error("the storage is damaged: run daybook fsck for all of it, and restore the object from a copy",
		"object", f.Object, "finding", f.String())
}

// open reads the published checkpoint and the right edge of its tree.
func (s *Scrubber) open(ctx context.Context, found *findings) (*monitor.Checker, error) {
	_, head, err := monitor.ReadCheckpoint(ctx, s.dir, s.o.Verifier)
	if err != nil {
		return nil, err
	}
	o := monitor.CheckerOptions{Thorough: true, Issuers: scrubIssuers}
	if o.Names, err = monitor.OffersNames(ctx, s.dir, head.Tree.N); err != nil {
		return nil, err
	}
	return monitor.NewChecker(ctx, s.dir, head, o, found.fault)
}

// failed counts and tells what could not be read.
func (s *Scrubber) failed(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.failures.Inc()
	s.o.Logger.Error("scrubbing failed", "what", what, "cause", err)
}

// wait waits for the next tick. It reports whether the scrub goes on.
func wait(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
