package main

import (
	"context"
	"os"
	"strings"

	"coldtap/bench"
)

func runBench(ctx context.Context, env environment, args []string) error {
	flags := newFlags(env, "bench",
		"Measures coldtap on this machine, against what is possible in the same run.\n\nBenchmarks:\n  "+
			strings.Join(bench.Names(), "\n  "),
		"coldtap bench\n  coldtap bench --only raw,ndjson")
	only := flags.set.String("only", "", "comma-separated `names` of benchmarks; all when empty")
	bare := flags.set.Bool("bare", false, "be the bare server that raw compares with")
	if _, err := flags.parse(env, args); err != nil {
		return err
	}
	if *bare {
		return bench.ServeBare(ctx)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	return bench.Run(ctx, env.out, bench.Self{Path: self, Args: []string{"bench"}}, names...)
}
