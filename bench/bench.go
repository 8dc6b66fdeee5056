// Package bench measures coldtap against what is possible on the same machine in the same run: counts of store
// requests, ratios of bytes and of CPU time, resident memory. It prints tables and never seconds alone, since machines
// are shared and noisy.
//
// The data is synthetic and the same in every run; the store is in the process. Servers whose CPU or memory is measured
// run in a process of their own (the same binary, see Serve).
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Figure is one measured number beside its bar.
type Figure struct {
	Name  string
	Value string
	Bar   string
	OK    bool
}

// benchmark is one named measurement.
type benchmark struct {
	name    string
	summary string
	run     func(ctx context.Context, self Self) ([]Figure, error)
}

// Self is how a benchmark starts servers in processes of their own: the binary and the arguments that lead to Serve.
type Self struct {
	Path string
	Args []string
}

var benchmarks = []benchmark{
	{"herd", "100 readers of the same cold range", func(ctx context.Context, _ Self) ([]Figure, error) { return Herd(ctx) }},
	{"scan", "a sequential scan of ten times the memory bound", func(ctx context.Context, _ Self) ([]Figure, error) { return Scan(ctx) }},
	{"ndjson", "encoding records of 1 KiB", func(context.Context, Self) ([]Figure, error) { return NDJSON() }},
	{"raw", "raw batches from memory against a bare fasthttp handler", Raw},
	{"stalled", "1,000 clients that stop reading", Stalled},
}

// Names lists the benchmarks with what they measure.
func Names() (lines []string) {
	for _, b := range benchmarks {
		lines = append(lines, fmt.Sprintf("%-8s %s", b.name, b.summary))
	}
	return lines
}

// Run runs the named benchmarks (all when none is named) and prints a table. It fails when a bar is missed.
func Run(ctx context.Context, w io.Writer, self Self, names ...string) error {
	var missed []string
	found := 0
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BENCHMARK\tFIGURE\tMEASURED\tBAR\t")
	for _, b := range benchmarks {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		found++
		figures, err := b.run(ctx, self)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, f := range figures {
			mark := ""
			if !f.OK {
				mark = "MISSED"
				missed = append(missed, b.name+": "+f.Name)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", b.name, f.Name, f.Value, f.Bar, mark)
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("no benchmark is named %s", strings.Join(names, ", "))
	}
	if len(missed) > 0 {
		return fmt.Errorf("bars missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// atMost is a figure that must not exceed its bar.
func atMost(name string, value, bar float64, unit string) Figure {
	return Figure{Name: name, Value: fmt.Sprintf("%.3f%s", value, unit), Bar: fmt.Sprintf("≤ %g%s", bar, unit), OK: value <= bar}
}

// atLeast is a figure that must reach its bar.
func atLeast(name string, value, bar float64, unit string) Figure {
	return Figure{Name: name, Value: fmt.Sprintf("%.3f%s", value, unit), Bar: fmt.Sprintf("≥ %g%s", bar, unit), OK: value >= bar}
}
