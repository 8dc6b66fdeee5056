package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coldtap/catalog/kafka"
	"coldtap/internal/config"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/replaycluster"
	"coldtap/segment"
	"coldtap/tier"
)

// liveConfig reads a revived cluster, whose storage plugin was given a folder of its own.
func liveConfig(t *testing.T, f *clusterfixture.Fixture, c *replaycluster.Cluster) config.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Store.Kind, cfg.Store.File.Dir = "file", filepath.Join(dir, "store")
	f.Unpack(t, filepath.Join(cfg.Store.File.Dir, localFolder))
	cfg.Layout.Kind, cfg.Metadata.Kind = "local", "kafka"
	cfg.Metadata.Kafka.Bootstrap, cfg.Metadata.Kafka.Snapshot = c.Addrs(), filepath.Join(dir, "metadata.snapshot")
	cfg.Cache.Memory, cfg.Cache.Chunk = 8<<20, 1<<20
	if problems := cfg.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return cfg
}

// until asks again until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come: %s", what)
		}
	}
}

func waitReady(t *testing.T, admin string) {
	t.Helper()
	until(t, "ready", func() bool {
		resp, _ := get(t, admin+"/ready", "")
		return resp.StatusCode == http.StatusOK
	})
}

// lastLine is how an ndjson answer ends.
type lastLine struct {
	End      string `json:"end"`
	Next     int64  `json:"next_offset"`
	Continue string `json:"continue_at"`
	Decided  *int64 `json:"decided_end_offset"`
}

// ending reads the last line of an answer that is not limited.
func ending(t *testing.T, base, partition, query string) (last lastLine) {
	t.Helper()
	name, number, _ := cutLast(partition, "-")
	resp, body := get(t, base+"/topics/"+name+"/partitions/"+number+"/records?format=ndjson&summary=true&max_bytes=16777216&"+query, "")
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %.300s", partition, query, resp.Status, body)
	}
	return last
}

// Every partition of a real cluster, followed through its metadata topic and its brokers' answers, comes out as its
// brokers' own consumer read it, up to where the tier ends; there the answer says that the brokers go on, and where.
func TestServesAClusterAsItsBrokersDo(t *testing.T) {
	f := clusterfixture.Load(t)
	c := replaycluster.Start(t, f, f.Cluster.MetadataTopic.PartitionCount)
	base, admin := startServer(t, liveConfig(t, f, c))
	waitReady(t, admin)
	served, records := 0, 0
	for _, p := range f.Partitions() {
		tierEnd := max(p.LatestTiered+1, p.Start)
		for _, isolation := range isolations {
			name, number, _ := cutLast(p.Name(), "-")
			// A topic of which nothing was ever tiered is one like others, with an empty tier.
			if resp, body := get(t, base+"/topics/"+name, ""); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %s", name, resp.Status, body)
			}
			got, last := readAll(t, base, p.Name(), isolation, "earliest", -1, 200_000)
			end := tierEnd
			if last.end == "undecided" {
				end = last.next
			}
			if last.next != end || last.next > tierEnd || last.end != "tier" && last.end != "undecided" {
				t.Errorf("%s %s ends with %s at %d, the tier ends at %d", p.Name(), isolation, last.end, last.next, tierEnd)
			}
			want := between(f.Expected(t, p.Name(), isolation), 0, end)
			compare(t, p.Name()+" "+isolation, got, want)
			served, records = served+1, records+len(got)

			var offsets struct {
				Beginning, End, Local, Tiered, Stable int64
			}
			_, body := get(t, base+"/topics/"+name+"/partitions/"+number+"/offsets", "")
			body = []byte(strings.NewReplacer("beginning_offset", "beginning", "local_log_start_offset", "local", "tiered_end_offset", "tiered",
				"last_stable_offset", "stable", "end_offset", "end").Replace(string(body)))
			if err := json.Unmarshal(body, &offsets); err != nil || offsets.Beginning != p.Start || offsets.End != p.HighWatermark ||
				offsets.Local != p.LocalStart || offsets.Tiered != tierEnd || offsets.Stable != p.LastStable {
				t.Errorf("%s: offsets %s, the brokers say %+v", p.Name(), body, *p)
			}
			at := ending(t, base, p.Name(), fmt.Sprintf("offset=%d&end_offset=%d&isolation_level=%s", p.Start, p.HighWatermark+1, isolation))
			if at.Continue != "broker" || at.Next != end {
				t.Errorf("%s %s: a range that goes beyond the tier ends with %+v, want continue_at broker at %d", p.Name(), isolation, at, end)
			}
			if at := ending(t, base, p.Name(), "offset=latest&isolation_level="+isolation); at.Next != map[string]int64{isolations[0]: p.LastStable, isolations[1]: p.HighWatermark}[isolation] {
				t.Errorf("%s %s: latest is %d", p.Name(), isolation, at.Next)
			}
		}
		if p.Start > 0 {
			name, number, _ := cutLast(p.Name(), "-")
			resp, body := get(t, fmt.Sprintf("%s/topics/%s/partitions/%s/records?offset=%d", base, name, number, p.Start-1), "")
			if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable || !strings.Contains(string(body), fmt.Sprintf(`"log_start_offset":%d,"local_log_start_offset":%d`, p.Start, p.LocalStart)) {
				t.Errorf("%s below the log start: %s %s", p.Name(), resp.Status, body)
			}
		}
	}
	if served < 50 || records < 20_000 {
		t.Errorf("%d answers, %d records", served, records)
	}
	for _, key := range c.Requests() {
		if !slices.Contains([]int16{1, 2, 3, 18, 23}, key) { // Fetch, ListOffsets, Metadata, ApiVersions, OffsetForLeaderEpoch
			t.Errorf("a request with API key %d reached the cluster", key)
		}
	}
}

