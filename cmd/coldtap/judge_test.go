package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coldtap/internal/config"
	"coldtap/internal/sample"
	"coldtap/internal/testing/testkit"
)

// closedEnds are the base offsets of the sample's active segments: what can be tiered ends there.
var closedEnds = map[string]int64{"plain-0": 554, "txn-0": 804, "txn-1": 916, "gaps-0": 2315, "codecs-0": 1494}

var isolations = []string{"read_committed", "read_uncommitted"}

// testConfig is a configuration whose every path is in a temporary folder, with a file store.
func testConfig(t *testing.T) config.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Store.Kind, cfg.Store.File.Dir = "file", filepath.Join(dir, "objects")
	cfg.Metadata.Embedded.Path = filepath.Join(dir, "coldtap.db")
	cfg.Cache.Memory, cfg.Cache.Chunk = 8<<20, 1<<20
	cfg.Offload.LogDirs = []string{filepath.Join(dir, "logdir")}
	if err := sample.Extract(cfg.Offload.LogDirs[0]); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// startTier offloads the sample and serves it; it gives the data plane's and the admin plane's URLs.
func startTier(t *testing.T, cfg config.Config) (data, admin string) {
	t.Helper()
	report, err := offloadOnce(t.Context(), cfg, offloadOptions{}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	if report.Failed() {
		var text strings.Builder
		printReport(&text, &report)
		t.Fatalf("offload left something:\n%s", text.String())
	}
	return startServer(t, cfg)
}

func startServer(t *testing.T, cfg config.Config) (data, admin string) {
	t.Helper()
	s, data := serverFor(t, cfg)
	return data, "http://" + s.adminListener.Addr().String()
}

// serverFor runs a gateway until the test ends.
func serverFor(t *testing.T, cfg config.Config) (s *server, data string) {
	t.Helper()
	s, err := newServer(t.Context(), cfg, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, 10*time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return s, "http://" + s.data.Addr().String()
}

// answer is an ndjson answer: its records, and its last line.
type answer struct {
	records []wireRecord
	end     string
	next    int64
}

type wireRecord struct {
	Offset        int64   `json:"offset"`
	Timestamp     int64   `json:"timestamp"`
	TimestampType string  `json:"timestamp_type"`
	LeaderEpoch   int32   `json:"leader_epoch"`
	Key           *string `json:"key"`
	Value         *string `json:"value"`
	Headers       []struct {
		Key   string  `json:"key"`
		Value *string `json:"value"`
	} `json:"headers"`
}

func get(t *testing.T, address, accept string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return resp, body
}

// read reads one ndjson answer with base64 values.
func read(t *testing.T, base, partition string, query url.Values) answer {
	t.Helper()
	topic, number, _ := cutLast(partition, "-")
	query.Set("encoding", "base64")
	query.Set("summary", "true")
	address := fmt.Sprintf("%s/topics/%s/partitions/%s/records?%s", base, topic, number, query.Encode())
	resp, body := get(t, address, "application/x-ndjson")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", address, resp.Status, body)
	}
	var a answer
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 64<<20)
	var last []byte
	for lines.Scan() {
		if last != nil {
			var r wireRecord
			if err := json.Unmarshal(last, &r); err != nil {
				t.Fatalf("%s: %v: %s", address, err, last)
			}
			a.records = append(a.records, r)
		}
		last = bytes.Clone(lines.Bytes())
	}
	var end struct {
		End   string `json:"end"`
		Next  int64  `json:"next_offset"`
		Count int    `json:"records"`
		Code  int    `json:"error_code"`
	}
	if err := json.Unmarshal(last, &end); err != nil || end.Code != 0 || end.End == "" {
		t.Fatalf("%s: last line %s", address, last)
	}
	if end.Count != len(a.records) {
		t.Fatalf("%s: the last line says %d records, %d came", address, end.Count, len(a.records))
	}
	a.end, a.next = end.End, end.Next
	return a
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// readAll follows next offsets from start until the answer ends for another reason than its limit.
func readAll(t *testing.T, base, partition, isolation, start string, end int64, maxBytes int) (records []wireRecord, last answer) {
	t.Helper()
	for calls := 0; ; calls++ {
		query := url.Values{"offset": {start}, "isolation_level": {isolation}, "max_bytes": {fmt.Sprint(maxBytes)}}
		if end >= 0 {
			query.Set("end_offset", fmt.Sprint(end))
		}
		last = read(t, base, partition, query)
		records = append(records, last.records...)
		if last.end != "limit" {
			return records, last
		}
		if fmt.Sprint(last.next) == start || calls > 10_000 {
			t.Fatalf("%s: no progress at %s", partition, start)
		}
		start = fmt.Sprint(last.next)
	}
}

// compare holds records against what Kafka's own consumer read.
func compare(t *testing.T, what string, got []wireRecord, want []testkit.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d records, a broker's consumer read %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if diff := difference(got[i], want[i]); diff != "" {
			t.Errorf("%s: record %d (offset %d): %s", what, i, want[i].Offset, diff)
			return
		}
	}
}

