package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sampleFiles gives the files of a real broker's log directory that end in suffix, by path, ascending.
func sampleFiles(tb testing.TB, suffix string) (names []string, files map[string][]byte) {
	tb.Helper()
	files, err := sample.Files()
	if err != nil {
		tb.Fatal(err)
	}
	for name := range maps.Keys(files) {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		tb.Fatalf("no %s in the sample", suffix)
	}
	return names, files
}

// sampleBatches gives the first n batches of each log of the sample.
func sampleBatches(tb testing.TB, n int) [][]byte {
	tb.Helper()
	var all [][]byte
	names, files := sampleFiles(tb, ".log")
	for _, name := range names {
		left := n
		for b, err := range Batches(files[name]) {
			if err != nil {
				tb.Fatal(err)
			}
			if left--; left < 0 {
				break
			}
			all = append(all, b.Bytes)
		}
	}
	return all
}

// sampleIndexes gives, for index files of the sample, base offset, bytes, and the size of the log beside them.
func sampleIndexes(tb testing.TB, suffix string, fn func(name string, base int64, raw, log []byte)) {
	tb.Helper()
	names, files := sampleFiles(tb, suffix)
	for _, name := range names {
		_, file, _ := strings.Cut(name, "/")
		base, _, ok := ParseFileName(file)
		if !ok {
			tb.Fatalf("%s is no segment file's name", name)
		}
		fn(name, base, files[name], files[strings.TrimSuffix(name, suffix)+".log"])
	}
}

// What this package reads from a real broker's segments is what Kafka's own consumer read from that broker.
func TestRecordsAreThoseOfKafkasConsumer(t *testing.T) {
	names, files := sampleFiles(t, ".log")
	for _, partition := range sample.Partitions {
		t.Run(partition, func(t *testing.T) {
			want := testkit.Expected(t, partition, "read_uncommitted")
			d := NewDecoder(64<<20, nil)
			defer d.Close()
			var rec Record
			next, n := int64(0), 0
			for _, name := range names {
				if !strings.HasPrefix(name, partition+"/") {
					continue
				}
				for b, err := range Batches(files[name]) {
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if err := VerifyCRC(&b.Header, b.Bytes); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if b.Header.BaseOffset < next {
						t.Fatalf("%s: batch at %d after %d", name, b.Header.BaseOffset, next)
					}
					next = b.Header.LastOffset() + 1
					if b.Header.IsControl() {
						continue
					}
					if err := d.Open(b.Bytes); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					for {
						ok, err := d.Next(&rec)
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if !ok {
							break
						}
						if n == len(want) {
							t.Fatalf("%s: record %d is beyond what the consumer saw", name, rec.Offset)
						}
						if diff := differs(&rec, &want[n]); diff != "" {
							t.Fatalf("%s: record %d (consumer's %d): %s", name, rec.Offset, want[n].Offset, diff)
						}
						n++
					}
				}
			}
			if n != len(want) {
				t.Fatalf("%d records, the consumer saw %d", n, len(want))
			}
		})
	}
}

func differs(got *Record, want *testkit.Record) string {
	switch {
	case got.Offset != want.Offset:
		return "offset"
	case got.Timestamp != want.Timestamp:
		return fmt.Sprintf("timestamp %d, want %d", got.Timestamp, want.Timestamp)
	case (got.TimestampType == LogAppendTime) != want.AppendTime:
		return "timestamp type"
	case got.LeaderEpoch != want.LeaderEpoch:
		return fmt.Sprintf("leader epoch %d, want %d", got.LeaderEpoch, want.LeaderEpoch)
	case !same(got.Key, want.Key):
		return fmt.Sprintf("key %.40q, want %.40q", got.Key, want.Key)
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	if want.ValueSHA256 != "" {
		sum := sha256.Sum256(got.Value)
		if int64(len(got.Value)) != want.ValueLength || hex.EncodeToString(sum[:]) != want.ValueSHA256 {
			return "long value"
		}
	} else if !same(got.Value, want.Value) {
		return fmt.Sprintf("value %.40q, want %.40q", got.Value, want.Value)
	}
	for i, h := range got.Headers {
		if string(h.Key) != want.Headers[i].Key || !same(h.Value, want.Headers[i].Value) {
			return fmt.Sprintf("header %d", i)
		}
	}
	return ""
}

// same compares, null and empty being different.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// A second opinion, on every batch of the sample, markers included: franz-go.
func TestRecordsAreThoseOfFranzGo(t *testing.T) {
	names, files := sampleFiles(t, ".log")
	for _, name := range names {
		response := kmsg.NewFetchResponseTopicPartition()
		response.RecordBatches = files[name]
		want, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}, &response,
			kgo.DefaultDecompressor(), nil)
		if want.Err != nil {
			t.Fatalf("%s: franz-go: %v", name, want.Err)
		}
		var got []Record
		for b, err := range Batches(files[name]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, mustDecode(t, b.Bytes)...)
		}
		if len(got) != len(want.Records) {
			t.Fatalf("%s: %d records, franz-go has %d", name, len(got), len(want.Records))
		}
		for i, w := range want.Records {
			g := got[i]
			if g.Offset != w.Offset || g.Timestamp != w.Timestamp.UnixMilli() || g.LeaderEpoch != w.LeaderEpoch ||
				int8(g.TimestampType) != w.Attrs.TimestampType() || !same(g.Key, w.Key) || !same(g.Value, w.Value) ||
				len(g.Headers) != len(w.Headers) {
				t.Fatalf("%s: %+v, franz-go has %+v", name, g, w)
			}
			for j, h := range w.Headers {
				if string(g.Headers[j].Key) != h.Key || !same(g.Headers[j].Value, h.Value) {
					t.Fatalf("%s: offset %d, header %d: %q, franz-go has %q", name, g.Offset, j, g.Headers[j], h)
				}
			}
		}
	}
}
