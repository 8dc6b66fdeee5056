package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"coldtap/catalog/topic"
	"coldtap/inspect"
	"coldtap/internal/config"
	"coldtap/rangeio"
)

// looks are the sub-commands of inspect.
var looks = []struct {
	name    string
	operand string // "" = none, in brackets = optional
	summary string
	run     func(context.Context, *look) error
}{
	{"segments", "TOPIC[:PARTITION]", "the segments that the metadata knows, in every state but deleted", lookAtSegments},
	{"segment", "ID", "one segment: metadata, objects, manifest (an id that begins with a dash goes behind --)", lookAtSegment},
	{"log", "FILE|OBJECT", "the batches of a log, one a line; --records shows records too", lookAtLog},
	{"index", "FILE|OBJECT", "an index, snapshot, checkpoint, .meta or start object, by the name's ending", lookAtIndex},
	{"metadata-topic", "[TOPIC[:PARTITION]]", "the records of the cluster's __remote_log_metadata as they are, from its start to its end", lookAtMetadataTopic},
	{"verify", "[TOPIC]", "metadata against objects, both ways; --deep reads every byte; exit code 1 when anything is wrong", lookAtAll},
}

// look is one run of a sub-command.
type look struct {
	env     environment
	log     *slog.Logger
	file    configFlags
	out     *inspect.Output
	line    *counter
	operand string

	json    bool
	records bool
	deep    bool
	workers int
	base    int64
	part    string
}

const inspectSummary = "Looks at metadata, objects and Kafka's segment files without serving them. Nothing is changed."

func runInspect(ctx context.Context, env environment, args []string) error {
	var names []string
	overview := inspectSummary + "\n\nWhat to look at:\n"
	for _, l := range looks {
		names = append(names, l.name)
		overview += fmt.Sprintf("  %-35s %s\n", l.name+" "+l.operand, l.summary)
	}
	overview += "`coldtap inspect WHAT --help` shows the flags of each."
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		flags := newFlags(env, "inspect", overview, "coldtap inspect verify --config coldtap.yaml\n  coldtap inspect log 00000000000000000000.log --records")
		if _, err := flags.parse(env, args); err != nil {
			return err
		}
		return usage("say what to look at: %s", strings.Join(names, ", "))
	}
	for _, l := range looks {
		if l.name != args[0] {
			continue
		}
		k := &look{env: env, line: newCounter(env)}
		flags := newFlags(env, "inspect "+l.name+" "+l.operand, "Shows "+l.summary+".", "coldtap inspect "+l.name+" "+example(l.name))
		k.register(flags, l.name)
		if err := k.parse(flags, args[1:], l.operand); err != nil {
			return err
		}
		k.out = inspect.NewOutput(env.out, k.json)
		err := l.run(ctx, k)
		k.line.end()
		err = errors.Join(err, k.out.Close())
		if e, ok := errors.AsType[*inspect.Error](err); ok && e.Kind == inspect.Misused {
			return usageError{err}
		}
		return err
	}
	return usage("%q is none of %s", args[0], strings.Join(names, ", "))
}

func example(name string) string {
	return map[string]string{
		"segments": "orders:0 --config coldtap.yaml",
		"segment":  "kPBl8ErGTLyGEYFGJ5zFmQ --config coldtap.yaml",
		"log":      "00000000000000000000.log --records --json",
		"index":    "00000000000000000000.timeindex",
		"verify":   "--deep --config coldtap.yaml",

		"metadata-topic": "orders:0 --config coldtap.yaml --json",
	}[name]
}

func (k *look) register(flags *common, name string) {
	set := flags.set
	flags.logLevel = "warn"
	set.StringVar(&k.file.path, "config", "coldtap.yaml", "configuration `file`: where metadata and objects are")
	set.BoolVar(&k.json, "json", false, "one JSON value a line instead of tables")
	switch name {
	case "log":
		set.BoolVar(&k.records, "records", false, "show the records of each batch")
	case "index":
		set.Int64Var(&k.base, "base", -1, "the segment's base `offset`, where the name does not tell it")
		set.StringVar(&k.part, "part", "", "of a .meta object, show this `file` instead of the manifest: "+strings.Join(inspect.Parts, ", "))
	case "verify":
		set.BoolVar(&k.deep, "deep", false, "read everything: the SHA-256 of each file, every batch's CRC, every index")
		set.IntVar(&k.workers, "workers", 2, "segments read at a time by --deep")
	}
}

