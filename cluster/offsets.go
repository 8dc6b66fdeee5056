package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	errNotAnswered = errors.New("not in the answer")
	// ErrNoLeader says that nothing can be asked about a partition at the moment.
	ErrNoLeader = errors.New("a partition has no leader")
)

// OffsetSpec is an end of a partition.
type OffsetSpec uint8

const (
	Earliest = OffsetSpec(logStart)      // the first offset that consumers may read
	Latest   = OffsetSpec(highWatermark) // exclusive
)

// Failures are why partitions have no answer; those of one leader may share an error.
type Failures map[int32]error

// Err joins the causes; nil: there are none.
func (f Failures) Err() error {
	var causes []error
	for _, partition := range slices.Sorted(maps.Keys(f)) {
		if err := f[partition]; !slices.Contains(causes, err) {
			causes = append(causes, err)
		}
	}
	return errors.Join(causes...)
}

// ListOffsets asks the leaders of a topic for an end of some partitions, nil: of all. offsets are by partition, -1 for
// those that were not asked for or have failed. A leader has 2 s.
func (b *Brokers) ListOffsets(ctx context.Context, at *Leaders, spec OffsetSpec, only map[int32]bool) (offsets []int64, failed Failures) {
	offsets, failed = slices.Repeat([]int64{-1}, len(at.Partitions)), Failures{}
	brokers := map[int32][]target{}
	for number, l := range at.Partitions {
		switch {
		case only != nil && !only[int32(number)]:
		case l.Broker < 0:
			failed[int32(number)] = fmt.Errorf("%w: %s-%d", ErrNoLeader, at.Topic, number)
		default:
			brokers[l.Broker] = append(brokers[l.Broker], target{topicPartition{at.Topic, int32(number)}, l.Epoch})
		}
	}
	var mu sync.Mutex
	perBroker(brokers, func(broker int32, parts []target) {
		ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		answers := make([]offsetAnswer, len(parts))
		_, err := b.listOffsets(ctx, broker, boundKind(spec), newTargets(parts), answers)
		if err != nil {
			err = asError(fmt.Sprintf("list offsets at broker %d", broker), err)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, p := range parts {
			switch a := &answers[i]; {
			case err != nil:
				failed[p.number] = err
			case a.err != nil || a.offset < 0:
				failed[p.number] = asError(fmt.Sprintf("list offsets of %s-%d at broker %d", p.topic, p.number, broker), cmp.Or(a.err, errNotAnswered))
			default:
				offsets[p.number] = a.offset
			}
		}
	})
	return offsets, failed
}

// offsetAnswer is what a leader answers for one partition.
type offsetAnswer struct {
	offset int64
	err    error
}

// listOffsets asks one broker for one kind of offset. answers are in the order of the targets; version is that of the
// broker's answer.
func (b *Brokers) listOffsets(ctx context.Context, broker int32, kind boundKind, of *targets, answers []offsetAnswer) (version int16, err error) {
	for i := range answers {
		answers[i] = offsetAnswer{-1, errNotAnswered}
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = boundRequests[kind].isolation
	req.TimeoutMillis = int32(brokerTimeout.Milliseconds())
	for topic, indexes := range of.byTopic {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, i := range indexes {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.Timestamp = of.list[i].number, of.list[i].epoch, boundRequests[kind].timestamp
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := ask[*kmsg.ListOffsetsResponse](ctx, b, broker, req)
	if err != nil {
		return 0, err
	}
	if resp.Version < boundRequests[kind].version {
		return resp.Version, nil
	}
	for i, p := range match(of, resp.Topics, func(t *kmsg.ListOffsetsResponseTopic) (string, []kmsg.ListOffsetsResponseTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.ListOffsetsResponseTopicPartition) int32 { return p.Partition }, b.reject) {
		if answers[i].err = kerr.ErrorForCode(p.ErrorCode); answers[i].err == nil {
			answers[i].offset = p.Offset
		}
	}
	return resp.Version, nil
}

type topicPartition struct {
	topic  string
	number int32
}

// target is a partition as a request to its leader names it.
type target struct {
	topicPartition
	epoch int32 // the leader's, as far as we know
}

// targets are the partitions of one request.
type targets struct {
	list    []target
	byTopic map[string][]int       // indexes of list
	index   map[topicPartition]int // of list
}

func newTargets(list []target) *targets {
	t := &targets{list, map[string][]int{}, make(map[topicPartition]int, len(list))}
	for i, p := range list {
		t.byTopic[p.topic] = append(t.byTopic[p.topic], i)
		t.index[p.topicPartition] = i
	}
	return t
}

// match gives an answer's partitions with the indexes of the targets that they are about, each at most once. What was
// not asked for, or is answered twice, is rejected.
func match[T, P any](of *targets, topics []T, split func(*T) (topic string, parts []P), number func(*P) int32,
	reject func(reason string)) iter.Seq2[int, *P] {
	return func(yield func(int, *P) bool) {
		seen := make([]bool, len(of.list))
		for t := range topics {
			topic, parts := split(&topics[t])
			for p := range parts {
				i, ok := of.index[topicPartition{topic, number(&parts[p])}]
				if !ok || seen[i] {
					reject(rejectRepeated)
					continue
				}
				seen[i] = true
				if !yield(i, &parts[p]) {
					return
				}
			}
		}
	}
}
