package inspect

import (
	"strconv"
	"strings"

	"coldtap/catalog/kafka"
	"coldtap/layout/native"
	"coldtap/tier"
)

// eventRow is one record of __remote_log_metadata.
type eventRow struct {
	MetadataPartition int32            `json:"metadata_partition"`
	Offset            int64            `json:"offset"`
	Timestamp         int64            `json:"timestamp"` // the record's own, ms
	Bytes             int              `json:"bytes"`     // of its value
	Kind              string           `json:"kind"`      // segment, update, partition_delete, snapshot or unreadable
	Topic             string           `json:"topic,omitempty"`
	TopicID           string           `json:"topic_id,omitempty"`
	Partition         int32            `json:"partition"` // -1 = the record names none
	SegmentID         string           `json:"segment_id,omitempty"`
	State             string           `json:"state,omitempty"`
	BrokerID          int32            `json:"broker_id"`
	EventTime         int64            `json:"event_time"`    // ms
	BaseOffset        int64            `json:"base_offset"`   // -1 where the record has none
	EndOffset         int64            `json:"end_offset"`    // inclusive
	Size              int64            `json:"size"`          // of the log, bytes
	MaxTimestamp      int64            `json:"max_timestamp"` // ms
	LeaderEpochs      native.EpochList `json:"leader_epochs,omitempty"`
	TxnIndexEmpty     bool             `json:"txn_index_empty,omitempty"`
	Custom            []byte           `json:"custom_metadata,omitempty"` // base64
	Error             string           `json:"error,omitempty"`           // why it is unreadable
}

func (*eventRow) header() string {
	return "METADATA\tTIME\tKIND\tPARTITION\tSTATE\tOFFSETS\tSIZE\tEPOCHS\tBROKER\tSEGMENT"
}

func (r *eventRow) cells() []string {
	at := number(r.MetadataPartition) + ":" + number(r.Offset)
	if r.Kind == "unreadable" {
		return []string{at, moment(r.Timestamp), r.Kind, r.Error}
	}
	name := r.TopicID
	if r.Topic != "" {
		name = r.Topic
	}
	offsets, bytes := "-", "-"
	if r.BaseOffset >= 0 {
		offsets, bytes = number(r.BaseOffset)+".."+number(r.EndOffset), number(r.Size)
	}
	return []string{at, moment(r.EventTime), r.Kind, name + "-" + number(r.Partition), r.State, offsets, bytes,
		epochList(r.LeaderEpochs), number(r.BrokerID), r.SegmentID}
}

// MetadataTopic gives what shows the records that kafka.Walk finds: all, or those of what is TOPIC or TOPIC:PARTITION,
// TOPIC a name or an id, and besides those that cannot be read, whose topic is not known.
// found tells whether there was any of them.
func MetadataTopic(o *Output, what string) (show func(kafka.Entry) error, found func() error, err error) {
	name, text, one := strings.Cut(what, ":")
	partition := int64(-1)
	if one {
		var err error
		if partition, err = strconv.ParseInt(text, 10, 32); err != nil || partition < 0 {
			return nil, nil, fail(Misused, what, "%q is no partition", text)
		}
	}
	matched := 0
	show = func(e kafka.Entry) error {
		r := newEventRow(&e)
		if e.Err == nil && what != "" && (r.Topic != name && r.TopicID != name || one && int64(r.Partition) != partition) {
			return nil
		}
		if e.Err == nil {
			matched++
		}
		return o.add(r)
	}
	found = func() error {
		if what != "" && matched == 0 {
			return fail(Unknown, what, "the metadata topic has no record of it")
		}
		return nil
	}
	return show, found, nil
}

func newEventRow(e *kafka.Entry) *eventRow {
	r := &eventRow{
		MetadataPartition: e.Partition, Offset: e.Offset, Timestamp: e.Timestamp, Bytes: e.Size,
		Partition: -1, BrokerID: -1, EventTime: -1, BaseOffset: -1, EndOffset: -1, Size: -1, MaxTimestamp: -1,
	}
	of := func(name string, id tier.PartitionID) {
		r.Topic, r.TopicID, r.Partition = name, id.Topic.String(), id.Partition
	}
	whole := func(s *tier.Segment) {
		r.SegmentID, r.State, r.BrokerID, r.EventTime = s.ID.String(), s.State.String(), s.BrokerID, s.EventTime
		r.BaseOffset, r.EndOffset, r.Size, r.MaxTimestamp = s.BaseOffset, s.EndOffset, s.Size, s.MaxTimestamp
		r.LeaderEpochs, r.TxnIndexEmpty, r.Custom = s.Epochs, s.TxnIndexEmpty, s.Custom
	}
	switch rec := e.Record.(type) {
	case *kafka.Segment:
		r.Kind = "segment"
		of(rec.Topic, rec.Partition)
		whole(&rec.Segment)
	case *kafka.Snapshot:
		r.Kind = "snapshot"
		whole(&rec.Segment)
	case *kafka.Update:
		r.Kind, r.SegmentID, r.State = "update", rec.ID.String(), rec.State.String()
		r.BrokerID, r.EventTime, r.Custom = rec.BrokerID, rec.At, rec.Custom
		of(rec.Topic, rec.Partition)
	case *kafka.PartitionDelete:
		r.Kind, r.State, r.BrokerID, r.EventTime = "partition_delete", rec.State.String(), rec.BrokerID, rec.EventTime
		of(rec.Topic, rec.Partition)
	default:
		r.Kind = "unreadable"
		if e.Err != nil {
			r.Error = e.Err.Error()
		}
	}
	return r
}
