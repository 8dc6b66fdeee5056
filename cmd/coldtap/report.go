package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"coldtap/inspect"
	"coldtap/offload"
)

// printReport shows what an offload did, partition by partition, and why each thing that was left was left.
func printReport(w io.Writer, r *offload.Report) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range r.Partitions {
		p := &r.Partitions[i]
		end := "-"
		if p.TieredEnd >= 0 {
			end = fmt.Sprint(p.TieredEnd)
		}
		fmt.Fprintf(table, "%s-%d\tcopied %d\t%s\ttiered end %s\n", p.Topic, p.Partition, p.Segments, size(p.Bytes), end)
		for _, h := range p.Holes {
			fmt.Fprintf(table, "\thole\t%d to %d\t%s\n", h.From, h.To-1, inspect.Printable(h.Reason))
		}
		for _, l := range p.Left {
			fmt.Fprintf(table, "\tleft %s\t%s\t%s\n", counted(l), size(l.Bytes), because(l))
		}
		for _, text := range p.Rebuilt {
			fmt.Fprintf(table, "\trebuilt\t\t%s\n", inspect.Printable(text))
		}
		for _, text := range p.Notes {
			fmt.Fprintf(table, "\tnote\t\t%s\n", inspect.Printable(text))
		}
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(table, "%s\tpassed over\t\t%s\n", inspect.Printable(s.Path), inspect.Printable(string(s.Reason)))
	}
	table.Flush()
	fmt.Fprintln(w, summary(r))
}

// summary is the report in one line.
func summary(r *offload.Report) string {
	segments, bytes := r.Copied()
	failed, holes := 0, 0
	for i := range r.Partitions {
		if r.Partitions[i].Failed() {
			failed++
		}
		holes += len(r.Partitions[i].Holes)
	}
	text := fmt.Sprintf("copied %d segments (%s) of %d partitions", segments, size(bytes), len(r.Partitions))
	if failed > 0 {
		text += fmt.Sprintf("; %d partitions failed", failed)
	}
	if holes > 0 {
		text += fmt.Sprintf("; %d holes", holes)
	}
	return text
}

func counted(l offload.Leftover) string {
	if l.Base < 0 {
		return "all"
	}
	return fmt.Sprintf("%d from offset %d", l.Segments, l.Base)
}

func because(l offload.Leftover) string {
	if l.Detail == "" {
		return string(l.Reason)
	}
	return string(l.Reason) + ": " + inspect.Printable(l.Detail)
}

// size writes bytes for people, to three digits.
func size(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for value >= 1024 && i < len(units)-1 {
		value /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[i]
}

// describe is one event in a line.
func describe(e offload.Event) string {
	place := "log directory"
	if e.Topic != "" {
		place = fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	}
	text := fmt.Sprintf("%s: %s", place, e.Step)
	if e.Base >= 0 {
		text += fmt.Sprintf(" from offset %d", e.Base)
	}
	if e.Bytes > 0 {
		text += ", " + size(e.Bytes)
	}
	if e.Reason != "" {
		text += ": " + string(e.Reason)
	}
	if e.Detail != "" {
		text += ": " + inspect.Printable(e.Detail)
	}
	return text
}

// barWidth is the progress bar's width in characters.
const barWidth = 24

// bar draws how far something is; empty when nobody knows how much there is.
func bar(done, all int64) string {
	if all <= 0 {
		return ""
	}
	filled := int(barWidth * min(done, all) / all)
	return fmt.Sprintf("[%s%s] ", strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled))
}
