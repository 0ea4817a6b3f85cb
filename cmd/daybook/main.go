// Command daybook is a Static CT log: it takes certificate chains, appends them
// to a signed Merkle tree and serves the tree as static files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands makes the subcommands, in the order in which help shows them. Each
// stands in the file of its name.
var commands = []func() *cobra.Command{
	newServe,
	newInit,
	newKeygen,
	newCheck,
	newVerify,
	newFsck,
	newCache,
	newRounds,
	newTune,
	newConformance,
	newLoad,
	newDev,
	newDemo,
	newVersion,
}

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // wrong command line or configuration
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. After it, signals do again what
	// they do by default, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code. When ctx is done, the
// command that runs comes to an orderly end.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	message, code := fmt.Sprintf("daybook: %v\n", err), exitFailed
	if usage := new(usageError); errors.As(err, &usage) {
		code = exitUsage
		if usage.hint {
			message += fmt.Sprintf("See '%s --help'.\n", cmd.CommandPath())
		}
	}
	_, _ = io.WriteString(stderr, message) // there is nowhere else to complain to
	return code
}

func newRoot() *cobra.Command {
	cobra.EnableCommandSorting = false // as they are used
	root := &cobra.Command{
		Use:   "daybook",
		Short: "A Static CT log",
		Long: `Daybook is a Static CT log: it takes certificate chains (RFC 6962), appends them
to a signed Merkle tree and serves the tree as static files (c2sp.org/static-ct-api).

A log is made and run in four steps:

  1. write daybook.yaml (docs/config.md explains every key)
  2. daybook check -c daybook.yaml    says what is wrong or unusual in it
  3. daybook init  -c daybook.yaml    makes the key, the lock, the storage, the cache
  4. daybook serve -c daybook.yaml    runs the log until SIGINT or SIGTERM

Exit codes: 0 done, 1 failed, 2 wrong command line or configuration.`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q", args[0])
			}
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return usagef("a command is needed")
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, command := range commands {
		root.AddCommand(command())
	}
	return root
}

// usageError is a mistake in the command line or the configuration.
type usageError struct {
	err  error
	hint bool // point to --help
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef returns an error of the command line: exit code 2, with a pointer to
// the command's help.
func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: true}
}

// configError marks an error of the configuration: exit code 2.
func configError(err error) error { return &usageError{err: err} }

// usageArgs turns the complaint of a cobra argument check into a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%w", err)
		}
		return nil
	}
}
