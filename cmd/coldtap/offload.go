package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"coldtap/catalog/embedded"
	"coldtap/internal/config"
	"coldtap/layout/native"
	"coldtap/offload"

	"github.com/spf13/cobra"
)

// offloadOptions are what only flags can say.
type offloadOptions struct {
	skipDamaged bool
	sealActive  bool
	progress    func(offload.Event)
}

func offloadCommand(env *environment) *cobra.Command {
	var file configFlags
	var options offloadOptions
	var dirs []string
	var standalone, once bool
	cmd := &cobra.Command{
		Use:   "offload",
		Short: "Copy closed segments of a stopped broker into the tier",
		Long: `Copies every eligible closed segment of a stopped broker's log directory into the tier: recorded as started,
copied, verified, recorded as finished. Nothing is ever deleted from the log directory. Run again, it copies what is
new; killed at any point and run again, it ends in the same state.`,
		Example: "  coldtap offload --standalone --once --log-dir /var/lib/kafka --config coldtap.yaml",
		Args:    operand(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			withDirs := func(cfg config.Config) config.Config {
				if len(dirs) > 0 {
					cfg.Offload.LogDirs = dirs
				}
				return cfg
			}
			cfg, done, err := file.load(env, func(cfg config.Config) error { return checkOffload(withDirs(cfg)) })
			if done || err != nil {
				return err
			}
			if !standalone || !once {
				return usage("this version copies from a stopped broker only: give --standalone and --once")
			}
			return offloadAndReport(cmd.Context(), env, withDirs(cfg), options)
		},
	}
	file.registerAll(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&dirs, "log-dir", nil, "log `directory` of the stopped broker (repeatable); replaces offload.log_dirs")
	flags.BoolVar(&standalone, "standalone", false, "the broker is stopped, and this replica is the one to keep")
	flags.BoolVar(&once, "once", false, "copy what is eligible now, then exit")
	flags.BoolVar(&options.skipDamaged, "skip-damaged", false, "leave damaged segments out, recorded as holes, and go on with the next; a later run fills a hole whose segment is sound again")
	flags.BoolVar(&options.sealActive, "seal-active", false, "also copy the active segments, up to the high watermark and the last stable offset: for a cluster that is being retired")
	cmd.MarkFlagDirname("log-dir")
	cmd.AddCommand(rebuildCommand(env))
	return cmd
}

func offloadAndReport(ctx context.Context, env *environment, cfg config.Config, options offloadOptions) error {
	shown := newOffloadProgress(env.err)
	options.progress = shown.event
	report, err := offloadOnce(ctx, cfg, options, env.log)
	shown.end()
	if err != nil {
		switch e, _ := errors.AsType[*offload.Error](err); {
		case e == nil:
		case e.Kind == offload.BadConfig:
			return usageError{err}
		case e.Kind == offload.Untracked:
			path, _ := filepath.Abs(cfg.Metadata.Embedded.Path)
			return usage("%w\nIs %s (metadata.embedded.path, seen from the working directory) the tier's database? If it was lost, `coldtap offload rebuild` makes it anew from the store",
				err, path)
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
	store, end, err := openClient(ctx, cfg, true, log)
	if err != nil {
		return offload.Report{}, err
	}
	defer end()
	db, err := embedded.OpenWriter(ctx, cfg.Metadata.Embedded.Path)
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
		Layout:      native.New(store, ""),
		Progress:    options.progress,
		Logger:      log,
	})
}

// ownsTier refuses a configuration whose tier is written by brokers or another copier.
func ownsTier(cfg config.Config) error {
	if cfg.Metadata.Kind != "embedded" || cfg.Layout.Kind != "native" {
		return usage("offload writes the native layout and the embedded metadata; this configuration has layout.kind %s and metadata.kind %s, which are read only",
			cfg.Layout.Kind, cfg.Metadata.Kind)
	}
	return nil
}
