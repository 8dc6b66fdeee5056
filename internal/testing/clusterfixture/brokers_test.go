package clusterfixture_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"
)

// TestFetchAnswersAreTheBrokers compares with 1,881 Fetch answers of the partitions' leaders, 1,608 of them read from
// the tier: the stored bytes behind each, the batches in it that the reader may see, and the refusals.
func TestFetchAnswersAreTheBrokers(t *testing.T) {
	s := newHarness(t, clusterKnown)
	seen := map[string]int{}
	for i, row := range s.fixture.Fetches {
		p := s.fixture.Cluster.Topics[row.Topic].Partitions[row.Partition]
		var (
			kind string
			err  error
		)
		switch {
		case row.ErrorCode == 1:
			kind, err = "refused", s.checkRefusal(t, p, &row)
		case !row.Remote:
			kind, err = "local", s.checkLocal(t, p, &row)
		default:
			kind, err = "remote", s.checkRemote(t, p, &row)
		}
		if err != nil {
			t.Errorf("row %d, %s at %d with %s and %d bytes: %v", i, p.Name(), row.Offset, row.Isolation, row.PartitionMaxBytes, err)
		}
		seen[kind]++
		if row.Bytes > row.CompleteBytes && row.Remote {
			seen["torn"]++
		}
	}
	for kind, want := range map[string]int{"remote": 1608, "local": 258, "refused": 15, "torn": 276} {
		if seen[kind] != want {
			t.Errorf("%d %s rows, want %d", seen[kind], kind, want)
		}
	}
}

// checkRefusal: what the broker refused for certain (OFFSET_OUT_OF_RANGE) is refused here too.
func (s *harness) checkRefusal(t *testing.T, p *clusterfixture.Partition, row *clusterfixture.Fetch) error {
	r := request(p, row.Offset, row.Isolation)
	st, err := s.Open(t.Context(), &r)
	if err == nil {
		st.Close()
		return errors.New("not refused")
	}
	if e, ok := errors.AsType[*fetch.Error](err); !ok || e.Kind != fetch.OutOfRange {
		return fmt.Errorf("refused with %w", err)
	}
	return nil
}

// checkLocal: what only the brokers have is neither refused nor made up.
func (s *harness) checkLocal(t *testing.T, p *clusterfixture.Partition, row *clusterfixture.Fetch) error {
	got, a := s.raw(t, request(p, row.Offset, row.Isolation))
	if len(got) > 0 || a.end != fetch.EndTier || a.next != row.Offset {
		return fmt.Errorf("%d bytes, an end at %d for %v", len(got), a.next, a.end)
	}
	return nil
}

// checkRemote compares with an answer that the broker read from the tier. It is a stretch of one segment's log, from
// the first batch that reaches the offset on, cut wherever the bytes ran out.
func (s *harness) checkRemote(t *testing.T, p *clusterfixture.Partition, row *clusterfixture.Fetch) error {
	seg, pos, err := s.find(t, p, row.Offset)
	if err != nil {
		return err
	}
	stored, err := s.stored(t, p, seg, pos, row.Bytes)
	if err != nil {
		return err
	}
	if got := digest(stored); got != row.SHA256 {
		return fmt.Errorf("%d stored bytes from %d of segment %s on have the SHA-256 %s, the broker's %s", len(stored), pos, seg.ID, got, row.SHA256)
	}
	complete, err := cut(stored[:row.CompleteBytes])
	if err != nil {
		return err
	}
	if len(complete) != row.CompleteBatches || complete[0].Header.BaseOffset != row.FirstBaseOffset {
		return fmt.Errorf("%d batches from %d on, the broker's %d from %d on", len(complete), complete[0].Header.BaseOffset, row.CompleteBatches, row.FirstBaseOffset)
	}

	r := request(p, row.Offset, row.Isolation)
	r.MaxBytes = row.PartitionMaxBytes
	raw, a := s.raw(t, r)
	ours, err := cut(raw)
	if err != nil {
		return err
	}
	visible, free, err := show(complete, row)
	if err != nil {
		return err
	}
	if a.end == fetch.EndUndecided {
		// What the broker knows from its local segments is not proven here.
		i := slices.IndexFunc(visible, func(b segment.Batch) bool { return b.Header.LastOffset() >= a.decided })
		if i >= 0 {
			visible = visible[:i]
		}
	}
	for i, b := range visible {
		if i == len(ours) {
			return fmt.Errorf("ends for %v at %d after %d of the broker's %d visible batches", a.end, a.next, i, len(visible))
		}
		if !bytes.Equal(b.Bytes, ours[i].Bytes) {
			return fmt.Errorf("batch %d is that of offset %d, the broker's that of %d", i, ours[i].Header.BaseOffset, b.Header.BaseOffset)
		}
	}
	if more := ours[len(visible):]; len(more) > 0 && !free && more[0].Header.BaseOffset <= seg.EndOffset {
		return fmt.Errorf("a batch of offset %d too many", more[0].Header.BaseOffset)
	}
	return withinLimit(ours, r.MaxBytes)
}

