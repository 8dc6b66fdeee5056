package offload

import (
	"errors"
	"strings"
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

// A process that dies after any step leaves what the next run turns into the state of an undisturbed one.
func TestRunAfterACrashAtEachStepEndsInTheSameState(t *testing.T) {
	dir := extract(t, "plain-0", "txn-1")
	configure := func(w *fakeTier) Config { return w.config(dir) }
	undisturbed := newFakeTier()
	if undisturbed.offload(t, configure(undisturbed)).Failed() {
		t.Fatal("the undisturbed run failed")
	}
	want := undisturbed.describe()
	for k := 1; k < undisturbed.steps; k++ {
		w := newFakeTier()
		w.limit = k
		if report := w.offload(t, configure(w)); !report.Failed() {
			t.Fatalf("killed after step %d: nothing failed", k)
		}
		if strings.Contains(w.describe(), "orphan") {
			t.Fatalf("killed after step %d: objects that no record names:\n%s", k, w.describe())
		}
		w.limit = 0
		if report := w.offload(t, configure(w)); report.Failed() {
			t.Fatalf("the run after one killed after step %d failed: %+v", k, report)
		}
		if got := w.describe(); got != want {
			t.Fatalf("after a kill after step %d (%s):\n%s\nwant:\n%s", k, undisturbed.names[k-1], got, want)
		}
	}
}

// The same for a run that finds debris: copies to remove take three steps, and each may be the last.
func TestRemovalOfAnUnfinishedCopySurvivesCrashes(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(10).roll().data(1).done()
	other := newLog(t, "a", 0).data(7).roll().data(13).roll().data(1).done()
	prepare := func() *fakeTier {
		// A copy of 0..6 was begun, of a log that has other segments now.
		w := newFakeTier()
		w.limit = 4 // topic, partition, start, put log
		w.offload(t, w.config(other.dir))
		w.limit = 0
		return w
	}
	undisturbed := prepare()
	undisturbed.steps = 0
	if undisturbed.offload(t, undisturbed.config(l.dir)).Failed() {
		t.Fatal("the undisturbed run failed")
	}
	want := undisturbed.describe()
	for k := 1; k < undisturbed.steps; k++ {
		w := prepare()
		w.steps, w.limit = 0, k
		w.offload(t, w.config(l.dir))
		w.limit = 0
		if w.offload(t, w.config(l.dir)).Failed() {
			t.Fatalf("the run after one killed after step %d failed", k)
		}
		if got := w.describe(); got != want {
			t.Fatalf("after a kill after step %d:\n%s\nwant:\n%s", k, got, want)
		}
	}
}

func TestUnfinishedCopyIsResumedUnderItsID(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	w := newFakeTier()
	w.limit = 5 // all but the finish
	w.offload(t, w.config(l.dir))
	w.limit = 0
	unfinished := w.partition(t, "a", 0).Segments(true)
	if len(unfinished) != 1 || unfinished[0].State != tier.CopyStarted {
		t.Fatalf("left are %+v", unfinished)
	}
	resumed := 0
	cfg := w.config(l.dir)
	cfg.Progress = func(e Event) {
		if e.Step == StepResumed {
			resumed++
		}
	}
	w.offload(t, cfg)
	finished := w.partition(t, "a", 0).Segments(true)
	if len(finished) != 1 || finished[0].ID != unfinished[0].ID || finished[0].State != tier.CopyFinished || resumed != 1 {
		t.Errorf("%d resumed, segments %+v", resumed, finished)
	}
}

func TestUnfinishedCopyOfOtherBytesIsRemovedAndCopiedUnderANewID(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	w := newFakeTier()
	w.limit = 5
	w.offload(t, w.config(l.dir))
	w.limit = 0
	old := w.partition(t, "a", 0).Segments(true)[0].ID
	// The cleaner came: the same offsets, other bytes.
	again := newLog(t, "a", 0).data(9).add(batchSpec{timestamp: 5}).roll().data(1).done()
	if w.offload(t, w.config(again.dir)).Failed() {
		t.Fatal("failed")
	}
	segments := w.partition(t, "a", 0).Segments(true)
	if len(segments) != 1 || segments[0].ID == old || len(w.objects) != 2 {
		t.Errorf("segments %+v, %d objects", segments, len(w.objects))
	}
}

func TestUnfinishedCopyOfAnotherBrokerIsLeftAlone(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	w := newFakeTier()
	w.limit = 5
	w.offload(t, w.config(l.dir))
	w.limit = 0
	l.write("meta.properties", "version=1\nnode.id=2\ncluster.id="+testCluster+"\n")
	if w.offload(t, w.config(l.dir)).Failed() {
		t.Fatal("failed")
	}
	segments := w.partition(t, "a", 0).Segments(true)
	if len(segments) != 2 || len(w.objects) != 4 {
		t.Fatalf("segments %+v, %d objects", segments, len(w.objects))
	}
	for _, s := range segments {
		if want := map[int32]tier.State{1: tier.CopyStarted, 2: tier.CopyFinished}[s.BrokerID]; s.State != want {
			t.Errorf("broker %d has %v", s.BrokerID, s.State)
		}
	}
}

// KAFKA-16711: a deposed leader's segment does not count.
func TestCopyResumesWhereTheLineageEnds(t *testing.T) {
	deposed := newLog(t, "a", 0).data(100).roll().lead(3).data(100).roll().data(1).done()
	w := newFakeTier()
	w.offload(t, w.config(deposed.dir))
	if end := w.partition(t, "a", 0).TieredEnd(); end != 200 {
		t.Fatalf("the deposed leader tiered up to %d", end)
	}
	leader := newLog(t, "a", 0).data(100).roll().lead(4).data(50).roll().data(30).roll().data(1).done()
	report := w.offload(t, w.config(leader.dir))
	p := w.partition(t, "a", 0)
	var ranges [][2]int64
	for _, s := range p.Segments(false) {
		ranges = append(ranges, [2]int64{s.BaseOffset, s.EndOffset})
	}
	if report.Failed() || p.TieredEnd() != 180 || len(ranges) != 3 || ranges[1] != [2]int64{100, 149} || ranges[2] != [2]int64{150, 179} {
		t.Errorf("tiered end %d, segments %v", p.TieredEnd(), ranges)
	}
}

func TestLaggingReplicaDoesNotTakeTheLineageBack(t *testing.T) {
	full := newLog(t, "a", 0).data(100).roll().lead(3).data(100).roll().data(1).done()
	w := newFakeTier()
	w.offload(t, w.config(full.dir))
	lagging := newLog(t, "a", 0).data(100).roll().data(0).done()
	if report := w.offload(t, w.config(lagging.dir)); report.Failed() {
		t.Fatalf("failed: %+v", report)
	}
	if end := w.partition(t, "a", 0).TieredEnd(); end != 200 {
		t.Errorf("tiered end %d after a lagging replica", end)
	}
}

// The tier keeps more than the broker, whose checkpoint forgets epochs below its log start.
func TestLineageOutlivesTheBrokersLogStart(t *testing.T) {
	before := newLog(t, "a", 0).data(10).roll().lead(2).data(10).roll().data(5).done()
	w := newFakeTier()
	w.offload(t, w.config(before.dir))
	after := newLog(t, "a", 10)
	after.epoch, after.epochs = 2, []segment.EpochStart{{Epoch: 2, StartOffset: 10}}
	after.data(10).roll().data(5).roll().data(1).done()
	if report := w.offload(t, w.config(after.dir)); report.Failed() || report.Partitions[0].Segments != 1 {
		t.Fatalf("report %+v", report)
	}
	p := w.partition(t, "a", 0)
	if s, ok := p.Find(5); !ok || s.BaseOffset != 0 || p.TieredEnd() != 25 {
		t.Errorf("offset 5 in %+v, tiered end %d", s, p.TieredEnd())
	}
	last := p.Segments(false)[2]
	if epochs, err := segment.ParseEpochCheckpoint(w.files(t, last).LeaderEpochs); err != nil || len(epochs) != 2 {
		t.Errorf("the last segment carries epochs %v, %v", epochs, err)
	}
}

// What the tier remembers of the lineage is no substitute for a checkpoint that a crash emptied.
func TestEmptiedEpochCheckpointIsNotMadeUpFor(t *testing.T) {
	l := newLog(t, "a", 0).data(10).roll().data(1).done()
	w := newFakeTier()
	w.offload(t, w.config(l.dir))
	l.data(9).roll().data(1).done()
	l.file("leader-epoch-checkpoint", nil)
	r := of(t, w.offload(t, w.config(l.dir)), "a", 0)
	if r.Segments != 0 || r.reasons() != "0..9 already copied; 10..19 no leader epoch; 20..-1 active segment" {
		t.Errorf("left %s", r.reasons())
	}
}

func TestStoreFailureStopsOnePartitionOnly(t *testing.T) {
	w, dir := newFakeTier(), extract(t, "plain-0", "codecs-0")
	w.putError = func(seg *tier.Segment) error {
		if seg.Topic == "plain" && seg.BaseOffset > 0 {
			return errors.New("no room")
		}
		return nil
	}
	report := w.offload(t, w.config(dir))
	plain := of(t, report, "plain", 0)
	if !report.Failed() || plain.Segments != 1 || plain.Left[0].Reason != StoreFailed || plain.Left[0].Detail != "no room" || plain.Left[1].Reason != Behind {
		t.Errorf("plain: %+v", plain)
	}
	for i := range report.Partitions {
		if p := &report.Partitions[i]; p.Topic != "plain" && (p.Failed() || p.Segments == 0) {
			t.Errorf("%s-%d: %+v", p.Topic, p.Partition, p)
		}
	}
	// Nothing went FINISHED that the store refused, and the next run picks up there.
	w.putError = nil
	if report := w.offload(t, w.config(dir)); report.Failed() || strings.Contains(w.describe(), "STARTED") {
		t.Errorf("second run: %+v\n%s", report, w.describe())
	}
}
