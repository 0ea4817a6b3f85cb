package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/load"
	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/testca"
)

func newDemo() *cobra.Command {
	var once bool
	var count int64
	var clients int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a log at work, from nothing to verified entries",
		Long: `Creates a development log in a new temporary directory, starts it, submits
generated precertificate and certificate chains from several clients, verifies
every SCT, and through the monitoring prefix alone that every promised entry is
in the tree at its index with its timestamp, that the tiles hash to the signed
root and that every issuer is served. Then it prints a summary and what to look
at, and serves until Ctrl-C. The directory is removed at the end.`,
		Example: `  daybook demo
  daybook demo --once --count 10000 --clients 500`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 || clients < 1 {
				return usagef("--count and --clients must be positive")
			}
			return runDemo(cmd, once, count, clients)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&once, "once", false, "end after the summary; exit code 1 if anything did not verify, or nothing moved")
	flags.Int64Var(&count, "count", 1000, "chains to submit")
	flags.IntVar(&clients, "clients", 100, "that submit at a time")
	return cmd
}

func runDemo(cmd *cobra.Command, once bool, count int64, clients int) (err error) {
	dir, err := os.MkdirTemp("", "daybook-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The log outlives an interrupt until the promises it made are verified.
	d, err := startDev(context.WithoutCancel(cmd.Context()), devOptions{dir: dir, listen: "127.0.0.1:0", interval: 200 * time.Millisecond, poolSize: 150},
		func(o obs.LoggerOptions) (*slog.Logger, error) {
			o.Level = slog.LevelWarn
			return obs.NewLogger(cmd.ErrOrStderr(), o)
		})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.wait() }() // received below, in every case
	finish := func(err error) error {
		d.stop()
		return errors.Join(err, <-ended)
	}
	if err := d.demonstrate(cmd, count, clients); err != nil {
		return finish(err)
	}
	if once {
		return finish(nil)
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), "Serving until Ctrl-C."); err != nil {
		return finish(err)
	}
	select {
	case err := <-ended:
		return err
	case <-cmd.Context().Done():
		return finish(nil)
	}
}

// demonstrate loads the log, verifies it, and prints the summary.
func (d *devLog) demonstrate(cmd *cobra.Command, count int64, clients int) error {
	out := cmd.OutOrStdout()
	if _, err := fmt.Fprintf(out, "A new log, %s, runs at %s\n", d.description.Origin, d.description.SubmissionPrefix); err != nil {
		return err
	}
	ca, err := loadTestCA(filepath.Join(d.dir, devRoot), filepath.Join(d.dir, devRootKey), testca.Options{Seed: rand.Uint64()})
	if err != nil {
		return err
	}
	key, err := readPublicKey(d.description.PublicKey)
	if err != nil {
		return err
	}
	bar := newProgress(cmd.ErrOrStderr())
	result, err := load.Run(cmd.Context(), load.Options{
		Submission: d.description.SubmissionPrefix, Monitoring: d.description.MonitoringPrefix,
		Origin: d.description.Origin, Key: key, CA: ca, Count: count, Clients: clients,
		// A demo on a slow machine is no load test: what is refused comes again.
		Retries: 20, Progress: showLoad(bar),
	})
	bar.end()
	if result != nil && result.Answered > 0 {
		result.Client = load.Usage{} // it is the log's own process
		if perr := printLoad(out, result); perr != nil {
			return errors.Join(err, perr)
		}
	}
	if err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	return d.pointers(out)
}

// pointers says what there is to look at.
func (d *devLog) pointers(w io.Writer) error {
	url := d.description.MonitoringPrefix
	lines := "\nLook at\n"
	for _, l := range [][2]string{
		{url + "/checkpoint", "the signed tree head, new every 200 ms"},
		{url + "/log.v3.json", "what the log says about itself"},
		{url + "/tile/0/000", "hashes of the first 256 entries"},
		{url + "/tile/names/000", "their names (curl --compressed)"},
		{url + "/ct/v1/get-roots", "the accepted root"},
		{d.description.Metrics, "metrics"},
	} {
		lines += fmt.Sprintf("  %-42s %s\n", l[0], l[1])
	}
	_, err := io.WriteString(w, lines+"or let a monitor read it all: daybook verify "+url+"\n")
	return err
}
