package export

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Summarize writes what the export has, partition by partition, and in the last line whether that is everything that
// was asked for, or why not.
func (m *Manifest) Summarize(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var records, bytes int64
	incomplete, timed := 0, false
	for _, p := range m.Partitions {
		size := int64(0)
		for _, f := range p.Files {
			size += f.Bytes
		}
		timed = timed || p.StopTimestamp != nil
		records += p.Records
		bytes += size
		state := "complete"
		if !p.complete() {
			incomplete++
			state = "incomplete: " + p.missing()
		}
		offsets := "no offsets"
		if p.NextOffset > p.StartOffset {
			offsets = fmt.Sprintf("offsets %d to %d", p.StartOffset, p.NextOffset-1)
		}
		fmt.Fprintf(table, "%s-%d\t%s\t%d records\t%s\n", m.Topic, p.Partition, offsets, p.Records, state)
	}
	table.Flush()
	what := fmt.Sprintf("%s of %s", counted(records, "record"), counted(int64(len(m.Partitions)), "partition"))
	if bytes > 0 {
		what += fmt.Sprintf(", %d bytes", bytes)
	}
	if timed {
		// Timestamps need not be in order: what lies behind the record that ended the reading was not looked at.
		what += ", as far as --lateness " + cmp.Or(m.Asked["lateness"], "0s") + " reaches"
	}
	if incomplete == 0 {
		fmt.Fprintf(w, "complete: %s\n", what)
		return
	}
	fmt.Fprintf(w, "incomplete: %s; something is missing of %s\n", what, counted(int64(incomplete), "partition"))
}

func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// missing says what keeps a partition from being complete.
func (p *Partition) missing() string {
	var reasons []string
	for _, h := range p.Holes {
		reasons = append(reasons, fmt.Sprintf("offsets %d to %d: %s", h.From, h.To-1, h.Reason))
	}
	if !p.done() {
		reason := p.Message
		if reason == "" {
			reason = "not read yet"
		}
		reasons = append(reasons, fmt.Sprintf("from offset %d on: %s", p.NextOffset, reason))
	}
	return strings.Join(reasons, "; ")
}
