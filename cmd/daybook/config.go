package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/config"
	"github.com/daybook-ct/daybook/internal/server"
)

// configFlag adds the flag -c to a command.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "configuration `file`, usually daybook.yaml (needed)")
}

// loadConfig reads the configuration that -c names. Its errors are of exit
// code 2.
func loadConfig(path string) (*config.Config, error) {
	if path == "" {
		return nil, usagef("-c FILE is needed: it names the configuration")
	}
	c, err := config.Load(path)
	if problems := (config.Problems)(nil); errors.As(err, &problems) {
		return nil, configError(fmt.Errorf("the configuration cannot be used (%d to mend):\n%w", len(problems), problems))
	} else if err != nil {
		return nil, configError(err)
	}
	return c, nil
}

// logOptions returns what a server needs to know of a log.
func logOptions(l *config.Log) server.LogOptions {
	o := server.LogOptions{
		Name:                 l.Name,
		SubmissionPrefix:     l.SubmissionPrefix.String(),
		MonitoringPrefix:     l.MonitoringPrefix.String(),
		KeyFile:              l.Key,
		StorageDirectory:     l.Storage.Directory,
		MinFree:              int64(l.Storage.MinFree),
		WarnFree:             int64(l.Storage.WarnFree),
		MinFreeInodes:        int64(l.Storage.MinFreeInodes),
		ScrubRate:            l.Storage.ScrubRate,
		LockPath:             l.Lock.Path,
		CachePath:            l.Cache.Path,
		PageCache:            int64(l.Cache.PageCache),
		RootFiles:            l.Roots.Files,
		MergeDelayMonitor:    l.Roots.MergeDelayMonitor,
		RoundsSize:           int64(l.Rounds.MaxSize),
		Interval:             time.Duration(l.Interval),
		PoolSize:             l.PoolSize,
		DuplicateRate:        float64(l.DuplicateRate),
		AcceptAnyEKU:         l.AcceptAnyEKU,
		RefusePrecertSigning: l.RefusePrecertSigning,
	}
	for _, n := range l.DuplicateExempt {
		o.DuplicateExempt = append(o.DuplicateExempt, n.Prefix)
	}
	for _, r := range l.Roots.CCADB {
		o.CCADB = append(o.CCADB, string(r))
	}
	if o.RoundsSize > 0 {
		o.RoundsPath = l.Rounds.Path
	}
	if l.Sunset != nil {
		o.Sunset = l.Sunset.Time
	}
	if l.Window != nil {
		o.WindowStart, o.WindowLimit = l.Window.Start.Time, l.Window.Limit.Time
	}
	return o
}

// serverOptions returns the options of a server for a whole configuration,
// without logger and registry.
func serverOptions(c *config.Config) server.Options {
	o := server.Options{
		Listen:          c.Listen,
		AdminListen:     c.Admin.Listen,
		ShutdownTimeout: time.Duration(c.ShutdownTimeout),
		ExitOnHalt:      c.OnHalt == config.Exit,
		RootsInterval:   time.Duration(c.RootsInterval),
	}
	for i := range c.Logs {
		o.Logs = append(o.Logs, logOptions(&c.Logs[i]))
	}
	for _, n := range c.TrustedProxies {
		o.TrustedProxies = append(o.TrustedProxies, netip.Prefix(n.Prefix))
	}
	return o
}

// pickLog returns the log with this name, or the only one if there is no name.
func pickLog(c *config.Config, name string) (*config.Log, error) {
	var names []string
	for i := range c.Logs {
		if c.Logs[i].Name == name || name == "" && len(c.Logs) == 1 {
			return &c.Logs[i], nil
		}
		names = append(names, c.Logs[i].Name)
	}
	all := strings.Join(names, ", ")
	if name == "" {
		return nil, usagef("there are several logs (%s): say which one with --log", all)
	}
	return nil, usagef("the configuration has no log %q: it has %s", name, all)
}

// capacity is the most that a log takes, in words.
func capacity(l *config.Log) string {
	if l.PoolSize == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d / %v = %.4g new entries a second", l.PoolSize, l.Interval, l.Capacity())
}

// printer collects what a command has to say, and the first error of saying it.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
