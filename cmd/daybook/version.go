package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybook-ct/daybook/internal/obs"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of daybook this is",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), obs.ReadBuild())
			return err
		},
	}
}