func difference(got wireRecord, want testkit.Record) string {
	kind := "CREATE_TIME"
	if want.AppendTime {
		kind = "LOG_APPEND_TIME"
	}
	switch {
	case got.Offset != want.Offset:
		return fmt.Sprintf("offset %d", got.Offset)
	case got.Timestamp != want.Timestamp || got.TimestampType != kind:
		return fmt.Sprintf("timestamp %d %s, want %d %s", got.Timestamp, got.TimestampType, want.Timestamp, kind)
	case got.LeaderEpoch != want.LeaderEpoch:
		return fmt.Sprintf("leader epoch %d, want %d", got.LeaderEpoch, want.LeaderEpoch)
	case !same(got.Key, want.Key):
		return "key differs"
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	if want.ValueSHA256 != "" {
		value := decoded(got.Value)
		sum := sha256.Sum256(value)
		if hex.EncodeToString(sum[:]) != want.ValueSHA256 || int64(len(value)) != want.ValueLength {
			return "long value differs"
		}
	} else if !same(got.Value, want.Value) {
		return "value differs"
	}
	for i, h := range got.Headers {
		if h.Key != want.Headers[i].Key || !same(h.Value, want.Headers[i].Value) {
			return fmt.Sprintf("header %d differs", i)
		}
	}
	return ""
}

func decoded(s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		return nil
	}
	return append([]byte{}, b...)
}

// same also tells null from empty.
func same(got *string, want []byte) bool {
	return (got == nil) == (want == nil) && bytes.Equal(decoded(got), want)
}

// between are the expected records of [from, to).
func between(records []testkit.Record, from, to int64) []testkit.Record {
	i := slices.IndexFunc(records, func(r testkit.Record) bool { return r.Offset >= from })
	j := slices.IndexFunc(records, func(r testkit.Record) bool { return r.Offset >= to })
	if i < 0 {
		return nil
	}
	if j < 0 {
		j = len(records)
	}
	return records[i:max(i, j)]
}

// judge compares every partition of the sample with what Kafka's consumer read: whole, and in random sub-ranges with
// small answers.
func judge(t *testing.T, base string, ranges int) {
	random := rand.New(rand.NewPCG(7, 9))
	for _, partition := range sample.Partitions {
		for _, isolation := range isolations {
			t.Run(partition+"/"+isolation, func(t *testing.T) {
				end := closedEnds[partition]
				want := between(testkit.Expected(t, partition, isolation), 0, end)
				got, last := readAll(t, base, partition, isolation, "earliest", -1, 64<<10)
				compare(t, "whole", got, want)
				if last.end != "tier" || last.next != end {
					t.Errorf("ended with %s at %d, want tier at %d", last.end, last.next, end)
				}
				for range ranges {
					from := random.Int64N(end)
					to := from + random.Int64N(end-from) + 1
					got, last := readAll(t, base, partition, isolation, fmt.Sprint(from), to, 1+random.IntN(20_000))
					compare(t, fmt.Sprintf("[%d, %d)", from, to), got, between(want, from, to))
					if wantEnd := map[bool]string{true: "tier", false: "range"}[to > end]; last.end != wantEnd || last.next > to {
						t.Errorf("[%d, %d) ended with %s at %d", from, to, last.end, last.next)
					}
				}
			})
		}
	}
}

func TestReadsEqualABrokersFromAFileStore(t *testing.T) {
	base, _ := startTier(t, testConfig(t))
	judge(t, base, 12)
}

func TestOffsetsByTimestampEqualAPlainScan(t *testing.T) {
	base, _ := startTier(t, testConfig(t))
	for _, partition := range sample.Partitions {
		for _, isolation := range isolations {
			want := between(testkit.Expected(t, partition, isolation), 0, closedEnds[partition])
			var grid []int64
			for i := 0; i < len(want); i += 1 + len(want)/40 {
				grid = append(grid, want[i].Timestamp-1, want[i].Timestamp, want[i].Timestamp+1)
			}
			grid = append(grid, 0, 1<<50)
			topic, number, _ := cutLast(partition, "-")
			for _, ts := range grid {
				offset, timestamp := int64(-1), int64(-1)
				if i := slices.IndexFunc(want, func(r testkit.Record) bool { return r.Timestamp >= ts }); i >= 0 {
					offset, timestamp = want[i].Offset, want[i].Timestamp
				}
				address := fmt.Sprintf("%s/topics/%s/partitions/%s/offsets?timestamp=%d&isolation_level=%s", base, topic, number, ts, isolation)
				resp, body := get(t, address, "")
				var got struct{ Offset, Timestamp int64 }
				if err := json.Unmarshal(body, &got); err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s: %s", address, resp.Status, body)
				}
				if got.Offset != offset || got.Timestamp != timestamp {
					t.Errorf("%s %s at %d: %+v, a plain scan finds %d (%d)", partition, isolation, ts, got, offset, timestamp)
				}
			}
		}
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
