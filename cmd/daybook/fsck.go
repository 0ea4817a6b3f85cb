package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/fsck"
	"github.com/daybook-ct/daybook/internal/server"
	"github.com/daybook-ct/daybook/monitor"
)

// storeFlags say which stores of which log a command is about: those of a
// configuration, or each by itself.
type storeFlags struct {
	config, log string

	storage, lock, cache string
	key, origin          string

	der       []byte // of key
	pageCache int64
}

func (f *storeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "take the stores and the key from this configuration `file`")
	flags.StringVar(&f.log, "log", "", "`name` of the log; needed if the configuration has several")
	flags.StringVar(&f.cache, "cache", "", "dedup cache, an SQLite `file`")
	flags.StringVar(&f.key, "key", "", "the log's public key: `BASE64|FILE` (default: the one in its log.v3.json)")
	flags.StringVar(&f.origin, "origin", "", "the log's `NAME` in its checkpoints (default: the one that log.v3.json implies)")
}

// resolve reads the configuration, if one was given, and the key.
func (f *storeFlags) resolve() (err error) {
	if f.config == "" {
		if f.log != "" {
			return usagef("--log names a log of a configuration: give that with -c")
		}
		if f.key != "" {
			if f.der, err = readPublicKey(f.key); err != nil {
				return usagef("--key: %w", err)
			}
		}
		return nil
	}
	if f.storage+f.lock+f.cache+f.key+f.origin != "" {
		return usagef("the configuration says where the stores are and what the key is: do not give both")
	}
	c, err := loadConfig(f.config)
	if err != nil {
		return err
	}
	l, err := pickLog(c, f.log)
	if err != nil {
		return err
	}
	o := logOptions(l)
	signer, err := server.ReadKey(o.KeyFile, l.SubmissionPrefix.Origin())
	if err != nil {
		return err
	}
	f.storage, f.lock, f.cache = o.StorageDirectory, o.LockPath, o.CachePath
	f.origin, f.der, f.pageCache = signer.Origin(), signer.PublicKey(), o.PageCache
	return nil
}

type fsckFlags struct {
	storeFlags
	all, signatures, json  bool
	sample, workers, print int
	rate, objects          int64
	firstNames             int64
	resume                 string
}

func newFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck DIR|URL | -c FILE",
		Short: "Check all stores of a log",
		Long: `Reads a log's storage directory, or the log through its monitoring prefix, and
tells everything that is wrong, each object with the reason: the checkpoint, hash
tiles of all levels up to the signed root, every entry against its leaf hash, its
names, and its issuers; and of a directory also the issuers that no entry has and
the files that do not belong there. With --lock the lock is compared with the
published checkpoint, with --cache rows of the dedup cache with the entries.
-c takes all of them from a configuration.

Nothing is written, and the log may be running. What a round in progress leaves
for a moment is not told; partial tiles of earlier sizes are normal, and counted.

With --resume an interrupted run notes in FILE how far it came, and the same
command goes on from there.

The exit code is 1 if anything was found, or if something could not be read.`,
		Example: `  daybook fsck -c daybook.yaml --log example2027h1 --all
  daybook fsck /var/lib/daybook/example2027h1 --lock /var/lib/daybook/lock.db
  daybook fsck https://mon.example.com/2027h1/ --rate 20 --resume fsck.json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && f.config != "":
				return usagef("give a directory, a URL or a configuration, not two of them")
			case len(args) == 0 && f.config == "":
				return usagef("a directory, a URL or -c FILE is needed: it says what to check")
			}
			return f.run(cmd, strings.Join(args, ""))
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.lock, "lock", "", "lock database, an SQLite `file`")
	flags.IntVar(&f.sample, "sample", 1000, "check so many `rows` of the cache, chosen at random")
	flags.BoolVar(&f.all, "all", false, "check all rows of the cache, and that every entry has its row")
	flags.BoolVar(&f.signatures, "signatures", false, "also verify the signatures of all certificates")
	flags.Int64Var(&f.firstNames, "names-from", 0, "first names `tile` that must be there, for a log that began without them")
	flags.Int64Var(&f.rate, "rate", 0, "read at most so many `MiB` a second (0: no limit)")
	flags.Int64Var(&f.objects, "objects", 0, "read at most so many `objects` a second (0: no limit)")
	flags.StringVar(&f.resume, "resume", "", "keep in `FILE` how far the run came, and go on from there")
	flags.IntVar(&f.workers, "workers", 2, "tiles to check at a `time`")
	flags.IntVar(&f.print, "print", 100, "print at most so many `findings`; all are counted")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON, with up to 100,000 findings")
	return cmd
}

func (f *fsckFlags) run(cmd *cobra.Command, target string) error {
	if f.rate < 0 || f.objects < 0 || f.sample < 0 || f.workers < 1 || f.print < 0 || f.firstNames < 0 {
		return usagef("numbers must not be negative, and --workers not 0")
	}
	f.storage = ""
	if err := f.resolve(); err != nil {
		return err
	}
	if f.all && f.cache == "" {
		return usagef("--all is about the dedup cache: name it with --cache")
	}
	out := &printer{w: cmd.OutOrStdout()}
	bar := newProgress(cmd.ErrOrStderr())
	o := fsck.Options{Directory: f.storage, Origin: f.origin, Key: f.der, Lock: f.lock, Cache: f.cache, Sample: f.sample, All: f.all,
		Signatures: f.signatures, FirstNames: f.firstNames, Workers: f.workers,
		BytesPerSecond: f.rate << 20, ObjectsPerSecond: f.objects, State: f.resume,
		Progress: showFsck(bar, "checking")}
	printed := 0
	if !f.json {
		o.Found = func(n fsck.Finding) {
			if printed++; printed <= f.print {
				bar.end()
				out.printf("%s\n", n)
			}
		}
	}
	if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
		c, err := monitor.NewClient(target, monitor.ClientOptions{})
		if err != nil {
			return usagef("%w", err)
		}
		defer c.Close()
		o.Source, o.Target = c, c.Prefix()
	} else if target != "" {
		o.Directory = target
	}
	r, err := fsck.Run(cmd.Context(), o)
	bar.end()
	if r == nil {
		return err
	}
	if f.json {
		err = errors.Join(err, printJSON(out.w, r))
	} else {
		if printed > f.print {
			out.printf("... and %s more\n", findings(int64(printed-f.print)))
		}
		f.report(out, r)
	}
	return ended(cmd.Context(), err, out.err, r, f.resume)
}

// errFindings is why a check exits with 1.
var errFindings = errors.New("something is wrong with the log")

// ended is the error of a run that has reported.
func ended(ctx context.Context, err, outErr error, r *fsck.Report, state string) error {
	switch {
	case err != nil && ctx.Err() != nil && state != "":
		return fmt.Errorf("interrupted: the same command goes on, by what %s says", state)
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted (with --resume it could go on later)")
	case err != nil:
		return err
	case outErr != nil:
		return outErr
	case r.Count > 0:
		return fmt.Errorf("%w: %s", errFindings, findings(r.Count))
	}
	return nil
}

// findings is a number of findings in words.
func findings(n int64) string {
	if n == 1 {
		return "1 finding"
	}
	return thousands(n) + " findings"
}

// showFsck shows how far a run is.
func showFsck(bar *progress, phase string) func(fsck.Progress) {
	return func(p fsck.Progress) {
		more := bytesize(p.Bytes)
		if p.Findings > 0 {
			more += fmt.Sprintf(", %s FINDINGS", thousands(p.Findings))
		}
		bar.show(phase+" "+p.Phase, p.Done, p.Total, more)
	}
}

func (f *fsckFlags) report(out *printer, r *fsck.Report) {
	at := time.UnixMilli(r.Timestamp)
	if r.Count > 0 {
		out.printf("\n")
	}
	out.printf("origin      %s\n", r.Origin)
	out.printf("log ID      %s\n", base64.StdEncoding.EncodeToString(r.LogID[:]))
	out.printf("tree        %s entries, root %v\n", thousands(r.Tree.N), r.Tree.Hash)
	out.printf("checkpoint  %s, %v ago\n", at.UTC().Format("2006-01-02 15:04:05.000 MST"), time.Since(at).Round(time.Second/10))
	out.printf("verified    %s entries (%s precertificates), %s data tiles, %s names tiles, %s hash tiles, %s issuers",
		thousands(r.Entries), thousands(r.Precerts), thousands(r.DataTiles), thousands(r.NamesTiles), thousands(r.HashTiles), thousands(int64(r.Issuers)))
	if f.signatures {
		out.printf(", %s signatures", thousands(r.Signatures))
	}
	out.printf("\n")
	if r.Resumed {
		out.printf("            entries and data tiles of all runs, the rest of this one\n")
	}
	if r.Files > 0 {
		out.printf("directory   %s files, of which %s partial tiles of earlier sizes, %s issuers\n", thousands(r.Files), thousands(r.EarlierPartials), thousands(r.StoredIssuers))
	}
	if f.lock != "" {
		word := "could not be compared"
		if r.Locked {
			word = "compared with the checkpoint"
		}
		out.printf("lock        %s\n", word)
	}
	switch {
	case f.cache == "":
	case f.all:
		out.printf("cache       %s rows, %s of them those of entries; %s entries are copies of others\n", thousands(r.Rows), thousands(r.Matched), thousands(r.Duplicates))
	default:
		out.printf("cache       %s rows, chosen at random\n", thousands(r.Sampled))
	}
	found := "nothing"
	if r.Count > 0 {
		found = findings(r.Count)
	}
	out.printf("found       %s, in %.1f s\n", found, r.Took.Seconds())
}

// printJSON prints a report for programs.
func printJSON(w io.Writer, r *fsck.Report) error {
	type tree struct {
		Size int64  `json:"size"`
		Root string `json:"root"`
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Origin          string         `json:"origin"`
		LogID           []byte         `json:"log_id"`
		Tree            tree           `json:"tree"`
		Timestamp       int64          `json:"timestamp"`
		Counts          fsck.Counts    `json:"counts"`
		Files           int64          `json:"files"`
		EarlierPartials int64          `json:"earlier_partial_tiles"`
		Rows            int64          `json:"rows"`
		Sampled         int64          `json:"sampled_rows"`
		Count           int64          `json:"count"`
		Findings        []fsck.Finding `json:"findings"`
	}{r.Origin, r.LogID[:], tree{r.Tree.N, r.Tree.Hash.String()}, r.Timestamp, r.Counts, r.Files, r.EarlierPartials, r.Rows, r.Sampled, r.Count, r.Findings})
}
