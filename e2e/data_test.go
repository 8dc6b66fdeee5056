//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// aDay is when most records say that they were made; the rest of the world (markers, LogAppendTime) runs on today's
// clock.
var aDay = time.Date(2023, 11, 14, 22, 0, 0, 0, time.UTC).UnixMilli()

// producers are the settings by name. Each name is one producer of the stock client, for all partitions.
var producers = map[string]map[string]string{
	"none":       {},
	"gzip":       {"compression.type": "gzip"},
	"snappy":     {"compression.type": "snappy"},
	"lz4":        {"compression.type": "lz4"},
	"zstd":       {"compression.type": "zstd"},
	"idempotent": {"enable.idempotence": "true"},
	"txn-plain":  transactional("txn-plain", "none"),
	"txn-lz4":    transactional("txn-lz4", "lz4"),
	"txn-long":   transactional("txn-long", "none"),
	"txn-late":   transactional("txn-late", "zstd"),
	"txn-open":   transactional("txn-open", "none"),
}

func transactional(id, codec string) map[string]string {
	// The longest that a broker grants: an open transaction must outlive the run.
	return map[string]string{"transactional.id": id, "compression.type": codec, "enable.idempotence": "true", "transaction.timeout.ms": "900000"}
}

// A pen writes to one partition. Nobody else does meanwhile, so it knows which offset a marker gets.
type pen struct {
	ctx       context.Context
	stock     *stock
	topic     string
	partition int
	rng       *rand.Rand
	now       int64 // ms, what the next record says

	open         map[string]int64 // producer → first offset of its transaction here
	transactions []transaction
}

// A transaction is one producer's transaction in one partition.
type transaction struct {
	first   int64 // offset of its first record
	marker  int64
	aborted bool
}

func newPen(ctx context.Context, s *stock, topic string, partition int) *pen {
	seed := uint64(len(topic))<<8 | uint64(partition)
	return &pen{ctx: ctx, stock: s, topic: topic, partition: partition, rng: rand.New(rand.NewPCG(seed, 405)), now: aDay, open: map[string]int64{}}
}

// batch writes one batch of n records, most of some hundred bytes.
func (p *pen) batch(producer string, n int) error {
	messages := make([]message, n)
	for i := range messages {
		messages[i] = p.message()
	}
	return p.write(producer, messages...)
}

func (p *pen) write(producer string, messages ...message) error {
	var offsets []int64
	err := p.stock.ask(question{Do: "send", Topic: p.topic, Partition: p.partition, Producer: producer, Settings: producers[producer], Records: messages}, &offsets)
	if err != nil {
		return err
	}
	if first, begun := p.open[producer]; begun && first < 0 {
		p.open[producer] = offsets[0]
	}
	return nil
}

// batches writes count batches of one producer, of 5 to 20 records each: 1 to 5 KB.
func (p *pen) batches(producer string, count int) error {
	for range count {
		if err := p.batch(producer, 5+p.rng.IntN(16)); err != nil {
			return err
		}
	}
	return nil
}

// message has what clients get wrong: null and empty keys and values, headers with an empty key, a null value, a key
// twice. Timestamps go on by a second on average, with a jitter of half a minute either way.
func (p *pen) message() message {
	p.now += int64(p.rng.IntN(2000))
	m := message{Timestamp: p.now + int64(p.rng.IntN(60_000)) - 30_000, Headers: []header{}}
	switch p.rng.IntN(10) {
	case 0: // null
	case 1:
		m.Key = []byte{}
	default:
		m.Key = fmt.Appendf(nil, "key-%d", p.rng.IntN(50))
	}
	switch p.rng.IntN(12) {
	case 0: // null
	case 1:
		m.Value = []byte{}
	case 2:
		m.Value = p.noise(1 + p.rng.IntN(300)) // hardly ever UTF-8
	default:
		m.Value = fmt.Appendf(nil, `{"n":%d,"text":"%x"}`, p.rng.IntN(1e6), p.noise(p.rng.IntN(120)))
	}
	if p.rng.IntN(3) == 0 {
		m.Headers = []header{{"trace", p.noise(8)}, {"größe", []byte{}}, {"", nil}, {"trace", []byte("again")}}[:1+p.rng.IntN(4)]
	}
	return m
}

func (p *pen) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(p.rng.Uint32())
	}
	return b
}

// begin opens a producer's transaction. It reaches this partition with its first batch.
func (p *pen) begin(producer string) error {
	p.open[producer] = -1
	return p.stock.ask(question{Do: "begin", Producer: producer, Settings: producers[producer]}, nil)
}

// end commits or aborts, and waits for the marker: the coordinator writes it after it has answered.
func (p *pen) end(producer string, abort bool) error {
	before, err := p.stock.offset(p.topic, p.partition, logEnd)
	if err != nil {
		return err
	}
	how := map[bool]string{true: "abort", false: "commit"}[abort]
	if err := p.stock.ask(question{Do: how, Producer: producer, Settings: producers[producer]}, nil); err != nil {
		return err
	}
	first := p.open[producer]
	delete(p.open, producer)
	if first < 0 {
		return nil // without data there is no marker
	}
	p.transactions = append(p.transactions, transaction{first: first, marker: before, aborted: abort})
	waitCtx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	return eventually(waitCtx, func() error {
		end, err := p.stock.offset(p.topic, p.partition, logEnd)
		if err == nil && end <= before {
			err = fmt.Errorf("no marker of %s in %s-%d", producer, p.topic, p.partition)
		}
		return err
	})
}

// transact is a whole transaction of some batches.
func (p *pen) transact(producer string, batches int, abort bool) error {
	return inOrder(
		func() error { return p.begin(producer) },
		func() error { return p.batches(producer, batches) },
		func() error { return p.end(producer, abort) },
	)
}

// inOrder stops at the first error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
