package main

import (
	"os"
	"strings"

	"coldtap/bench"

	"github.com/spf13/cobra"
)

func benchCommand(env *environment) *cobra.Command {
	var only []string
	var bare bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: ratios and counts, not seconds",
		Long: "Measures coldtap on this machine, against what is possible in the same run.\n\nBenchmarks:\n  " +
			strings.Join(bench.Names(), "\n  "),
		Example: "  coldtap bench\n  coldtap bench --only raw,ndjson",
		Args:    operand(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if bare {
				return bench.ServeBare(cmd.Context())
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return bench.Run(cmd.Context(), env.out, bench.Self{Path: self, Args: []string{"bench"}}, only...)
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "`names` of benchmarks, with commas between; all when empty")
	cmd.Flags().BoolVar(&bare, "bare", false, "be the bare server that raw compares with")
	cmd.Flags().MarkHidden("bare")
	return cmd
}
