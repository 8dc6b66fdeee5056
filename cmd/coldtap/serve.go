package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"coldtap/internal/config"

	"github.com/spf13/cobra"
)

func serveCommand(env *environment) *cobra.Command {
	var file configFlags
	var drain time.Duration
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer reads of the tier over HTTP",
		Example: `  coldtap serve --config coldtap.yaml
  COLDTAP__STORE__S3__BUCKET=tier coldtap serve
  curl 'http://127.0.0.1:8080/topics/orders/partitions/0/records?offset=earliest&max_records=10'`,
		Args: operand(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if drain < 0 {
				return usage("--drain: %v is negative", drain)
			}
			var cfg config.Config
			var done bool
			err := orEnd(cmd.Context(), func() (err error) {
				cfg, done, err = file.load(env)
				return err
			})
			if err != nil || done {
				return err
			}
			return serve(cmd.Context(), env, cfg, file.loader(), drain)
		},
	}
	file.registerAll(cmd)
	cmd.Flags().DurationVar(&drain, "drain", 30*time.Second, "on SIGTERM, how long running answers may take to finish")
	return cmd
}

// serve answers until ctx ends. loader reads the configuration again at each SIGHUP.
func serve(ctx context.Context, env *environment, cfg config.Config, loader config.Loader, drain time.Duration) error {
	env.log.Info("configured", "by", loader.String())
	cfg.SetMemoryLimit(0)
	var s *server
	err := orEnd(ctx, func() (err error) {
		s, err = newServer(ctx, cfg, manifestProgress(env), env.log)
		return err
	})
	if err != nil {
		return err
	}
	stop := s.reloadOnHangup(loader)
	defer stop()
	return s.run(ctx, drain)
}

// orEnd waits for f until ctx ends, and a little longer. Then it leaves f behind, with what it would have set: f may
// hang in a system call, over a pipe or a mount that is gone.
func orEnd(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(lateness):
		return fmt.Errorf("ended while starting: %w", ctx.Err())
	}
}

// manifestProgress shows how far the manifests of an archive are read: a bar on a terminal, a log line now and then
// elsewhere.
func manifestProgress(env *environment) func(done, all int64) {
	const each = 10 * time.Second
	line, logged := newStatusLine(env.err), time.Now()
	return func(done, all int64) {
		switch {
		case line.terminal && done == all:
			line.end()
		case line.terminal:
			line.show("%sread %d of %d manifests", bar(done, all), done, all)
		case time.Since(logged) > each:
			logged = time.Now()
			env.log.Info("reading the archive", "manifests", done, "listed", all)
		}
	}
}

// reloadOnHangup reads the limits from the file again at each SIGHUP. A file with problems changes nothing. stop does
// not wait for a read that is under way: the file may be a pipe, or lie on a mount that is gone.
func (s *server) reloadOnHangup(loader config.Loader) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			s.reload(loader)
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

func (s *server) reload(loader config.Loader) {
	cfg, err := loader.Load()
	if err != nil {
		s.log.Error("configuration not reloaded, the old one stays", "error", err)
		return
	}
	s.gateway.SetLimits(int64(cfg.Limits.MaxResponseBytes), time.Duration(cfg.Limits.StallTimeout))
	s.log.Info("limits reloaded; everything else changes with a restart",
		"max_response_bytes", cfg.Limits.MaxResponseBytes.String(), "stall_timeout", time.Duration(cfg.Limits.StallTimeout).String())
}
