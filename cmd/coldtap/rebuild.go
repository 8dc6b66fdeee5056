package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"coldtap/catalog/sqlite"
	"coldtap/inspect"
	"coldtap/internal/config"
	"coldtap/offload/rebuild"
	"coldtap/rangeio"
)

func runRebuild(ctx context.Context, env environment, args []string) error {
	flags := newFlags(env, "offload rebuild",
		`Makes the metadata database anew from the bucket: every .meta object is read, and its segment recorded under the
same id as copied. The database must be new, or what an interrupted rebuild left. What cannot be believed is left out
and reported; nothing in the bucket is changed. Run it while no offloader runs.`,
		"coldtap offload rebuild --config coldtap.yaml")
	var file configFlags
	file.register(flags.set)
	cluster := flags.set.String("cluster", "", "take the segments of this cluster `id` only; needed when the bucket holds several clusters'")
	dry := flags.set.Bool("dry-run", false, "show what would be recorded, and leave the database alone")
	log, err := flags.parse(env, args)
	if err != nil {
		return err
	}
	cfg, done, err := file.load(env)
	if done || err != nil {
		return err
	}
	line := newCounter(env)
	contents, err := rebuildOnce(ctx, cfg, *cluster, *dry, line, log)
	line.end()
	if contents != nil {
		printContents(env.out, contents)
	}
	if e, ok := errors.AsType[*rebuild.Error](err); ok && e.Kind == rebuild.SeveralClusters {
		return usage("%w: give --cluster", e)
	}
	if err != nil {
		return err
	}
	n, bytes := contents.Segments()
	verb := "recorded"
	if *dry {
		verb = "would record"
	}
	fmt.Fprintf(env.out, "%s %d segments (%s) of %d partitions of cluster %s\n", verb, n, size(bytes), len(contents.Partitions), contents.ClusterID)
	if contents.Lost() {
		return errors.New("not everything in the bucket could be recorded; the reasons are above")
	}
	return nil
}

// rebuildOnce reads the bucket and then opens the metadata for writing, so that a bucket that cannot be read leaves no
// database behind.
func rebuildOnce(ctx context.Context, cfg config.Config, cluster string, dry bool, line *counter, log *slog.Logger) (*rebuild.Contents, error) {
	if err := ownsTier(cfg); err != nil {
		return nil, err
	}
	backend, err := openStore(ctx, cfg, false)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defer backend.Close()
	contents, err := rebuild.Scan(ctx, rebuild.Config{
		Store: rangeio.NewClient(backend, rangeio.Config{Logger: log}), Cluster: cluster,
		Progress: func(read, listed int) { line.show("read %d of %d objects", read, listed) },
	})
	if err != nil || dry {
		return contents, err
	}
	db, err := sqlite.OpenWriter(ctx, cfg.Metadata.Embedded.Path)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	defer db.Close()
	return contents, rebuild.Record(ctx, db, contents, func(recorded, all int) {
		line.show("recorded %d of %d segments", recorded, all)
	})
}

func printContents(w io.Writer, c *rebuild.Contents) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range c.Partitions {
		p := &c.Partitions[i]
		bytes, end := int64(0), p.Start
		for j := range p.Segments {
			bytes += p.Segments[j].Size
			end = max(end, p.Segments[j].EndOffset+1)
		}
		fmt.Fprintf(table, "%s-%d\t%d segments\t%s\tfrom offset %d to %d\n", p.Topic, p.ID.Partition, len(p.Segments), size(bytes), p.Start, end)
	}
	for _, f := range c.Findings {
		fmt.Fprintf(table, "%s\t%s\t\t%s\n", f.Problem, inspect.Printable(f.Object), inspect.Printable(f.Detail))
	}
	table.Flush()
	if c.Foreign > 0 {
		fmt.Fprintf(w, "%d objects of the bucket are not coldtap's\n", c.Foreign)
	}
}

// counter shows how far a long reading is: on a terminal only, where it rewrites one line.
type counter struct {
	out      io.Writer
	terminal bool
	drawn    time.Time
}

func newCounter(env environment) *counter {
	return &counter{out: env.err, terminal: isTerminal(env.err)}
}

func (c *counter) show(format string, args ...any) {
	if !c.terminal || time.Since(c.drawn) < redraw {
		return
	}
	c.drawn = time.Now()
	fmt.Fprintf(c.out, clearLine+format, args...)
}

// end leaves the terminal's line clean.
func (c *counter) end() {
	if c.terminal {
		fmt.Fprint(c.out, clearLine)
	}
}