// parse takes the operand from before, between or behind the flags.
func (k *look) parse(flags *common, args []string, operand string) error {
	var operands []string
	flags.set.SetOutput(io.Discard) // errors are printed once, by run
	for len(args) > 0 {
		if err := flags.set.Parse(args); err == flag.ErrHelp {
			return err
		} else if err != nil {
			return usageError{err}
		}
		if args = flags.set.Args(); len(args) > 0 {
			operands, args = append(operands, args[0]), args[1:]
		}
	}
	var err error
	if k.log, err = flags.parse(k.env, nil); err != nil {
		return err
	}
	switch {
	case len(operands) > 1:
		return usage("unexpected argument %q", operands[1])
	case len(operands) == 1:
		k.operand = operands[0]
	case !strings.HasPrefix(operand, "["):
		return usage("%s is missing", operand)
	}
	return nil
}

// opened is what a configuration names: the store, its layout, and the metadata of a tier that may be in use.
type opened struct {
	store    *rangeio.Client
	layout   inspect.Layout
	metadata metadata
	close    func()
}

// tier opens all of it, and waits until the metadata is complete.
func (k *look) tier(ctx context.Context) (o opened, err error) {
	cfg, _, err := k.file.load(k.env)
	if err != nil {
		return o, err
	}
	var closers []func()
	o.close = func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	store, end, err := k.store(ctx, cfg)
	if err != nil {
		return o, err
	}
	closers = append(closers, end)
	o.store = store
	if o.layout, err = openLayout(cfg, store, 0, nil); err != nil {
		return o, err
	}
	cfg, end, err = withSnapshotCopy(cfg)
	if err != nil {
		return o, err
	}
	closers = append(closers, end)
	o.metadata, err = openMetadata(ctx, cfg, metadataOptions{
		store: store, log: k.log,
		progress: func(done, all int64) { k.line.show("read %d of %d manifests", done, all) },
	})
	if err != nil {
		return o, err
	}
	closers = append(closers, func() { o.metadata.Close() })
	return o, ready(ctx, cfg, o.metadata)
}

func (k *look) store(ctx context.Context, cfg config.Config) (store *rangeio.Client, end func(), err error) {
	backend, err := openStore(ctx, cfg, false)
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return rangeio.NewClient(backend, rangeio.Config{Logger: k.log}), func() { backend.Close() }, nil
}

// content opens a file, or, when there is no such file, an object of the configured store.
func (k *look) content(ctx context.Context) (in io.Reader, size int64, end func(), err error) {
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
	store, end, err := k.store(ctx, cfg)
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
func (k *look) bytes(done, all int64) {
	k.line.show("read %s of %s", size(done), size(all))
}

func lookAtSegments(ctx context.Context, k *look) error {
	o, err := k.tier(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	return inspect.Segments(k.out, o.metadata.Snapshot(), k.operand)
}

func lookAtSegment(ctx context.Context, k *look) error {
	o, err := k.tier(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	return inspect.Segment(ctx, k.out, o.metadata.Snapshot(), o.store, o.layout, k.operand)
}

func lookAtMetadataTopic(ctx context.Context, k *look) error {
	cfg, _, err := k.file.load(k.env)
	if err != nil {
		return err
	}
	if len(cfg.Metadata.Kafka.Bootstrap) == 0 {
		return usage("metadata.kafka.bootstrap is empty: name a broker of the cluster whose metadata topic is to be read")
	}
	reach, err := brokers(cfg.Metadata.Kafka, k.log, nil)
	if err != nil {
		return err
	}
	show, found, err := inspect.MetadataTopic(k.out, k.operand)
	if err != nil {
		return err
	}
	if err := topic.Walk(ctx, reach.ClientOptions(), cfg.Metadata.Kafka.Topic, show); err != nil {
		return err
	}
	return found()
}

func lookAtLog(ctx context.Context, k *look) error {
	in, size, end, err := k.content(ctx)
	if err != nil {
		return err
	}
	defer end()
	return inspect.Log(ctx, k.out, k.operand, in, size, inspect.LogOptions{Records: k.records, Progress: k.progressOf(k.env.out)})
}

// progressOf gives nothing when the output itself is on the terminal and moves on.
func (k *look) progressOf(out io.Writer) func(done, all int64) {
	if isTerminal(out) {
		return nil
	}
	return k.bytes
}

func lookAtIndex(ctx context.Context, k *look) error {
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

func lookAtAll(ctx context.Context, k *look) error {
	if k.workers < 1 || k.workers > 64 {
		return usage("--workers: %d is not from 1 to 64", k.workers)
	}
	o, err := k.tier(ctx)
	if err != nil {
		return err
	}
	defer o.close()
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
}
