package archive

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"coldtap/fetch"
	"coldtap/internal/assembly"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/internal/testing/faultstore"
	"coldtap/internal/testing/replaycluster"
	"coldtap/internal/testing/testkit"
	"coldtap/layout"
	"coldtap/layout/aiven"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// aivenBucket is an empty bucket of the plugin's.
func aivenBucket(t testing.TB, o aiven.Options) (*bucket, *aiven.Layout) {
	t.Helper()
	var l *aiven.Layout
	b := newBucket(func(c *rangeio.Client) layout.Manifests {
		var err error
		if l, err = aiven.New(c, o); err != nil {
			t.Fatal(err)
		}
		return l
	})
	return b, l
}

// setBucket holds a fixture set.
func setBucket(t *testing.T, set *clusterfixture.AivenSet) (*bucket, *aiven.Layout) {
	t.Helper()
	o := aiven.Options{Prefixes: []string{set.Prefix}}
	for id, pem := range set.Keys {
		o.Keys = append(o.Keys, aiven.PrivateKey{ID: id, PEM: pem})
	}
	b, l := aivenBucket(t, o)
	for key, raw := range set.Objects {
		b.Set(key, raw)
	}
	return b, l
}

// told is the tier that the set's metadata topic makes.
func told(t *testing.T, set *clusterfixture.AivenSet) *tier.Snapshot {
	t.Helper()
	m := tier.New()
	replaycluster.Apply(t, set.Fixture, m)
	return m.Snapshot()
}

// facts are what a bucket and the metadata topic both tell of a segment.
func facts(list []*tier.Segment) (all []tier.Segment) {
	for _, s := range list {
		f := *s
		f.EventTime, f.BrokerID, f.Custom, f.TxnIndexEmpty = 0, 0, nil, false
		all = append(all, f)
	}
	return all
}

// TestBucketTellsWhatTheMetadataTopicTells compares real buckets with the topics of their brokers. One of them holds a
// complete orphan: the copy that was finished in its place is served, and the orphan reported.
func TestBucketTellsWhatTheMetadataTopicTells(t *testing.T) {
	for _, set := range clusterfixture.LoadAiven(t) {
		t.Run(set.Name, func(t *testing.T) {
			b, _ := setBucket(t, set)
			snapshot := filepath.Join(t.TempDir(), "new", "archive.snapshot")
			o := Options{Snapshot: snapshot, Identity: set.Name}
			a := b.open(t, o)
			metadata := told(t, set)
			for _, p := range set.Partitions() {
				id := tier.PartitionID{Topic: p.Topic.ID, Partition: p.Number}
				want, _ := metadata.Partition(id)
				got, ok := a.Snapshot().Partition(id)
				if !ok {
					t.Fatalf("%s is not there", p.Name())
				}
				if x, y := facts(chain(got)), facts(chain(want)); !reflect.DeepEqual(x, y) {
					t.Errorf("%s: segments %+v, the metadata topic says %+v", p.Name(), x, y)
				}
				if x, y := len(got.Segments(true)), len(chain(want)); x != y {
					t.Errorf("%s: %d segments are known, %d are served", p.Name(), x, y)
				}
				if got.TieredEnd() != p.LatestTiered+1 {
					t.Errorf("%s ends at %d, want %d", p.Name(), got.TieredEnd(), p.LatestTiered+1)
				}
				if topic, ok := a.Snapshot().TopicByName(p.Topic.Name); !ok || topic.ID != p.Topic.ID {
					t.Errorf("topic %s is %v", p.Topic.Name, topic)
				}
			}
			manifests := 0
			for key := range set.Objects {
				if filepath.Ext(key) == aiven.SuffixManifest {
					manifests++
				}
			}
			partitions := 0
			for range a.Snapshot().Partitions() {
				partitions++
			}
			if gets := b.faults.Count(faultstore.Get, nil); gets != manifests+2*partitions {
				t.Errorf("%d GETs for %d manifests of %d partitions", gets, manifests, partitions)
			}
			r := a.Report()
			orphans := map[string]int64{"plain-orphan": 1}[set.Name]
			if r.Problems[Duplicate] != orphans || len(r.Findings) != int(orphans) || r.Manifests != int64(manifests) || r.Objects != int64(len(set.Objects)) ||
				r.Foreign != 0 || r.Segments != manifests-int(orphans) {
				t.Errorf("%+v", r)
			}

			a.Close()
			b.faults.Reset()
			again := b.open(t, o)
			if gets := b.faults.Count(faultstore.Get, nil); gets != 0 {
				t.Errorf("%d GETs after a restart", gets)
			}
			sameView(t, again.Snapshot(), a.Snapshot())
		})
	}
}

