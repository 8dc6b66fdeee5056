package kafka

import (
	"reflect"
	"testing"

	"coldtap/tier"
)

func TestChangesAreWhatBrokersDo(t *testing.T) {
	gone := func(state PartitionState) Record {
		return &PartitionDelete{Topic: "orders", Partition: orders3, State: state}
	}
	for name, c := range map[string]struct {
		record Record
		want   []tier.Change
	}{
		"segment":                     {&Segment{ordersSegment()}, []tier.Change{tier.SegmentAdded{Segment: ordersSegment()}}},
		"update":                      {ordersUpdate(tier.CopyFinished, nil), []tier.Change{ordersUpdate(tier.CopyFinished, nil).SegmentUpdated}},
		"partition to be deleted":     {gone(DeleteMarked), nil},
		"partition being deleted":     {gone(DeleteStarted), nil},
		"partition that is gone":      {gone(DeleteFinished), []tier.Change{tier.PartitionForgotten{Partition: orders3}}},
		"partition in no known state": {gone(7), nil},
		"snapshot":                    {&Snapshot{ordersSegment()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Changes(nil, c.record); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestASegmentsLife follows one segment through a tier, with the repetitions and strays that a real topic has.
func TestASegmentsLife(t *testing.T) {
	m := tier.New()
	apply := func(r Record) (reason string) {
		value, err := appendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = Decode(value); err != nil {
			t.Fatal(err)
		}
		if rejected := m.Apply(Changes(nil, r)...); len(rejected) > 0 {
			return rejected[0].Reason
		}
		return ""
	}
	for i, step := range []struct {
		record   Record
		reason   string
		readable bool
	}{
		{ordersUpdate(tier.CopyFinished, nil), tier.ReasonUnknownSegment, false}, // its first record was lost to retention
		{&Segment{ordersSegment()}, "", false},
		{&Segment{ordersSegment()}, "", false},
		{ordersUpdate(tier.DeleteFinished, nil), tier.ReasonIllegalTransition, false},
		{ordersUpdate(tier.CopyFinished, []byte("where")), "", true},
		{&Segment{ordersSegment()}, tier.ReasonIllegalTransition, true},
		{&PartitionDelete{"orders", orders3, 1, 2, DeleteMarked}, "", true},
		{ordersUpdate(tier.DeleteStarted, nil), "", false},
		{ordersUpdate(tier.DeleteStarted, nil), "", false},
		{ordersUpdate(tier.DeleteFinished, nil), "", false},
		{ordersUpdate(tier.DeleteFinished, nil), tier.ReasonUnknownSegment, false},
	} {
		if got := apply(step.record); got != step.reason {
			t.Errorf("step %d: rejected for %q, want %q", i, got, step.reason)
		}
		readable := false
		if p, ok := m.Snapshot().Partition(orders3); ok {
			readable = p.Readable(segmentID)
			if s, ok := p.Segment(segmentID); ok && readable && string(s.Custom) != "where" {
				t.Errorf("step %d: custom metadata %q", i, s.Custom)
			}
		}
		if readable != step.readable {
			t.Errorf("step %d: readable is %t", i, readable)
		}
	}
	if topic, ok := m.Snapshot().TopicByName("orders"); ok {
		t.Errorf("%+v is left", topic)
	}
}
