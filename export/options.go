package export

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"coldtap/segment"
)

// Format is what the files hold.
type Format string

const (
	NDJSON  Format = "ndjson"  // the gateway's own ndjson, byte for byte; a file a partition
	CSV     Format = "csv"     // RFC 4180; a file a partition
	Parquet Format = "parquet" // typed columns; part files
	Raw     Format = "raw"     // batches as stored; a file a partition
)

// Options are what an export is asked for.
type Options struct {
	URL        string // of the gateway
	Topic      string
	Partitions []int32 // ascending; nil: all
	From, To   Position
	Format     Format
	Encoding   string // of keys and values: text, json (NDJSON only) or base64; empty: text for NDJSON, base64 for CSV
	Isolation  string // read_committed or read_uncommitted; empty: read_committed

	// Filters of records; not for Raw.
	Key     *string // nil: any
	Headers []Header
	// Lateness is how far out of order timestamps may be, when From or To is a time: reading goes on up to the first
	// record at or after To + Lateness.
	Lateness time.Duration

	SkipDamaged bool          // go on behind damage, and record the hole
	Parallel    int           // partitions read at a time; 0: 4
	Timeout     time.Duration // of one wait without progress; 0: 30 s
	Token       string        // bearer token
	TokenFile   string        // with the token, read again for each request
	CAFile      string        // PEM; empty: the system's

	Dir string    // the export's folder, or
	Out io.Writer // where records go, partition after partition, without a manifest; NDJSON and CSV only

	// Progress is called after each batch, by one goroutine at a time; it may be nil.
	Progress func(Progress)

	// Logger logs why a request is repeated; it may be nil.
	Logger *slog.Logger

	tuning    tuning
	transport http.RoundTripper // in place of the network, in tests
}

// Header is a header that a record must have.
type Header struct{ Key, Value string }

// Progress is how far an export is, in offsets; it includes what earlier runs exported.
type Progress struct{ Done, Total, Records int64 }

// tuning are sizes and waits that only tests change. Zero: the default.
type tuning struct {
	requestBytes    int64         // max_bytes of a request
	checkpointBytes int64         // batch bytes after which a file is made durable
	checkpointEvery time.Duration // and the manifest is saved no more often than this, unless something ends
	partBytes       int64         // a Parquet file's size
	rowGroupBytes   int64         // bytes of keys, values and headers in a row group
	tries           int           // requests without progress
	grace           time.Duration // how much longer than the gateway's own time-out a wait may take
	wait            func(time.Duration) <-chan time.Time
}

func (t *tuning) fill() {
	// 8 MiB is what a gateway with its default chunk looks ahead before the status line, so that an answer's progress is
	// in its headers and no proxy can drop it.
	t.requestBytes = cmp.Or(t.requestBytes, 8<<20)
	t.checkpointBytes = cmp.Or(t.checkpointBytes, 64<<20)
	t.checkpointEvery = cmp.Or(t.checkpointEvery, time.Second)
	t.partBytes = cmp.Or(t.partBytes, 128<<20)
	t.rowGroupBytes = cmp.Or(t.rowGroupBytes, 32<<20)
	t.tries = cmp.Or(t.tries, 10)
	t.grace = cmp.Or(t.grace, 15*time.Second)
	if t.wait == nil {
		t.wait = time.After
	}
}

// OptionError is a wrong option, or one that does not fit the export that the folder holds.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func badOption(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }

// fill sets defaults and checks what can be checked without the gateway.
func (o *Options) fill() error {
	o.tuning.fill()
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Parallel = cmp.Or(o.Parallel, 4)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Isolation = cmp.Or(o.Isolation, "read_committed")
	switch {
	case !segment.LegalTopic(o.Topic):
		return badOption("%q cannot be a topic's name", o.Topic)
	case o.Isolation != "read_committed" && o.Isolation != "read_uncommitted":
		return badOption("the isolation level must be read_committed or read_uncommitted, not %q", o.Isolation)
	case o.Parallel < 1 || o.Parallel > 1000:
		return badOption("from 1 to 1000 partitions can be read at a time, not %d", o.Parallel)
	case o.Timeout < time.Millisecond || o.Timeout > 10*time.Minute:
		return badOption("the timeout must be from 1ms to 10m, not %s", o.Timeout)
	case o.Lateness < 0:
		return badOption("the lateness must not be negative")
	case o.Lateness > 0 && o.To.kind != atTime:
		return badOption("a lateness needs a time as the end")
	case o.From.kind == atTime && o.To.kind == atTime && o.To.value < o.From.value,
		o.From.kind == atOffset && o.To.kind == atOffset && o.To.value < o.From.value:
		return badOption("the end %s is before the start %s", o.To, o.From)
	case o.Token != "" && o.TokenFile != "":
		return badOption("give a token or a token file, not both")
	case o.Dir == "" && o.Out == nil:
		return badOption("no folder to export into")
	}
	return o.fillFormat()
}

func (o *Options) fillFormat() error {
	filtered := o.Key != nil || len(o.Headers) > 0
	switch o.Format {
	case NDJSON:
		o.Encoding = cmp.Or(o.Encoding, "text")
	case CSV:
		o.Encoding = cmp.Or(o.Encoding, "base64")
	case Parquet, Raw:
		if o.Encoding != "" {
			return badOption("%s holds keys and values as they are and takes no encoding", o.Format)
		}
		if o.Out != nil {
			return badOption("only ndjson and csv can be written to standard output, not %s", o.Format)
		}
		if o.Format == Raw && filtered {
			return badOption("raw batches come whole: no filters by key or header")
		}
		return nil
	default:
		return badOption("the format must be ndjson, csv, parquet or raw, not %q", o.Format)
	}
	known := []string{"text", "base64"}
	if o.Format == NDJSON {
		known = append(known, "json")
	}
	if !slices.Contains(known, o.Encoding) {
		return badOption("the encoding of %s must be one of %s, not %q", o.Format, strings.Join(known, ", "), o.Encoding)
	}
	return nil
}

// maxPartitions bounds a list of partitions.
const maxPartitions = 100_000

// ParseTarget reads "orders" (all partitions) or "orders:0,3-5".
func ParseTarget(s string) (topic string, partitions []int32, err error) {
	topic, list, some := strings.Cut(s, ":")
	if !some {
		return topic, nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 31)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 31)
		}
		if err != nil || last < first {
			return "", nil, badOption("partitions must look like 0,3-5, not %q", list)
		}
		if last-first >= maxPartitions || len(partitions) >= maxPartitions {
			return "", nil, badOption("more than %d partitions", maxPartitions)
		}
		for p := first; p <= last; p++ {
			partitions = append(partitions, int32(p))
		}
	}
	slices.Sort(partitions)
	return topic, slices.Compact(partitions), nil
}

// formatPartitions writes partitions as ParseTarget reads them.
func formatPartitions(partitions []int32) string {
	if partitions == nil {
		return "all"
	}
	var b strings.Builder
	for i := 0; i < len(partitions); {
		j := i
		for j+1 < len(partitions) && partitions[j+1] == partitions[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(partitions[i])))
		if j > i {
			b.WriteString("-" + strconv.Itoa(int(partitions[j])))
		}
		i = j + 1
	}
	return b.String()
}
