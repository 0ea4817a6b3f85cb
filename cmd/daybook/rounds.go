package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/rounds"
)

type roundsFlags struct {
	o     rounds.AnalyzeOptions
	since string
	json  bool
}

func newRounds() *cobra.Command {
	var f roundsFlags
	cmd := &cobra.Command{
		Use:   "rounds FILE|URL",
		Short: "Tell from round records why rounds are slow",
		Long: `Reads the records of a log's rounds, from the file that logs[].rounds.path names
(with the older one beside it), from the admin listener of a running process
(its address, or /rounds there: the last hour), or from standard input (-), and
prints:

  - whether a full pool fits the interval, and the size of one that would;
  - the slow rounds by cause, and the slowest ones with their dominant step: what
    took longest compared to ordinary rounds;
  - which circumstances go with slow rounds, and which do not (Fisher's exact
    test, p < 0.001);
  - how long each step takes, and a histogram of whole rounds.

A round is slow if it took longer than the interval, or made ticks be skipped.
If next to none is, the slowest of a hundred are looked at instead.
docs/operations.md explains the causes.`,
		Example: `  daybook rounds /var/lib/daybook/example2027h1-cache.db.rounds.jsonl --since 24h
  daybook rounds http://127.0.0.1:8081 --log example2027h1
  daybook rounds http://127.0.0.1:8081 --since 5m --json`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.o.Log, "log", "", "`name` of the log; needed if there are several")
	flags.StringVar(&f.since, "since", "", "leave out rounds from before, `AGE|TIME`: like 90m, or RFC 3339")
	flags.IntVar(&f.o.Top, "top", 10, "how many of the slowest rounds to list")
	flags.DurationVar(&f.o.Slow, "slow", 0, "call rounds slow that take longer (default: the log's interval)")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	return cmd
}

func (f *roundsFlags) run(cmd *cobra.Command, source string) error {
	if f.o.Top < 1 || f.o.Slow < 0 {
		return usagef("--top and --slow must be positive")
	}
	since, err := parseSince(f.since, time.Now())
	if err != nil {
		return err
	}
	records, skipped, err := f.read(cmd, source, since)
	if err != nil {
		return fmt.Errorf("reading round records: %w", err)
	}
	if skipped > 0 {
		errs := printer{w: cmd.ErrOrStderr()}
		errs.printf("%d lines are no round records and were skipped; one that was cut off at a crash is nothing to worry about\n", skipped)
		if errs.err != nil {
			return errs.err
		}
	}
	report, err := rounds.Analyze(records, f.o)
	switch {
	case errors.Is(err, rounds.ErrSeveralLogs):
		return usagef("%w: say which one with --log", err)
	case err != nil:
		return err
	}
	w := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(report), w.Flush())
	}
	return errors.Join(report.WriteText(w), w.Flush())
}

// parseSince reads an age or a time; "" is the zero time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(s); err == nil && age > 0 {
		return now.Add(-age), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !t.Before(now) {
		return t, usagef("--since: %q is neither an age like 90m nor a time in the past like 2027-01-31T12:00:00Z", s)
	}
	return t, nil
}

func (f *roundsFlags) read(cmd *cobra.Command, source string, since time.Time) ([]rounds.Record, int, error) {
	switch {
	case source == "-":
		return rounds.Read(cmd.InOrStdin(), since)
	case strings.HasPrefix(source, "http://"), strings.HasPrefix(source, "https://"):
		return fetchRounds(cmd.Context(), source, f.o.Log, since)
	}
	return rounds.ReadFiles(source, since)
}

// fetchTimeout bounds the answer of an admin listener: an hour of records has
// some 15 MB.
const fetchTimeout = time.Minute

// fetchRounds asks an admin listener.
func fetchRounds(ctx context.Context, source, log string, since time.Time) (records []rounds.Record, skipped int, err error) {
	u, err := url.Parse(source)
	if err != nil {
		return nil, 0, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/rounds"
	}
	q := u.Query()
	if log != "" {
		q.Set("log", log)
	}
	if !since.IsZero() {
		q.Set("since", time.Since(since).String())
	}
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, 0, errors.Join(fmt.Errorf("%s answers %s: %s", u, resp.Status, strings.TrimSpace(string(text))), err)
	}
	return rounds.Read(resp.Body, time.Time{})
}
