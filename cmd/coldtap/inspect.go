package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"coldtap/catalog/kafka"
	"coldtap/cluster"
	"coldtap/inspect"
	"coldtap/rangeio"

	"github.com/spf13/cobra"
)

// inspection is one run of a sub-command of inspect.
type inspection struct {
	env     *environment
	file    configFlags
	out     *inspect.Output
	line    *statusLine
	operand string

	json    bool
	records bool
	deep    bool
	workers int
	base    int64
	part    string
}

func inspectCommand(env *environment) *cobra.Command {
	k := &inspection{env: env}
	logs := k.command("log FILE|OBJECT", "Show the batches of a log, one a line, with --records its records too",
		"00000000000000000000.log --records --json", inspectLog)
	logs.Flags().BoolVar(&k.records, "records", false, "show the records of each batch")

	index := k.command("index FILE|OBJECT", "Show an index, snapshot, checkpoint, .meta or start object, by the name's ending",
		"00000000000000000000.timeindex", inspectIndex)
	index.Flags().Int64Var(&k.base, "base", -1, "the segment's base `offset`, where the name does not tell it")
	index.Flags().StringVar(&k.part, "part", "", "of a .meta object, show this `file` instead of the manifest: "+strings.Join(inspect.Parts, ", "))

	verify := k.command("verify [TOPIC]", "Compare metadata with objects, both ways; exit code 1 when anything is wrong",
		"--deep --config coldtap.yaml", inspectVerify)
	verify.Flags().BoolVar(&k.deep, "deep", false, "read everything: the SHA-256 of each file, every batch's CRC, every index")
	verify.Flags().IntVar(&k.workers, "workers", 2, "segments read at a time by --deep")

	metadataTopic := k.command("metadata-topic [TOPIC[:PARTITION]]", "Show the records of the cluster's __remote_log_metadata as they are, from its start to its end",
		"orders:0 --config coldtap.yaml --json", inspectMetadataTopic)
	metadataTopic.Long = "Shows the records of the cluster's __remote_log_metadata as they are, from its start to its end. It is for\n" +
		"metadata.kind kafka: a live cluster whose brokers tier segments themselves (KIP-405). The kinds embedded and archive have\n" +
		"no such topic; `coldtap inspect segments` shows what they know. Any configuration with metadata.kafka.bootstrap will do."

	cmd := group(&cobra.Command{
		Use:     "inspect",
		Short:   "Look at metadata, objects and segment files, and verify them",
		Long:    "Looks at metadata, objects and Kafka's segment files without serving them. Nothing is changed.",
		Example: "  coldtap inspect verify --config coldtap.yaml\n  coldtap inspect log 00000000000000000000.log --records",
	},
		k.command("segments TOPIC[:PARTITION]", "Show the segments that the metadata knows, in every state but deleted",
			"orders:0 --config coldtap.yaml", inspectSegments),
		k.command("segment ID", "Show one segment: metadata, objects, manifest (an id that begins with a dash goes behind --)",
			"kPBl8ErGTLyGEYFGJ5zFmQ --config coldtap.yaml", inspectSegment),
		logs, index,
		metadataTopic,
		verify,
	)
	logFlags(cmd, "warn")
	return cmd
}

// command makes a sub-command; use is its name and its operand, example what follows the name.
func (k *inspection) command(use, summary, example string, run func(context.Context, *inspection) error) *cobra.Command {
	name, what, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:     use,
		Short:   summary,
		Example: "  coldtap inspect " + name + " " + example,
		Args:    operand(what),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				k.operand = args[0]
			}
			k.line = newStatusLine(k.env.err)
			k.out = inspect.NewOutput(k.env.out, k.json)
			err := run(cmd.Context(), k)
			k.line.end()
			err = errors.Join(err, k.out.Close())
			if e, ok := errors.AsType[*inspect.Error](err); ok && e.Kind == inspect.Misused {
				return usageError{err}
			}
			return err
		},
	}
	k.file.register(cmd)
	cmd.Flags().BoolVar(&k.json, "json", false, "one JSON value a line instead of tables")
	return cmd
}

// openedTier is what a configuration names: the store, its layout, and the metadata of a tier that may be in use.
type openedTier struct {
	store    *rangeio.Client
	layout   inspect.Layout
	metadata metadata
}

