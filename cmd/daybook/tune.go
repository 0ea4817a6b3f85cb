package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/config"
	"github.com/daybook-ct/daybook/internal/rounds"
	"github.com/daybook-ct/daybook/internal/tune"
)

type tuneFlags struct {
	config, log, dir string
	time             time.Duration
	json             bool
}

func newTune() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune -c FILE [--log NAME]",
		Short: "Measure this host and recommend a pool size",
		Long: `Measures what this host does to a log, on the file systems of the configured
paths: fsync, directory sync, signatures, gzip, whole requests, the dedup cache at
its present size and at ten times that, and whole rounds with a real storage, lock
and cache. It prints what each takes, the largest pool_size whose rounds fit the
interval, and what limits it.

It works in temporary directories beside the configured paths, or below --dir,
and removes them. The files of the log are not touched, and the log may run; but
it shares the disk and the CPU with the measurement, and both are then
slower. A storage directory that is a mount point of its own is measured inside,
in a directory whose name has a dot in front.

Run it when the host is as busy as it will be.`,
		Example: `  daybook tune -c daybook.yaml
  daybook tune -c daybook.yaml --log example2027h1 --time 2m`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	configFlag(cmd, &f.config)
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "`name` of the log; needed if the configuration has several")
	flags.StringVar(&f.dir, "dir", "", "measure in `DIR`, not beside the configured paths")
	flags.DurationVar(&f.time, "time", tune.DefaultTime, "about how long to measure")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func (f *tuneFlags) run(cmd *cobra.Command) error {
	if f.time <= 0 {
		return usagef("--time must be positive")
	}
	c, err := loadConfig(f.config)
	if err != nil {
		return err
	}
	l, err := pickLog(c, f.log)
	if err != nil {
		return err
	}
	o, err := tuneOptions(l, f.dir)
	if err != nil {
		return err
	}
	o.Time = f.time
	errs := printer{w: cmd.ErrOrStderr()}
	for _, dir := range tune.Leftovers(o.StorageDir, o.LockDir, o.CacheDir) {
		errs.printf("%s is of a measurement that did not end, or that still runs; remove it if none does\n", dir)
	}
	if errs.err != nil {
		return errs.err
	}
	p := newProgress(cmd.ErrOrStderr())
	o.Progress = func(phase string, percent int, more string) { p.show(phase, int64(percent), 100, more) }
	r, err := tune.Run(cmd.Context(), o)
	p.end()
	if err != nil {
		return err
	}
	if f.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return printTune(cmd.OutOrStdout(), l, r)
}

// tuneOptions returns where to measure for a log: beside its files, or in dir
// if it is not empty.
func tuneOptions(l *config.Log, dir string) (tune.Options, error) {
	o := tune.Options{StorageDir: dir, LockDir: dir, CacheDir: dir, CacheFile: l.Cache.Path, PageCache: int64(l.Cache.PageCache),
		Interval: time.Duration(l.Interval), PoolSize: l.PoolSize}
	if dir != "" {
		return o, nil
	}
	for _, p := range []struct {
		dir  *string
		path string
	}{{&o.StorageDir, l.Storage.Directory}, {&o.LockDir, l.Lock.Path}, {&o.CacheDir, l.Cache.Path}} {
		var err error
		if *p.dir, err = tune.Beside(p.path); err != nil {
			return o, fmt.Errorf("looking for a place to measure in: %w", err)
		}
	}
	return o, nil
}

// printTune prints a result for people.
func printTune(w io.Writer, l *config.Log, r *tune.Result) error {
	out := &tunePrinter{w: tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)}
	out.line("log %s: interval %v, pool size %d, capacity %s; %d cores", l.Name, l.Interval, l.PoolSize, capacity(l), r.Cores)
	for _, d := range r.Disks {
		out.head(fmt.Sprintf("disk of %s, in %s", strings.Join(d.Of, ", "), filepath.Clean(d.Path)))
		out.timing("fsync of 4 KiB", d.Fsync)
		out.timing("new file, fsync", d.NewFile)
		out.timing("sync of a directory", d.SyncDir)
	}
	out.head("one core")
	out.timing("sign (P-256)", r.CPU.Sign)
	out.timing("verify (P-256)", r.CPU.Verify)
	out.timing("sign (ML-DSA-44)", r.CPU.Cosign)
	out.timing("gzip of a full data tile", r.CPU.Gzip)
	out.timing("request, without network", r.CPU.Request)
	for i, c := range r.Caches {
		size := "as it is"
		if i > 0 {
			size = "ten times larger"
		}
		out.head(fmt.Sprintf("cache %s: %s, %s rows", size, bytesize(c.Bytes), thousands(c.Rows)))
		out.timing("get, there", c.Hit)
		out.timing("get, not there", c.Miss)
		cold := "get, from the disk"
		if !c.Dropped {
			cold = "get, just opened"
		}
		out.timing(cold, c.Cold)
		out.timing(fmt.Sprintf("put of %d", c.Batch), c.Put)
		out.timing("WAL checkpoint", c.WALCheckpoint)
	}
	out.head("whole rounds")
	for _, s := range r.Rounds.Sizes {
		out.timing(fmt.Sprintf("%d entries, %d fsyncs", s.Entries, s.Fsyncs), s.Took)
	}
	if c := r.Rounds.Cost; r.Rounds.Fitted {
		out.line("  about %s and %s an entry; one in a hundred takes %s more", tuneTime(c.Fixed), tuneTime(c.PerEntry), tuneTime(c.Spread))
	}
	out.advice(l, r)
	return out.end()
}

// tunePrinter prints tables.
type tunePrinter struct {
	w   *tabwriter.Writer
	err error
}

func (p *tunePrinter) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// line prints text outside of a table.
func (p *tunePrinter) line(format string, args ...any) {
	p.flush()
	p.printf(format+"\n", args...)
	p.flush()
}

func (p *tunePrinter) flush() {
	if p.err == nil {
		p.err = p.w.Flush()
	}
}

func (p *tunePrinter) end() error {
	p.flush()
	return p.err
}

func (p *tunePrinter) head(title string) {
	p.line("\n%s", title)
	p.printf("%28s\tp50\tp99\tmax\ttimes\t\n", "")
}

func (p *tunePrinter) timing(name string, t tune.Timing) {
	p.printf("  %-26s\t%s\t%s\t%s\t%s\t\n", name, tuneTime(t.P50), tuneTime(t.P99), tuneTime(t.Max), thousands(int64(t.Count)))
}

// tuneTime writes a duration with three digits.
func tuneTime(d rounds.Duration) string { return rounds.Short(time.Duration(d)).String() }

func (p *tunePrinter) advice(l *config.Log, r *tune.Result) {
	a := r.Advice
	if a.PoolSize == 0 {
		p.line("\nno pool_size can be recommended for an interval of %v", l.Interval)
	} else {
		p.line("\nrecommended: pool_size: %d   (%.4g entries a second at an interval of %v)", a.PoolSize, a.PerSecond, l.Interval)
	}
	p.line("limited by %s", a.Limit)
	p.line("largest pool by rounds: %s; by the CPU: %s; by cache gets: %s", thousands(int64(a.ByRounds)), thousands(int64(a.ByCPU)), thousands(int64(a.ByGets)))
	if a.Present > 0 {
		p.line("the configured pool of %d: 99 of 100 full rounds take at most about %s", r.PoolSize, tuneTime(a.Present))
	}
	for _, n := range a.Notes {
		p.line("note: %s", n)
	}
}
