package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/config"
)

var errWarnings = errors.New("there are warnings, and --strict was given")

func newCheck() *cobra.Command {
	var path string
	var strict bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration and show the one in effect",
		Long: `Reads the configuration and prints it on standard output as it is in effect:
with all defaults, absolute paths, and the capacity of each log. Warnings about
what is unusual, or not there yet, go to standard error. Nothing is started and
nothing is created.

The exit code is 2 if the configuration cannot be used, or if --strict is given
and there are warnings.`,
		Example: `  daybook check -c daybook.yaml
  daybook check -c daybook.yaml > in-effect.yaml`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(path)
			if err != nil {
				return err
			}
			warnings := c.Warnings(config.ThisHost())
			errs := printer{w: cmd.ErrOrStderr()}
			for _, w := range warnings {
				errs.printf("warning: %s\n", w)
			}
			out := printer{w: cmd.OutOrStdout()}
			out.printf("%s", c.YAML())
			for i := range c.Logs {
				out.printf("# capacity of %s: %s\n", c.Logs[i].Name, capacity(&c.Logs[i]))
			}
			switch {
			case out.err != nil:
				return out.err
			case errs.err != nil:
				return errs.err
			case strict && len(warnings) > 0:
				return configError(errWarnings)
			}
			return nil
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&strict, "strict", false, "take warnings for errors")
	return cmd
}
