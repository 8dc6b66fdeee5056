package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// scanned is a record of a plain scan.
type scanned struct {
	line      string
	Offset    int64           `json:"offset"`
	Timestamp int64           `json:"timestamp"`
	Key       any             `json:"key"` // a string, the marker or null
	Headers   []scannedHeader `json:"headers"`
}

type scannedHeader struct{ Key, Value any }

func scan(t *testing.T, base, dir string) (records []scanned) {
	t.Helper()
	for _, line := range fetchLines(t, base, dir, "offset=earliest") {
		r := scanned{line: line}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// within is the definition of a range: [from, to), where a time is that of the first record at or after it, and of its
// records those whose timestamps lie inside.
func within(records []scanned, from, to Position, lateness int64) (lines []string) {
	started := false
	for _, r := range records {
		switch from.kind {
		case atOffset:
			started = r.Offset >= from.value
		case atTime:
			started = started || r.Timestamp >= from.value
		default:
			started = true
		}
		if !started {
			continue
		}
		if to.kind == atOffset && r.Offset >= to.value || to.kind == atTime && r.Timestamp >= to.value+lateness {
			break
		}
		if from.kind == atTime && r.Timestamp < from.value || to.kind == atTime && r.Timestamp >= to.value {
			continue
		}
		lines = append(lines, r.line)
	}
	return lines
}

// TestRangesEqualAPlainScan: random offsets and times, in order and not, with random lateness.
func TestRangesEqualAPlainScan(t *testing.T) {
	base := startGateway(t)
	random := rand.New(rand.NewPCG(5, 5))
	lengths := map[int]int{}
	for _, dir := range []string{"plain-0", "txn-1", "gaps-0", "codecs-0"} {
		records := scan(t, base, dir)
		topic, number, _ := strings.Cut(dir, "-")
		_, partitions, err := ParseTarget(topic + ":" + number)
		if err != nil {
			t.Fatal(err)
		}
		place := func() Position {
			r := records[random.IntN(len(records))]
			if random.IntN(2) == 0 {
				return Offset(r.Offset + random.Int64N(3))
			}
			return Time(r.Timestamp + random.Int64N(3) - 1)
		}
		for range 25 {
			from, to := place(), place()
			if from.kind == to.kind && from.value > to.value {
				from, to = to, from
			}
			if from.kind == atOffset && to.kind == atTime && random.IntN(2) == 0 {
				from = Earliest
			}
			o := small(Options{URL: base, Topic: topic, Partitions: partitions, From: from, To: to, Format: NDJSON})
			if to.kind == atTime {
				o.Lateness = time.Duration(random.IntN(3)) * 5 * time.Second
			}
			var out bytes.Buffer
			o.Out = &out
			m, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want := within(records, from, to, o.Lateness.Milliseconds())
			lengths[min(len(want), 3)]++
			equal(t, fmt.Sprintf("%s from %s to %s + %s", dir, from, to, o.Lateness), slices.Collect(strings.Lines(out.String())), want)
			if p := m.Partitions[0]; p.Ended != endedRange && p.Ended != endedTier {
				t.Errorf("%+v", p)
			}

			// Raw batches hold the same offsets, and of times at least the records inside.
			o.Out, o.Dir, o.Format, o.Encoding = nil, t.TempDir(), Raw, ""
			raw, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if raw.Partitions[0].NextOffset != m.Partitions[0].NextOffset {
				t.Errorf("%s from %s to %s: raw ended at %d, ndjson at %d", dir, from, to, raw.Partitions[0].NextOffset, m.Partitions[0].NextOffset)
			}
			p := raw.Partitions[0]
			p.EndOffset = &p.NextOffset
			has := map[int64]bool{}
			for _, offset := range offsetsOf(t, strings.Join(rawLines(t, o.Dir, dir, raw, p), "")) {
				has[offset] = true
			}
			for _, offset := range offsetsOf(t, strings.Join(want, "")) {
				if !has[offset] {
					t.Errorf("%s from %s to %s: raw lacks offset %d", dir, from, to, offset)
				}
			}
		}
	}
	if lengths[3] < 50 {
		t.Errorf("too few ranges with records: %v", lengths)
	}
}

// TestFiltersEqualAPlainScan: by key, by header, and by both.
func TestFiltersEqualAPlainScan(t *testing.T) {
	base := startGateway(t)
	seen := map[string]int{}
	for _, topic := range []string{"plain", "gaps"} {
		records := scan(t, base, topic+"-0")
		var keys []*string
		var headers [][]Header
		for i := 0; i < len(records); i += len(records) / 6 {
			r := records[i]
			if key, ok := r.Key.(string); ok {
				keys = append(keys, &key)
			}
			for _, h := range r.Headers {
				if value, ok := h.Value.(string); ok {
					headers = append(headers, []Header{{h.Key.(string), value}})
				}
			}
		}
		empty := ""
		keys = append(keys, nil, &empty)
		headers = append(headers, nil)
		for _, key := range keys {
			for _, h := range headers {
				var want []string
				for _, r := range records {
					matches := key == nil || r.Key == any(*key)
					for _, one := range h {
						matches = matches && slices.Contains(r.Headers, scannedHeader{one.Key, one.Value})
					}
					if matches {
						want = append(want, r.line)
					}
				}
				var out bytes.Buffer
				mustRun(t, small(Options{URL: base, Topic: topic, To: Latest, Format: NDJSON, Key: key, Headers: h, Out: &out}))
				equal(t, topic, slices.Collect(strings.Lines(out.String())), want)
				if len(want) > 0 && len(want) < len(records) {
					seen[fmt.Sprint(key != nil, h != nil)]++
				}
			}
		}
	}
	if seen["true false"] == 0 || seen["false true"] == 0 {
		t.Errorf("filters that leave something out: %v", seen)
	}
}

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{"a": "all", "a:0": "0", "a:3-5,0": "0,3-5", "a:1,1,2": "1-2", "a:7,9": "7,9"} {
		topic, partitions, err := ParseTarget(text)
		if err != nil || topic != "a" || formatPartitions(partitions) != want {
			t.Errorf("%s: %s %v %v", text, topic, partitions, err)
		}
	}
	for _, text := range []string{"a:", "a:-1", "a:1-", "a:5-3", "a:x", "a:1,,2", "a:0-100000", "a:2147483648", "a:0x1"} {
		if _, p, err := ParseTarget(text); err == nil {
			t.Errorf("%s: %v", text, p)
		}
	}
}

func TestPositions(t *testing.T) {
	for text, want := range map[string]Position{
		"earliest": Earliest, "latest": Latest, "0": Offset(0), "1700000000000": Offset(1700000000000), "1700000000000ms": Time(1700000000000), "0ms": Time(0),
		"2023-11-14T22:13:20Z": Time(1700000000000), "2023-11-14 22:13:20": Time(1700000000000), "2023-11-14T22:13:20.0001+00:00": Time(1700000000001),
		"2023-11-14": Time(1699920000000), "9223372036854775807ms": Time(1<<63 - 1),
	} {
		got, err := ParsePosition(text)
		if err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
		if again, err := ParsePosition(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s, which is %v %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "now", "1s", "9223372036854775808", "2023-11-14T22:13Z", "1969-12-31", "-1ms"} {
		if got, err := ParsePosition(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	key := "k"
	for want, change := range map[string]func(o *Options){
		"cannot be a topic's name":    func(o *Options) { o.Topic = "../x" },
		"isolation level must be":     func(o *Options) { o.Isolation = "x" },
		"the format must be":          func(o *Options) { o.Format = "xml" },
		"the encoding of csv":         func(o *Options) { o.Format, o.Encoding = CSV, "json" },
		"takes no encoding":           func(o *Options) { o.Format, o.Encoding = Parquet, "base64" },
		"no filters by key":           func(o *Options) { o.Format, o.Key = Raw, &key },
		"standard output, not raw":    func(o *Options) { o.Format, o.Out = Raw, os.Stdout },
		"is before the start":         func(o *Options) { o.From, o.To = Offset(5), Offset(4) },
		"a lateness needs a time":     func(o *Options) { o.Lateness = time.Second },
		"no folder":                   func(o *Options) { o.Dir = "" },
		"not both":                    func(o *Options) { o.Token, o.TokenFile = "a", "b" },
		"partitions can be read":      func(o *Options) { o.Parallel = -1 },
		"the timeout must be":         func(o *Options) { o.Timeout = time.Hour },
		"the CA file":                 func(o *Options) { o.CAFile = "/nosuch" },
		"the token file":              func(o *Options) { o.TokenFile = "/nosuch" },
		"must not be negative":        func(o *Options) { o.Lateness = -1 },
		"the gateway's URL must look": func(o *Options) { o.URL = "x" },
	} {
		o := Options{URL: "http://127.0.0.1:1", Topic: "t", To: Latest, Format: NDJSON, Dir: t.TempDir()}
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
