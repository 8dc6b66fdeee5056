package kafka

import (
	"errors"
	"slices"

	"coldtap/catalog/observe"
	"coldtap/segment"
	"coldtap/tier"
)

// digest is what an answer's records of one partition come to. It is made by the goroutine that fetched them, so that
// the answers of several leaders are decoded in parallel, and while others are applied.
type digest struct {
	partition int32
	next      position // behind them
	end       int64    // the partition's end when they were fetched
	records   int
	newest    int64 // ms, the timestamp of the last record; -1 = no records
	changes   []tier.Change
	topics    []observe.Topic // that the records name
	misplaced int             // records that PartitionOf expects in another partition
	faults    []fault
}

// fault is a record that cannot be used.
type fault struct {
	offset int64
	err    *Error
}

// errOnTopic is for a Snapshot record, which belongs in a broker's cache file and has no meaning on the topic.
var errOnTopic = fail(UnknownRecord, 1, "a segment snapshot, which has no place on the topic")

// add adds a record to the digest; partitions is how many the metadata topic has.
func (d *digest) add(r *segment.Record, partitions int32) {
	d.records++
	d.newest = r.Timestamp
	record, err := Decode(r.Value)
	if err != nil {
		bad, _ := errors.AsType[*Error](err)
		d.faults = append(d.faults, fault{r.Offset, bad})
		return
	}
	var (
		of   tier.PartitionID
		name string
		at   int64
	)
	switch record := record.(type) {
	case *Segment:
		// The value's bytes may be the decoder's buffer.
		record.Custom = slices.Clone(record.Custom)
		of, name, at = record.Partition, record.Topic, record.EventTime
	case *Update:
		record.Custom = slices.Clone(record.Custom)
		of, name, at = record.Partition, record.Topic, record.At
	case *PartitionDelete:
		of, name, at = record.Partition, record.Topic, record.EventTime
	case *Snapshot:
		d.faults = append(d.faults, fault{r.Offset, errOnTopic})
		return
	}
	if PartitionOf(of, partitions) != d.partition {
		d.misplaced++
	}
	d.addTopic(observe.Topic{ID: of.Topic, Name: name, At: at})
	d.changes = Changes(d.changes, record)
}

// addUnreadable adds a batch that was passed over.
func (d *digest) addUnreadable(bad *unreadable) {
	d.faults = append(d.faults, fault{bad.header.BaseOffset, bad.kind()})
}

// kind makes an *Error of it.
func (u *unreadable) kind() *Error {
	return fail(BadBatch, -1, "a batch of %d bytes from offset %d on: %v", u.size, u.header.BaseOffset, u.error)
}

// addTopic adds a topic, once for consecutive records about it.
func (d *digest) addTopic(t observe.Topic) {
	if n := len(d.topics); n > 0 && d.topics[n-1].ID == t.ID {
		if last := &d.topics[n-1]; t.At >= last.At {
			*last = t
		}
		return
	}
	d.topics = append(d.topics, t)
}
