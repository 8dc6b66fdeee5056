//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A topic is one case of what brokers tier.
type topic struct {
	name     string
	replicas [][]int           // of each partition, the preferred leader first
	configs  map[string]string // beside those that every topic gets
	tierLate bool              // made without tiering; fill turns it on
	fill     func(st *harness, pens []*pen) error

	pens []*pen
}

// tieredFromTheStart makes brokers roll by size alone, every 8 KiB, whatever the records' timestamps, and tier what is
// closed. Local segments stay until settle.
var tieredFromTheStart = map[string]string{
	"remote.storage.enable": "true", "retention.ms": "-1", "segment.ms": "315360000000", "segment.index.bytes": "65536",
	"index.interval.bytes": "1024", "file.delete.delay.ms": "100", "internal.segment.bytes": "8192",
}

// everyTopic gives what is filled, one after the other, in this order.
func everyTopic() []*topic {
	return []*topic{
		{name: "recreated", replicas: [][]int{{1, 2, 3}}, fill: fillRecreated},
		{name: "plain", replicas: [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}, fill: each(func(p *pen) error { return p.batches("none", 40) })},
		{name: "codecs", replicas: [][]int{{2, 3, 1}}, fill: each(fillCodecs)},
		{name: "append-time", replicas: [][]int{{3, 1, 2}}, configs: map[string]string{"message.timestamp.type": "LogAppendTime"}, fill: each(fillCodecs)},
		{name: "big-batches", replicas: [][]int{{1, 2, 3}}, configs: map[string]string{"internal.segment.bytes": "409600"}, fill: each(fillBigBatches)},
		{name: "transactions", replicas: [][]int{{1, 2, 3}, {2, 3, 1}}, fill: fillTransactions},
		{name: "open-transaction", replicas: [][]int{{3, 1, 2}}, fill: each(fillOpenTransaction)},
		{name: "compacted", replicas: [][]int{{1}}, tierLate: true, fill: fillCompacted,
			configs: map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}},
		{name: "timestamps", replicas: [][]int{{2, 3, 1}, {3, 1, 2}}, fill: fillTimestamps},
		{name: "leaders", replicas: [][]int{{1, 2, 3}}, fill: fillLeaders},
		{name: lostTail, replicas: [][]int{{2, 3}}, configs: map[string]string{"unclean.leader.election.enable": "true"}, fill: func(*harness, []*pen) error { return nil }},
		{name: lostLineage, replicas: [][]int{{2, 3}}, configs: map[string]string{"unclean.leader.election.enable": "true"}, fill: fillLostLineage},
		{name: "one-record", replicas: [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}, configs: map[string]string{"internal.segment.bytes": "400"}, fill: fillOneRecord},
		{name: "odd-7.name_0-1", replicas: [][]int{{1, 2, 3}}, fill: each(func(p *pen) error { return p.batches("zstd", 20) })},
		{name: "deleted-records", replicas: [][]int{{2, 3, 1}}, fill: each(func(p *pen) error { return p.batches("none", 30) })},
		{name: "retention", replicas: [][]int{{3, 1, 2}}, fill: each(func(p *pen) error { return p.batches("lz4", 60) })},
		{name: "tiering-off", replicas: [][]int{{1, 2, 3}}, fill: each(func(p *pen) error { return p.batches("none", 20) })},
		{name: troubled, replicas: [][]int{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}}, fill: fillTroubled},
		{name: "copying-off", replicas: [][]int{{2, 3, 1}}, fill: each(func(p *pen) error { return p.batches("none", 20) })},
	}
}

func each(fill func(*pen) error) func(*harness, []*pen) error {
	return func(_ *harness, pens []*pen) error {
		for _, p := range pens {
			if err := fill(p); err != nil {
				return err
			}
		}
		return nil
	}
}

func (st *harness) create(t *topic) error {
	configs := maps.Clone(tieredFromTheStart)
	maps.Copy(configs, t.configs)
	if t.tierLate {
		configs["remote.storage.enable"] = "false"
	}
	err := st.stock.ask(question{Do: "create", Topic: t.name, Replicas: t.replicas, Configs: configs}, nil)
	if err != nil {
		return err
	}
	t.pens = nil
	for partition := range t.replicas {
		t.pens = append(t.pens, newPen(st.ctx, st.stock, t.name, partition))
	}
	return st.within(20*time.Second, func() error { return st.led(t.name) })
}

