package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coldtap/cluster"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// answerBytes bounds one Fetch answer, portionBytes what it holds of one partition. Either may be passed by a single
	// batch, since brokers always answer with one; a broker's message.max.bytes is 1 MiB by default.
	answerBytes  = 8 << 20
	portionBytes = 1 << 20
)

// errDiverged is a leader's answer that its log is not the one from which was read (KIP-595's diverging epoch).
var errDiverged = errors.New("the log was cut below what was read, by an unclean election")

// wanted is a partition to fetch, and from where.
type wanted struct {
	partition int32
	position
}

// position is how far a partition of the topic was read.
type position struct {
	offset     int64 // to read next
	epoch      int32 // leader epoch of the last batch below, -1 = unknown: the leader is asked whether its log has that too
	failedOnce bool  // the batch at offset could not be read when it was fetched last
}

// portion is what an answer holds of one partition.
type portion struct {
	partition int32
	end       int64  // high watermark
	bytes     []byte // whole batches and perhaps a cut one; the first may begin below what was wanted
	err       error  // errDiverged: what was read is not in the leader's log
}

// fetch asks one broker for what comes after the wanted positions; the broker waits up to wait when there is nothing.
//
// The positions are ours and not those of a kgo consumer, which gives records only: it does not show that a batch
// without records was passed, and a partition that ends in one would never be caught up with.
func fetch(ctx context.Context, brokers *cluster.Brokers, at *cluster.Leaders, broker int32, from []wanted, wait time.Duration) ([]portion, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, answerBytes
	req.SessionEpoch = -1 // no session: 50 positions are cheap to send each time
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = at.Topic, at.TopicID
	for _, w := range from {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition = w.partition
		part.CurrentLeaderEpoch = at.Partitions[w.partition].Epoch
		part.FetchOffset = w.offset
		part.LastFetchedEpoch = w.epoch
		part.PartitionMaxBytes = portionBytes
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := brokers.Fetch(ctx, broker, req)
	if err != nil {
		return nil, err
	}
	var portions []portion
	for _, t := range resp.Topics {
		if t.TopicID != at.TopicID && t.Topic != at.Topic {
			return nil, fmt.Errorf("broker %d answered for another topic", broker)
		}
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil && p.DivergingEpoch.EndOffset >= 0 {
				err = errDiverged
			}
			portions = append(portions, portion{p.Partition, p.HighWatermark, p.RecordBatches, err})
		}
	}
	return portions, nil
}
