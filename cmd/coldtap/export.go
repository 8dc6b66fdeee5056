package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"coldtap/export"

	"github.com/spf13/cobra"
)

// exportFlags are what export's flags say as text.
type exportFlags struct {
	from, to, out string
	key           string
	headers       []string
	format        string
}

func exportCommand(env *environment) *cobra.Command {
	var f exportFlags
	var o export.Options
	cmd := &cobra.Command{
		Use:   "export TOPIC[:PARTITIONS]",
		Short: "Copy a range of a topic from a gateway into files",
		Long: `Copies a range of a topic from a gateway into files, all partitions side by side. The range is fixed in manifest.json beside
the files when the export begins. Ended at any point and run again with the same options, it goes on: no gap, no
duplicate. Exit code 1 and the last lines say what is missing.

PARTITIONS look like 0,3-5; without them all are copied. A position is earliest, latest, an offset, or a time: RFC 3339
(2023-11-14T22:13:20Z), a date, or milliseconds with their unit (1700000000000ms). Times hold exactly the records with
FROM ≤ timestamp < TO, among those up to the first one at or after TO + --lateness.

Formats:
  ndjson   what the gateway gives as ndjson, a record a line
  csv      RFC 4180; null is \N; keys and values are base64, or text with --encoding text
  parquet  typed columns, in part files
  raw      record batches as stored, whole ones: the first and last may hold records outside the range`,
		Example: `  coldtap export orders --out orders-export
  coldtap export orders:0,3-5 --from 2023-11-14 --to 2023-11-15 --lateness 10m --format parquet --out orders-export
  coldtap export orders --from earliest --to 1000 --header type=refund --out - | jq .value`,
		Args: operand("TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := f.fill(&o, args[0], env.out)
			if cmd.Flags().Changed("key") {
				o.Key = &f.key
			}
			if err != nil {
				return usageError{err}
			}
			o.Logger = env.log
			return exportAndSummarize(cmd.Context(), env, o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.URL, "url", "http://127.0.0.1:8080", "the gateway's `URL`")
	flags.StringVar(&f.from, "from", "earliest", "`position` to start at")
	flags.StringVar(&f.to, "to", "latest", "`position` to end before; latest: what the tier has when the export begins")
	flags.StringVar(&f.format, "format", "ndjson", "ndjson, csv, parquet or raw")
	flags.StringVar(&f.out, "out", "", "`folder` to export into, or - for standard output (ndjson and csv, without going on later)")
	flags.StringVar(&o.Encoding, "encoding", "", "how keys and values are shown: text, base64, or for ndjson json (default: text for ndjson, base64 for csv)")
	flags.StringVar(&o.Isolation, "isolation", "read_committed", "read_committed or read_uncommitted")
	flags.StringVar(&f.key, "key", "", "only records with this `key`")
	flags.StringArrayVar(&f.headers, "header", nil, "only records with this header, `name=value` (repeatable: with all of them)")
	flags.DurationVar(&o.Lateness, "lateness", 0, "how far out of order timestamps may be, e.g. 10m; with a time as --to")
	flags.BoolVar(&o.SkipDamaged, "skip-damaged", false, "go on behind damage and record the hole in the manifest")
	flags.IntVar(&o.Parallel, "parallel", 4, "partitions read at a time; to standard output they come one after another")
	flags.DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long one wait without progress may take")
	flags.StringVar(&o.Token, "token", "", "bearer `token`; a file keeps it out of the list of processes")
	flags.StringVar(&o.TokenFile, "token-file", "", "`file` with the bearer token, read again for each request")
	flags.StringVar(&o.CAFile, "ca-file", "", "PEM `file` with the authorities to trust, in place of the system's")
	cmd.MarkFlagRequired("out")
	cmd.MarkFlagDirname("out")
	cmd.MarkFlagFilename("token-file")
	cmd.MarkFlagFilename("ca-file")
	for flag, values := range map[string][]cobra.Completion{
		"format": {"ndjson", "csv", "parquet", "raw"}, "encoding": {"text", "base64", "json"}, "isolation": {"read_committed", "read_uncommitted"},
		"from": {"earliest", "latest"}, "to": {"latest"},
	} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// fill reads what flags say as text.
func (f *exportFlags) fill(o *export.Options, target string, stdout io.Writer) (err error) {
	if o.Topic, o.Partitions, err = export.ParseTarget(target); err != nil {
		return err
	}
	if o.From, err = export.ParsePosition(f.from); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	if o.To, err = export.ParsePosition(f.to); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return usage("--header: %q is not name=value", h)
		}
		o.Headers = append(o.Headers, export.Header{Key: name, Value: value})
	}
	o.Format = export.Format(f.format)
	if f.out == "-" {
		o.Out = stdout
	} else {
		o.Dir = f.out
	}
	return nil
}

// exportAndSummarize runs an export and says what it has; the summary of one to standard output goes to standard error.
func exportAndSummarize(ctx context.Context, env *environment, o export.Options) error {
	line := newStatusLine(env.err)
	began := time.Now()
	first := int64(-1) // records when this run began
	o.Progress = func(p export.Progress) {
		if first < 0 {
			first = p.Records
		}
		rate := float64(p.Records-first) / max(time.Since(began).Seconds(), 1)
		line.show("%s%d of %d offsets, %d records, %.0f a second", bar(p.Done, p.Total), p.Done, p.Total, p.Records, rate)
	}
	m, err := export.Run(ctx, o)
	line.end()
	if m != nil {
		to := env.out
		if o.Out != nil {
			to = env.err
		}
		m.Summarize(to)
	}
	switch _, wrong := errors.AsType[*export.OptionError](err); {
	case wrong:
		return usageError{err}
	case err != nil:
		return err
	case !m.Complete:
		return errors.New("the export is not complete; the reasons are above")
	}
	return nil
}
