package kafka

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"coldtap/segment"
	"coldtap/tier"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The scoreboard's tier: 300,000 live segments, 10,000 a partition, after 1.2 million events. Half of the events are
// those of 150,000 segments that came and went.
const (
	benchLive       = 300_000
	benchGone       = 150_000
	benchEvents     = 2*benchLive + 4*benchGone
	benchPartitions = 30
)

func benchID(rng *rand.Rand) (u segment.UUID) {
	binary.BigEndian.PutUint64(u[:8], rng.Uint64())
	binary.BigEndian.PutUint64(u[8:], rng.Uint64())
	return u
}

// benchStand writes the events as brokers do, partition after partition in time. Batches are small, since a broker
// publishes one event at a time.
func benchStand(b *testing.B) *harness {
	s := newHarness(b, DefaultPartitions)
	writer, err := kgo.NewClient(append(s.options(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics(),
		kgo.ProducerBatchMaxBytes(1024), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))...)
	if err != nil {
		b.Fatal(err)
	}
	defer writer.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	at := int64(1_700_000_000_000)
	write := func(r Record, of tier.PartitionID) {
		value, err := appendRecord(nil, r)
		if err != nil {
			b.Fatal(err)
		}
		writer.Produce(b.Context(), &kgo.Record{Topic: Name, Partition: PartitionOf(of, DefaultPartitions), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	move := func(seg *tier.Segment, state tier.State) {
		at += 10
		write(&Update{seg.Topic, tier.SegmentUpdated{Partition: seg.Partition, ID: seg.ID, State: state, BrokerID: 1, At: at}}, seg.Partition)
	}
	const each = (benchLive + benchGone) / benchPartitions
	waiting := make([][]*tier.Segment, benchPartitions)
	for i := range int64(each) {
		for p := range int32(benchPartitions) {
			at += 10
			of := tier.PartitionID{Topic: ordersID, Partition: p}
			seg := &tier.Segment{
				ID: benchID(rng), Partition: of, BrokerID: 1, Topic: "orders", BaseOffset: i * 1000, EndOffset: i*1000 + 999,
				MaxTimestamp: at, EventTime: at, Epochs: []segment.EpochStart{{Epoch: 4, StartOffset: i * 1000}}, Size: 1 << 26,
			}
			write(&Segment{*seg}, of)
			move(seg, tier.CopyFinished)
			if i < benchGone/benchPartitions {
				waiting[p] = append(waiting[p], seg)
			}
			if i >= benchLive/benchPartitions { // retention keeps as many as there shall be
				old := waiting[p][0]
				waiting[p] = waiting[p][1:]
				move(old, tier.DeleteStarted)
				move(old, tier.DeleteFinished)
			}
		}
	}
	if err := writer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkReplay reads 1.2 million events from the beginning, then again from a snapshot file. Run it with
// -benchtime=1x.
func BenchmarkReplay(b *testing.B) {
	s := benchStand(b)
	path := filepath.Join(b.TempDir(), "metadata")
	open := func(b *testing.B) *Follower {
		f := s.open(b, Options{Snapshot: path})
		for f.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		if n := f.Snapshot().Segments(); n != benchLive {
			b.Fatalf("%d segments", n)
		}
		return f
	}
	b.Run("cold", func(b *testing.B) {
		before := heapBytes()
		start := time.Now()
		f := open(b)
		b.ReportMetric(time.Since(start).Seconds(), "s/ready")
		if n := f.Status().Records; n != benchEvents {
			b.Fatalf("%d records", n)
		}
		f.Close()
		b.ReportMetric(float64(heapBytes()-before)/benchLive, "B/segment")
		runtime.KeepAlive(f)
		benchFind(b, f)
	})
	b.Run("snapshot", func(b *testing.B) {
		before := heapBytes()
		start := time.Now()
		f := open(b)
		b.ReportMetric(time.Since(start).Seconds(), "s/ready")
		if n := f.Status().Records; n != 0 {
			b.Fatalf("%d records", n)
		}
		f.Close()
		b.ReportMetric(float64(heapBytes()-before)/benchLive, "B/segment")
		benchFind(b, f)
	})
}

func benchFind(b *testing.B, f *Follower) {
	const looks = 1_000_000
	rng := rand.New(rand.NewPCG(5, 6))
	start := time.Now()
	for range looks {
		p, _ := f.Snapshot().Partition(tier.PartitionID{Topic: ordersID, Partition: rng.Int32N(benchPartitions)})
		if _, ok := p.Find(benchGone/benchPartitions*1000 + rng.Int64N(benchLive/benchPartitions*1000)); !ok {
			b.Fatal("not found")
		}
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/looks, "ns/find")
}
