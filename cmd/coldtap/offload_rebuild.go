package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"coldtap/catalog/embedded"
	"coldtap/inspect"
	"coldtap/internal/config"
	"coldtap/offload/rebuild"

	"github.com/spf13/cobra"
)

func rebuildCommand(env *environment) *cobra.Command {
	var file configFlags
	var cluster string
	var dry bool
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the metadata anew from what is in the store",
		Long: `Makes the metadata database anew from the bucket: every .meta object is read, and its segment recorded under the
same id as copied. The database must be new, or what an interrupted rebuild left. What cannot be believed is left out
and reported; nothing in the bucket is changed. Run it while no offloader runs.`,
		Example: "  coldtap offload rebuild --config coldtap.yaml",
		Args:    operand(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, done, err := file.load(env, ownsTier)
			if done || err != nil {
				return err
			}
			return rebuildAndReport(cmd.Context(), env, cfg, cluster, dry)
		},
	}
	file.registerAll(cmd)
	cmd.Flags().StringVar(&cluster, "cluster", "", "take the segments of this cluster `id` only; needed when the bucket holds several clusters'")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be recorded, and leave the database alone")
	return cmd
}

func rebuildAndReport(ctx context.Context, env *environment, cfg config.Config, cluster string, dry bool) error {
	shown := newStatusLine(env.err)
	contents, err := rebuildOnce(ctx, cfg, cluster, dry, shown, env.log)
	shown.end()
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
	if dry {
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
func rebuildOnce(ctx context.Context, cfg config.Config, cluster string, dry bool, shown *statusLine, log *slog.Logger) (*rebuild.Contents, error) {
	if err := ownsTier(cfg); err != nil {
		return nil, err
	}
	store, end, err := openClient(ctx, cfg, false, log)
	if err != nil {
		return nil, err
	}
	defer end()
	contents, err := rebuild.Scan(ctx, rebuild.Config{
		Store: store, Cluster: cluster,
		Progress: func(read, listed int) { shown.show("read %d of %d objects", read, listed) },
	})
	if err != nil || dry {
		return contents, err
	}
	db, err := embedded.OpenWriter(ctx, cfg.Metadata.Embedded.Path)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	defer db.Close()
	return contents, rebuild.Record(ctx, db, contents, func(recorded, all int) {
		shown.show("recorded %d of %d segments", recorded, all)
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
