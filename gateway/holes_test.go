package gateway

import (
	"strings"
	"testing"

	"coldtap/tier"
)

// A range that the offloader gave up is shown, or its records would be taken for never written.
func TestTopicShowsHoles(t *testing.T) {
	r := newRealHarness(t, 64<<10, 4<<20)
	r.addLog(t, "holed", 0, bomb(10))
	topic, ok := r.tier.Snapshot().TopicByName("holed")
	if !ok {
		t.Fatal("no topic")
	}
	if got := r.get(t, "/topics/holed"); strings.Contains(got.body, "holes") {
		t.Errorf("holes where there are none: %s", got.body)
	}
	partition := tier.PartitionID{Topic: topic.ID}
	for _, h := range []tier.Hole{{From: 1, To: 5, Reason: `a "bad" log`}, {From: 8, To: 9, Reason: "gap"}} {
		if rejected := r.tier.Apply(tier.HoleRecorded{Partition: partition, Hole: h}); len(rejected) > 0 {
			t.Fatal(rejected)
		}
	}
	got := r.get(t, "/topics/holed")
	want := `"holes":[{"from_offset":1,"to_offset":5,"reason":"a \"bad\" log"},{"from_offset":8,"to_offset":9,"reason":"gap"}]}]}`
	if got.StatusCode != 200 || !strings.Contains(got.body, want) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}
