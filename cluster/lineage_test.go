package cluster

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type entries = []segment.EpochStart

// lin is a lineage of pairs of epoch and start.
func lin(pairs ...int64) (list entries) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, segment.EpochStart{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return list
}

// leaderLog answers as LeaderEpochFileCache.endOffsetFor does.
type leaderLog struct {
	entries entries
	end     int64
}

func (l leaderLog) endOffsetFor(epoch int32) (int32, int64) {
	n := len(l.entries)
	if n == 0 || epoch > l.entries[n-1].Epoch {
		return -1, -1
	}
	if epoch == l.entries[n-1].Epoch {
		return epoch, l.end
	}
	i := slices.IndexFunc(l.entries, func(e segment.EpochStart) bool { return e.Epoch > epoch })
	if i == 0 {
		return epoch, l.entries[0].StartOffset
	}
	return l.entries[i-1].Epoch, l.entries[i].StartOffset
}

// climb walks down a whole log.
func climb(l leaderLog, under int32, logStart int64, old entries) *walk {
	w := newWalk(under)
	for w.status == walking {
		epoch, end := l.endOffsetFor(w.asked)
		w.answer(epoch, end, logStart, old)
	}
	return w
}

func TestLineageOfALog(t *testing.T) {
	tests := []struct {
		name  string
		log   leaderLog
		under int32
		start int64
		hw    int64
		want  entries
	}{
		{"one epoch", leaderLog{lin(0, 0), 10}, 0, 0, 10, lin(0, 0)},
		{"first epoch is not 0", leaderLog{lin(5, 0), 10}, 5, 0, 10, lin(5, 0)},
		{"several", leaderLog{lin(2, 0, 5, 100, 9, 250), 300}, 9, 0, 300, lin(2, 0, 5, 100, 9, 250)},
		{"the leader's own wrote nothing", leaderLog{lin(2, 0, 5, 100, 9, 300), 300}, 9, 0, 300, lin(2, 0, 5, 100, 9, 300)},
		{"the leader's own wrote nothing that is committed", leaderLog{lin(2, 0, 5, 100, 9, 300), 305}, 9, 0, 300, lin(2, 0, 5, 100, 9, 300)},
		{"log start inside an epoch", leaderLog{lin(2, 0, 5, 100, 9, 250), 300}, 9, 150, 300, lin(5, 100, 9, 250)},
		{"log start at an epoch", leaderLog{lin(2, 0, 5, 100, 9, 250), 300}, 9, 100, 300, lin(5, 100, 9, 250)},
		{"trimmed by the leader", leaderLog{lin(5, 150, 9, 250), 300}, 9, 150, 300, lin(5, 150, 9, 250)},
		{"a prefix without epochs", leaderLog{lin(5, 50, 9, 250), 300}, 9, 0, 300, lin(5, 50, 9, 250)},
		{"no epochs at all", leaderLog{lin(9, 300), 300}, 9, 0, 300, lin(9, 300)},
		{"empty log", leaderLog{lin(9, 300), 300}, 9, 300, 300, lin(9, 300)},
		{"unclean election, nothing written since", leaderLog{lin(7, 50, 8, 100), 100}, 8, 50, 100, lin(7, 50, 8, 100)},
		{"unclean election, all is lost", leaderLog{lin(8, 100), 100}, 8, 100, 100, lin(8, 100)},
		{"empty log, written to since", leaderLog{lin(9, 300), 300}, 9, 300, 310, lin(9, 300)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := climb(tt.log, tt.under, tt.start, nil)
			if w.status != walkDone {
				t.Fatalf("status %d", w.status)
			}
			p := partition{now: Partition{LeaderEpoch: tt.under, LogStart: tt.start, HighWatermark: tt.hw},
				lineage: lineage{entries: w.found, epoch: tt.under, known: true}}
			if got, pending := p.lineage.shown(&p, time.Time{}); !slices.Equal(got, tt.want) || pending {
				t.Errorf("got %v (pending %v), want %v", got, pending, tt.want)
			}
		})
	}
}

