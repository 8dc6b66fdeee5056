package embedded

import (
	"os"
	"testing"

	"coldtap/tier"
)

// BenchmarkFullLoad opens a reader on 100,000 segments.
func BenchmarkFullLoad(b *testing.B) {
	path := b.TempDir() + "/coldtap.db"
	d, err := OpenWriter(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const segments = 100_000
	// One transaction, for the set-up's sake.
	err = d.record(b.Context(), "fill", func(s *step) error {
		for n := range uint64(segments) {
			sg := seg(n+1, int64(n)*100, int64(n)*100+99)
			if err := s.write(`INSERT INTO segments (segment_id, topic_id, partition, base_offset, end_offset, state, size, max_timestamp_ms,
				event_time_ms, broker_id, epochs, custom, txn_index_empty, change) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				sg.ID.String(), topicA.String(), n/10_000, sg.BaseOffset, sg.EndOffset, tier.CopyFinished.String(), sg.Size, sg.MaxTimestamp, 1, 1,
				formatEpochs(sg.Epochs), nil, 0, stepNumber{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := OpenReader(b.Context(), path, ReaderOptions{})
		if err != nil || r.Ready() != nil || r.Snapshot().Segments() != segments {
			b.Fatal(err, r.Ready(), r.Snapshot().Segments())
		}
		r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/segments, "ns/segment")
	if info, err := os.Stat(path); err == nil {
		b.ReportMetric(float64(info.Size())/segments, "file-B/segment")
	}
}

// BenchmarkStep records copies; a step waits for the disk once.
func BenchmarkStep(b *testing.B) {
	d, err := OpenWriter(b.Context(), b.TempDir()+"/coldtap.db")
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	n := uint64(0)
	for b.Loop() {
		n++
		if err := d.StartCopy(b.Context(), seg(n, int64(n)*100, int64(n)*100+99)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdlePoll is what following costs while nothing happens.
func BenchmarkIdlePoll(b *testing.B) {
	path := b.TempDir() + "/coldtap.db"
	d, err := OpenWriter(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	r, err := OpenReader(b.Context(), path, ReaderOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		if err := r.Refresh(b.Context(), tier.PartitionID{}); err != nil {
			b.Fatal(err)
		}
	}
}
