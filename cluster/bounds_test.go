package cluster

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// five are bounds as a row: log start, local start, latest tiered, last stable, high watermark.
type five [boundKinds]int64

func (p Partition) five() five {
	return five{p.LogStart, p.LocalStart, p.LatestTiered, p.LastStable, p.HighWatermark}
}

func with(f five, epoch, boundsEpoch int32) *partition {
	return &partition{boundsEpoch: boundsEpoch,
		now: Partition{LeaderEpoch: epoch, LogStart: f[0], LocalStart: f[1], LatestTiered: f[2], LastStable: f[3], HighWatermark: f[4]}}
}

var (
	nothing = five{-1, -1, -1, -1, -1}
	all     = [boundKinds]bool{true, true, true, true, true}
)

func TestBoundsThatAreBelieved(t *testing.T) {
	tests := []struct {
		name    string
		before  five
		changed bool // the leader epoch, since before
		answer  five
		want    five
		reject  []string
	}{
		{"sound", nothing, false, five{10, 50, 60, 90, 95}, five{10, 50, 60, 90, 95}, nil},
		{"empty", nothing, false, five{0, 0, -1, 0, 0}, five{0, 0, -1, 0, 0}, nil},
		{"everything tiered", nothing, false, five{0, 100, 99, 100, 100}, five{0, 100, 99, 100, 100}, nil},
		{"tiered data expired", nothing, false, five{80, 80, 60, 90, 95}, five{80, 80, 60, 90, 95}, nil},
		{"negative", nothing, false, five{-7, 50, 60, 90, 95}, five{-1, 50, 60, 90, 95}, []string{rejectRange}},
		{"no log start", nothing, false, five{-1, 50, 60, 90, 95}, five{-1, 50, 60, 90, 95}, []string{rejectRange}},
		{"no high watermark", nothing, false, five{10, 50, 60, 90, -1}, five{10, 50, 60, 90, -1}, []string{rejectRange}},
		{"huge", nothing, false, five{10, 50, 60, 90, math.MaxInt64}, five{10, 50, 60, 90, -1}, []string{rejectRange}},
		{"lowest", nothing, false, five{10, math.MinInt64, math.MinInt64, 90, 95}, five{10, -1, -1, 90, 95}, []string{rejectRange, rejectRange}},
		{"local start below the log start", nothing, false, five{10, 9, 60, 90, 95}, five{10, -1, 60, 90, 95}, []string{rejectContradiction}},
		{"local start beyond the end", nothing, false, five{10, 96, 60, 90, 95}, five{10, -1, 60, 90, 95}, []string{rejectContradiction}},
		{"last stable beyond the high watermark", nothing, false, five{10, 50, 60, 96, 95}, five{10, 50, 60, -1, -1}, []string{rejectContradiction}},
		{"log start beyond the high watermark", nothing, false, five{96, 97, 60, 95, 95}, five{-1, 97, 60, 95, -1}, []string{rejectContradiction}},
		{"last stable below the log start", nothing, false, five{10, 50, 60, 9, 95}, five{10, 50, 60, -1, 95}, []string{rejectContradiction}},
		{"tiered beyond the end", nothing, false, five{10, 50, 95, 90, 95}, five{10, 50, -1, 90, 95}, []string{rejectContradiction}},
		{"log start moves back", five{20, 50, 60, 90, 95}, false, five{10, 50, 60, 90, 95}, five{20, 50, 60, 90, 95}, []string{rejectBackwards}},
		{"high watermark moves back", five{20, 50, 60, 90, 95}, false, five{20, 50, 60, 90, 94}, five{20, 50, 60, 90, 95}, []string{rejectBackwards}},
		{"last stable moves back", five{20, 50, 60, 90, 95}, false, five{20, 50, 60, 89, 95}, five{20, 50, 60, 90, 95}, []string{rejectBackwards}},
		{"tiered starts over", five{20, 50, 60, 90, 95}, false, five{20, 50, -1, 90, 95}, five{20, 50, -1, 90, 95}, nil},
		{"another leader knows less", five{20, 50, 60, 90, 95}, true, five{10, 40, -1, 80, 85}, five{10, 40, -1, 80, 85}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := with(tt.before, 4, 4)
			if tt.changed {
				p.now.LeaderEpoch = 5
			}
			var reject []string
			p.setBounds(&bounds{offset: tt.answer, answered: all}, func(reason string) { reject = append(reject, reason) })
			if p.now.five() != tt.want {
				t.Errorf("got %v, want %v", p.now.five(), tt.want)
			}
			if !slices.Equal(reject, tt.reject) {
				t.Errorf("counted %q, want %q", reject, tt.reject)
			}
		})
	}
}

