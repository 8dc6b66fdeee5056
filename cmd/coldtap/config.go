package main

import (
	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

func configCommand(env *environment) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Short:   "Begin a configuration file",
		Example: "  coldtap config example",
	}, &cobra.Command{
		Use:     "example",
		Short:   "Write a commented configuration file with every key",
		Example: "  coldtap config example > coldtap.yaml",
		Args:    operand(""),
		RunE:    func(*cobra.Command, []string) error { return config.Example(env.out) },
	})
}
