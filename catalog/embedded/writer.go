package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/segment"
	"coldtap/tier"
)

// DB is the one writer. All methods may be called concurrently; steps are recorded one after the other. A step that has
// begun is not interrupted by its context: it takes one fsync.
type DB struct {
	lock    *lock
	db      *sql.DB
	tier    atomic.Pointer[tier.Tier]
	cluster atomic.Pointer[string]

	mu     sync.Mutex
	closed bool
	stale  bool // a commit failed, so that only the database knows what is in it
}

var _ catalog.Writer = (*DB)(nil)

// OpenWriter creates the database if needed, with its directory, takes the one-writer lock (Kind Locked if it is held)
// and loads what is recorded.
func OpenWriter(ctx context.Context, path string) (*DB, error) {
	const op = "open the metadata database"
	if path == "" {
		return nil, failure(op, errors.New("its path is empty"))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, failure(op, err)
	}
	l, err := acquire(path + ".lock")
	if err != nil {
		return nil, err
	}
	d := &DB{lock: l}
	if err := d.open(ctx, path); err != nil {
		if d.db != nil {
			d.db.Close()
		}
		l.release()
		return nil, failure(op, fmt.Errorf("%s: %w", path, err))
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, path string) error {
	// WAL lets readers go on while a step is written; FULL makes each commit wait for the disk, which is the point of a
	// step.
	name, err := address(path, "&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return err
	}
	if d.db, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	d.db.SetMaxOpenConns(1)
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := readHead(ctx, tx); errors.Is(err, errBlank) {
		if err := create(ctx, tx); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := d.reload(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// reload makes the view anew from the database.
func (d *DB) reload(ctx context.Context, q querier) error {
	h, err := readHead(ctx, q)
	if err != nil {
		return err
	}
	t := tier.New()
	var refused []tier.Rejected
	if err := load(ctx, q, -1, func(c []tier.Change) { refused = append(refused, t.Apply(c...)...) }); err != nil {
		return err
	}
	if len(refused) > 0 {
		return damaged(fmt.Errorf("it holds %d entries that contradict themselves, e.g. %s: %+v", len(refused), refused[0].Reason, refused[0].Change))
	}
	d.tier.Store(t)
	d.cluster.Store(&h.clusterID)
	return nil
}

// Close waits for the running step, checkpoints the write-ahead log into the file when no reader has it open, and
// releases the lock.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if err := errors.Join(d.db.Close(), d.lock.release()); err != nil {
		return failure("close the metadata database", err)
	}
	return nil
}

// Snapshot shows what is recorded.
func (d *DB) Snapshot() *tier.Snapshot { return d.tier.Load().Snapshot() }

// ClusterID is the cluster that the database was bound to, empty before ClaimCluster.
func (d *DB) ClusterID() string { return *d.cluster.Load() }

// step is one transaction of the writer.
type step struct {
	*sql.Tx
	ctx     context.Context
	op      string
	number  int64
	now     int64 // ms
	changes []tier.Change
}

// assign gives the step its number, once: with it the step has something to commit.
func (s *step) assign() (int64, error) {
	if s.number != 0 {
		return s.number, nil
	}
	err := s.QueryRowContext(s.ctx, "UPDATE sequence SET last_change = last_change + 1, at_ms = ? RETURNING last_change", s.now).Scan(&s.number)
	return s.number, err
}

// stepNumber stands for the step's number in the arguments of write.
type stepNumber struct{}

// write changes rows, at least one: the step has looked before that they are there, or not.
func (s *step) write(query string, args ...any) error {
	number, err := s.assign()
	if err != nil {
		return err
	}
	for i, a := range args {
		if a == (stepNumber{}) {
			args[i] = number
		}
	}
	result, err := s.ExecContext(s.ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return damaged(errors.Join(errors.New("a row that was read is not there to be written"), err))
	}
	return nil
}

func (s *step) illegal(format string, args ...any) error { return illegal(s.op, format, args...) }

// record runs one step: all of it is durable when it returns nil, nothing of it is there otherwise, except when the
// commit itself failed: then the database is asked before the next step.
func (d *DB) record(ctx context.Context, op string, do func(*step) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return failure(op, errors.New("the metadata database is closed"))
	}
	if err := ctx.Err(); err != nil {
		return failure(op, err)
	}
	ctx = context.WithoutCancel(ctx)
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return failure(op, err)
	}
	defer tx.Rollback()
	if d.stale {
		if err := d.reload(ctx, tx); err != nil {
			return failure(op, err)
		}
		d.stale = false
	}
	s := &step{Tx: tx, ctx: ctx, op: op, now: time.Now().UnixMilli()}
	if err := do(s); err != nil {
		return failure(op, err)
	}
	if s.number == 0 {
		return nil
	}
	if err := tx.Commit(); err != nil {
		d.stale = true
		return failure(op, err)
	}
	d.tier.Load().Apply(s.changes...)
	return nil
}