func FuzzBounds(f *testing.F) {
	f.Add(int64(10), int64(50), int64(60), int64(90), int64(95), int64(0), uint8(31))
	f.Add(int64(-2), int64(1<<62+1), int64(math.MinInt64), int64(math.MaxInt64), int64(3), int64(7), uint8(25))
	f.Fuzz(func(t *testing.T, a, b, c, d, e, was int64, answered uint8) {
		p := with(nothing, 1, -1)
		reject := func(string) {}
		p.setBounds(&bounds{offset: five{was, was, was, was, was}, answered: all}, reject)
		before := p.now
		got := bounds{offset: five{a, b, c, d, e}}
		for kind := range boundKinds {
			got.answered[kind] = answered>>kind&1 == 1
		}
		p.setBounds(&got, reject)
		now := p.now
		for _, v := range now.five() {
			if v < -1 || v > largestOffset {
				t.Fatalf("believed %v", now.five())
			}
		}
		ordered := func(low, high int64) bool { return low < 0 || high < 0 || low <= high }
		if !ordered(now.LogStart, now.LocalStart) || !ordered(now.LogStart, now.LastStable) || !ordered(now.LastStable, now.HighWatermark) ||
			!ordered(now.LogStart, now.HighWatermark) || !ordered(now.LocalStart, now.HighWatermark) || !ordered(now.LatestTiered, now.HighWatermark) {
			t.Fatalf("contradictory: %v", now.five())
		}
		if now.LogStart >= 0 && now.LogStart < before.LogStart {
			t.Fatalf("log start went from %d to %d", before.LogStart, now.LogStart)
		}
	})
}

func TestBoundsOfACluster(t *testing.T) {
	k := brokers(t)
	produce(t, k, 1, 8)
	if err := k.DeleteRecords("orders", 1, 3); err != nil {
		t.Fatal(err)
	}
	c := open(t, quiet(k.ListenAddrs()...), nil)
	v := refreshed(t, c)
	if p := named(t, v, "orders").Partitions[1]; p.five() != nothing || !p.BoundsAt.IsZero() || p.Lineage != nil {
		t.Errorf("not watched, but %+v", p)
	}
	id := watch(t, c, "orders")
	v = refreshed(t, c)
	topic, ok := v.Topic(id)
	if !ok || len(topic.Partitions) != 2 {
		t.Fatalf("got %+v", v)
	}
	if p := topic.Partitions[1]; p.five() != (five{3, 3, -1, 8, 8}) || !p.BoundsAt.Equal(v.At) || p.Leader != k.LeaderFor("orders", 1) {
		t.Errorf("got %+v", p)
	}
	if p := topic.Partitions[0]; p.five() != (five{0, 0, -1, 0, 0}) {
		t.Errorf("empty: got %+v", p)
	}
	if v.ClusterID == "" {
		t.Error("no cluster id")
	}
	c.Watch(nameless())
	if p := part(t, c, 1); p.five() != nothing || !p.BoundsAt.IsZero() {
		t.Errorf("not watched any more, but %+v", p)
	}
}

// TestBoundsOfAnOpenTransaction tells the last stable offset from the high watermark.
func TestBoundsOfAnOpenTransaction(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 2)
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("tx"),
		kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	if p := part(t, c, 0); p.LastStable != 2 || p.HighWatermark != 3 {
		t.Errorf("got %+v", p)
	}
}

// TestBoundsOfTieredStorage answers for -4 and -5 what kfake cannot, and checks how each kind is asked.
func TestBoundsOfTieredStorage(t *testing.T) {
	k := brokers(t)
	listOffsets(k, func(req *kmsg.ListOffsetsRequest, timestamp int64, p *kmsg.ListOffsetsResponseTopicPartition) {
		switch {
		case timestamp == -2:
			p.Offset = 10
		case timestamp == -4:
			p.Offset = 50
		case timestamp == -5:
			p.Offset = 60
		case req.IsolationLevel == 1:
			p.Offset = 90
		default:
			p.Offset = 95
		}
		if req.ReplicaID != -1 {
			p.ErrorCode = kerr.InvalidRequest.Code
		}
	})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	if p := part(t, c, 0); p.five() != (five{10, 50, 60, 90, 95}) {
		t.Errorf("got %+v", p)
	}
}

