package embedded

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"

	"coldtap/segment"
	"coldtap/tier"
)

// address gives the driver's name of a database. busy_timeout waits for the short locks of a recovery or a checkpoint.
func address(path string, more string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return "file:" + (&url.URL{Path: abs}).EscapedPath() + "?_pragma=busy_timeout(5000)" + more, nil
}

// loadBatch bounds the memory that a full load takes beside the tier it fills: 4,096 changes are about 1 MB.
const loadBatch = 4096

// load reads all that changed after since, which is -1 for everything that is left, and hands it to emit: in pieces for
// a full load, which is not visible yet; at once otherwise, because it becomes visible at once. The caller holds a
// transaction, so that it is one consistent view.
func load(ctx context.Context, q querier, since int64, emit func([]tier.Change)) error {
	var changes []tier.Change
	add := func(c tier.Change) {
		changes = append(changes, c)
		if since < 0 && len(changes) == loadBatch {
			emit(changes)
			changes = changes[:0]
		}
	}
	if err := loadTopics(ctx, q, since, add); err != nil {
		return err
	}
	if err := loadPartitions(ctx, q, since, add); err != nil {
		return err
	}
	if err := loadHoles(ctx, q, since, add); err != nil {
		return err
	}
	if err := loadSegments(ctx, q, since, add); err != nil {
		return err
	}
	if len(changes) > 0 {
		emit(changes)
	}
	return nil
}

func loadTopics(ctx context.Context, q querier, since int64, add func(tier.Change)) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var text, name string
		var seen int64
		if err := rows.Scan(&text, &name, &seen); err != nil {
			return err
		}
		id, err := parseID(text)
		if err != nil {
			return err
		}
		add(tier.TopicSeen{ID: id, Name: name, At: seen})
		return nil
	}, "SELECT topic_id, name, seen_ms FROM topics WHERE change > ?", since)
}

func loadPartitions(ctx context.Context, q querier, since int64, add func(tier.Change)) error {
	var ids []tier.PartitionID
	lineages := make(map[tier.PartitionID][]segment.EpochStart)
	err := each(ctx, q, func(rows *sql.Rows) error {
		var text string
		var number int64
		var start sql.NullInt64
		if err := rows.Scan(&text, &number, &start); err != nil {
			return err
		}
		id, err := parsePartition(text, number)
		if err != nil {
			return err
		}
		ids = append(ids, id)
		add(tier.BoundsChanged{Partition: id, Bounds: boundsFrom(start)})
		return nil
	}, "SELECT topic_id, partition, log_start FROM partitions WHERE change > ?", since)
	if err != nil {
		return err
	}
	err = each(ctx, q, func(rows *sql.Rows) error {
		var text string
		var number, epoch, start int64
		if err := rows.Scan(&text, &number, &epoch, &start); err != nil {
			return err
		}
		id, err := parsePartition(text, number)
		if err != nil {
			return err
		}
		e, err := epochStart(epoch, start)
		if err != nil {
			return err
		}
		lineages[id] = append(lineages[id], e)
		return nil
	}, `SELECT l.topic_id, l.partition, l.epoch, l.start_offset FROM partitions p JOIN lineage l USING (topic_id, partition)
	    WHERE p.change > ? ORDER BY l.topic_id, l.partition, l.epoch`, since)
	for _, id := range ids {
		add(tier.LineageChanged{Partition: id, Epochs: lineages[id]})
	}
	return err
}

func boundsFrom(start sql.NullInt64) tier.Bounds {
	b := tier.Bounds{Start: -1, LocalStart: -1, HighWatermark: -1, LastStable: -1}
	if start.Valid {
		b.Start = start.Int64
	}
	return b
}

func loadHoles(ctx context.Context, q querier, since int64, add func(tier.Change)) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var text string
		var number int64
		var h tier.Hole
		if err := rows.Scan(&text, &number, &h.From, &h.To, &h.Reason); err != nil {
			return err
		}
		id, err := parsePartition(text, number)
		if err != nil {
			return err
		}
		add(tier.HoleRecorded{Partition: id, Hole: h})
		return nil
	}, "SELECT topic_id, partition, from_offset, to_offset, reason FROM holes WHERE change > ?", since)
}

