package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

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

// offloadProgress shows what an offload is doing: the line on a terminal, a plain line per finished segment elsewhere.
type offloadProgress struct{ *statusLine }

func newOffloadProgress(out io.Writer) offloadProgress { return offloadProgress{newStatusLine(out)} }

func (p offloadProgress) event(e offload.Event) {
	moving := e.Step == offload.StepCopying
	switch {
	case !p.terminal && !moving:
		fmt.Fprintln(p.out, describe(e))
	case !p.terminal, moving && time.Since(p.drawn) < redraw:
	default:
		text := bar(e.Done, e.Total)
		if e.Total > 0 {
			text += fmt.Sprintf("%s of %s ", size(min(e.Done, e.Total)), size(e.Total))
		}
		p.write(text + describe(e))
	}
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
