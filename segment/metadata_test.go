package segment

import "testing"

func TestPartitionMetadata(t *testing.T) {
	const id = "AQIDBAUGBwgJCgsMDQ4PEA"
	for _, raw := range []string{
		"version: 0\ntopic_id: " + id, "version: 0\ntopic_id: " + id + "\n", "version: 0\r\ntopic_id: " + id + "\r\n",
		"version: 7\ntopic_id: " + id + "\nmore: later\n", "version:\t0\ntopic_id:  " + id,
	} {
		if got, err := ParsePartitionMetadata([]byte(raw)); err != nil || got.String() != id {
			t.Errorf("%q: %s, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", "version: 0", "version: 0\n", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: -1\ntopic_id: " + id,
		"version: x\ntopic_id: " + id, "topic_id: " + id + "\nversion: 0", "version:0\ntopic_id: " + id,
		"version: 0\ntopic_id: " + id + "==", "version: 0\ntopic_id: " + id[1:], "version: 0\ntopic_id: ../../../../etc/pass/",
		"version: 0\n\ntopic_id: " + id,
	} {
		got, err := ParsePartitionMetadata([]byte(raw))
		if err == nil || !got.IsZero() {
			t.Errorf("%q: %s, %v", raw, got, err)
			continue
		}
		wantKind(t, err, Corrupt)
	}
	names, files := sampleFiles(t, "partition.metadata")
	for _, name := range names {
		if id, err := ParsePartitionMetadata(files[name]); err != nil || id.IsZero() {
			t.Errorf("%s: %s, %v", name, id, err)
		}
	}
}

func FuzzPartitionMetadata(f *testing.F) {
	names, files := sampleFiles(f, "partition.metadata")
	for _, name := range names {
		f.Add(files[name])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if id, err := ParsePartitionMetadata(raw); err == nil && id.IsZero() {
			t.Fatal("zero id")
		}
	})
}
