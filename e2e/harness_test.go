//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// A harness is the cluster with what was written to it.
type harness struct {
	ctx     context.Context
	cluster *cluster
	stock   *stock
	topics  []*topic
}

func (st *harness) topic(name string) *topic {
	return st.topics[slices.IndexFunc(st.topics, func(t *topic) bool { return t.name == name })]
}

// A bounds is what the leader says of a partition. Offsets but latestTiered are as in the HTTP contract: ends are
// exclusive.
type bounds struct {
	logStart, localStart      int64
	tieredEnd                 int64 // logStart when nothing is tiered
	highWatermark, lastStable int64
}

func (st *harness) bounds(name string, partition int) (bounds, error) {
	asked := offsetQueries{name, partition, []int64{logStart, localStart, latestTiered, logEnd}}
	now, err := st.stock.offsets("read_uncommitted", asked)
	if err != nil {
		return bounds{}, err
	}
	asked.Queries = []int64{logEnd}
	stable, err := st.stock.offsets("read_committed", asked)
	if err != nil {
		return bounds{}, err
	}
	n := now[0]
	return bounds{n[0].Offset, n[1].Offset, max(n[2].Offset+1, n[0].Offset), n[3].Offset, stable[0][0].Offset}, nil
}

// active gives the base offset up to which a partition is going to be tiered: that of its active segment, or of the
// first one that is not wholly below the last stable offset.
func (st *harness) active(name string, partition int, b bounds) (int64, error) {
	all, err := st.stock.topics()
	if err != nil {
		return 0, err
	}
	bases, err := st.localBases(all[name].Partitions[partition].Leader, name, partition)
	if err != nil {
		return 0, err
	}
	last := b.logStart
	for _, base := range bases {
		if base <= b.lastStable {
			last = max(last, base)
		}
	}
	return last, nil
}

// tiered tells whether everything of a partition that can be tiered is.
func (st *harness) tiered(name string, partition int) error {
	b, err := st.bounds(name, partition)
	if err != nil {
		return err
	}
	end, err := st.active(name, partition, b)
	if err == nil && b.tieredEnd != end {
		err = fmt.Errorf("%s-%d is tiered up to %d of %d", name, partition, b.tieredEnd, end)
	}
	return err
}

// remoteOnly tells whether what is tiered is gone from the brokers' disks.
func (st *harness) remoteOnly(name string, partition int) error {
	b, err := st.bounds(name, partition)
	if err == nil && b.localStart != b.tieredEnd {
		err = fmt.Errorf("%s-%d: local segments begin at %d, the tier ends at %d", name, partition, b.localStart, b.tieredEnd)
	}
	return err
}

