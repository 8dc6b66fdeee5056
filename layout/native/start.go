package native

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// maxStart bounds a start object, in bytes; one has about 300.
const maxStart = 16 << 10

// Start is a partition's start once retention or a reset has moved it: a reader of the bucket that lacks the metadata
// must not show what lies below, even if the objects are still there.
type Start struct {
	ClusterID string       `json:"cluster_id"`
	Topic     string       `json:"topic"`
	TopicID   segment.UUID `json:"topic_id"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"start_offset"` // first readable offset
}

func (s *Start) id() tier.PartitionID {
	return tier.PartitionID{Topic: s.TopicID, Partition: s.Partition}
}

func (s *Start) check() error {
	if err := checkPartition(s.Topic, s.id()); err != nil {
		return err
	}
	if s.Offset < 0 {
		return fmt.Errorf("start offset %d", s.Offset)
	}
	return nil
}

// EncodeStart makes a start object.
func EncodeStart(s *Start) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(b) > maxStart-frameHeader {
		return nil, fmt.Errorf("a start object of %d bytes", len(b))
	}
	return appendFrame(nil, startMagic, b), nil
}

// DecodeStart reads and checks a start object.
func DecodeStart(raw []byte) (*Start, error) {
	body, rest, err := splitFrame(raw, startMagic)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes behind the end", len(rest))
	}
	s := new(Start)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, err
	}
	return s, s.check()
}

// PutStart writes a partition's start, durably, over the one before.
func (l *Layout) PutStart(ctx context.Context, s *Start) error {
	raw, err := EncodeStart(s)
	if err != nil {
		return &layout.Error{Object: "start of " + s.Topic, Err: err}
	}
	key := l.StartKey(s.Topic, s.id())
	if _, err := l.store.Put(ctx, key, bytes.NewReader(raw)); err != nil {
		return err
	}
	return l.verifySize(ctx, key, int64(len(raw)))
}
