package main

import (
	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/fsck"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Rebuild a dedup cache",
		Long: `The dedup cache knows what was submitted before. It is not trusted with anything:
losing it costs duplicate entries. It can be made again from the log's entries.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("a command is needed")
		},
	}
	cmd.AddCommand(newCacheRebuild())
	return cmd
}

type rebuildFlags struct {
	storeFlags
	rate   int64
	resume string
}

func newCacheRebuild() *cobra.Command {
	var f rebuildFlags
	cmd := &cobra.Command{
		Use:   "rebuild -c FILE [--log NAME] | --storage DIR --cache FILE",
		Short: "Make a dedup cache from the log's entries",
		Long: `Puts every entry of a log in its dedup cache, from the first to the last, unless
it is there already; of entries that are in the log more than once the first is
remembered. Only entries that are verified up to the signed root are taken. The
cache is made if there is none.

The log may be running on the same cache. If its file was lost while the log ran,
restart the log first.

Rows that contradict the log are told and stay as they are: stop the log, move
the file away (with its -wal and -shm files), and rebuild it. With --resume an
interrupted run notes in FILE how far it came, and the same command goes on.

The exit code is 1 if anything was found to be wrong.`,
		Example: `  daybook cache rebuild -c daybook.yaml --log example2027h1
  daybook cache rebuild --storage /srv/copy/example2027h1 --cache new-cache.db --resume rebuild.json`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.storage, "storage", "", "storage `directory`")
	flags.Int64Var(&f.rate, "rate", 0, "read at most so many `MiB` a second (0: no limit)")
	flags.StringVar(&f.resume, "resume", "", "keep in `FILE` how far the run came, and go on from there")
	return cmd
}

func (f *rebuildFlags) run(cmd *cobra.Command) error {
	if f.rate < 0 {
		return usagef("--rate must not be negative")
	}
	if err := f.resolve(); err != nil {
		return err
	}
	if f.storage == "" || f.cache == "" {
		return usagef("-c FILE is needed, or --storage DIR and --cache FILE")
	}
	out := &printer{w: cmd.OutOrStdout()}
	bar := newProgress(cmd.ErrOrStderr())
	r, err := fsck.Rebuild(cmd.Context(), fsck.RebuildOptions{Directory: f.storage, Origin: f.origin, Key: f.der,
		Cache: f.cache, PageCache: f.pageCache, BytesPerSecond: f.rate << 20, State: f.resume,
		Found: func(n fsck.Finding) {
			bar.end()
			out.printf("%s\n", n)
		},
		Progress: showFsck(bar, "rebuilding from")})
	bar.end()
	if r == nil {
		return err
	}
	out.printf("origin      %s\n", r.Origin)
	out.printf("tree        %s entries, of which %s were read and verified\n", thousands(r.Tree.N), thousands(r.Entries))
	out.printf("cache       %s rows added, %s were there; %s entries are copies of others\n", thousands(r.Added), thousands(r.Matched-r.Added), thousands(r.Duplicates))
	out.printf("took        %.1f s\n", r.Took.Seconds())
	return ended(cmd.Context(), err, out.err, r, f.resume)
}