// TestBoundsOfOlderBrokers holds that -4 and -5, which older brokers take for points in time, are not sent to them.
func TestBoundsOfOlderBrokers(t *testing.T) {
	for version, want := range map[int16]five{7: {10, -1, -1, 90, 95}, 8: {10, 50, -1, 90, 95}, 9: {10, 50, 60, 90, 95}} {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(int16(kmsg.ListOffsets), version)
		k := brokers(t, kfake.MaxVersions(versions))
		listOffsets(k, func(req *kmsg.ListOffsetsRequest, timestamp int64, p *kmsg.ListOffsetsResponseTopicPartition) {
			p.Offset = map[int64]int64{-2: 10, -4: 50, -5: 60, -1: 95}[timestamp]
			if req.IsolationLevel == 1 {
				p.Offset = 90
			}
			if timestamp == -4 && req.Version < 8 || timestamp == -5 && req.Version < 9 {
				t.Errorf("version %d is asked for %d", req.Version, timestamp)
			}
		})
		c := open(t, quiet(k.ListenAddrs()...), nil)
		watch(t, c, "orders")
		if p := part(t, c, 0); p.five() != want {
			t.Errorf("version %d: got %+v", version, p)
		}
		c.Close()
		k.Close()
	}
}

// TestBoundsOfALeaderThatRefuses keeps what was known, says of when, and takes nothing over by halves.
func TestBoundsOfALeaderThatRefuses(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 5)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	before := part(t, c, 0)
	var refuse atomic.Bool
	refuse.Store(true)
	listOffsets(k, func(req *kmsg.ListOffsetsRequest, timestamp int64, p *kmsg.ListOffsetsResponseTopicPartition) {
		p.Offset = 7
		if refuse.Load() && timestamp == -1 && req.IsolationLevel == 0 {
			p.ErrorCode = kerr.NotLeaderForPartition.Code
		}
	})
	now := part(t, c, 0)
	if now.five() != before.five() || !now.BoundsAt.Equal(before.BoundsAt) || c.View().At.Equal(now.BoundsAt) {
		t.Errorf("before %+v, now %+v", before, now)
	}
	if got := testutil.ToFloat64(c.metrics.unanswered); got != 2 {
		t.Errorf("unanswered: %v", got)
	}
	if got := testutil.ToFloat64(c.metrics.rounds.WithLabelValues(resultPartial)); got != 1 {
		t.Errorf("partial rounds: %v", got)
	}
	refuse.Store(false)
	if now = part(t, c, 0); now.five() != (five{7, 7, -1, 7, 7}) || !now.BoundsAt.Equal(c.View().At) {
		t.Errorf("answers again: %+v", now)
	}
}

// TestBoundsFromALiar adds to the answer partitions that nobody asked for, and one that was asked for a second time.
func TestBoundsFromALiar(t *testing.T) {
	const more = 2_000
	k := brokers(t)
	k.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, name := range []string{"orders", "orders", "other"} {
			st := kmsg.NewListOffsetsResponseTopic()
			st.Topic = name
			for number := range int32(more) {
				sp := kmsg.NewListOffsetsResponseTopicPartition()
				sp.Partition, sp.Offset = number, int64(len(resp.Topics))-5
				if len(resp.Topics) == 0 {
					sp.Offset = 5
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	v := refreshed(t, c)
	topic := named(t, v, "orders")
	if len(topic.Partitions) != 2 || len(v.Topics) != 1 {
		t.Fatalf("%d topics, %d partitions", len(v.Topics), len(topic.Partitions))
	}
	for _, p := range topic.Partitions {
		if p.five() != (five{5, 5, -1, 5, 5}) {
			t.Errorf("got %+v", p)
		}
	}
	if got := testutil.ToFloat64(c.metrics.rejected.WithLabelValues(rejectRepeated)); got < 3*more-2 {
		t.Errorf("counted %v", got)
	}
}
