package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"coldtap/cluster"
	"coldtap/segment"
)

// Entry is a record of the metadata topic as Walk gives it; it is valid until the callback returns.
type Entry struct {
	Partition int32
	Offset    int64
	Timestamp int64 // ms
	Size      int   // bytes of the value, or of the batch
	Record    Record
	Err       *Error // why there is no Record; of Kind BadBatch when it is a whole batch, passed over from Offset on
}

// walkWait is how long a broker may hold a Fetch that it has nothing for, which happens to Walk only when something is
// wrong.
const walkWait = 500 * time.Millisecond

// walkTries is how often in a row Walk tries again when a leader does not answer.
const walkTries = 4

// Walk reads the topic once, from its start to the end that it has when Walk begins, and gives each record to fn, by
// partition and offset. Memory stays below one Fetch answer of one partition (1 MiB, or one batch). It ends with fn's
// first error as it is, else with a *catalog.Error. topic is Name when empty.
func Walk(ctx context.Context, brokers *cluster.Brokers, topic string, fn func(Entry) error) error {
	w := walk{brokers: brokers, topic: cmp.Or(topic, Name), entries: newEntries(new(sync.Mutex)), fn: fn}
	defer w.entries.close()
	if err := w.all(ctx); err != nil {
		if w.refused != nil {
			return w.refused
		}
		return unavailable(err)
	}
	return nil
}

type walk struct {
	brokers *cluster.Brokers
	topic   string
	entries *entries
	fn      func(Entry) error
	at      *cluster.Leaders
	given   int64 // behind the partition's last record that fn has got
	refused error // fn's
}

func (w *walk) all(ctx context.Context) (err error) {
	if w.at, err = w.brokers.Leaders(ctx, w.topic, nil); err != nil {
		return err
	}
	starts, ends, err := startsAndEnds(ctx, w.brokers, w.at)
	if err != nil {
		return err
	}
	for p := range starts {
		if err := w.partition(ctx, int32(p), starts[p], ends[p]); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) partition(ctx context.Context, number int32, start, end int64) error {
	failures := 0
	at := position{offset: start, epoch: -1}
	w.given = start
	for at.offset < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := w.step(ctx, number, at, end)
		w.entries.release()
		switch {
		case w.refused != nil || err != nil && ctx.Err() != nil:
			return err
		case next != at && err == nil || next.offset > at.offset:
			at, failures = next, 0
			continue
		case err == nil:
			err = errors.New("the leader answers with nothing, though there is more")
		}
		if failures++; failures == walkTries {
			return fmt.Errorf("partition %d at offset %d: %w", number, at.offset, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(firstPause << failures):
		}
		// The partition may have another leader. If the topic is another one, the next answer is an error.
		if moved, err := w.brokers.Leaders(ctx, w.topic, w.at); err == nil && int(number) < len(moved.Partitions) && moved.TopicID == w.at.TopicID {
			w.at = moved
		}
	}
	return nil
}

// step gives fn the records of one answer; next stays at when there is none.
func (w *walk) step(ctx context.Context, number int32, at position, end int64) (next position, err error) {
	broker := w.at.Partitions[number].Broker
	if broker < 0 {
		return at, cluster.ErrNoLeader
	}
	portions, err := fetch(ctx, w.brokers, w.at, broker, []wanted{{number, at}}, walkWait)
	if err != nil {
		return at, err
	}
	if len(portions) != 1 || portions[0].partition != number {
		return at, errors.New("the leader did not answer what it was asked")
	}
	if err := portions[0].err; err != nil {
		return at, err
	}
	give := func(e Entry) error {
		w.given = e.Offset + 1
		w.refused = w.fn(e)
		return w.refused
	}
	return w.entries.each(&portions[0], at, func(r *segment.Record) error {
		if r.Offset >= end || r.Offset < w.given { // a batch that failed is fetched twice
			return nil
		}
		e := Entry{Partition: number, Offset: r.Offset, Timestamp: r.Timestamp, Size: len(r.Value)}
		record, err := Decode(r.Value)
		if err != nil {
			e.Err, _ = errors.AsType[*Error](err)
		} else {
			e.Record = record
		}
		return give(e)
	}, func(bad *unreadable) {
		give(Entry{Partition: number, Offset: bad.header.BaseOffset, Timestamp: bad.header.MaxTimestamp, Size: bad.size, Err: bad.kind()})
	})
}
