package kafka

import (
	"testing"

	"coldtap/segment"
	"coldtap/tier"
)

func TestPartitionOfFollowsTheBrokers(t *testing.T) {
	other, err := segment.ParseUUID("LWgrMmVrT0a__7a4SasuPA")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[segment.UUID][]int32{
		ordersID: {13, 41, 44, 37, 10, 5},
		other:    {1, 18, 30},
	} {
		for partition, want := range want {
			if got := PartitionOf(tier.PartitionID{Topic: id, Partition: int32(partition)}, DefaultPartitions); got != want {
				t.Errorf("%s-%d belongs in %d, want %d", id, partition, got, want)
			}
		}
	}
}

func TestMurmur2(t *testing.T) {
	for in, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482,
		"\x8f\x90\x5e\xef": -275787385, "\x8f\x90\x5e\xf0": 2020211091,
	} {
		if got := int32(murmur2([]byte(in))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", in, got, want)
		}
	}
}