// TestLineageFromAnOlderOne walks random logs that grow: with and without what was known before the result is the same,
// and knowing saves questions.
func TestLineageFromAnOlderOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	saved := 0
	for range 2000 {
		var l leaderLog
		grow := func() {
			epoch := int32(rnd.IntN(3)) // gaps are epochs that wrote nothing
			if n := len(l.entries); n > 0 {
				epoch += l.entries[n-1].Epoch + 1
				if l.entries[n-1].StartOffset == l.end { // an epoch that wrote nothing gives way
					l.entries = l.entries[:n-1]
				}
			}
			l.entries = append(l.entries, segment.EpochStart{Epoch: epoch, StartOffset: l.end})
			l.end += rnd.Int64N(3) * 50
		}
		top := func() int32 { return l.entries[len(l.entries)-1].Epoch }
		for range 1 + rnd.IntN(5) {
			grow()
		}
		start := rnd.Int64N(l.end + 1)
		old := climb(l, top(), start, nil).found
		for range 1 + rnd.IntN(3) {
			grow()
		}
		start += rnd.Int64N(l.end - start + 1)
		cold, warm := climb(l, top(), start, nil), climb(l, top(), start, old)
		shown := func(w *walk) entries {
			p := partition{now: Partition{LeaderEpoch: top(), LogStart: start, HighWatermark: l.end},
				lineage: lineage{entries: w.found, epoch: top(), known: true}}
			list, _ := p.lineage.shown(&p, time.Time{})
			return list
		}
		var want entries
		for i, e := range l.entries {
			next := l.end
			if i+1 < len(l.entries) {
				next = l.entries[i+1].StartOffset
			}
			if i+1 == len(l.entries) || next > start && next > e.StartOffset {
				want = append(want, e)
			}
		}
		if len(want) > 0 && want[0].Epoch == 0 {
			// Nobody can be asked where epoch 0 began.
			want[0].StartOffset = min(want[0].StartOffset, start)
		}
		for name, w := range map[string]*walk{"cold": cold, "warm": warm} {
			got := shown(w)
			if len(got) > 0 && len(want) > 0 && got[0].Epoch == want[0].Epoch && got[0].StartOffset <= start && want[0].StartOffset <= start {
				got = slices.Clone(got) // where the first began below the log start is nobody's business
				got[0].StartOffset = want[0].StartOffset
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: log %+v from %d, known %v: got %v, want %v", name, l, start, old, got, want)
			}
		}
		if warm.steps > cold.steps {
			t.Fatalf("log %+v from %d, known %v: %d questions, without %d", l, start, old, warm.steps, cold.steps)
		}
		saved += cold.steps - warm.steps
	}
	if saved == 0 {
		t.Error("what is known never saves a question")
	}
}

// TestLineageUnderALowerLogStart does not join what was known from a higher one: its first entry begins where it was
// cut.
func TestLineageUnderALowerLogStart(t *testing.T) {
	l := leaderLog{lin(2, 0, 5, 100, 9, 250), 300}
	if w := climb(l, 9, 50, lin(5, 150, 7, 240)); !slices.Equal(w.found, l.entries) {
		t.Errorf("got %v", w.found)
	}
}

func TestLineageFromNonsense(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers [][2]int64
		want    walkStatus
	}{
		{"an epoch above the one asked", [][2]int64{{10, 300}}, walkNonsense},
		{"the same epoch again", [][2]int64{{9, 300}, {9, 200}}, walkNonsense},
		{"an end above the epoch before", [][2]int64{{9, 300}, {8, 301}}, walkNonsense},
		{"a negative end", [][2]int64{{9, -5}}, walkNonsense},
		{"a negative epoch", [][2]int64{{9, 300}, {-2, 100}}, walkNonsense},
		{"an end that is huge", [][2]int64{{9, largestOffset + 1}}, walkNonsense},
		{"undefined", [][2]int64{{-1, -1}}, walkUndefined},
		{"undefined further down", [][2]int64{{9, 300}, {-1, -1}}, walkUndefined},
	} {
		w := newWalk(9)
		for _, a := range tt.answers {
			if w.status != walking {
				t.Fatalf("%s: over before the end", tt.name)
			}
			w.answer(int32(a[0]), a[1], 0, nil)
		}
		if w.status != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, w.status, tt.want)
		}
	}
}

func TestLineageTooDeep(t *testing.T) {
	var l leaderLog
	for i := range int32(maxWalk + 1) {
		l.entries = append(l.entries, segment.EpochStart{Epoch: i, StartOffset: int64(i)})
	}
	l.end = maxWalk + 1
	if w := climb(l, maxWalk, 0, nil); w.status != walkTooDeep || w.steps != maxWalk || !slices.Equal(w.found, l.entries[2:]) {
		t.Errorf("status %d after %d questions, %d entries from %v on", w.status, w.steps, len(w.found), w.found[0])
	}
	if w := climb(l, maxWalk, 2, nil); w.status != walkDone || len(w.found) != maxWalk-1 {
		t.Errorf("one question less: status %d, %d entries", w.status, len(w.found))
	}
}

