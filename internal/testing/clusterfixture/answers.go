package clusterfixture

import (
	"testing"

	"coldtap/internal/testing/testkit"
)

// Fetch is the leader's answer to one Fetch request (version 17, minBytes 1) for one partition.
type Fetch struct {
	Topic             string  `json:"topic"`
	Partition         int32   `json:"partition"`
	Offset            int64   `json:"offset"`
	Isolation         string  `json:"isolation"`
	PartitionMaxBytes int64   `json:"partitionMaxBytes"`
	ErrorCode         int16   `json:"errorCode"`
	Remote            bool    `json:"remote"` // the offset is below the local log start
	Bytes             int64   `json:"bytes"`  // of records, a cut last batch included
	SHA256            string  `json:"sha256"` // of those bytes
	CompleteBatches   int     `json:"completeBatches"`
	CompleteBytes     int64   `json:"completeBytes"`
	FirstBaseOffset   int64   `json:"firstBaseOffset"`     // -1 = no records
	Aborted           []Abort `json:"abortedTransactions"` // in no order; nil = null
}

// Abort is an entry of a Fetch answer's list of aborted transactions: producer id and first offset.
type Abort [2]int64

// ListOffset is the leader's answer to one ListOffsets question. Query is a timestamp in milliseconds, or one of
// Kafka's negative numbers: -1 latest, -2 earliest, -3 greatest timestamp, -4 earliest local, -5 latest tiered, -6
// earliest pending upload.
type ListOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Isolation string `json:"isolation"`
	Query     int64  `json:"query"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
}

// Expected gives what the consumer read of a partition ("txn-0") with an isolation level ("read_committed" or
// "read_uncommitted"), from the log's start to its end: the part that only the brokers hold is included.
func (f *Fixture) Expected(tb testing.TB, partition, isolation string) []testkit.Record {
	tb.Helper()
	parsed, ok := f.expected[partition+"."+isolation]
	if !ok {
		parsed, ok = f.expected[partition+".read_uncommitted"]
	}
	if !ok {
		tb.Fatalf("nothing is known of %s %s", partition, isolation)
	}
	records, err := parsed()
	if err != nil {
		tb.Fatalf("%s %s: %v", partition, isolation, err)
	}
	return records
}