// led tells whether every partition of a topic has a leader.
func (st *harness) led(name string) error {
	all, err := st.stock.topics()
	if err != nil {
		return err
	}
	now, ok := all[name]
	if !ok {
		return fmt.Errorf("%s is not there", name)
	}
	for i, p := range now.Partitions {
		if p.Leader < 0 {
			return fmt.Errorf("%s-%d has no leader", name, i)
		}
	}
	return nil
}

func (st *harness) configure(name string, configs map[string]string) error {
	return st.stock.ask(question{Do: "configure", Topic: name, Configs: configs}, nil)
}

// fillRecreated lives twice: the first life is tiered, and its deletion takes its segments out of the tier.
func fillRecreated(st *harness, pens []*pen) error {
	life := func() error { return pens[0].batches("none", 20) }
	t := st.topic("recreated")
	return inOrder(
		life,
		func() error { return st.within(20*time.Second, func() error { return st.tiered(t.name, 0) }) },
		func() error { return st.stock.ask(question{Do: "delete", Topic: t.name}, nil) },
		func() error {
			return st.within(20*time.Second, func() error {
				if left := len(st.storedFiles(t.name, 0)); left > 0 {
					return fmt.Errorf("%d objects of the first life are left", left)
				}
				return nil
			})
		},
		func() error { return st.create(t) },
		// Another seed: the second life's records must not look like the first one's.
		func() error { pens = t.pens; pens[0].rng.Uint64(); return pens[0].batches("gzip", 35) },
	)
}

