// Command scale measures how the parts of a log that could grow slower with its
// age do so: the dedup cache by its rows, rounds by the size of the tree, memory
// by the number of open connections. It prints Markdown tables to standard
// output, and its progress to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options say what is measured.
type options struct {
	parts    []string
	dir      string        // of everything that is written
	rows     []int64       // of dedup caches
	sizes    []int64       // of trees
	rounds   int           // for each size
	filter   float64       // bytes of negative filter for a row; 0 measures none
	time     time.Duration // for each measurement that takes as many samples as it gets
	conns    int           // connections
	daybook  string        // the program
	profile  string        // CPU profile of a log
	clients  int           // that load it
	turns    int           // of each build
	loadTime time.Duration // of each turn
	out      io.Writer     // tables
	log      io.Writer     // progress
}

type part struct {
	name string
	run  func(context.Context, *options) error
}

// parts are what can be done, in this order.
var parts = []part{
	{"cache", measureCaches},
	{"rounds", measureRounds},
	{"connections", measureConnections},
	{"profile", takeProfile},
	{"pgo", comparePGO},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{out: os.Stdout, log: os.Stderr}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	names := flags.String("parts", "cache,rounds,connections", "what to measure, separated by commas; also profile and pgo")
	rows := flags.String("rows", "1e5,1e6,1e7", "rows of the dedup caches")
	sizes := flags.String("sizes", "1e3,1e4,1e5,1e6,1e7", "sizes of the trees")
	flags.StringVar(&o.dir, "dir", filepath.Join("bin", "scale"), "`directory` for the databases, which are kept, and for logs, which are not")
	flags.IntVar(&o.rounds, "rounds", 120, "rounds for each size of tree")
	flags.Float64Var(&o.filter, "filter", 0, "bytes of negative filter for each row of a dedup cache; 0 measures none")
	flags.DurationVar(&o.time, "time", 5*time.Second, "of each measurement of a dedup cache")
	flags.IntVar(&o.conns, "connections", 10_000, "idle connections")
	flags.StringVar(&o.daybook, "daybook", filepath.Join("bin", "daybook"), "the `program`")
	flags.StringVar(&o.profile, "profile", filepath.Join("cmd", "daybook", "default.pgo"), "`file` that part profile writes and part pgo builds with")
	flags.IntVar(&o.clients, "clients", 1000, "that load a log, in parts profile and pgo")
	flags.IntVar(&o.turns, "turns", 3, "of each build, in part pgo")
	flags.DurationVar(&o.loadTime, "load", 10*time.Second, "of each turn; a profile is taken over twice as long")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("argument %q is not understood", flags.Arg(0))
	}
	var err error
	if o.rows, err = numbers(*rows); err != nil {
		return nil, fmt.Errorf("-rows: %w", err)
	}
	if o.sizes, err = numbers(*sizes); err != nil {
		return nil, fmt.Errorf("-sizes: %w", err)
	}
	for name := range strings.SplitSeq(*names, ",") {
		o.parts = append(o.parts, strings.TrimSpace(name))
	}
	if o.rounds < 1 || o.conns < 1 || o.turns < 1 || o.clients < 1 || o.time <= 0 || o.loadTime < time.Second || o.filter < 0 {
		return nil, errors.New("-rounds, -connections, -clients, -turns and -time must be positive, -load at least a second, and -filter not negative")
	}
	return o, nil
}

// numbers parses a list like 1000,1e6.
func numbers(list string) ([]int64, error) {
	var out []int64
	for s := range strings.SplitSeq(list, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || f < 1 || f > 1e10 || f != float64(int64(f)) {
			return nil, fmt.Errorf("%q is no whole number from 1 to 1e10", s)
		}
		out = append(out, int64(f))
	}
	return out, nil
}

func run(ctx context.Context, o *options) error {
	for _, name := range o.parts {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		if err := p.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
