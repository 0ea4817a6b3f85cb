// Command run replays the incident (package incident): it makes the large dedup
// cache if it is not there, measures line after line, and prints the tables of
// docs/incident.md. Progress goes to standard error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	remedy "github.com/daybook-ct/daybook/internal/incident"
	"github.com/daybook-ct/daybook/test/incident"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "incident: %v\n", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	cacheDir string
	rows     int64
	duration time.Duration
	read     time.Duration
	only     *regexp.Regexp
	one      bool
	line     incident.Line
	step     incident.Step
}

// cacheVariable names the directory in which the large dedup cache is kept.
const cacheVariable = "DAYBOOK_INCIDENT_CACHE"

func parse() (o options, err error) {
	flag.StringVar(&o.cacheDir, "cache", os.Getenv(cacheVariable), "keep the large dedup cache in `DIR`; default: $"+cacheVariable+", or the user's cache directory")
	flag.Int64Var(&o.rows, "rows", 10_000_000, "of the large dedup cache")
	flag.DurationVar(&o.duration, "duration", 15*time.Second, "of each line's flood")
	flag.DurationVar(&o.read, "read", time.Millisecond, "what each page takes that the dedup cache has to read")
	only := flag.String("only", "", "only lines whose title and name match this `REGEXP`")
	flag.BoolVar(&o.one, "one", false, "measure one line, which the flags below describe")
	off := flag.String("off", "", "`REMEDIES` to switch off, separated by commas")
	flag.IntVar(&o.line.Pool, "pool", 150, "entries of a round")
	flag.StringVar(&o.line.PageCache, "pages", "1GiB", "page cache, `SIZE` as in the configuration")
	flag.Float64Var(&o.step.Rate, "rate", 3750, "submissions a second")
	flag.IntVar(&o.step.Clients, "clients", 2000, "connections")
	flag.Float64Var(&o.step.Old, "old", 0, "share of low priority")
	flag.BoolVar(&o.step.Reader, "reader", false, "with a reader on the WAL")
	flag.BoolVar(&o.line.Small, "small", false, "with a new dedup cache in place of the large one")
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("%q: there are no arguments", flag.Args())
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(*off, ",") {
		if name != "" {
			o.line.Off = append(o.line.Off, remedy.Remedy(name))
		}
	}
	if o.cacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			base = os.TempDir()
		}
		o.cacheDir = filepath.Join(base, "daybook-incident")
	}
	o.line.Name, o.line.Read = "off: "+*off, o.read
	return o, nil
}

func (o *options) tables() []incident.Table {
	if o.one {
		o.line.Steps = []incident.Step{incident.RunUp, o.step}
		return []incident.Table{{Title: "One line", Lines: []incident.Line{o.line}}}
	}
	var tables []incident.Table
	for _, t := range incident.Story(o.read) {
		var lines []incident.Line
		for _, l := range t.Lines {
			if o.only.MatchString(t.Title + ": " + l.Name) {
				lines = append(lines, l)
			}
		}
		if t.Lines = lines; len(lines) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func run(ctx context.Context) (err error) {
	o, err := parse()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "daybook-incident-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := &progress{w: os.Stderr, began: time.Now()}
	binary := filepath.Join(dir, "daybook")
	p.say("building the program with the tag incident")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "incident", "-o", binary, "github.com/daybook-ct/daybook/cmd/daybook").CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	big, err := incident.BigCache(ctx, o.cacheDir, o.rows, p.show)
	if err != nil {
		return err
	}
	p.say("the dedup cache is " + big)
	r := &incident.Runner{Binary: binary, Dir: dir, Big: big, Duration: o.duration, Progress: p.show}
	return measure(ctx, r, &o, p, os.Stdout)
}

// measure measures all lines, and writes each table when it is complete.
func measure(ctx context.Context, r *incident.Runner, o *options, p *progress, w io.Writer) error {
	tables := o.tables()
	total, n := 0, 0
	for _, t := range tables {
		total += len(t.Lines)
	}
	if total == 0 {
		return errors.New("no line matches")
	}
	if _, err := fmt.Fprintf(w, "%d CPUs, %s; lines of %v; each page that the large dedup cache reads takes %v more.\n",
		runtime.NumCPU(), runtime.Version(), r.Duration, o.read); err != nil {
		return err
	}
	var broken []error
	for _, t := range tables {
		var done []*incident.Figures
		for _, l := range t.Lines {
			n++
			p.line = fmt.Sprintf("line %d of %d", n, total)
			figures, err := r.Run(ctx, l)
			if err != nil {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			for _, f := range figures {
				p.say(f.Row())
				if broken = append(broken, f.Broken()); !f.Hidden {
					done = append(done, f)
				}
			}
		}
		if err := incident.WriteTable(w, t.Title, done); err != nil {
			return err
		}
	}
	return errors.Join(broken...)
}

// progress writes lines of text now and then.
type progress struct {
	w           io.Writer
	line        string
	began, last time.Time
}

const progressPeriod = 5 * time.Second

func (p *progress) say(what string) {
	p.last = time.Now()
	// If it cannot be shown, the run goes on without.
	_, _ = fmt.Fprintf(p.w, "%6.0f s  %s %s\n", time.Since(p.began).Seconds(), p.line, strings.TrimSpace(what))
}

func (p *progress) show(what string, done, total int64) {
	if time.Since(p.last) < progressPeriod {
		return
	}
	if total > 0 {
		what += fmt.Sprintf(" %d%%, %d of %d", 100*min(done, total)/total, done, total)
	} else {
		what += fmt.Sprintf(" %d", done)
	}
	p.say(what)
}
