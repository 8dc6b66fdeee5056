package embedded

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	// applicationID marks the file (PRAGMA application_id), so that file(1) and we know whose it is: "cold".
	applicationID = 0x636f6c64
	schemaVersion = 1
)

// schema is for people too: ids are in Kafka's text form, states have Kafka's names, and the comments stay visible in
// sqlite3's .schema. A row's change is the number of the step that last wrote it, which is how readers find what is
// new; hence a segment's row stays when the segment is gone.
const schema = `
CREATE TABLE info (
  key   TEXT PRIMARY KEY,  -- schema_version, store_id, cluster_id
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sequence (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  last_change INTEGER NOT NULL,  -- steps recorded so far
  at_ms       INTEGER NOT NULL   -- when the last one was
) STRICT;

CREATE TABLE topics (
  topic_id TEXT PRIMARY KEY,     -- base64url, as kafka-topics shows it
  name     TEXT NOT NULL,        -- several ids share one when a topic was deleted and re-created
  seen_ms  INTEGER NOT NULL,
  change   INTEGER NOT NULL
) STRICT;

CREATE TABLE partitions (
  topic_id  TEXT NOT NULL,
  partition INTEGER NOT NULL,
  log_start INTEGER,             -- first offset of the tier; null while unknown
  change    INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition)
) STRICT;

CREATE TABLE lineage (           -- leader epochs, as the broker's checkpoint lists them
  topic_id     TEXT NOT NULL,
  partition    INTEGER NOT NULL,
  epoch        INTEGER NOT NULL,
  start_offset INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
  segment_id       TEXT PRIMARY KEY,
  topic_id         TEXT NOT NULL,
  partition        INTEGER NOT NULL,
  base_offset      INTEGER NOT NULL,
  end_offset       INTEGER NOT NULL,  -- inclusive
  state            TEXT NOT NULL CHECK (state IN ('COPY_SEGMENT_STARTED', 'COPY_SEGMENT_FINISHED', 'DELETE_SEGMENT_STARTED', 'DELETE_SEGMENT_FINISHED')),
  size             INTEGER NOT NULL,  -- bytes of the .log
  max_timestamp_ms INTEGER NOT NULL,
  event_time_ms    INTEGER NOT NULL,  -- of the last step
  broker_id        INTEGER NOT NULL,
  epochs           TEXT NOT NULL,     -- [[leader epoch, its start in the segment], ...]
  custom           BLOB,
  txn_index_empty  INTEGER NOT NULL,  -- 1: known to have no aborted transactions
  change           INTEGER NOT NULL
) STRICT;
CREATE INDEX segments_by_change ON segments (change);
CREATE INDEX segments_by_offset ON segments (topic_id, partition, base_offset);

CREATE TABLE holes (             -- ranges that were given up; a segment may fill one later
  topic_id    TEXT NOT NULL,
  partition   INTEGER NOT NULL,
  from_offset INTEGER NOT NULL,
  to_offset   INTEGER NOT NULL,  -- exclusive
  reason      TEXT NOT NULL,
  change      INTEGER NOT NULL,
  PRIMARY KEY (topic_id, partition, from_offset, to_offset)
) STRICT;

CREATE VIEW readable AS          -- what can be read, by name
  SELECT t.name AS topic, s.partition, s.base_offset, s.end_offset, s.size,
         datetime(s.max_timestamp_ms / 1000, 'unixepoch') AS newest_record, s.segment_id, s.topic_id
  FROM segments s LEFT JOIN topics t USING (topic_id)
  WHERE s.state = 'COPY_SEGMENT_FINISHED'
  ORDER BY topic, s.topic_id, s.partition, s.base_offset;
`

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var (
	errForeign = errors.New("it is a database of something else, not coldtap's metadata")
	// errBlank is a file in which no writer has made the tables yet.
	errBlank = errors.New("no offloader has written it yet")
)

// head is what one read of the store starts with.
type head struct {
	storeID    string // drawn when the tables were made: another file at the same path has another one
	clusterID  string
	lastChange int64
	at         time.Time
}

// readHead refuses files that are not ours, or of a schema that this version does not know.
func readHead(ctx context.Context, q querier) (head, error) {
	var h head
	var application, tables int64
	if err := q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&application); err != nil {
		return h, err
	}
	if application != applicationID {
		if err := q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
			return h, err
		}
		if application == 0 && tables == 0 {
			return h, errBlank
		}
		return h, damaged(errForeign)
	}
	info := make(map[string]string)
	if err := each(ctx, q, func(rows *sql.Rows) error {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		info[key] = value
		return nil
	}, "SELECT key, value FROM info"); err != nil {
		return h, err
	}
	if v := info["schema_version"]; v != strconv.Itoa(schemaVersion) {
		return h, damaged(fmt.Errorf("its schema is of version %q, this coldtap knows version %d: use the coldtap that wrote it, or a newer one", v, schemaVersion))
	}
	var ms int64
	if err := q.QueryRowContext(ctx, "SELECT last_change, at_ms FROM sequence").Scan(&h.lastChange, &ms); err != nil {
		return h, err
	}
	h.storeID, h.clusterID, h.at = info["store_id"], info["cluster_id"], time.UnixMilli(ms)
	return h, nil
}

// create makes the tables in a file that has none.
func create(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO info VALUES ('schema_version', ?), ('store_id', ?), ('cluster_id', '')",
		strconv.Itoa(schemaVersion), rand.Text()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sequence VALUES (1, 0, ?)", time.Now().UnixMilli()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "PRAGMA application_id = "+strconv.Itoa(applicationID))
	return err
}

// each gives every row to row, whose refusals mean that the content is damaged.
func each(ctx context.Context, q querier, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return damaged(err)
		}
	}
	return rows.Err()
}
