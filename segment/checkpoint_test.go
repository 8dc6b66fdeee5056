package segment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/sample"
)

func TestEpochCheckpoint(t *testing.T) {
	two := []EpochStart{{5, 100}, {6, 300}}
	for _, c := range []struct {
		raw  string
		want []EpochStart
	}{
		{"0\n2\n5 100\n6 300\n", two},
		{"0\r\n2\r\n5 100\r\n6 300\r\n", two},
		{"0\n2\n5 100\n6 300", two},
		{"0\n2\n5   100 \n6\t300\n", two},
		{"0\n0\n", nil},
		{"0\n", nil},
		{"", nil},
		{"0\n1\n2147483647 9223372036854775807\n", []EpochStart{{1<<31 - 1, 1<<63 - 1}}},
	} {
		got, err := ParseEpochCheckpoint([]byte(c.raw))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %+v, %v", c.raw, got, err)
		}
	}
	if got := string(AppendEpochCheckpoint(nil, two)); got != "0\n2\n5 100\n6 300\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestD6DamagedEpochCheckpoint(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want Kind
	}{
		{"0\n3\n0 0\n", Truncated},
		{"0\n1\n", Truncated},
		{"0\n1\n0 0\n1 5\n", Corrupt},
		{"0\n1\n0 0\n\n", Corrupt},
		{"0\n\n1\n0 0\n", Corrupt},
		{"\n0\n1\n0 0\n", Corrupt},
		{"0\n2\n0 0\n\n1 5\n", Corrupt},
		{"0\n1\n 0 0\n", Corrupt},
		{"0\n1\n0\n", Corrupt},
		{"0\n1\n0 0 0\n", Corrupt},
		{"0\n1\nx 0\n", Corrupt},
		{"0\n1\n0 1x\n", Corrupt},
		{"0\n1\n-1 0\n", Corrupt},
		{"0\n1\n0 -1\n", Corrupt},
		{"0\n1\n2147483648 0\n", Corrupt},
		{"0\n1\n0 9223372036854775808\n", Corrupt},
		{"0\n2\n0 5\n1 5\n", Corrupt},
		{"0\n2\n0 5\n1 4\n", Corrupt},
		{"0\n2\n1 0\n1 5\n", Corrupt},
		{"0\n2\n1 0\n0 5\n", Corrupt},
		{"0\n-1\n", Corrupt},
		{"0\n1 \n0 0\n", Corrupt},
		{"0\n2147483647\n0 0\n", TooLarge},
		{"1\n1\n0 0\n", Unsupported},
		{"zero\n1\n0 0\n", Corrupt},
		{"\x00\x00\x00\x00", Corrupt},
	} {
		got, err := ParseEpochCheckpoint([]byte(c.raw))
		if err == nil || got != nil {
			t.Errorf("%q: %+v, %v", c.raw, got, err)
			continue
		}
		wantKind(t, err, c.want)
	}
}

func TestOffsetCheckpoint(t *testing.T) {
	got, err := ParseOffsetCheckpoint([]byte("0\n3\nplain 0 554\nwith-dash.and_more 12 0\nplain 1 9223372036854775807\n"))
	want := map[TopicPartition]int64{{"plain", 0}: 554, {"with-dash.and_more", 12}: 0, {"plain", 1}: 1<<63 - 1}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, raw := range []string{
		"0\n1\nplain 0\n", "0\n1\nplain 0 5 6\n", "0\n1\nplain -1 5\n", "0\n1\nplain 0 -5\n", "0\n1\n../plain 0 5\n",
		"0\n2\nplain 0 5\nplain 0 6\n", "0\n1\nplain 2147483648 5\n", "0\n1\n.. 0 5\n",
	} {
		got, err := ParseOffsetCheckpoint([]byte(raw))
		if err == nil || got != nil {
			t.Errorf("%q: %v, %v", raw, got, err)
			continue
		}
		wantKind(t, err, Corrupt)
	}
}

func TestCheckpointsOfSample(t *testing.T) {
	names, files := sampleFiles(t, "leader-epoch-checkpoint")
	for _, name := range names {
		epochs, err := ParseEpochCheckpoint(files[name])
		if err != nil || len(epochs) == 0 {
			t.Errorf("%s: %+v, %v", name, epochs, err)
		}
		if got := AppendEpochCheckpoint(nil, epochs); string(got) != string(files[name]) {
			t.Errorf("%s: wrote %q", name, got)
		}
	}
	offsets, err := ParseOffsetCheckpoint(files["replication-offset-checkpoint"])
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range sample.Partitions {
		topic, partition, ok := ParsePartitionDir(dir)
		if !ok || offsets[TopicPartition{topic, partition}] == 0 {
			t.Errorf("%s: no high watermark", dir)
		}
	}
	for _, name := range []string{"log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"} {
		if _, err := ParseOffsetCheckpoint(files[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A count that lies costs nothing.
func TestCheckpointCountSizesNothing(t *testing.T) {
	raw := fmt.Appendf(nil, "0\n%d\n0 0\n", maxCheckpointEntries)
	if n := allocated(func() { _, _ = ParseEpochCheckpoint(raw) }); n > 64<<10 {
		t.Errorf("%d bytes allocated", n)
	}
	if n := allocated(func() { _, _ = ParseOffsetCheckpoint(raw) }); n > 64<<10 {
		t.Errorf("%d bytes allocated", n)
	}
}

func FuzzCheckpoint(f *testing.F) {
	names, files := sampleFiles(f, "checkpoint")
	for _, name := range names {
		f.Add(files[name])
	}
	f.Add([]byte("0\r\n2\r\n5 100\r\n6 300"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if epochs, err := ParseEpochCheckpoint(raw); err == nil {
			again, err := ParseEpochCheckpoint(AppendEpochCheckpoint(nil, epochs))
			if err != nil || !slices.Equal(epochs, again) {
				t.Fatalf("%+v, %+v, %v", epochs, again, err)
			}
		}
		if offsets, err := ParseOffsetCheckpoint(raw); err == nil {
			for p, offset := range offsets {
				if _, _, ok := ParsePartitionDir(fmt.Sprintf("%s-%d", p.Topic, p.Partition)); !ok || offset < 0 ||
					strings.ContainsAny(p.Topic, "/\\\x00 ") {
					t.Fatalf("%+v: %d", p, offset)
				}
			}
		}
	})
}