// withinLimit: batches with data keep to the limit, but for the first one.
func withinLimit(ours []segment.Batch, limit int64) error {
	var counted int64
	for _, b := range ours {
		if b.Header.Count == 0 || b.Header.IsControl() {
			continue
		}
		if size := b.Header.Size(); counted > 0 && counted+size > limit {
			return fmt.Errorf("%d bytes of data, %d were asked for", counted+size, limit)
		}
		counted += b.Header.Size()
	}
	return nil
}

// find gives the segment and the position of the first batch that reaches offset. When the rest of a segment is gone,
// compacted away, that is the first batch of the next one.
func (s *harness) find(t *testing.T, p *clusterfixture.Partition, offset int64) (*tier.Segment, int64, error) {
	v := s.view(t, p)
	for from := offset; ; {
		seg, ok := v.Find(from)
		if !ok {
			return nil, 0, fmt.Errorf("no segment holds offset %d", from)
		}
		log, err := s.stored(t, p, seg, 0, seg.Size)
		if err != nil {
			return nil, 0, err
		}
		batches, err := cut(log)
		if err != nil {
			return nil, 0, err
		}
		for _, b := range batches {
			if b.Header.LastOffset() >= offset {
				return seg, b.Position, nil
			}
		}
		from = seg.EndOffset + 1
	}
}

// stored gives n bytes of a segment's log as they are served.
func (s *harness) stored(t *testing.T, p *clusterfixture.Partition, seg *tier.Segment, pos, n int64) ([]byte, error) {
	f, err := s.OpenFile(t.Context(), p.Topic.Name, p.Topic.ID, p.Number, seg.ID.String(), "log", 0)
	if err != nil {
		return nil, err
	}
	fs := f.Range(pos, pos+n)
	defer fs.Close()
	var run fetch.Run
	defer run.Release()
	all := make([]byte, 0, n)
	for {
		switch err := fs.Next(t.Context(), &run); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, run.Bytes()...)
	}
}

// cut takes whole batches apart.
func cut(b []byte) ([]segment.Batch, error) {
	var all []segment.Batch
	for batch, err := range segment.Batches(b) {
		if err != nil {
			return nil, err
		}
		all = append(all, batch)
	}
	return all, nil
}

// show leaves out what Kafka's consumer leaves out of an answer, given the answer's own list of aborted transactions.
// free says that some of the batches don't count towards our limit, so that ours may go further than the broker's.
func show(batches []segment.Batch, row *clusterfixture.Fetch) (visible []segment.Batch, free bool, err error) {
	aborts := slices.Clone(row.Aborted)
	slices.SortFunc(aborts, func(a, b clusterfixture.Abort) int { return int(a[1] - b[1]) })
	active := map[int64]bool{}
	for _, b := range batches {
		for len(aborts) > 0 && aborts[0][1] <= b.Header.LastOffset() {
			active[aborts[0][0]] = true
			aborts = aborts[1:]
		}
		free = free || b.Header.Count == 0 || b.Header.IsControl()
		if row.Isolation == "read_committed" && b.Header.IsControl() {
			marker, _, ok, err := segment.ParseControl(b.Bytes)
			if err != nil {
				return nil, false, err
			}
			if ok && marker == segment.ControlAbort {
				delete(active, b.Header.ProducerID)
			}
			continue
		}
		if row.Isolation == "read_committed" && b.Header.IsTransactional() && active[b.Header.ProducerID] {
			free = true
			continue
		}
		visible = append(visible, b)
	}
	return visible, free, nil
}
