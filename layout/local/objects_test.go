package local

import (
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

func TestClassifyIsTheInverseOfObjects(t *testing.T) {
	for _, prefix := range []string{"", "kafka-tiered-storage/"} {
		l := New(nil, prefix)
		seg := &tier.Segment{
			ID: segment.UUID{0xfb, 1}, Topic: "odd-7.name_0-1", BaseOffset: 42, EndOffset: 50, Size: 1000,
			Partition: tier.PartitionID{Topic: segment.UUID{0xff, 2}, Partition: 3},
		}
		objects := l.Objects(seg)
		if len(objects) != 6 || objects[0].Part != layout.LogPart || objects[0].Size != 1000 || !objects[5].Optional {
			t.Fatalf("%+v", objects)
		}
		want := layout.Name{Prefix: prefix, Topic: seg.Topic, Partition: seg.Partition, BaseOffset: 42, ID: seg.ID}
		for _, o := range objects {
			if part, name := l.Classify(o.Key); part != o.Part || name != want {
				t.Errorf("%s: %v %+v", o.Key, part, name)
			}
			if !strings.HasPrefix(o.Key, prefix+l.TopicPrefix(seg.Topic, seg.Partition.Topic)) {
				t.Errorf("%s is not below the topic's prefix", o.Key)
			}
		}
		seg.TxnIndexEmpty = true
		if n := len(l.Objects(seg)); n != 5 {
			t.Errorf("%d objects without a transaction index", n)
		}
		seg.Topic = "../etc"
		if n := len(l.Objects(seg)); n != 0 {
			t.Errorf("%d objects of a topic that cannot be", n)
		}
	}
}

func TestClassifyARealStore(t *testing.T) {
	l := New(nil, "")
	for key := range clusterfixture.Load(t).Objects {
		if part, name := l.Classify(key); part == layout.ForeignPart || name.Topic == "" {
			t.Errorf("%s is taken for none of the layout's", key)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("plain-0-AQIDBAUGBwgJCgsMDQ4PEA/00000000000000000042-AAAAAAAAAAAAAAAAAAAAAw.log")
	f.Add("a-b-1-AQIDBAUGBwgJCgsMDQ4PEA/00000000000000000000-----_AAAAAAAAAAAAAAAAw.leader_epoch_checkpoint")
	l := New(nil, "")
	f.Fuzz(func(t *testing.T, key string) {
		part, name := l.Classify(key)
		if part == layout.ForeignPart {
			if name != (layout.Name{}) {
				t.Errorf("%q: foreign, and named %+v", key, name)
			}
			return
		}
		seg := &tier.Segment{ID: name.ID, Topic: name.Topic, Partition: name.Partition, BaseOffset: name.BaseOffset, EndOffset: name.BaseOffset}
		for _, o := range l.Objects(seg) {
			if o.Key == key && o.Part == part {
				return
			}
		}
		// Ids that no segment can have leave nothing to compare with.
		if !name.ID.IsZero() && !name.Partition.Topic.IsZero() {
			t.Errorf("%q is taken for %v of %+v, which has other keys", key, part, name)
		}
	})
}
