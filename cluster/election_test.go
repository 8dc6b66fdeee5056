package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"coldtap/segment"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// elected is a cluster of which the one partition's leader and log are what a test says.
type elected struct {
	mu     sync.Mutex
	leader int32
	epoch  int32
	start  int64
	log    leaderLog
	bounds *kerr.Error // what ListOffsets is refused with
	epochs *kerr.Error // what OffsetForLeaderEpoch is refused with
	early  bool        // the high watermark has not reached the epoch's start (KIP-207)
}

func (e *elected) set(change func(e *elected)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *elected) serve(k *kfake.Cluster, id segment.UUID) {
	code := func(err *kerr.Error) int16 {
		if err == nil {
			return 0
		}
		return err.Code
	}
	metadataWith(k, func(_ *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
		e.mu.Lock()
		defer e.mu.Unlock()
		resp.Topics = []kmsg.MetadataResponseTopic{answerTopic("orders", id, e.epoch, e.leader)}
	})
	listOffsets(k, func(_ *kmsg.ListOffsetsRequest, timestamp int64, p *kmsg.ListOffsetsResponseTopicPartition) {
		e.mu.Lock()
		defer e.mu.Unlock()
		p.Offset, p.ErrorCode = e.log.end, code(e.bounds)
		if timestamp == -1 && e.early {
			p.ErrorCode = kerr.OffsetNotAvailable.Code
		}
		if timestamp == -2 || timestamp == -4 {
			p.Offset = e.start
		} else if timestamp == -5 {
			p.Offset = -1
		}
	})
	k.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		e.mu.Lock()
		defer e.mu.Unlock()
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetForLeaderEpochResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				sp.Partition, sp.ErrorCode = rp.Partition, code(e.epochs)
				sp.LeaderEpoch, sp.EndOffset = e.log.endOffsetFor(rp.LeaderEpoch)
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
}

// TestLineageThroughAnUncleanElection: what the deposed leader wrote beyond its successor's log is out of the lineage
// at once, and nothing of older epochs is in it before the successor has said how far its log goes.
func TestLineageThroughAnUncleanElection(t *testing.T) {
	before := lin(5, 0, 7, 50)
	for _, tt := range []struct {
		name    string
		change  func(e *elected)
		want    entries
		pending bool
	}{
		{"nobody leads", func(e *elected) { e.leader = -1 }, before, true},
		{"the new leader is not there yet", func(e *elected) { e.bounds = kerr.UnknownLeaderEpoch }, before, true},
		{"the new leader refuses", func(e *elected) { e.bounds = kerr.FencedLeaderEpoch }, lin(8, 10), true},
		{"it tells its bounds, and no epochs", func(e *elected) { e.epochs = kerr.UnknownServerError }, lin(8, 10), true},
		{"it tells its epochs", func(*elected) {}, lin(5, 0, 7, 50, 8, 100), false},
		{"it knows less than that", func(e *elected) { e.log = leaderLog{lin(5, 0, 8, 30), 30} }, lin(5, 0, 8, 30), false},
		{"it has nothing", func(e *elected) { e.log, e.start = leaderLog{lin(8, 100), 100}, 100 }, lin(8, 100), false},
		{"it tells its epochs before its high watermark", func(e *elected) { e.early = true }, lin(5, 0, 7, 50, 8, 100), false},
		{"it knows of no epochs", func(e *elected) { e.log = leaderLog{nil, 100} }, lin(8, 10), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := brokers(t)
			e := &elected{leader: 0, epoch: 7, start: 10, log: leaderLog{before, 200}}
			e.serve(k, segment.UUID{1})
			c := open(t, quiet(k.ListenAddrs()...), nil)
			c.Watch(nameless(segment.UUID{1}))
			if p := part(t, c, 0); !slices.Equal(p.Lineage, before) || p.LineagePending {
				t.Fatalf("before: %+v", p)
			}
			e.set(func(e *elected) {
				e.leader, e.epoch, e.log = 1, 8, leaderLog{lin(5, 0, 7, 50, 8, 100), 100}
				tt.change(e)
			})
			if p := part(t, c, 0); !slices.Equal(p.Lineage, tt.want) || p.LineagePending != tt.pending {
				t.Errorf("%+v, want the lineage %v", p, tt.want)
			}
			e.set(func(e *elected) {
				e.leader, e.bounds, e.epochs, e.log, e.start = 1, nil, nil, leaderLog{lin(5, 0, 7, 50, 8, 100), 100}, 10
			})
			if tt.pending {
				if p := part(t, c, 0); !slices.Equal(p.Lineage, lin(5, 0, 7, 50, 8, 100)) || p.LineagePending {
					t.Errorf("afterwards: %+v", p)
				}
			}
		})
	}
}

// TestLineageOfALeaderThatWasNeverReached: there is nothing to keep and nothing to cut.
func TestLineageOfALeaderThatWasNeverReached(t *testing.T) {
	k := brokers(t)
	e := &elected{leader: 0, epoch: 7, start: 10, log: leaderLog{lin(5, 0, 7, 50), 200}, bounds: kerr.LeaderNotAvailable}
	e.serve(k, segment.UUID{1})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	c.Watch(nameless(segment.UUID{1}))
	if p := part(t, c, 0); p.Lineage != nil || !p.LineagePending || !p.BoundsAt.IsZero() {
		t.Errorf("%+v", p)
	}
	e.set(func(e *elected) { e.bounds, e.epochs = nil, kerr.UnknownServerError })
	if p := part(t, c, 0); !slices.Equal(p.Lineage, lin(7, 10)) || !p.LineagePending {
		t.Errorf("%+v", p)
	}
}

// TestLineageThatIsPendingIsAskedForAtOnce, whatever the interval (an hour here).
func TestLineageThatIsPendingIsAskedForAtOnce(t *testing.T) {
	k := brokers(t)
	e := &elected{leader: 0, epoch: 7, log: leaderLog{lin(7, 0), 200}, epochs: kerr.UnknownServerError}
	e.serve(k, segment.UUID{1})
	told := make(chan struct{})
	var once sync.Once
	c := open(t, quiet(k.ListenAddrs()...), func(v *View) {
		switch p := &v.Topics[0].Partitions[0]; {
		case p.LineagePending:
			e.set(func(e *elected) { e.epochs = nil })
		case p.Lineage != nil:
			once.Do(func() { close(told) })
		}
	})
	c.Watch(nameless(segment.UUID{1}))
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatalf("%+v", c.View())
	}
}