// everyPartition tells whether something is true of each.
func (st *harness) everyPartition(condition func(name string, partition int) error) func() error {
	return func() error {
		for _, t := range st.topics {
			if t.name == lostTail {
				continue // the brokers count a segment as tiered of which a part is lost
			}
			for partition := range t.replicas {
				if err := condition(t.name, partition); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// moveToTier waits until everything is tiered, has the brokers delete their copies, and waits until they have.
func (st *harness) moveToTier() error {
	return inOrder(
		func() error { return st.within(60*time.Second, st.everyPartition(st.tiered)) },
		func() error {
			for _, t := range st.topics {
				if err := st.configure(t.name, map[string]string{"local.retention.bytes": "1"}); err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return st.within(60*time.Second, st.everyPartition(st.remoteOnly)) },
	)
}

// change is what happens to topics whose segments are in the tier already.
func (st *harness) change() error {
	return inOrder(
		func() error { // up to the middle of the third segment
			bases := st.storedBases("deleted-records", 0)
			before := (bases[2] + bases[3]) / 2
			err := st.stock.ask(question{Do: "delete-records", Topic: "deleted-records", Before: before}, nil)
			if err != nil {
				return err
			}
			return st.starts("deleted-records", before)
		},
		func() error { // the tier keeps a few segments
			if err := st.configure("retention", map[string]string{"retention.bytes": "28672"}); err != nil {
				return err
			}
			return st.starts("retention", 1)
		},
		func() error {
			err := st.configure("tiering-off", map[string]string{"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
			if err != nil {
				return err
			}
			return st.within(30*time.Second, func() error {
				if left := len(st.storedFiles("tiering-off", 0)); left > 0 {
					return fmt.Errorf("%d objects of tiering-off are left", left)
				}
				return nil
			})
		},
		func() error { // what is written from now on stays with the brokers; they want local retention to be the total one's
			err := st.configure("copying-off", map[string]string{"remote.log.copy.disable": "true", "local.retention.ms": "-2", "local.retention.bytes": "-2"})
			if err != nil {
				return err
			}
			return st.topic("copying-off").pens[0].batches("none", 20)
		},
		st.quiet,
	)
}

// starts waits until a topic's first partition begins at an offset or later, with no object left that ends before it.
func (st *harness) starts(name string, offset int64) error {
	return st.within(30*time.Second, func() error {
		start, err := st.stock.offset(name, 0, logStart)
		if err != nil {
			return err
		}
		if start < offset {
			return fmt.Errorf("%s-0 begins at %d, not %d", name, start, offset)
		}
		if bases := st.storedBases(name, 0); len(bases) > 1 && bases[1] <= start {
			return fmt.Errorf("%s-0 begins at %d, but the store has segments of %d and %d", name, start, bases[0], bases[1])
		}
		return nil
	})
}

// storedBases gives the base offsets of a partition's segments in the store, ascending, each once.
func (st *harness) storedBases(name string, partition int) (bases []int64) {
	for _, file := range st.storedFiles(name, partition) {
		if filepath.Ext(file) != ".log" {
			continue
		}
		if base, err := strconv.ParseInt(filepath.Base(file)[:20], 10, 64); err == nil {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases)
}

// A trace is all that a reader of the tier must leave alone.
type trace struct {
	topics, groups []string
	metadata       []int64  // end offset of each partition of the metadata topic
	objects        []string // path, size and time of each file of the store
}

func (st *harness) trace() (tr trace, err error) {
	all, err := st.stock.topics()
	if err != nil {
		return tr, err
	}
	tr.topics = slices.Sorted(maps.Keys(all))
	if err := st.stock.ask(question{Do: "groups"}, &tr.groups); err != nil {
		return tr, err
	}
	var asked []offsetQueries
	for partition := range all[metadataTopic].Partitions {
		asked = append(asked, offsetQueries{metadataTopic, partition, []int64{logEnd}})
	}
	ends, err := st.stock.offsets("read_uncommitted", asked...)
	if err != nil {
		return tr, err
	}
	for _, end := range ends {
		tr.metadata = append(tr.metadata, end[0].Offset)
	}
	err = filepath.Walk(st.cluster.store(), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() { // LocalTieredStorage itself makes folders when it reads
			tr.objects = append(tr.objects, fmt.Sprint(path, info.Size(), info.ModTime().UnixNano()))
		}
		return err
	})
	return tr, err
}

func (tr trace) equal(other trace) bool {
	return slices.Equal(tr.topics, other.topics) && slices.Equal(tr.groups, other.groups) &&
		slices.Equal(tr.metadata, other.metadata) && slices.Equal(tr.objects, other.objects)
}

// quiet waits until the brokers have done nothing to the tier for two seconds: four of their rounds.
func (st *harness) quiet() error {
	var last trace
	var since time.Time
	return st.within(60*time.Second, func() error {
		now, err := st.trace()
		if err != nil {
			return err
		}
		if !now.equal(last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return fmt.Errorf("the brokers are still at work on the tier")
		}
		return nil
	})
}

// A truth is what the brokers say of a partition at a moment when nothing changes.
type truth struct {
	topic     string
	partition int
	bounds    bounds
	records   map[string][]record // by isolation level, from log start to log end
	grid      []found             // answers to the timestamps of gridTimes, read_committed
	gridTimes []int64
}

func (tr *truth) String() string { return fmt.Sprintf("%s-%d", tr.topic, tr.partition) }

var isolations = []string{"read_uncommitted", "read_committed"}

const gridSize = 15

func (st *harness) truth(name string, partition int) (*truth, error) {
	tr := &truth{topic: name, partition: partition, records: map[string][]record{}}
	var err error
	if tr.bounds, err = st.bounds(name, partition); err != nil {
		return nil, err
	}
	for _, isolation := range isolations {
		if tr.records[isolation], err = st.stock.consume(name, partition, isolation, logStart); err != nil {
			return nil, err
		}
	}
	tr.gridTimes = gridTimes(tr.records["read_uncommitted"])
	answers, err := st.stock.offsets("read_committed", offsetQueries{name, partition, tr.gridTimes})
	if err != nil {
		return nil, err
	}
	tr.grid = answers[0]
	return tr, nil
}

// gridTimes gives timestamps before, at, between and behind those of the records.
func gridTimes(records []record) []int64 {
	times := []int64{0}
	if len(records) == 0 {
		return times
	}
	low, high := records[0].Timestamp, records[0].Timestamp
	for _, r := range records {
		low, high = min(low, r.Timestamp), max(high, r.Timestamp)
	}
	times = append(times, low-1, low, low+1, high-1, high, high+1)
	steps := int64(gridSize - len(times))
	for i := range steps {
		if i%2 == 0 {
			times = append(times, low+(high-low)*(i+1)/steps)
		} else {
			times = append(times, records[int64(len(records)-1)*i/steps].Timestamp)
		}
	}
	return times
}