// onTier opens all of it, waits until the metadata is complete, and calls run.
func (k *inspection) onTier(ctx context.Context, run func(o openedTier) error) error {
	cfg, _, err := k.file.load(k.env)
	if err != nil {
		return err
	}
	store, end, err := openClient(ctx, cfg, false, k.env.log)
	if err != nil {
		return err
	}
	defer end()
	layout, err := openLayout(cfg, store, 0, nil)
	if err != nil {
		return err
	}
	cfg, remove, err := withSnapshotCopy(cfg)
	if err != nil {
		return err
	}
	defer remove()
	known, err := openMetadata(ctx, cfg, metadataOptions{
		store: store, log: k.env.log,
		progress: func(done, all int64) { k.line.show("read %d of %d manifests", done, all) },
	})
	if err != nil {
		return err
	}
	defer known.Close()
	if err := waitComplete(ctx, cfg, known); err != nil {
		return err
	}
	return run(openedTier{store: store, layout: layout, metadata: known})
}

// content opens a file, or, when there is no such file, an object of the configured store.
func (k *inspection) content(ctx context.Context) (in io.Reader, size int64, end func(), err error) {
	f, err := os.Open(k.operand)
	switch {
	case err == nil:
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no regular file", k.operand)
		}
		if err != nil {
			f.Close()
			return nil, 0, nil, err
		}
		return f, info.Size(), func() { f.Close() }, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil, err
	}
	cfg, _, err := k.file.load(k.env)
	if err != nil {
		return nil, 0, nil, usage("there is no file %s, and the store that may have such an object is not known: %w", k.operand, err)
	}
	store, end, err := openClient(ctx, cfg, false, k.env.log)
	if err != nil {
		return nil, 0, nil, err
	}
	object, err := inspect.OpenObject(ctx, store, k.operand)
	if err != nil {
		end()
		return nil, 0, nil, err
	}
	return object, object.Size(), end, nil
}

// bytes shows how far a reading is.
func (k *inspection) bytes(done, all int64) {
	k.line.show("read %s of %s", size(done), size(all))
}

func inspectSegments(ctx context.Context, k *inspection) error {
	return k.onTier(ctx, func(o openedTier) error {
		return inspect.Segments(k.out, o.metadata.Snapshot(), k.operand)
	})
}

func inspectSegment(ctx context.Context, k *inspection) error {
	return k.onTier(ctx, func(o openedTier) error {
		return inspect.Segment(ctx, k.out, o.metadata.Snapshot(), o.store, o.layout, k.operand)
	})
}

func inspectMetadataTopic(ctx context.Context, k *inspection) error {
	cfg, _, err := k.file.load(k.env)
	if err != nil {
		return err
	}
	if len(cfg.Metadata.Kafka.Bootstrap) == 0 {
		return usage("the metadata topic is a live cluster's (metadata.kind kafka), this configuration is of metadata.kind %s; "+
			"to read it all the same name a broker in metadata.kafka.bootstrap", cfg.Metadata.Kind)
	}
	reach, err := clusterConfig(cfg.Metadata.Kafka, k.env.log, nil)
	if err != nil {
		return err
	}
	show, found, err := inspect.MetadataTopic(k.out, k.operand)
	if err != nil {
		return err
	}
	b, err := cluster.Dial(reach)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := kafka.Walk(ctx, b, cfg.Metadata.Kafka.Topic, show); err != nil {
		return err
	}
	return found()
}

func inspectLog(ctx context.Context, k *inspection) error {
	in, size, end, err := k.content(ctx)
	if err != nil {
		return err
	}
	defer end()
	return inspect.Log(ctx, k.out, k.operand, in, size, inspect.LogOptions{Records: k.records, Progress: k.progressOf(k.env.out)})
}

// progressOf gives nothing when the output itself is on the terminal and moves on.
func (k *inspection) progressOf(out io.Writer) func(done, all int64) {
	if isTerminal(out) {
		return nil
	}
	return k.bytes
}

func inspectIndex(ctx context.Context, k *inspection) error {
	in, size, end, err := k.content(ctx)
	if err != nil {
		return err
	}
	defer end()
	if size > inspect.MaxIndex {
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", k.operand, size, inspect.MaxIndex)
	}
	raw, err := io.ReadAll(io.LimitReader(in, size))
	if err != nil {
		return err
	}
	return inspect.Index(k.out, k.operand, raw, k.base, k.part)
}

func inspectVerify(ctx context.Context, k *inspection) error {
	if k.workers < 1 || k.workers > 64 {
		return usage("--workers: %d is not from 1 to 64", k.workers)
	}
	return k.onTier(ctx, func(o openedTier) error {
		summary, err := inspect.Verify(ctx, k.out, inspect.VerifyConfig{
			Metadata: o.metadata, Store: o.store, Layout: o.layout, Topic: k.operand, Deep: k.deep, Workers: k.workers, Progress: k.bytes,
		})
		if err != nil {
			return err
		}
		if summary.Problems > 0 {
			return fmt.Errorf("%d problems", summary.Problems)
		}
		return nil
	})
}
