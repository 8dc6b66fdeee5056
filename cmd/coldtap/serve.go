package main

import (
	"context"
	"time"
)

func runServe(ctx context.Context, env environment, args []string) error {
	flags := newFlags(env, "serve", "Answers reads of the tier over HTTP.",
		"coldtap serve --config coldtap.yaml\n  curl 'http://127.0.0.1:8080/topics/orders/partitions/0/records?offset=earliest&max_records=10'")
	var file configFlags
	file.register(flags.set)
	drain := flags.set.Duration("drain", 30*time.Second, "on SIGTERM, how long running answers may take to finish")
	log, err := flags.parse(env, args)
	if err != nil {
		return err
	}
	if *drain < 0 {
		return usage("--drain: %v is negative", *drain)
	}
	cfg, done, err := file.load(env)
	if done || err != nil {
		return err
	}
	cfg.SetMemoryLimit()
	s, err := newServer(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.run(ctx, *drain)
}
