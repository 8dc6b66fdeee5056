//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readRaw is one request for batches as they are stored, decoded by franz-go as a broker's answer would be.
func (g *gateway) readRaw(topic string, partition int, isolation string, from int64, maxBytes int) (answer, error) {
	a := answer{from: from, decided: -1}
	path := fmt.Sprintf("%s/records?offset=%d&isolation_level=%s&max_bytes=%d", partitionPath(topic, partition), from, isolation, maxBytes)
	body, told, err := g.fetch(path, "application/vnd.kafka.recordbatch")
	if err != nil {
		return a, err
	}
	if a.next, err = strconv.ParseInt(told.Get("X-Kafka-Next-Offset"), 10, 64); err != nil {
		return a, fmt.Errorf("%s: next offset: %w", path, err)
	}
	a.end, a.atBroker = told.Get("X-Kafka-End"), told.Get("X-Kafka-Continue-At") == "broker"
	if decided := told.Get("X-Kafka-Decided-End-Offset"); decided != "" {
		if a.decided, err = strconv.ParseInt(decided, 10, 64); err != nil {
			return a, fmt.Errorf("%s: decided end: %w", path, err)
		}
	}
	// What is aborted is left out already: nothing is left to tell from committed.
	decoded, _ := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Topic: topic, Partition: int32(partition), Offset: from},
		&kmsg.FetchResponseTopicPartition{Partition: int32(partition), RecordBatches: body}, kgo.DefaultDecompressor(), nil)
	if decoded.Err != nil {
		return a, fmt.Errorf("%s: %w", path, decoded.Err)
	}
	for _, r := range decoded.Records {
		if r.Offset >= a.next {
			return a, fmt.Errorf("%s: a record at %d, and the next offset is %d", path, r.Offset, a.next)
		}
		kind := map[int8]string{0: "CREATE_TIME", 1: "LOG_APPEND_TIME"}[r.Attrs.TimestampType()]
		ours := record{r.Offset, r.Timestamp.UnixMilli(), kind, r.LeaderEpoch, r.Key, r.Value, nil}
		for _, h := range r.Headers {
			ours.Headers = append(ours.Headers, header{h.Key, h.Value})
		}
		a.records = append(a.records, ours)
	}
	return a, nil
}

// checkRaw compares what comes as stored batches, as checkReads does for JSON.
func (st *harness) checkRaw(t *testing.T, g *gateway, tr *truth) {
	t.Helper()
	for _, isolation := range isolations {
		for _, maxBytes := range []int{1, 9000, 1 << 20} {
			st.checkWhole(t, g.readRaw, tr, isolation, maxBytes)
		}
	}
}