// ClaimCluster binds the database to a cluster's id, or fails with Kind WrongCluster.
func (d *DB) ClaimCluster(ctx context.Context, clusterID string) error {
	err := d.record(ctx, "claim the metadata database", func(s *step) error {
		if clusterID == "" {
			return s.illegal("the cluster's id is empty")
		}
		var owner string
		if err := s.QueryRowContext(s.ctx, "SELECT value FROM info WHERE key = 'cluster_id'").Scan(&owner); err != nil {
			return err
		}
		switch owner {
		case clusterID:
			return nil
		case "":
			return s.write("UPDATE info SET value = ? WHERE key = 'cluster_id'", clusterID)
		}
		return &catalog.Error{Kind: catalog.WrongCluster, Op: s.op,
			Err: fmt.Errorf("it belongs to cluster %s, not to %s: one database serves one cluster", owner, clusterID)}
	})
	if err == nil {
		d.cluster.Store(&clusterID)
	}
	return err
}

// PutTopic records a topic's name. An id never changes its name.
func (d *DB) PutTopic(ctx context.Context, id segment.UUID, name string) error {
	return d.record(ctx, "record topic "+name, func(s *step) error { return s.putTopic(id, name) })
}

func (s *step) putTopic(id segment.UUID, name string) error {
	if name == "" {
		return s.illegal("topic %s has no name", id)
	}
	var known string
	switch err := s.QueryRowContext(s.ctx, "SELECT name FROM topics WHERE topic_id = ?", id.String()).Scan(&known); {
	case err == nil && known == name:
		return nil
	case err == nil:
		return s.illegal("topic id %s is already recorded as %q, it cannot be %q too", id, known, name)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	s.changes = append(s.changes, tier.TopicSeen{ID: id, Name: name, At: s.now})
	return s.write("INSERT INTO topics (topic_id, name, seen_ms, change) VALUES (?, ?, ?, ?)", id.String(), name, s.now, stepNumber{})
}

// PutPartition records the tier's start (-1: leave it open), which stays from the first segment or hole on, and
// replaces the lineage.
func (d *DB) PutPartition(ctx context.Context, id tier.PartitionID, start int64, lineage []segment.EpochStart) error {
	return d.record(ctx, fmt.Sprintf("record partition %d of topic %s", id.Partition, id.Topic), func(s *step) error {
		topic := id.Topic.String()
		if start < -1 || id.Partition < 0 {
			return s.illegal("the start %d is impossible", start)
		}
		var known sql.NullInt64
		err := s.QueryRowContext(s.ctx, "SELECT log_start FROM partitions WHERE topic_id = ? AND partition = ?", topic, id.Partition).Scan(&known)
		isNew := errors.Is(err, sql.ErrNoRows)
		if err != nil && !isNew {
			return err
		}
		merged := known
		if start >= 0 {
			fixed, err := s.hasContent(id)
			if err != nil {
				return err
			}
			if !known.Valid || !fixed {
				merged = sql.NullInt64{Int64: start, Valid: true}
			}
		}
		before, err := s.lineage(id)
		if err != nil {
			return err
		}
		if !isNew && merged == known && slices.Equal(before, lineage) {
			return nil
		}
		// The model is asked first: it alone decides what a lineage is.
		changed := tier.LineageChanged{Partition: id, Epochs: lineage}
		if len(tier.New().Apply(changed)) > 0 {
			return s.illegal("the leader epochs %v do not ascend", lineage)
		}
		if err := s.write(`INSERT INTO partitions (topic_id, partition, log_start, change) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET log_start = excluded.log_start, change = excluded.change`, topic, id.Partition, merged, stepNumber{}); err != nil {
			return err
		}
		if !slices.Equal(before, lineage) {
			if _, err := s.ExecContext(s.ctx, "DELETE FROM lineage WHERE topic_id = ? AND partition = ?", topic, id.Partition); err != nil {
				return err
			}
			for _, e := range lineage {
				if err := s.write("INSERT INTO lineage (topic_id, partition, epoch, start_offset) VALUES (?, ?, ?, ?)",
					topic, id.Partition, e.Epoch, e.StartOffset); err != nil {
					return err
				}
			}
		}
		s.changes = append(s.changes, tier.BoundsChanged{Partition: id, Bounds: boundsFrom(merged)}, changed)
		return nil
	})
}

// hasContent says whether anything was ever recorded between a partition's start and its end.
func (s *step) hasContent(id tier.PartitionID) (found bool, err error) {
	const query = `SELECT EXISTS (SELECT 1 FROM segments WHERE topic_id = ?1 AND partition = ?2)
		OR EXISTS (SELECT 1 FROM holes WHERE topic_id = ?1 AND partition = ?2)`
	err = s.QueryRowContext(s.ctx, query, id.Topic.String(), id.Partition).Scan(&found)
	return found, err
}

func (s *step) lineage(id tier.PartitionID) (epochs []segment.EpochStart, err error) {
	err = each(s.ctx, s, func(rows *sql.Rows) error {
		var epoch, start int64
		if err := rows.Scan(&epoch, &start); err != nil {
			return err
		}
		e, err := epochStart(epoch, start)
		epochs = append(epochs, e)
		return err
	}, "SELECT epoch, start_offset FROM lineage WHERE topic_id = ? AND partition = ? ORDER BY epoch", id.Topic.String(), id.Partition)
	return epochs, err
}

// StartCopy records a segment in state CopyStarted, and its topic's name. Repeating it for the same range changes
// nothing.
func (d *DB) StartCopy(ctx context.Context, seg tier.Segment) error {
	return d.record(ctx, "record the copy of segment "+seg.ID.String(), func(s *step) error {
		if seg.State != tier.CopyStarted {
			return s.illegal("a copy starts as %v, not as %v", tier.CopyStarted, seg.State)
		}
		if err := seg.Validate(); err != nil {
			return s.illegal("%w", err)
		}
		known, found, err := s.segment(seg.ID)
		switch {
		case err != nil:
			return err
		case found && known.State != tier.CopyStarted:
			return s.illegal("it is %v already", known.State)
		case found && !sameRange(&known, &seg):
			return s.illegal("it was started for offsets %d..%d of partition %d, %d bytes: another copy needs another id",
				known.BaseOffset, known.EndOffset, known.Partition.Partition, known.Size)
		case found:
			return nil
		}
		if seg.Topic != "" {
			if err := s.putTopic(seg.Partition.Topic, seg.Topic); err != nil {
				return err
			}
		}
		if seg.EventTime == 0 {
			seg.EventTime = s.now
		}
		empty := 0
		if seg.TxnIndexEmpty {
			empty = 1
		}
		s.changes = append(s.changes, tier.SegmentAdded{Segment: seg})
		return s.write(`INSERT INTO segments (segment_id, topic_id, partition, base_offset, end_offset, state, size, max_timestamp_ms,
			event_time_ms, broker_id, epochs, custom, txn_index_empty, change) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			seg.ID.String(), seg.Partition.Topic.String(), seg.Partition.Partition, seg.BaseOffset, seg.EndOffset, seg.State.String(),
			seg.Size, seg.MaxTimestamp, seg.EventTime, seg.BrokerID, formatEpochs(seg.Epochs), seg.Custom, empty, stepNumber{})
	})
}

func sameRange(a, b *tier.Segment) bool {
	return a.Partition == b.Partition && a.BaseOffset == b.BaseOffset && a.EndOffset == b.EndOffset && a.Size == b.Size &&
		slices.Equal(a.Epochs, b.Epochs)
}

// FinishCopy makes a segment readable. Its objects must be durable by then.
func (d *DB) FinishCopy(ctx context.Context, partition tier.PartitionID, id segment.UUID) error {
	return d.move(ctx, partition, id, tier.CopyFinished)
}

// StartDelete ends all reading of a segment. Its objects may be deleted once this has returned.
func (d *DB) StartDelete(ctx context.Context, partition tier.PartitionID, id segment.UUID) error {
	return d.move(ctx, partition, id, tier.DeleteStarted)
}

// FinishDelete records that a segment's objects are gone.
func (d *DB) FinishDelete(ctx context.Context, partition tier.PartitionID, id segment.UUID) error {
	return d.move(ctx, partition, id, tier.DeleteFinished)
}

func (d *DB) move(ctx context.Context, partition tier.PartitionID, id segment.UUID, next tier.State) error {
	return d.record(ctx, fmt.Sprintf("record %v of segment %s", next, id), func(s *step) error {
		known, found, err := s.segment(id)
		switch {
		case err != nil:
			return err
		case !found || known.Partition != partition:
			return s.illegal("it is not known in partition %d of topic %s", partition.Partition, partition.Topic)
		case !known.State.CanBecome(next):
			return s.illegal("it is %v", known.State)
		case known.State == next:
			return nil
		}
		s.changes = append(s.changes, tier.SegmentUpdated{
			Partition: partition, ID: id, State: next, BrokerID: known.BrokerID, At: s.now, Custom: known.Custom})
		return s.write("UPDATE segments SET state = ?, event_time_ms = ?, change = ? WHERE segment_id = ?", next.String(), s.now, stepNumber{}, id.String())
	})
}

// segment gives what is recorded of an id, deleted ones included.
func (s *step) segment(id segment.UUID) (seg tier.Segment, found bool, err error) {
	err = each(s.ctx, s, func(rows *sql.Rows) error {
		found = true
		seg, err = scanSegment(rows.Scan)
		return err
	}, selectSegments+"WHERE s.segment_id = ?", id.String())
	return seg, found, err
}

// RecordHole gives [From, To) up: readers pass over it, except where a segment holds it after all.
func (d *DB) RecordHole(ctx context.Context, partition tier.PartitionID, hole tier.Hole) error {
	return d.record(ctx, fmt.Sprintf("record hole %d..%d", hole.From, hole.To), func(s *step) error {
		if len(tier.New().Apply(tier.HoleRecorded{Partition: partition, Hole: hole})) > 0 || partition.Partition < 0 {
			return s.illegal("the range is impossible")
		}
		var known int
		err := s.QueryRowContext(s.ctx, "SELECT count(*) FROM holes WHERE topic_id = ? AND partition = ? AND from_offset = ? AND to_offset = ?",
			partition.Topic.String(), partition.Partition, hole.From, hole.To).Scan(&known)
		if err != nil || known > 0 {
			return err
		}
		s.changes = append(s.changes, tier.HoleRecorded{Partition: partition, Hole: hole})
		return s.write("INSERT INTO holes (topic_id, partition, from_offset, to_offset, reason, change) VALUES (?, ?, ?, ?, ?, ?)",
			partition.Topic.String(), partition.Partition, hole.From, hole.To, hole.Reason, stepNumber{})
	})
}
