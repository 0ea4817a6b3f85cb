package main

import (
	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/server"
)

func newInit() *cobra.Command {
	var path, name string
	var existingKey bool
	cmd := &cobra.Command{
		Use:   "init -c FILE [--log NAME]",
		Short: "Create a log",
		Long: `Creates the log that the configuration describes: the key (a new seed), the
storage directory, the dedup cache, the log's register in the lock, and the
first checkpoint, of the empty tree. It refuses, and changes nothing, if any of
them exists; an empty storage directory may exist, and so may a lock that other
logs use. Directories around them must be there.

A log is created once. To move one, or to take one over from Sunlight, copy its
files with all processes stopped, and do not run init.`,
		Example: `  daybook init -c daybook.yaml
  daybook init -c daybook.yaml --log example2027h1 --existing-key`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(path)
			if err != nil {
				return err
			}
			l, err := pickLog(c, name)
			if err != nil {
				return err
			}
			id, err := server.Create(cmd.Context(), logOptions(l), existingKey)
			if err != nil {
				return err
			}
			out := &printer{w: cmd.OutOrStdout()}
			out.printf("The log %s is created.\n\n", l.Name)
			out.printf("origin:      %s\n", id.Origin)
			printIdentity(out, id, true)
			out.printf("key file:    %s\n", l.Key)
			out.printf("storage:     %s\n", l.Storage.Directory)
			out.printf("lock:        %s\n", l.Lock.Path)
			out.printf("cache:       %s\n", l.Cache.Path)
			out.printf(`
Next:
  1. Copy the key file to a safe place. Without it the log cannot go on; whoever
     has it can sign for the log.
  2. daybook serve -c %s
  3. Let submitters reach %sct/v1/add-chain
     and monitors %scheckpoint
`, path, l.SubmissionPrefix, l.MonitoringPrefix)
			return out.err
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().StringVar(&name, "log", "", "`name` of the log; needed if the configuration has several")
	cmd.Flags().BoolVar(&existingKey, "existing-key", false, "use the key file that is there, rather than make one")
	return cmd
}