func fillCodecs(p *pen) error {
	codecs := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	for range 10 {
		p.rng.Shuffle(len(codecs), func(i, j int) { codecs[i], codecs[j] = codecs[j], codecs[i] })
		for _, codec := range codecs {
			if err := p.batches(codec, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillBigBatches has batches of many chunks of each codec (xerial's snappy cuts at 32 KiB, lz4 at 64 KiB), single
// records of 200 KB, and batches of a single small record.
func fillBigBatches(p *pen) error {
	for range 2 {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			err := inOrder(
				func() error { return p.batch(codec, 1500) },
				func() error { return p.batch(codec, 1) },
				func() error {
					big := p.message()
					big.Value = p.noise(200_000)
					return p.write(codec, big)
				},
				func() error { return p.batch(codec, 1) },
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// fillTransactions: in the first partition everything is decided inside the tier, although one transaction is open from
// offset 0 to nearly the end; in the second one the last abort's marker lies behind the tier's end, with data inside.
func fillTransactions(_ *harness, pens []*pen) error {
	first, second := pens[0], pens[1]
	second.now = time.Now().Add(-time.Hour).UnixMilli() // so that its records mix with the markers' clock
	mixed := func(p *pen) error {
		for i := range 12 {
			err := inOrder(
				func() error { return p.begin("txn-lz4") },
				func() error { return p.batches("txn-lz4", 1) },
				func() error { return p.batches("idempotent", 1) },
				func() error { return p.batches("txn-lz4", i%3) },
				func() error { return p.batches("none", i%2) },
				func() error { return p.end("txn-lz4", p.rng.IntN(2) == 0) },
			)
			if err != nil {
				return err
			}
		}
		return nil
	}
	return inOrder(
		func() error { return first.begin("txn-long") },
		func() error { return first.batches("txn-long", 1) },
		func() error { return mixed(first) },
		// An abort with data in several segments and its marker in another still.
		func() error { return first.begin("txn-plain") },
		func() error { return first.batches("txn-plain", 12) },
		func() error { return first.batches("none", 12) },
		func() error { return first.end("txn-plain", true) },
		// No trace.
		func() error { return first.transact("txn-plain", 0, true) },
		func() error { return mixed(first) },
		func() error { return first.end("txn-long", false) },
		func() error { return first.batches("none", 15) },

		func() error { return mixed(second) },
		// One commit and one abort that are undecided where the tier ends.
		func() error { return second.begin("txn-plain") },
		func() error { return second.batches("txn-plain", 8) },
		func() error { return second.begin("txn-late") },
		func() error { return second.batches("txn-late", 2) },
		func() error { return second.batches("none", 15) },
		func() error { return second.end("txn-plain", true) },
		func() error { return second.end("txn-late", false) },
	)
}

// fillOpenTransaction: tiering stops below the last stable offset, long before the log's end.
func fillOpenTransaction(p *pen) error {
	return inOrder(
		func() error { return p.transact("txn-plain", 12, true) },
		func() error { return p.batches("none", 10) },
		func() error { return p.transact("txn-plain", 12, false) },
		func() error { return p.batches("none", 10) },
		func() error { return p.begin("txn-open") },
		func() error { return p.batches("txn-open", 12) },
		func() error { return p.batches("none", 10) },
	)
}

// fillCompacted is cleaned by the broker twice before it is tiered: records and whole batches are missing, some batches
// are empty, offsets jump inside and at the ends of segments.
func fillCompacted(st *harness, pens []*pen) error {
	p := pens[0]
	keyed := func(producer string, batches int) error {
		for range batches {
			messages := make([]message, 5+p.rng.IntN(16))
			for i := range messages {
				messages[i] = p.message()
				messages[i].Key = fmt.Appendf(nil, "key-%d", p.rng.IntN(400)) // compaction refuses records without a key
			}
			if err := p.write(producer, messages...); err != nil {
				return err
			}
		}
		return nil
	}
	write := func() error {
		return inOrder(
			func() error { return keyed("none", 15) },
			func() error { return p.begin("txn-plain") },
			func() error { return keyed("txn-plain", 5) },
			func() error { return p.end("txn-plain", true) },
			func() error { return keyed("zstd", 10) },
			func() error { return p.begin("txn-lz4") },
			func() error { return keyed("txn-lz4", 5) },
			func() error { return p.end("txn-lz4", false) },
			func() error { return keyed("none", 10) },
		)
	}
	clean := func() error { return st.within(30*time.Second, st.cleaned) }
	return inOrder(
		write, clean, write, clean,
		write, // as much of it as the cleaner doesn't get to is tiered with its aborted records
		func() error {
			return st.configure(p.topic, map[string]string{"cleanup.policy": "delete", "remote.storage.enable": "true"})
		},
	)
}

// cleaned tells whether the cleaner has been through every closed segment of compacted-0.
func (st *harness) cleaned() error {
	checkpoint, err := os.ReadFile(filepath.Join(st.cluster.logDir(1), "cleaner-offset-checkpoint"))
	if err != nil {
		return err
	}
	bases, err := st.localBases(1, "compacted", 0)
	if err != nil {
		return err
	}
	active := bases[len(bases)-1]
	found := regexp.MustCompile(`(?m)^compacted 0 (\d+)$`).FindSubmatch(checkpoint)
	if found == nil || string(found[1]) != fmt.Sprint(active) {
		return fmt.Errorf("compacted-0 is not cleaned up to %d: %q", active, found)
	}
	return nil
}

// fillTimestamps: the first partition jumps forward by hours and days and stands still for whole batches; the second
// one jumps back too, compressed.
func fillTimestamps(_ *harness, pens []*pen) error {
	for i, p := range pens {
		producer := []string{"none", "zstd"}[i]
		for step := range 60 {
			messages := make([]message, 5+p.rng.IntN(16))
			for j := range messages {
				messages[j] = p.message()
				if step%5 == 0 {
					messages[j].Timestamp = p.now
				}
			}
			if err := p.write(producer, messages...); err != nil {
				return err
			}
			p.now += int64(p.rng.IntN(3)) * 7 * time.Hour.Milliseconds()
			if i == 1 && step%7 == 0 {
				p.now -= 30 * time.Hour.Milliseconds()
			}
		}
	}
	return nil
}

// fillLeaders moves the leader from broker to broker, once by killing it.
func fillLeaders(st *harness, pens []*pen) error {
	p := pens[0]
	for round := range 7 {
		next := round%3 + 1
		if err := st.lead(p.topic, p.partition, next); err != nil {
			return err
		}
		if round == 4 { // nothing is written in this epoch
			continue
		}
		if err := p.batches("none", 7); err != nil {
			return err
		}
		if round == 3 {
			st.cluster.kill(next)
			err := inOrder(
				func() error { return p.batches("lz4", 7) },
				func() error { return st.cluster.start(st.ctx, next) },
			)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// lostLineage and lostTail have segments in the store whose records were lost with their leader. In the first one the
// next leader has tiered other records for the same offsets; in the second one it has closed no segment since.
const (
	lostLineage = "lost-lineage"
	lostTail    = "lost-tail"
)

// fillLostLineage fills both: the leader writes and tiers on its own and dies; the other replica, which knows nothing
// of that, is made leader and writes other records for the same offsets.
func fillLostLineage(st *harness, pens []*pen) error {
	both := []*pen{pens[0], st.topic(lostTail).pens[0]}
	onBoth := func(f func(p *pen) error) func() error {
		return func() error { return each(f)(st, both) }
	}
	return inOrder(
		onBoth(func(p *pen) error { return st.lead(p.topic, 0, 2) }),
		onBoth(func(p *pen) error { return p.batches("none", 12) }),
		func() error { st.cluster.kill(3); return nil },
		onBoth(func(p *pen) error { return p.batches("none", 15) }),
		onBoth(func(p *pen) error {
			return st.within(20*time.Second, func() error { return st.tiered(p.topic, 0) })
		}),
		func() error { st.cluster.kill(2); return nil },
		func() error { return st.cluster.start(st.ctx, 3) },
		onBoth(func(p *pen) error { return st.within(30*time.Second, func() error { return st.led(p.topic) }) }),
		func() error { return both[0].batches("zstd", 25) },
		func() error { return both[1].batch("zstd", 5) },
		func() error { return st.cluster.start(st.ctx, 2) },
	)
}

// lead moves a leader, once the broker is in sync.
func (st *harness) lead(name string, partition, leader int) error {
	return st.within(30*time.Second, func() error {
		if err := st.stock.ask(question{Do: "lead", Topic: name, Partition: partition, Leader: leader}, nil); err != nil {
			return err
		}
		all, err := st.stock.topics()
		if err != nil {
			return err
		}
		if now := all[name].Partitions[partition].Leader; now != leader {
			return fmt.Errorf("%s-%d is led by %d, not %d", name, partition, now, leader)
		}
		return nil
	})
}

// fillOneRecord: one tiered segment of one record, one record that is never tiered, and nothing at all. 400 bytes a
// segment: the second record does not fit.
func fillOneRecord(_ *harness, pens []*pen) error {
	single := func(p *pen) error {
		return p.write("none", message{Timestamp: aDay, Key: []byte("k"), Value: []byte(strings.Repeat("v", 250)), Headers: []header{}})
	}
	return inOrder(
		func() error { return single(pens[0]) },
		func() error { return single(pens[0]) },
		func() error { return single(pens[1]) },
	)
}

// localBases gives the base offsets of the segments that a broker holds of a partition, ascending.
func (st *harness) localBases(broker int, name string, partition int) (bases []int64, err error) {
	logs, err := filepath.Glob(filepath.Join(st.cluster.logDir(broker), fmt.Sprintf("%s-%d", name, partition), "*.log"))
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(log), ".log"), 10, 64)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)
	if len(bases) == 0 {
		return nil, fmt.Errorf("broker %d holds nothing of %s-%d", broker, name, partition)
	}
	return bases, nil
}

// storedFiles gives the objects that the store holds of a partition, whatever the topic's id.
func (st *harness) storedFiles(name string, partition int) []string {
	// A topic's id has 22 characters, so that the pattern matches no other topic whose name goes on with a number.
	files, _ := filepath.Glob(filepath.Join(st.cluster.store(), fmt.Sprintf("%s-%d-%s", name, partition, strings.Repeat("?", 22)), "*"))
	return files
}

// within asks again and again for so long.
func (st *harness) within(timeout time.Duration, condition func() error) error {
	ctx, cancel := context.WithTimeout(st.ctx, timeout)
	defer cancel()
	return eventually(ctx, condition)
}