// updateRecord is the value that a broker writes for a segment's next step (RemoteLogSegmentMetadataUpdateRecord).
func updateRecord(t *testing.T, topic string, u tier.SegmentUpdated) []byte {
	t.Helper()
	b := []byte{1, 1, 0} // the frame's version, the api key, the message's version
	b = append(b, byte(len(topic)+1))
	b = append(b, topic...)
	b = append(b, u.Partition.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(u.Partition.Partition))
	b = append(b, 0) // no tags
	b = append(b, u.ID[:]...)
	b = append(b, 0) // no tags
	b = binary.BigEndian.AppendUint32(b, uint32(u.BrokerID))
	b = binary.BigEndian.AppendUint64(b, uint64(u.At))
	b = append(b, 0, byte(u.State), 0) // no custom metadata; no tags
	want := &kafka.Update{Topic: topic, SegmentUpdated: u}
	if got, err := kafka.Decode(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("the update decodes to %+v, %v, want %+v", got, err, want)
	}
	return b
}

// The boundary between tier and brokers moves while clients read: segments come in, the start moves up, a segment is
// deleted, the leader changes, the brokers go away. Each answer goes exactly as far as the tier does at that moment.
func TestHandOverMovesWithTheBoundary(t *testing.T) {
	const partition = "plain-0"
	whole := clusterfixture.Load(t)
	p := whole.Partitions()[slices.IndexFunc(whole.Partitions(), func(p *clusterfixture.Partition) bool { return p.Name() == partition })]
	want := whole.Expected(t, partition, "read_committed")

	// What the brokers have not told yet: the second half of the partition's segments.
	var held []clusterfixture.MetadataRecord
	var segments []tier.Segment
	f := *whole
	f.Metadata = nil
	late := map[segment.UUID]bool{}
	for _, m := range whole.Metadata {
		record, err := kafka.Decode(m.Value)
		if err != nil {
			t.Fatal(err)
		}
		switch r := record.(type) {
		case *kafka.Segment:
			if r.Partition.Topic == p.Topic.ID && r.Partition.Partition == p.Number {
				segments = append(segments, r.Segment)
				late[r.ID] = r.EndOffset > p.LatestTiered/2
			}
			if late[r.ID] {
				held = append(held, m)
				continue
			}
		case *kafka.Update:
			if late[r.ID] {
				held = append(held, m)
				continue
			}
		}
		f.Metadata = append(f.Metadata, m)
	}
	slices.SortFunc(segments, func(a, b tier.Segment) int { return int(a.BaseOffset - b.BaseOffset) })
	middle := int64(0)
	for _, s := range segments {
		if !late[s.ID] {
			middle = max(middle, s.EndOffset+1)
		}
	}
	c := replaycluster.Start(t, &f, whole.Cluster.MetadataTopic.PartitionCount)
	before := c.Bounds(partition)
	before.LocalStart, before.LatestTiered = middle, middle-1
	c.Set(partition, before)
	cfg := liveConfig(t, &f, c)
	server, base := serverFor(t, cfg)
	admin := "http://" + server.adminListener.Addr().String()
	waitReady(t, admin)

	got, last := readAll(t, base, partition, "read_committed", "earliest", -1, 100_000)
	compare(t, "before", got, between(want, 0, middle))
	if last.end != "tier" || last.next != middle {
		t.Fatalf("ends with %s at %d, want tier at %d", last.end, last.next, middle)
	}
	// An offset that only the brokers have: the answer sends the client there, and not away.
	if at := ending(t, base, partition, fmt.Sprintf("offset=%d", middle+5)); at != (lastLine{End: "tier", Next: middle + 5, Continue: "broker"}) {
		t.Errorf("beyond the tier: %+v", at)
	}
	// One behind the log's end is nowhere.
	if resp, body := get(t, fmt.Sprintf("%s/topics/plain/partitions/0/records?offset=%d", base, p.HighWatermark+1), ""); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("beyond the log: %s %s", resp.Status, body)
	}

	// The brokers tier more. Who asks beyond the end gets what is new, once the last answer is older than
	// metadata.kafka.refresh.
	for _, m := range held {
		c.Produce(t, m.Partition, m.Value)
	}
	after := before
	after.LocalStart, after.LatestTiered = p.LocalStart, p.LatestTiered
	after.LeaderEpoch++ // and the leader changes, without a record of its own yet
	c.Set(partition, after)
	until(t, "what is new", func() bool {
		at := ending(t, base, partition, fmt.Sprintf("offset=%d", middle+1))
		return at.Next > middle+1 || at.End != "tier"
	})
	got, last = readAll(t, base, partition, "read_committed", fmt.Sprint(middle+1), -1, 100_000)
	compare(t, "what is new", got, between(want, middle+1, p.LatestTiered+1))
	if last.end != "tier" || last.next != p.LatestTiered+1 {
		t.Errorf("ends with %s at %d, want tier at %d", last.end, last.next, p.LatestTiered+1)
	}

	// DeleteRecords moves the start up, within a segment; then the segments below it are deleted, bytes first in view of
	// the reader: a request for what is gone is out of range, and the rest stays whole.
	start := segments[1].BaseOffset + 3
	after.Start = start
	c.Set(partition, after)
	deleted := segments[0]
	for _, state := range []tier.State{tier.DeleteStarted, tier.DeleteFinished} {
		value := updateRecord(t, "plain", tier.SegmentUpdated{
			Partition: deleted.Partition, ID: deleted.ID, State: state, At: time.Now().UnixMilli(),
		})
		c.Produce(t, p.MetadataPartition, value)
	}
	until(t, "the start moves", func() bool {
		resp, body := get(t, fmt.Sprintf("%s/topics/plain/partitions/0/records?offset=%d", base, start-1), "")
		return resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && strings.Contains(string(body), fmt.Sprintf(`"log_start_offset":%d`, start))
	})
	got, _ = readAll(t, base, partition, "read_committed", "earliest", -1, 100_000)
	compare(t, "from the new start", got, between(want, start, p.LatestTiered+1))

	// Brokers away: what is known is served, what would need them is "try again", and /ready tells.
	c.SetDown(true)
	got, _ = readAll(t, base, partition, "read_committed", "earliest", -1, 100_000)
	compare(t, "without brokers", got, between(want, start, p.LatestTiered+1))
	if resp, body := get(t, fmt.Sprintf("%s/topics/plain/partitions/0/records?offset=%d&timeout=1000", base, p.HighWatermark+1), ""); resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("beyond the log, without brokers: %s %s", resp.Status, body)
	}
	if resp, body := get(t, admin+"/ready", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("/ready without brokers: %s %s", resp.Status, body)
	}
	c.SetDown(false)
	if resp, body := get(t, fmt.Sprintf("%s/topics/plain/partitions/0/records?offset=%d", base, p.HighWatermark+1), ""); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("beyond the log, with brokers again: %s %s", resp.Status, body)
	}
}