// sameView compares all that readers can see.
func sameView(t *testing.T, got, want *tier.Snapshot) {
	t.Helper()
	if !reflect.DeepEqual(got.Topics(), want.Topics()) {
		t.Errorf("topics %v, want %v", got.Topics(), want.Topics())
	}
	for p := range want.Partitions() {
		q, ok := got.Partition(p.ID())
		if !ok {
			t.Errorf("partition %v is not there", p.ID())
			continue
		}
		if q.Bounds() != p.Bounds() || q.TieredEnd() != p.TieredEnd() || !slices.Equal(q.Lineage(), p.Lineage()) {
			t.Errorf("partition %v: %+v to %d along %v, want %+v to %d along %v", p.ID(), q.Bounds(), q.TieredEnd(), q.Lineage(),
				p.Bounds(), p.TieredEnd(), p.Lineage())
		}
		if !reflect.DeepEqual(q.Segments(true), p.Segments(true)) || !reflect.DeepEqual(chain(q), chain(p)) {
			t.Errorf("partition %v: other segments", p.ID())
		}
	}
	if got.Segments() != want.Segments() {
		t.Errorf("%d segments, want %d", got.Segments(), want.Segments())
	}
}

// TestRecordsOfAnArchiveAreWhatTheConsumerRead reads each partition of the real buckets through the whole read path.
// What DeleteRecords hid after the last copy lies below the consumer's first record: no object tells of it.
func TestRecordsOfAnArchiveAreWhatTheConsumerRead(t *testing.T) {
	for _, set := range clusterfixture.LoadAiven(t) {
		b, l := setBucket(t, set)
		a := b.open(t, Options{})
		path, err := assembly.New(assembly.Options{
			Source: a, Layout: l, ChunkMemory: 4 << 20, Chunk: 128 << 10, IndexMemory: 1 << 20, DecodeMemory: 32 << 20,
			Threads: 4, MaxPending: 100, QueueTimeout: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range set.Partitions() {
			for name, isolation := range map[string]fetch.Isolation{"read_committed": fetch.ReadCommitted, "read_uncommitted": fetch.ReadUncommitted} {
				want := set.Expected(t, p.Name(), name)
				var got []testkit.Record
				for next, end := p.Start, fetch.EndReason(0); end != fetch.EndTier; {
					st, err := path.Service.Open(t.Context(), &fetch.Request{Topic: p.Topic.Name, Partition: p.Number, Offset: next, EndOffset: -1,
						EndTimestamp: -1, MaxBytes: 1 << 20, Isolation: isolation, Timeout: 30 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					var rec segment.Record
					for err = st.NextRecord(t.Context(), &rec); err == nil; err = st.NextRecord(t.Context(), &rec) {
						got = append(got, testkit.Record{Offset: rec.Offset, Timestamp: rec.Timestamp, Key: slices.Clone(rec.Key)})
					}
					if !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
					before := next
					end, _ = st.End()
					next = st.NextOffset()
					st.Close()
					if end != fetch.EndTier && next <= before {
						t.Fatalf("%s: no progress at %d: %v", p.Name(), next, end)
					}
				}
				same := slices.EqualFunc(got, want, func(a, b testkit.Record) bool {
					return a.Offset == b.Offset && a.Timestamp == b.Timestamp && string(a.Key) == string(b.Key) && (a.Key == nil) == (b.Key == nil)
				})
				if !same || len(want) == 0 {
					t.Errorf("%s/%s %s: %d records, the consumer read %d", set.Name, p.Name(), name, len(got), len(want))
				}
			}
		}
		if err := path.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

var (
	topicA = segment.UUID{0: 1, 15: 0xa}
	topicB = segment.UUID{0: 1, 15: 0xb}
	part0  = tier.PartitionID{Topic: topicA}
)

func id(n uint64) (u segment.UUID) {
	u[0] = 1
	binary.BigEndian.PutUint64(u[8:], n)
	return u
}

// made is a segment that a test puts into a bucket as the plugin would, neither compressed nor sealed.
type made struct {
	tier.Segment
	checkpoint string
	prefix     string
	manifest   map[string]any
}

// makeSegment describes a segment of topic "orders", partition 0, of one leader epoch.
func makeSegment(n uint64, epoch int32, base, end int64) *made {
	return &made{Segment: tier.Segment{
		ID: id(n), Partition: part0, Topic: "orders", BaseOffset: base, EndOffset: end, MaxTimestamp: 1_700_000_000_000 + end,
		EventTime: 1_700_000_000_000 + int64(n), Size: 100, Epochs: []segment.EpochStart{{Epoch: epoch, StartOffset: base}},
	}}
}

// lineage sets the checkpoint that travels with it.
func (m *made) lineage(epochs ...segment.EpochStart) *made {
	m.checkpoint = string(segment.AppendEpochCheckpoint(nil, epochs))
	return m
}

func (m *made) stem() string {
	return fmt.Sprintf("%s%s-%v/%d/%020d-%v", m.prefix, m.Topic, m.Partition.Topic, m.Partition.Partition, m.BaseOffset, m.ID)
}

// describe makes the manifest, which a test may change.
func (m *made) describe() map[string]any {
	if m.checkpoint == "" {
		m.lineage(m.Epochs...)
	}
	position := 0
	place := func(size int) map[string]any {
		position += size
		return map[string]any{"position": position - size, "size": size}
	}
	epochs := map[string]int64{}
	for _, e := range m.Epochs {
		epochs[strconv.Itoa(int(e.Epoch))] = e.StartOffset
	}
	m.manifest = map[string]any{
		"version":     "1",
		"chunkIndex":  map[string]any{"type": "fixed", "originalChunkSize": 4096, "originalFileSize": m.Size, "transformedChunkSize": 4096, "finalTransformedChunkSize": m.Size},
		"compression": false,
		"segmentIndexes": map[string]any{"offset": place(8), "timestamp": place(12), "producerSnapshot": place(0),
			"leaderEpoch": place(len(m.checkpoint)), "transaction": nil},
		"remoteLogSegmentMetadata": map[string]any{
			"remoteLogSegmentId": map[string]any{"id": m.ID.String(), "topicIdPartition": map[string]any{"topicId": m.Partition.Topic.String(),
				"topicPartition": map[string]any{"topic": m.Topic, "partition": m.Partition.Partition}}},
			"startOffset": m.BaseOffset, "endOffset": m.EndOffset, "maxTimestampMs": m.MaxTimestamp, "brokerId": 1,
			"eventTimestampMs": m.EventTime, "segmentLeaderEpochs": epochs,
		},
	}
	return m.manifest
}

func (m *made) put(b *bucket) *made {
	if m.manifest == nil {
		m.describe()
	}
	raw, err := json.Marshal(m.manifest)
	if err != nil {
		panic(err)
	}
	b.Set(m.stem()+aiven.SuffixLog, make([]byte, m.Size))
	b.Set(m.stem()+aiven.SuffixIndexes, append(make([]byte, 20), m.checkpoint...))
	b.Set(m.stem()+aiven.SuffixManifest, raw)
	return m
}

func (m *made) remove(b *bucket) {
	for _, suffix := range []string{aiven.SuffixLog, aiven.SuffixIndexes, aiven.SuffixManifest} {
		if err := b.Delete(context.Background(), m.stem()+suffix); err != nil {
			panic(err)
		}
	}
}
