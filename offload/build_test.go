package offload

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"coldtap/segment"
)

const testCluster = "AAAAAAAAAAAAAAAAAAAAAA"

// logBuilder writes a log directory as a broker would: segments, indexes, snapshots, checkpoints.
type logBuilder struct {
	t         testing.TB
	dir       string
	topic     string
	base      int64 // of the segment that is being written
	next      int64 // offset of the next batch
	epochs    []segment.EpochStart
	epoch     int32
	log       []byte
	aborts    []segment.AbortedTxn
	open      map[int64]int64
	maxTime   int64
	maxOffset int64
}

// newLog starts topic's partition 0 at an offset.
func newLog(t testing.TB, topic string, base int64) *logBuilder {
	l := &logBuilder{t: t, dir: t.TempDir(), topic: topic, base: base, next: base, open: make(map[int64]int64), maxTime: -1}
	l.epochs = []segment.EpochStart{{Epoch: 0, StartOffset: base}}
	l.write("meta.properties", "version=1\nnode.id=1\ncluster.id="+testCluster+"\n")
	return l
}

func (l *logBuilder) path(name string) string {
	return filepath.Join(l.dir, l.topic+"-0", name)
}

func (l *logBuilder) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *logBuilder) file(name string, raw []byte) {
	l.t.Helper()
	if err := os.MkdirAll(l.path("."), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(l.path(name), raw, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// batchSpec is a batch to be written.
type batchSpec struct {
	producer   int64 // 0 = none
	txn        bool
	control    bool
	commit     bool
	offsets    int32 // how many the batch spans, 0 = 1
	count      int32 // of records, 0 = as many as offsets, -1 = none
	timestamp  int64
	attributes int16
	value      []byte
}

// encode makes a batch of magic 2. All records but the first are empty.
func encode(base int64, epoch int32, s batchSpec) []byte {
	offsets := max(s.offsets, 1)
	count := s.count
	if count == 0 {
		count = offsets
	}
	count = max(count, 0)
	key, value := []byte(nil), s.value
	if s.control {
		key, value = []byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 9}
		if s.commit {
			key[3] = 1
		}
	}
	var records []byte
	for i := range count {
		var r []byte
		r = append(r, 0)
		r = binary.AppendVarint(r, 0)
		r = binary.AppendVarint(r, int64(i))
		if key == nil {
			r = binary.AppendVarint(r, -1)
		} else {
			r = append(binary.AppendVarint(r, int64(len(key))), key...)
		}
		r = append(binary.AppendVarint(r, int64(len(value))), value...)
		r = binary.AppendVarint(r, 0)
		records = append(binary.AppendVarint(records, int64(len(r))), r...)
		value = nil
	}
	attributes := s.attributes
	if s.txn || s.control {
		attributes |= 0x10
	}
	if s.control {
		attributes |= 0x20
	}
	producer, producerEpoch := int64(-1), uint16(0xffff)
	if s.producer != 0 {
		producer, producerEpoch = s.producer, 0
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(base))
	b = binary.BigEndian.AppendUint32(b, uint32(49+len(records)))
	b = binary.BigEndian.AppendUint32(b, uint32(epoch))
	b = append(b, 2, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(offsets-1))
	b = binary.BigEndian.AppendUint64(b, uint64(s.timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(s.timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(producer))
	b = binary.BigEndian.AppendUint16(b, producerEpoch)
	b = binary.BigEndian.AppendUint32(b, 0xffffffff)
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	return seal(append(b, records...))
}

// seal sets the checksum of a batch of magic 2.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func (l *logBuilder) add(s batchSpec) *logBuilder {
	base := l.next
	l.log = append(l.log, encode(base, l.epoch, s)...)
	l.next += int64(max(s.offsets, 1))
	if s.timestamp > l.maxTime {
		l.maxTime, l.maxOffset = s.timestamp, l.next-1
	}
	switch {
	case s.control:
		first, ok := l.open[s.producer]
		delete(l.open, s.producer)
		if ok && !s.commit {
			stable := l.next
			for _, o := range l.open {
				stable = min(stable, o)
			}
			l.aborts = append(l.aborts, segment.AbortedTxn{ProducerID: s.producer, FirstOffset: first, LastOffset: base, LastStableOffset: stable})
		}
	case s.txn:
		if _, ok := l.open[s.producer]; !ok {
			l.open[s.producer] = base
		}
	}
	return l
}

// data adds n plain batches of one record.
func (l *logBuilder) data(n int) *logBuilder {
	for range n {
		l.add(batchSpec{timestamp: 1000 + l.next, value: fmt.Appendf(nil, "value %d", l.next)})
	}
	return l
}

func (l *logBuilder) txn(producer int64) *logBuilder {
	return l.add(batchSpec{producer: producer, txn: true, timestamp: 1000 + l.next, value: []byte("t")})
}

func (l *logBuilder) end(producer int64, commit bool) *logBuilder {
	return l.add(batchSpec{producer: producer, control: true, commit: commit, timestamp: 1000 + l.next})
}

// skip leaves offsets out, as the cleaner does.
func (l *logBuilder) skip(n int64) *logBuilder { l.next += n; return l }

// lead begins a leader epoch.
func (l *logBuilder) lead(epoch int32) *logBuilder {
	l.epoch = epoch
	l.epochs = append(l.epochs, segment.EpochStart{Epoch: epoch, StartOffset: l.next})
	return l
}

// roll closes the segment; the next one begins at the next offset.
func (l *logBuilder) roll() *logBuilder {
	l.flush()
	l.base, l.log, l.aborts, l.maxTime = l.next, nil, nil, -1
	var states []segment.ProducerState
	for _, id := range slices.Sorted(maps.Keys(l.open)) {
		states = append(states, segment.ProducerState{ProducerID: id, LastSequence: -1, LastOffset: -1, TxnFirstOffset: l.open[id]})
	}
	l.file(segment.FileName(l.next, ".snapshot"), segment.AppendSnapshot(nil, states))
	return l
}

func (l *logBuilder) flush() {
	l.file(segment.FileName(l.base, ".log"), l.log)
	l.file(segment.FileName(l.base, ".index"), nil)
	var times []byte
	if l.maxTime >= 0 {
		times = binary.BigEndian.AppendUint64(times, uint64(l.maxTime))
		times = binary.BigEndian.AppendUint32(times, uint32(l.maxOffset-l.base))
	}
	l.file(segment.FileName(l.base, ".timeindex"), times)
	if len(l.aborts) > 0 {
		l.file(segment.FileName(l.base, ".txnindex"), segment.AppendTxnIndex(nil, l.aborts...))
	}
}

// done writes the active segment and the checkpoints; the high watermark is the log's end.
func (l *logBuilder) done() *logBuilder {
	l.flush()
	l.file("partition.metadata", []byte("version: 0\ntopic_id: "+testTopicID.String()))
	l.file("leader-epoch-checkpoint", segment.AppendEpochCheckpoint(nil, l.epochs))
	return l.highWatermark(l.next).logStart(-1)
}

func (l *logBuilder) highWatermark(offset int64) *logBuilder {
	l.write("replication-offset-checkpoint", fmt.Sprintf("0\n1\n%s 0 %d\n", l.topic, offset))
	return l
}

func (l *logBuilder) logStart(offset int64) *logBuilder {
	if offset < 0 {
		l.write("log-start-offset-checkpoint", "0\n0\n")
	} else {
		l.write("log-start-offset-checkpoint", fmt.Sprintf("0\n1\n%s 0 %d\n", l.topic, offset))
	}
	return l
}

// cleaned makes the directory say that the cleaner has been over the partition.
func (l *logBuilder) cleaned() *logBuilder {
	l.write("cleaner-offset-checkpoint", fmt.Sprintf("0\n1\n%s 0 %d\n", l.topic, l.base))
	return l
}

var testTopicID = segment.UUID{0: 1, 6: 0x40, 8: 0x80, 15: 7}