func TestInspectLooksAtACluster(t *testing.T) {
	f := clusterfixture.Load(t)
	c := replaycluster.Start(t, f, f.Cluster.MetadataTopic.PartitionCount)
	c.Produce(t, 3, []byte("no record"))
	cfg := liveConfig(t, f, c)
	file := configFile(t, cfg)
	for _, l := range []struct {
		args []string
		want string // a pattern
	}{
		{[]string{"segments", "plain:0"}, "plain-0 +start 0 +tiered end"},
		{[]string{"verify", "--deep", "--json"}, `"segments":150.*"problems":0`},
		{[]string{"metadata-topic", "plain:1"}, `(?m)^21:\d+ .* segment +plain-1 +COPY_SEGMENT_STARTED +0\.\.`},
		{[]string{"metadata-topic", "--json", "recreated"}, `"kind":"update","topic":"recreated".*"state":"DELETE_SEGMENT_FINISHED"`},
		{[]string{"metadata-topic", "--json"}, `"metadata_partition":3,.*"kind":"unreadable",.*"error":"`},
	} {
		code, out, said := commandLine(t, append(append([]string{"inspect"}, l.args...), "--config", file)...)
		if code != exitOK || !matches(l.want, out) {
			t.Errorf("%q: exit %d\n%.900s%s", l.args, code, out, said)
		}
	}
	if _, err := os.Stat(cfg.Metadata.Kafka.Snapshot); err == nil {
		t.Error("looking has written the server's snapshot file")
	}
	for _, args := range [][]string{{"metadata-topic", "plain:x"}, {"metadata-topic", "a", "b"}} {
		if code, _, _ := commandLine(t, append(append([]string{"inspect"}, args...), "--config", file)...); code != exitUsage {
			t.Errorf("%q: exit %d", args, code)
		}
	}
	if code, out, _ := commandLine(t, "inspect", "metadata-topic", "--help"); code != exitOK || !strings.Contains(out, "metadata.kind kafka") || !strings.Contains(out, "embedded and archive") {
		t.Errorf("it does not say what it is for: %s", out)
	}
	other := cfg
	other.Layout.Kind, other.Metadata.Kind, other.Metadata.Kafka.Bootstrap = "native", "embedded", nil
	if code, _, said := commandLine(t, "inspect", "metadata-topic", "--config", configFile(t, other)); code != exitUsage || !strings.Contains(said, "metadata.kind embedded") {
		t.Errorf("of the offloader's own metadata: exit %d, %s", code, said)
	}
	if code, _, said := commandLine(t, "inspect", "metadata-topic", "nosuch", "--config", file); code != exitFailed || !strings.Contains(said, "no record of it") {
		t.Errorf("a topic without records: exit %d, %s", code, said)
	}
	if code, _, said := commandLine(t, "offload", "--once", "--standalone", "--config", file); code != exitUsage || !strings.Contains(said, "read only") {
		t.Errorf("offload into a cluster's own tier: exit %d, %s", code, said)
	}
}
