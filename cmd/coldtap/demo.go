package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"coldtap/internal/config"
	"coldtap/internal/sample"

	"github.com/spf13/cobra"
)

// demoDrain is how long answers may take once Ctrl-C was pressed.
const demoDrain = 5 * time.Second

func demoCommand(env *environment) *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Serve a sample of real Kafka segments; no set-up needed",
		Long:    "Offloads a sample of segments that a real Kafka broker wrote, and serves them over HTTP. Ctrl-C cleans up.",
		Example: "  coldtap demo",
		Args:    operand(""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), env) },
	}
	cmd.Flags().StringVar(&d.listen, "listen", "127.0.0.1:8080", "`address` to serve on")
	cmd.Flags().StringVar(&d.admin, "admin", "127.0.0.1:9090", "`address` of metrics and health")
	cmd.Flags().StringVar(&d.data, "data", "", "keep objects and metadata in this `folder` instead of a temporary one")
	logFlags(cmd, "warn")
	return cmd
}

type demo struct{ listen, admin, data string }

func (d demo) run(ctx context.Context, env *environment) (err error) {
	cfg := config.Default()
	cfg.Listen, cfg.Admin = d.listen, d.admin
	cfg.Auth.AllowAnonymous = true // the sample is public
	cfg.Store.Kind = "file"
	for _, p := range cfg.Validate() {
		err = errors.Join(err, p)
	}
	if err != nil {
		return usageError{err}
	}
	dir := d.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "coldtap-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	cfg.Store.File.Dir = filepath.Join(dir, "objects")
	cfg.Metadata.Embedded.Path = filepath.Join(dir, "coldtap.db")
	cfg.Cache.Memory, cfg.Cache.Chunk = 64<<20, 1<<20
	cfg.Offload.LogDirs = []string{filepath.Join(dir, "logdir")}

	fmt.Fprintln(env.out, "offloading a sample that an Apache Kafka 4.3.1 broker wrote …")
	if err := sample.Extract(cfg.Offload.LogDirs[0]); err != nil {
		return err
	}
	report, err := offloadOnce(ctx, cfg, offloadOptions{}, env.log)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.out, summary(&report))
	s, err := newServer(ctx, cfg, nil, env.log)
	if err != nil {
		return err
	}
	printTour(env.out, s.data.Addr(), s.adminListener.Addr())
	return s.run(ctx, demoDrain)
}

// tour is what the demo suggests to try; a test runs every line of it.
var tour = []struct{ what, curl string }{
	{"the topics", `curl 'http://%s/topics'`},
	{"a range as JSON", `curl 'http://%s/topics/plain/partitions/0/records?offset=100&max_records=3'`},
	{"a range, one record a line", `curl 'http://%s/topics/codecs/partitions/0/records?offset=700&end_offset=705&format=ndjson'`},
	{"from a point in time", `curl 'http://%s/topics/plain/partitions/0/records?timestamp=2023-11-14T22:20:00Z&max_records=2'`},
	{"what transactions committed …", `curl -s 'http://%s/topics/txn/partitions/1/records?offset=0&end_offset=120&isolation_level=read_committed&format=ndjson' | wc -l`},
	{"… and with what they aborted", `curl -s 'http://%s/topics/txn/partitions/1/records?offset=0&end_offset=120&isolation_level=read_uncommitted&format=ndjson' | wc -l`},
	{"raw batches, still compressed", `curl -s -H 'Accept: application/vnd.kafka.recordbatch' 'http://%s/topics/codecs/partitions/0/records?offset=0&max_bytes=1' | head -c 61 | od -A d -t x1`},
	{"bytes of a segment file", `curl -s -H 'Range: bytes=0-60' 'http://%s/topics/plain/partitions/0/segments/0/log' | od -A d -t x1`},
}

func printTour(w io.Writer, data, admin net.Addr) {
	fmt.Fprintf(w, "\ncoldtap serves on http://%s (metrics: http://%s/metrics). Try:\n", data, admin)
	for _, t := range tour {
		fmt.Fprintf(w, "\n# %s\n%s\n", t.what, fmt.Sprintf(t.curl, data))
	}
	fmt.Fprintln(w, "\nCtrl-C ends it and cleans up.")
}