const selectSegments = `SELECT s.segment_id, s.topic_id, s.partition, s.base_offset, s.end_offset, s.state, s.size,
	s.max_timestamp_ms, s.event_time_ms, s.broker_id, s.epochs, s.custom, s.txn_index_empty, coalesce(t.name, '')
	FROM segments s LEFT JOIN topics t USING (topic_id) `

// loadSegments goes by change: of two segments that cover one range the tier prefers the one that finished last.
func loadSegments(ctx context.Context, q querier, since int64, add func(tier.Change)) error {
	where := "WHERE s.change > ? "
	if since < 0 {
		where += "AND s.state <> 'DELETE_SEGMENT_FINISHED' "
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		s, err := scanSegment(rows.Scan)
		if err != nil {
			return err
		}
		add(tier.SegmentLoaded{Segment: s})
		return nil
	}, selectSegments+where+"ORDER BY s.change", since)
}

func scanSegment(scan func(...any) error) (s tier.Segment, err error) {
	var id, topic, state, epochs string
	var partition, broker, empty int64
	if err := scan(&id, &topic, &partition, &s.BaseOffset, &s.EndOffset, &state, &s.Size, &s.MaxTimestamp, &s.EventTime,
		&broker, &epochs, &s.Custom, &empty, &s.Topic); err != nil {
		return s, err
	}
	if s.ID, err = parseID(id); err != nil {
		return s, err
	}
	if s.Partition, err = parsePartition(topic, partition); err != nil {
		return s, err
	}
	var ok bool
	if s.State, ok = tier.ParseState(state); !ok {
		return s, damaged(fmt.Errorf("segment %s has the unknown state %q", id, state))
	}
	if broker < math.MinInt32 || broker > math.MaxInt32 {
		return s, damaged(fmt.Errorf("segment %s has the impossible broker id %d", id, broker))
	}
	if s.Epochs, err = parseEpochs(epochs); err != nil {
		return s, damaged(fmt.Errorf("segment %s: %w", id, err))
	}
	s.BrokerID, s.TxnIndexEmpty = int32(broker), empty != 0
	if err := s.Validate(); err != nil {
		return s, damaged(fmt.Errorf("segment %s: %w", id, err))
	}
	return s, nil
}

func parseID(text string) (segment.UUID, error) {
	id, err := segment.ParseUUID(text)
	if err != nil {
		return id, damaged(fmt.Errorf("%q is no id: %w", text, err))
	}
	return id, nil
}

func parsePartition(topic string, number int64) (tier.PartitionID, error) {
	id, err := parseID(topic)
	if err != nil {
		return tier.PartitionID{}, err
	}
	if number < 0 || number > math.MaxInt32 {
		return tier.PartitionID{}, damaged(fmt.Errorf("%d is no partition", number))
	}
	return tier.PartitionID{Topic: id, Partition: int32(number)}, nil
}

func epochStart(epoch, start int64) (segment.EpochStart, error) {
	if epoch < 0 || epoch > math.MaxInt32 || start < 0 {
		return segment.EpochStart{}, damaged(fmt.Errorf("leader epoch %d at %d is impossible", epoch, start))
	}
	return segment.EpochStart{Epoch: int32(epoch), StartOffset: start}, nil
}

// parseEpochs reads [[epoch, start], …].
func parseEpochs(text string) ([]segment.EpochStart, error) {
	var pairs [][]int64
	if err := json.Unmarshal([]byte(text), &pairs); err != nil {
		return nil, fmt.Errorf("leader epochs %q: %w", text, err)
	}
	epochs := make([]segment.EpochStart, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return nil, fmt.Errorf("leader epochs %q are no list of pairs", text)
		}
		var err error
		if epochs[i], err = epochStart(p[0], p[1]); err != nil {
			return nil, err
		}
	}
	return epochs, nil
}

func formatEpochs(epochs []segment.EpochStart) string {
	b := []byte{'['}
	for i, e := range epochs {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "[%d,%d]", e.Epoch, e.StartOffset)
	}
	return string(append(b, ']'))
}
