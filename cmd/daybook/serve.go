package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/config"
	"github.com/daybook-ct/daybook/internal/obs"
	"github.com/daybook-ct/daybook/internal/server"
)

func newServe() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "serve -c FILE",
		Short: "Run the logs of a configuration",
		Long: `Opens every log of the configuration, recovers what a crash left unfinished, and
takes submissions and serves monitors until SIGINT or SIGTERM. Then it refuses
new submissions with 503, runs the last round of each log, answers those who
wait, and exits with 0. A second signal ends it at once, which is safe: the next
start recovers.

A log that cannot be sure of its state halts: it answers submissions with an
error and /health with 503, and goes on serving its tree. on_halt in the
configuration says whether the process stays or exits with 1. Either way a
restart runs recovery, which decides whether the log can go on.

SIGHUP reads the accepted roots again, from all their sources. Nothing else of
the configuration changes before a restart.

Logs that do not exist are not created: daybook init does that.`,
		Example: `  daybook serve -c daybook.yaml
  curl http://127.0.0.1:8081/health`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(path)
			if err != nil {
				return err
			}
			build := obs.ReadBuild()
			o := serverOptions(c)
			if o.Registry, err = obs.NewRegistry(build); err != nil {
				return err
			}
			o.Logger, err = obs.NewLogger(cmd.ErrOrStderr(), obs.LoggerOptions{
				JSON: c.Logging.Format == config.JSON, Level: c.Logging.Level.Slog(), Metrics: o.Registry})
			if err != nil {
				return err
			}
			o.Logger.Info("starting", "version", build.String(), "configuration", path)
			for _, w := range c.Warnings(config.ThisHost()) {
				o.Logger.Warn("the configuration is unusual", "what", w.String())
			}
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			o.ReloadRoots = hangup
			boundGarbage()
			s, err := server.Start(cmd.Context(), o)
			if err != nil {
				return fmt.Errorf("not started: %w", err)
			}
			o.Logger.Info("serving", "addresses", fmt.Sprint(s.Addrs()), "admin", s.AdminAddr().String())
			return s.Wait()
		},
	}
	configFlag(cmd, &path)
	return cmd
}
