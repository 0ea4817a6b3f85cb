package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/load"
	"github.com/daybook-ct/daybook/internal/testca"
)

type loadFlags struct {
	o                       load.Options
	dev, root, rootKey, key string
	intermediate, notAfter  string
	seed                    uint64
	json                    bool
}

func newLoad() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load (--dev DIR | --submission URL --monitoring URL --root FILE --root-key FILE)",
		Short: "Load a log with generated chains and hold it to its promises",
		Long: `Submits generated precertificate and certificate chains, measures the answers, and
afterwards verifies every SCT and finds every promised entry through the
monitoring prefix alone: at its index, with its timestamp, in tiles that hash to
the signed root, with all issuers served. It exits with 1 if anything did not
verify, or if nothing moved.

Without --rate each client waits for its answer before it sends again; with it,
requests are sent when they are due, whatever becomes of those before them, and
latency counts from then on.

The log must accept the root; the log that daybook dev runs in DIR does. Only
load logs of your own: what is logged stays.`,
		Example: `  daybook load --dev /tmp/log --count 10000 --clients 200
  daybook load --dev /tmp/log --rate 750 --duration 1m --duplicates 0.2`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dev, "dev", "", "load the log that daybook dev runs in `DIR`")
	flags.StringVar(&f.o.Submission, "submission", "", "submission prefix `URL`")
	flags.StringVar(&f.o.Monitoring, "monitoring", "", "monitoring prefix `URL`")
	flags.StringVar(&f.root, "root", "", "root certificate `FILE`, PEM")
	flags.StringVar(&f.rootKey, "root-key", "", "private key `FILE` of the root, PEM")
	flags.StringVar(&f.key, "key", "", "the log's public key: `BASE64|FILE`; default: as in log.v3.json")
	flags.StringVar(&f.o.Origin, "origin", "", "the log's `NAME` in its checkpoints")
	flags.Int64Var(&f.o.Count, "count", 0, "requests to send; default 1000 if there is no duration")
	flags.DurationVar(&f.o.Duration, "duration", 0, "how long to send")
	flags.Float64Var(&f.o.Rate, "rate", 0, "requests per second, whatever becomes of those before (0: each client waits for its answer)")
	flags.IntVar(&f.o.Clients, "clients", 0, "connections; default 20, or as many as the rate needs")
	flags.IntVar(&f.o.Sources, "sources", 1, "loopback addresses to send from, which the log takes for different submitters")
	flags.IntVar(&f.o.FirstSource, "first-source", 1, "last number of the first of them, 127.0.0.1, to keep two loads apart")
	flags.DurationVar(&f.o.Timeout, "timeout", time.Minute, "of one request")
	flags.IntVar(&f.o.Retries, "retries", 0, "of a submission that was answered 503 or 429")
	flags.Float64Var(&f.o.Duplicates, "duplicates", 0, "share of requests that repeat an accepted entry")
	flags.Float64Var(&f.o.Precerts, "precerts", 0.5, "share of precertificates")
	flags.Float64Var(&f.o.Old, "old", 0, "share of new entries that are old precertificates, which a log may put last")
	flags.StringVar(&f.intermediate, "intermediate", "p256", "key of the issuing intermediate: p256, p384, rsa2048 or rsa4096")
	flags.StringVar(&f.notAfter, "not-after", "", "end of the leaves' validity, RFC 3339; default: within the log's window, 90 days ahead if it is open")
	flags.Uint64Var(&f.seed, "seed", 0, "of names and serial numbers; default: a new one, since the entries of a seed are new only once")
	flags.IntVar(&f.o.PID, "pid", 0, "process of the server, to report what it uses; default with --dev: the log's")
	flags.Int64Var(&f.o.Memory, "memory", 256<<20, "`bytes` for requests made ahead, and for answers not yet verified")
	flags.BoolVar(&f.o.SkipParity, "skip-parity", false, "do not look for the entries in the tree")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func (f *loadFlags) run(cmd *cobra.Command) error {
	if err := f.complete(); err != nil {
		return err
	}
	bar := newProgress(cmd.ErrOrStderr())
	f.o.Progress = showLoad(bar)
	result, err := load.Run(cmd.Context(), f.o)
	bar.end()
	if result != nil && result.Answered > 0 {
		if perr := f.print(cmd.OutOrStdout(), result); perr != nil {
			return errors.Join(err, perr)
		}
	}
	return err
}

// showLoad returns a function that shows the progress of a run.
func showLoad(bar *progress) func(load.Progress) {
	return func(p load.Progress) {
		more := ""
		if p.Phase == load.Sending {
			more = thousands(p.Accepted) + " accepted"
			if p.Refused > 0 {
				more += ", " + thousands(p.Refused) + " refused"
			}
		}
		bar.show(p.Phase, p.Done, p.Total, more)
	}
}

