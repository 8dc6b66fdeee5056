package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// segmentRow is what the metadata says of a segment.
type segmentRow struct {
	Topic         string           `json:"topic"`
	TopicID       segment.UUID     `json:"topic_id"`
	Partition     int32            `json:"partition"`
	SegmentID     segment.UUID     `json:"segment_id"`
	BaseOffset    int64            `json:"base_offset"`
	EndOffset     int64            `json:"end_offset"` // inclusive
	State         string           `json:"state"`
	Readable      bool             `json:"readable"`
	Size          int64            `json:"size"` // of the log, bytes
	MaxTimestamp  int64            `json:"max_timestamp"`
	EventTime     int64            `json:"event_time"`
	BrokerID      int32            `json:"broker_id"`
	LeaderEpochs  native.EpochList `json:"leader_epochs"`
	TxnIndexEmpty bool             `json:"txn_index_empty"`
}

func (*segmentRow) header() string {
	return "PARTITION\tOFFSETS\tSTATE\tREADABLE\tSIZE\tMAX TIMESTAMP\tEPOCHS\tBROKER\tSEGMENT"
}

func (r *segmentRow) cells() []string {
	return []string{number(r.Partition), number(r.BaseOffset) + ".." + number(r.EndOffset), r.State, mark(r.Readable, "yes"), number(r.Size),
		moment(r.MaxTimestamp), epochList(r.LeaderEpochs), number(r.BrokerID), r.SegmentID.String()}
}

func newSegmentRow(name string, p *tier.Partition, s *tier.Segment) *segmentRow {
	return &segmentRow{
		Topic: name, TopicID: s.Partition.Topic, Partition: s.Partition.Partition, SegmentID: s.ID, BaseOffset: s.BaseOffset,
		EndOffset: s.EndOffset, State: s.State.String(), Readable: p.Readable(s.ID), Size: s.Size, MaxTimestamp: s.MaxTimestamp,
		EventTime: s.EventTime, BrokerID: s.BrokerID, LeaderEpochs: s.Epochs, TxnIndexEmpty: s.TxnIndexEmpty,
	}
}

// findTopic takes a name, or an id: of a topic whose name another one has taken over, only the id tells.
func findTopic(s *tier.Snapshot, text string) (tier.Topic, error) {
	if t, ok := s.TopicByName(text); ok {
		return t, nil
	}
	if id, err := segment.ParseUUID(text); err == nil {
		if t, ok := s.TopicByID(id); ok {
			return t, nil
		}
	}
	return tier.Topic{}, fail(Unknown, "topic "+text, "the metadata does not know it")
}

// Segments shows the segments of what is TOPIC or TOPIC:PARTITION, TOPIC a name or an id, in every state but deleted.
func Segments(o *Output, s *tier.Snapshot, what string) error {
	name, number, one := strings.Cut(what, ":")
	topic, err := findTopic(s, name)
	if err != nil {
		return err
	}
	partitions := topic.Partitions
	if one {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 {
			return fail(Misused, what, "%q is no partition", number)
		}
		partitions = []int32{int32(n)}
	}
	for _, n := range partitions {
		p, ok := s.Partition(tier.PartitionID{Topic: topic.ID, Partition: n})
		if !ok {
			return fail(Unknown, what, "the metadata does not know partition %d", n)
		}
		o.Note(fmt.Sprintf("%s-%d  start %d  tiered end %d  lineage %s", topic.Name, n, p.Bounds().Start, p.TieredEnd(), epochList(p.Lineage())))
		for _, h := range p.Holes() {
			o.Note(fmt.Sprintf("hole from %d to %d: %s", h.From, h.To, h.Reason))
		}
		for _, seg := range p.Segments(true) {
			if err := o.add(newSegmentRow(topic.Name, p, seg)); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectRow is one object of a segment.
type objectRow struct {
	Object string `json:"object"`
	Exists bool   `json:"exists"`
	Size   int64  `json:"size"` // -1 = not there
	ETag   string `json:"etag,omitempty"`
}

func (*objectRow) header() string { return "OBJECT\tSIZE\tETAG" }
func (r *objectRow) cells() []string {
	if !r.Exists {
		return []string{r.Object, "missing"}
	}
	return []string{r.Object, number(r.Size), r.ETag}
}

// Segment shows one segment: its metadata, its objects and, of the native layout, its manifest.
func Segment(ctx context.Context, o *Output, s *tier.Snapshot, store *rangeio.Client, names layout.Names, text string) error {
	id, err := segment.ParseUUID(text)
	if err != nil {
		return &Error{Kind: Misused, Op: "segment " + text, Err: err}
	}
	for p := range s.Partitions() {
		seg, ok := p.Segment(id)
		if !ok {
			continue
		}
		topic, _ := s.TopicByID(seg.Partition.Topic)
		d, err := document(ctx, store, names, named(seg, topic.Name))
		d.Segment = newSegmentRow(topic.Name, p, seg)
		if shown := d.show(o); shown != nil || err != nil {
			return errors.Join(shown, err)
		}
		return nil
	}
	return fail(Unknown, "segment "+text, "the metadata does not know it")
}

// named gives a segment its topic's name, without which it has no keys.
func named(seg *tier.Segment, topic string) *tier.Segment {
	if seg.Topic != "" {
		return seg
	}
	c := *seg
	c.Topic = topic
	return &c
}

// segmentDocument is all that is known of one segment.
type segmentDocument struct {
	Segment  *segmentRow  `json:"segment"`
	Objects  []*objectRow `json:"objects"`
	Manifest *metaRow     `json:"manifest"` // null = it cannot be read, or is of another layout
}

func (*segmentDocument) header() string    { return "SEGMENT" }
func (d *segmentDocument) cells() []string { return []string{d.Segment.SegmentID.String()} }

// show writes one JSON value, or a table for each part.
func (d *segmentDocument) show(o *Output) error {
	if o.json != nil {
		return o.add(d)
	}
	o.add(d.Segment)
	for _, row := range d.Objects {
		o.add(row)
	}
	if d.Manifest != nil {
		return d.Manifest.show(o)
	}
	return o.err
}

// document asks the store for a segment's objects. An error comes with what was found until then.
func document(ctx context.Context, store *rangeio.Client, names layout.Names, seg *tier.Segment) (*segmentDocument, error) {
	d := new(segmentDocument)
	meta := ""
	for _, o := range names.Objects(seg) {
		row := &objectRow{Object: o.Key, Size: -1}
		info, err := store.Stat(ctx, o.Key)
		for _, key := range o.Also {
			if !rangeio.IsKind(err, rangeio.NotFound) {
				break
			}
			if info, err = store.Stat(ctx, key); err == nil {
				row.Object = key
			}
		}
		switch {
		case err == nil:
			row.Exists, row.Size, row.ETag = true, info.Size, info.ETag
			if o.Part == layout.ManifestPart {
				meta = o.Key
			}
		case !rangeio.IsKind(err, rangeio.NotFound):
			return d, err
		case o.Optional:
			continue
		}
		d.Objects = append(d.Objects, row)
	}
	if _, ok := names.(*native.Layout); !ok || meta == "" {
		return d, nil
	}
	raw, _, _, err := store.ReadObject(ctx, meta, native.MaxMeta)
	if err != nil {
		return d, err
	}
	d.Manifest, _, err = decodeMeta(meta, raw)
	return d, err
}
