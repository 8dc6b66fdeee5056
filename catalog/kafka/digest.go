package kafka

import (
	"errors"
	"slices"
	"time"

	"coldtap/segment"
	"coldtap/tier"
)

// digest is what an answer's records of one partition come to. It is made by the goroutine that fetched them, so that
// decoding and applying take turns on two cores.
type digest struct {
	partition int32
	next      position // behind them
	end       int64    // the partition's end when they were fetched
	records   int
	newest    int64 // ms, the last record's timestamp; -1 = no records
	changes   []tier.Change
	sightings []sighting
	misplaced int // records that PartitionOf expects in another partition
	faults    []fault
}

// sighting is a topic that a record named.
type sighting struct {
	id   segment.UUID
	name string
	at   int64 // ms, of the newest event

	// asked is when a reader named the topic, of which no record tells; zero: a record did.
	asked time.Time
}

// fault is a record that cannot be used.
type fault struct {
	offset int64
	err    *Error
}

// errOnTopic is what a broker's cache record means on the topic: nothing.
var errOnTopic = fail(UnknownRecord, 1, "a segment snapshot, which has no place on the topic")

// take adds a record to the digest; partitions is how many the metadata topic has.
func (d *digest) take(r *segment.Record, partitions int32) {
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
	d.see(sighting{id: of.Topic, name: name, at: at})
	d.changes = Changes(d.changes, record)
}

// skip notes a batch that was passed over.
func (d *digest) skip(bad *unreadable) {
	d.faults = append(d.faults, fault{bad.header.BaseOffset, bad.kind()})
}

// kind makes an error of this package of it.
func (u *unreadable) kind() *Error {
	return fail(BadBatch, -1, "a batch of %d bytes from offset %d on: %v", u.size, u.header.BaseOffset, u.error)
}

// see keeps one sighting of each topic for a run of records about it.
func (d *digest) see(s sighting) {
	if n := len(d.sightings); n > 0 && d.sightings[n-1].id == s.id {
		last := &d.sightings[n-1]
		if s.at >= last.at {
			last.name, last.at = s.name, s.at
		}
		return
	}
	d.sightings = append(d.sightings, s)
}

// known are the topics that the records named, and those that readers did (included.go), by id.
type known map[segment.UUID]sighting

// add takes a sighting in; fresh says that the topic was not known.
func (k known) add(s sighting) (fresh bool) {
	old, ok := k[s.id]
	if !ok || s.at >= old.at {
		k[s.id] = s
	}
	return !ok
}