func FuzzWalk(f *testing.F) {
	f.Add(int32(9), int64(0), []byte{9, 30, 8, 25, 4, 10, 2, 0})
	f.Add(int32(9), int64(5), []byte{9, 30, 12, 25})
	f.Add(int32(3), int64(5), []byte{255, 255})
	f.Fuzz(func(t *testing.T, under int32, logStart int64, script []byte) {
		if under < 0 || logStart < 0 || logStart > largestOffset {
			return
		}
		w := newWalk(under)
		old := lin(1, 0, 4, 3)
		for i := 0; w.status == walking; i += 2 {
			if i+1 >= len(script) {
				return
			}
			if w.asked < 0 || w.steps >= maxWalk {
				t.Fatalf("goes on at epoch %d after %d", w.asked, w.steps)
			}
			w.answer(int32(int8(script[i])), int64(int8(script[i+1])), logStart, old)
		}
		if w.status != walkDone {
			return
		}
		for i, e := range w.found {
			if e.Epoch < 0 || e.Epoch > under || e.StartOffset < 0 || i > 0 && (e.Epoch <= w.found[i-1].Epoch || e.StartOffset <= w.found[i-1].StartOffset) {
				t.Fatalf("not a lineage: %v", w.found)
			}
		}
	})
}

// TestLineageFollowsLeaders moves a partition from broker to broker, also without writing in between.
func TestLineageFollowsLeaders(t *testing.T) {
	k := brokers(t)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	var want entries
	if first := part(t, c, 0); !slices.Equal(first.Lineage, lin(int64(first.LeaderEpoch), 0)) {
		t.Errorf("an empty partition has the lineage %v", first.Lineage)
	}
	write := func(n int) {
		p := k.PartitionInfo("orders", 0)
		want = append(want, segment.EpochStart{Epoch: p.Epoch, StartOffset: p.HighWatermark})
		produce(t, k, 0, n)
	}
	move := func() {
		t.Helper()
		if err := k.MoveTopicPartition("orders", 0, 1-k.LeaderFor("orders", 0)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		p := part(t, c, 0)
		want := slices.Clip(want)
		if want[len(want)-1].Epoch < p.LeaderEpoch { // the leader has written nothing
			want = append(want, segment.EpochStart{Epoch: p.LeaderEpoch, StartOffset: p.HighWatermark})
		}
		if !slices.Equal(p.Lineage, want) || p.LineagePending {
			t.Errorf("%s: lineage %v (pending %v), want %v", what, p.Lineage, p.LineagePending, want)
		}
		if p.LeaderEpoch != k.PartitionInfo("orders", 0).Epoch || p.Leader != k.LeaderFor("orders", 0) {
			t.Errorf("%s: leader %d, epoch %d", what, p.Leader, p.LeaderEpoch)
		}
	}
	write(3)
	check("written under the first leader")
	move()
	check("a new leader that has not written")
	move()
	write(4)
	check("an epoch without records between")
	move()
	move()
	move()
	write(2)
	check("three moves at once")
	if err := k.DeleteRecords("orders", 0, 5); err != nil {
		t.Fatal(err)
	}
	want = want[1:]
	check("the log start moved into the second epoch")
}

// TestLineageIsAskedOnce holds that rounds without a new leader epoch do not ask for lineages.
func TestLineageIsAskedOnce(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 2)
	c := open(t, quiet(k.ListenAddrs()...), nil)
	id := watch(t, c, "orders")
	if got := part(t, c, 0).Lineage; len(got) != 1 {
		t.Fatalf("lineage %v", got)
	}
	var asked atomic.Int64
	k.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	part(t, c, 0)
	c.Watch(nameless(id))
	part(t, c, 0)
	if n := asked.Load(); n != 0 {
		t.Errorf("asked %d times for the same leader epoch", n)
	}
}

// TestLineageFromALiar answers an epoch above the one asked for.
func TestLineageFromALiar(t *testing.T) {
	k := brokers(t)
	produce(t, k, 0, 2)
	k.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		req := kreq.(*kmsg.OffsetForLeaderEpochRequest)
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewOffsetForLeaderEpochResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				for range 3 { // and says it three times
					sp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
					sp.Partition, sp.LeaderEpoch, sp.EndOffset = rp.Partition, rp.LeaderEpoch+7, 2
					st.Partitions = append(st.Partitions, sp)
				}
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	c := open(t, quiet(k.ListenAddrs()...), nil)
	watch(t, c, "orders")
	if p := part(t, c, 0); p.Lineage != nil || p.HighWatermark != 2 {
		t.Errorf("got %+v", p)
	}
	for _, reason := range []string{rejectLineage, rejectRepeated} {
		if testutil.ToFloat64(c.metrics.rejected.WithLabelValues(reason)) == 0 {
			t.Errorf("not counted: %s", reason)
		}
	}
}
