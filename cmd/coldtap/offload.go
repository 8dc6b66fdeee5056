package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"coldtap/catalog/sqlite"
	"coldtap/internal/config"
	"coldtap/layout/native"
	"coldtap/offload"
	"coldtap/rangeio"
)

// offloadOptions are what only flags can say.
type offloadOptions struct {
	skipDamaged bool
	sealActive  bool
	progress    func(offload.Event)
}

func runOffload(ctx context.Context, env environment, args []string) error {
	if len(args) > 0 && args[0] == "rebuild" {
		return runRebuild(ctx, env, args[1:])
	}
	flags := newFlags(env, "offload",
		`Copies every eligible closed segment of a stopped broker's log directory into the tier: recorded as started,
copied, verified, recorded as finished. Nothing is ever deleted from the log directory. Run again, it copies what is
new; killed at any point and run again, it ends in the same state.

coldtap offload rebuild makes the metadata anew from what is in the store (see coldtap offload rebuild --help).`,
		"coldtap offload --standalone --once --log-dir /var/lib/kafka --config coldtap.yaml")
	var file configFlags
	file.register(flags.set)
	var dirs list
	flags.set.Var(&dirs, "log-dir", "log `directory` of the stopped broker (repeatable); replaces offload.log_dirs")
	standalone := flags.set.Bool("standalone", false, "the broker is stopped, and this replica is the one to keep")
	once := flags.set.Bool("once", false, "copy what is eligible now, then exit")
	var options offloadOptions
	flags.set.BoolVar(&options.skipDamaged, "skip-damaged", false, "leave damaged segments out, recorded as holes, and go on with the next; a later run fills a hole whose segment is sound again")
	flags.set.BoolVar(&options.sealActive, "seal-active", false, "also copy the active segments, up to the high watermark and the last stable offset: for a cluster that is being retired")
	log, err := flags.parse(env, args)
	if err != nil {
		return err
	}
	cfg, done, err := file.load(env)
	if done || err != nil {
		return err
	}
	if !*standalone || !*once {
		return usage("this version copies from a stopped broker only: give --standalone and --once")
	}
	if len(dirs) > 0 {
		cfg.Offload.LogDirs = dirs
	}
	bar := newProgress(env)
	options.progress = bar.event
	report, err := offloadOnce(ctx, cfg, options, log)
	bar.end()
	if err != nil {
		if config, ok := errors.AsType[*offload.Error](err); ok && config.Kind == offload.BadConfig {
			return usageError{err}
		}
		return err
	}
	printReport(env.out, &report)
	if report.Failed() {
		return errors.New("not everything could be copied; the reasons are above")
	}
	return nil
}

// offloadOnce opens store and metadata for writing and runs one round.
func offloadOnce(ctx context.Context, cfg config.Config, options offloadOptions, log *slog.Logger) (offload.Report, error) {
	if err := ownsTier(cfg); err != nil {
		return offload.Report{}, err
	}
	backend, err := openStore(ctx, cfg, true)
	if err != nil {
		return offload.Report{}, fmt.Errorf("store: %w", err)
	}
	defer backend.Close()
	db, err := sqlite.OpenWriter(ctx, cfg.Metadata.Embedded.Path)
	if err != nil {
		return offload.Report{}, fmt.Errorf("metadata: %w", err)
	}
	defer db.Close()
	return offload.Once(ctx, offload.Config{
		LogDirs:     cfg.Offload.LogDirs,
		Include:     cfg.Offload.Topics.Include,
		Exclude:     cfg.Offload.Topics.Exclude,
		SkipDamaged: options.skipDamaged,
		SealActive:  options.sealActive,
		Rate:        int64(cfg.Offload.Rate),
		Catalog:     db,
		Layout:      native.New(rangeio.NewClient(backend, rangeio.Config{Logger: log}), ""),
		Progress:    options.progress,
		Logger:      log,
	})
}

// ownsTier refuses to write where brokers or another copier are the ones who do.
func ownsTier(cfg config.Config) error {
	if cfg.Metadata.Kind != "embedded" || cfg.Layout.Kind != "native" {
		return usage("offload writes the native layout and the embedded metadata; this configuration has layout.kind %s and metadata.kind %s, which are read only",
			cfg.Layout.Kind, cfg.Metadata.Kind)
	}
	return nil
}