func (f *loadFlags) print(w io.Writer, r *load.Result) error {
	if !f.json {
		return printLoad(w, r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// complete makes the options of a run from the flags.
func (f *loadFlags) complete() error {
	if f.dev != "" {
		if err := f.readDev(); err != nil {
			return err
		}
	}
	for _, v := range []struct{ name, value string }{
		{"--submission", f.o.Submission}, {"--monitoring", f.o.Monitoring}, {"--root", f.root}, {"--root-key", f.rootKey}} {
		if v.value == "" {
			return usagef("%s is missing (or --dev DIR)", v.name)
		}
	}
	if f.key != "" {
		key, err := readPublicKey(f.key)
		if err != nil {
			return usagef("--key: %w", err)
		}
		f.o.Key = key
	}
	if f.notAfter != "" {
		var err error
		if f.o.NotAfter, err = time.Parse(time.RFC3339, f.notAfter); err != nil {
			return usagef("--not-after: %w", err)
		}
	}
	if f.o.Precerts == 0 {
		f.o.Precerts = -1 // 0 stands for the default there
	}
	if f.o.Count == 0 && f.o.Duration == 0 {
		f.o.Count = 1000
	}
	ca, err := f.ca()
	f.o.CA = ca
	return err
}

func (f *loadFlags) readDev() error {
	info, err := readDevInfo(f.dev)
	if err != nil {
		return err
	}
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&f.o.Submission, info.SubmissionPrefix)
	set(&f.o.Monitoring, info.MonitoringPrefix)
	set(&f.o.Origin, info.Origin)
	set(&f.key, info.PublicKey)
	set(&f.root, filepath.Join(f.dev, devRoot))
	set(&f.rootKey, filepath.Join(f.dev, devRootKey))
	if f.o.PID == 0 {
		f.o.PID = info.PID
	}
	return nil
}

func (f *loadFlags) ca() (*testca.CA, error) {
	types := map[string]testca.KeyType{"p256": testca.P256, "p384": testca.P384, "rsa2048": testca.RSA2048, "rsa4096": testca.RSA4096}
	t, ok := types[f.intermediate]
	if !ok {
		return nil, usagef("--intermediate: %q is none of %s", f.intermediate, strings.Join(slices.Sorted(maps.Keys(types)), ", "))
	}
	if f.seed == 0 {
		f.seed = rand.Uint64()
	}
	return loadTestCA(f.root, f.rootKey, testca.Options{Seed: f.seed, IntermediateKey: t})
}

// loadTestCA makes a CA of the files of its root.
func loadTestCA(rootFile, keyFile string, o testca.Options) (*testca.CA, error) {
	root, err := os.ReadFile(rootFile)
	if err != nil {
		return nil, fmt.Errorf("reading the root: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the root's key: %w", err)
	}
	return testca.Load(root, key, o)
}

// printLoad prints a result for people.
func printLoad(w io.Writer, r *load.Result) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	line("sent", "%s in %.1f s", thousands(r.Answered), r.Took.Seconds())
	line("accepted", "%s, %.0f/s", thousands(r.Accepted), r.Rate())
	line("", "%s", printLatency(r.Latency))
	if r.Refused > 0 {
		line("refused", "%s", thousands(r.Refused))
		line("", "%s", printLatency(r.RefusedLatency))
	}
	for _, c := range []struct {
		name string
		n    int64
	}{{"not sent", r.Unsent}, {"retried", r.Retries}, {"failed", r.Failed}, {"unexpected", r.Unexpected}, {"moved", r.Moved}} {
		if c.n > 0 {
			line(c.name, "%s", thousands(c.n))
		}
	}
	if r.FirstError != "" {
		line("first error", "%s", r.FirstError)
	}
	if len(r.Classes) > 1 {
		for _, name := range slices.Sorted(maps.Keys(r.Classes)) {
			c := r.Classes[name]
			line(name, "%s accepted, p99 %s; %s refused", thousands(c.Accepted.Count), milliseconds(c.Accepted.P99), thousands(c.Refused.Count))
		}
	}
	if r.CheckpointAge.Count > 0 {
		line("checkpoint", "age p50 %s, p99 %s, max %s", milliseconds(r.CheckpointAge.P50), milliseconds(r.CheckpointAge.P99), milliseconds(r.CheckpointAge.Max))
	}
	if r.Client.CPU > 0 {
		line("client", "%.1f s CPU, %.3f ms a request", r.Client.CPU.Seconds(), r.Client.CPU.Seconds()*1e3/float64(max(r.Answered, 1)))
	}
	if s := r.Server; s != nil {
		n := float64(max(r.Accepted, 1))
		line("server", "%.1f s CPU, %.2f s per 10,000 accepted; %s written an entry; peak RSS %s",
			s.CPU.Seconds(), s.CPU.Seconds()/n*1e4, bytesize(int64(float64(s.Written)/n)), bytesize(s.PeakRSS))
	}
	if r.TreeAfter > 0 {
		line("tree", "%s entries, %s before", thousands(r.TreeAfter), thousands(r.TreeBefore))
	}
	line("verified", "%s SCTs", thousands(r.SCTs))
	if p := r.Parity; p != nil {
		line("", "%s promised entries at their index with their timestamp", thousands(r.Distinct))
		line("", "%s data and %s hash tiles up to the root %v", thousands(p.DataTiles), thousands(p.HashTiles), p.Tree.Hash)
		line("", "%s issuers served, %s checkpoints consistent", thousands(int64(p.Issuers)), thousands(int64(p.Checkpoints)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printLatency(l load.Latency) string {
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s", milliseconds(l.P50), milliseconds(l.P90), milliseconds(l.P99), milliseconds(l.Max))
}
