package kafka

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"coldtap/catalog/observe"
	"coldtap/internal/atomicfile"
	"coldtap/segment"
	"coldtap/tier"
)

// The snapshot file: what a replay of the topic up to certain positions comes to.
//
//	magic, 8 bytes: "coldtap" and the version
//	frames, each an unsigned varint of its length and so many bytes; the first byte is the frame's kind
//	    head       cluster id, metadata topic id, for each metadata partition its position and the leader epoch below it
//	    topic      id, newest event (ms), name
//	    partition  topic id, number, the greatest end of each leader epoch
//	    segment    of the partition before it, in base-offset order: flags, id, body as in a Snapshot record,
//	               then what the flags announce: a name other than the topic's, the epochs under which it is shadowed
//	    end        how many segments there are
//	CRC-32C of all before, 4 bytes
const (
	snapshotMagic = "coldtap\x02"

	frameHead      = 1
	frameTopic     = 2
	framePartition = 3
	frameSegment   = 4
	frameEnd       = 5

	flagOwnName  = 1
	flagShadowed = 2

	// frameLimit is far above what a record of the topic can bring (message.max.bytes).
	frameLimit = 64 << 20
	// frameStep is how much of a frame is allocated before it was read.
	frameStep = 64 << 10
	// restoreBatch is how many changes the tier gets at a time.
	restoreBatch = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// replayed is the outcome of a replay: what a snapshot file keeps.
type replayed struct {
	clusterID string
	topicID   segment.UUID
	positions []int64 // by metadata partition: the next offset to read
	epochs    []int32 // leader epoch of the last batch below it, -1 = unknown
	topics    observe.Topics
	view      *tier.Snapshot
}

// saveSnapshot replaces the file at path, durably: a crash leaves the old one or the new one.
func saveSnapshot(path string, r *replayed) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp := fmt.Sprintf("%s.%d.tmp", filepath.Base(path), rand.Uint64())
	return atomicfile.Write(path, temp, 0o600, func(w io.Writer) error { return writeSnapshot(w, r) })
}

// removeStale removes what crashes while writing have left beside path.
func removeStale(path string) error {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range list {
		rest, ours := strings.CutPrefix(entry.Name(), name+".")
		number, ends := strings.CutSuffix(rest, ".tmp")
		if !ours || !ends || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if gone := os.Remove(filepath.Join(dir, entry.Name())); gone != nil && err == nil {
			err = gone
		}
	}
	return err
}

func writeSnapshot(w io.Writer, r *replayed) error {
	sum := crc32.New(castagnoli)
	f := frames{out: io.MultiWriter(w, sum)}
	f.raw([]byte(snapshotMagic))

	b := f.begin(frameHead)
	b = appendNullable(b, append([]byte{}, r.clusterID...))
	b = append(b, r.topicID[:]...)
	b = binary.AppendUvarint(b, uint64(len(r.positions)+1))
	for i, p := range r.positions {
		b = binary.BigEndian.AppendUint64(b, uint64(p))
		b = binary.BigEndian.AppendUint32(b, uint32(r.epochs[i]))
	}
	f.end(b)
	for id, t := range r.topics {
		b := f.begin(frameTopic)
		b = append(b, id[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(t.At))
		f.end(appendNullable(b, []byte(t.Name)))
	}
	segments := uint64(0)
	for p := range r.view.Partitions() {
		list := p.Segments(true)
		if len(list) == 0 {
			continue
		}
		b := f.begin(framePartition)
		id := p.ID()
		b = append(b, id.Topic[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(id.Partition))
		highest := p.HighestOfEpochs()
		b = binary.AppendUvarint(b, uint64(len(highest)+1))
		for _, e := range highest {
			b = binary.BigEndian.AppendUint32(b, uint32(e.Epoch))
			b = binary.BigEndian.AppendUint64(b, uint64(e.End))
		}
		f.end(b)
		name := r.topics[id.Topic].Name
		for _, s := range list {
			f.segment(s, name, p.Shadowed(s))
			segments++
		}
	}
	f.end(binary.BigEndian.AppendUint64(f.begin(frameEnd), segments))
	if f.err != nil {
		return f.err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// frames writes frames; after the first error it writes nothing.
type frames struct {
	out  io.Writer
	buf  []byte
	head [binary.MaxVarintLen64]byte
	err  error
}

func (f *frames) raw(b []byte) {
	if f.err == nil {
		_, f.err = f.out.Write(b)
	}
}

func (f *frames) begin(kind byte) []byte { return append(f.buf[:0], kind) }

func (f *frames) end(b []byte) {
	f.buf = b
	f.raw(f.head[:binary.PutUvarint(f.head[:], uint64(len(b)))])
	f.raw(b)
}

func (f *frames) segment(s *tier.Segment, topic string, shadowed []int32) {
	b := f.begin(frameSegment)
	var flags byte
	if s.Topic != topic {
		flags |= flagOwnName
	}
	if len(shadowed) > 0 {
		flags |= flagShadowed
	}
	b = append(b, flags)
	b = append(b, s.ID[:]...)
	b = appendBody(b, s)
	if flags&flagOwnName != 0 {
		b = appendNullable(b, append([]byte{}, s.Topic...))
	}
	if flags&flagShadowed != 0 {
		b = binary.AppendUvarint(b, uint64(len(shadowed)+1))
		for _, e := range shadowed {
			b = binary.BigEndian.AppendUint32(b, uint32(e))
		}
	}
	f.end(b)
}

// appendBody writes what the two segment messages of the topic have in common, as Kafka 4.x does; reader.body reads it.
func appendBody(dst []byte, s *tier.Segment) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.BaseOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.EndOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.BrokerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.MaxTimestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.EventTime))
	dst = binary.AppendUvarint(dst, uint64(len(s.Epochs)+1))
	for _, e := range s.Epochs {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.StartOffset))
		dst = append(dst, 0)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Size))
	dst = appendNullable(dst, s.Custom)
	dst = append(dst, byte(s.State))
	if s.TxnIndexEmpty {
		return append(dst, 1, tagTxnIndexEmpty, 1, 1)
	}
	return append(dst, 0)
}

// appendNullable writes compact nullable bytes; nil is null.
func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b)+1))
	return append(dst, b...)
}

// loadSnapshot reads a file into a new tier. A file that is not there is fs.ErrNotExist.
func loadSnapshot(path string) (*restored, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readSnapshot(file)
}

// restored is a replayed whose tier goes on growing.
type restored struct {
	replayed
	tier *tier.Tier
}

var errSnapshot = errors.New("not a snapshot of this version")

// readSnapshot gives nothing unless the whole file is as it was written.
func readSnapshot(r io.Reader) (*restored, error) {
	sum := crc32.New(castagnoli)
	in := &frameReader{in: bufio.NewReaderSize(r, 256<<10), sum: sum}
	var magic [len(snapshotMagic)]byte
	if err := in.full(magic[:]); err != nil {
		return nil, err
	}
	if string(magic[:]) != snapshotMagic {
		return nil, errSnapshot
	}
	to := &restored{tier: tier.New()}
	to.topics = observe.Topics{}
	p := parser{to: to}
	for !p.ended {
		frame, err := in.next()
		if err == nil {
			err = p.frame(frame)
		}
		if err != nil {
			return nil, err
		}
	}
	want := sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.in, got); err != nil {
		return nil, unexpected(err)
	}
	if !bytes.Equal(got, want) {
		return nil, errors.New("its checksum does not match")
	}
	if _, err := in.in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.New("bytes are left over")
	}
	to.view = to.tier.Snapshot()
	return to, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type frameReader struct {
	in  *bufio.Reader
	sum hash.Hash32
	buf []byte
	one [1]byte
}

func (r *frameReader) full(b []byte) error {
	if _, err := io.ReadFull(r.in, b); err != nil {
		return unexpected(err)
	}
	r.sum.Write(b)
	return nil
}

// ReadByte is for binary.ReadUvarint.
func (r *frameReader) ReadByte() (byte, error) {
	err := r.full(r.one[:])
	return r.one[0], err
}

// next reads a frame; it is valid until the following one is read.
func (r *frameReader) next() ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > frameLimit {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	r.buf = r.buf[:0]
	for left := int(size); left > 0; {
		n := min(left, frameStep)
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, n)...)
		if err := r.full(r.buf[at:]); err != nil {
			return nil, err
		}
		left -= n
	}
	return r.buf, nil
}

// parser turns frames into changes.
type parser struct {
	to        *restored
	partition tier.PartitionID
	topic     string // the partition's topic's name
	inside    bool   // a partition has begun
	segments  uint64
	changes   []tier.Change
	hasHead   bool
	ended     bool
}

func (p *parser) frame(b []byte) error {
	in := &reader{b: b}
	kind := in.int8()
	if !p.hasHead && kind != frameHead {
		return errors.New("it does not begin with its head")
	}
	switch kind {
	case frameHead:
		p.head(in)
	case frameTopic:
		t := observe.Topic{ID: in.uuid(), At: in.int64(), Name: in.topic()}
		p.to.topics[t.ID] = t
		p.changes = append(p.changes, tier.TopicSeen{ID: t.ID, Name: t.Name, At: t.At})
	case framePartition:
		p.partition = tier.PartitionID{Topic: in.uuid(), Partition: in.int32()}
		t, ok := p.to.topics[p.partition.Topic]
		if !ok {
			in.fail(Malformed, "a partition of no topic")
		}
		p.inside, p.topic = true, t.Name
		for range in.elements(4 + 8) {
			e := tier.EpochEnd{Epoch: in.int32(), End: in.int64()}
			p.changes = append(p.changes, tier.EpochRestored{Partition: p.partition, EpochEnd: e})
		}
	case frameSegment:
		p.segment(in)
	case frameEnd:
		if n := uint64(in.int64()); n != p.segments {
			in.fail(Malformed, "%d segments instead of %d", p.segments, n)
		}
		p.ended = true
	default:
		in.fail(Malformed, "a frame of kind %d", kind)
	}
	if in.err == nil && in.at != len(b) {
		in.fail(Malformed, "%d bytes are left over", len(b)-in.at)
	}
	if in.err != nil {
		return in.err
	}
	if p.ended || len(p.changes) >= restoreBatch {
		return p.apply()
	}
	return nil
}

func (p *parser) head(in *reader) {
	if p.hasHead {
		in.fail(Malformed, "a second head")
	}
	p.hasHead = true
	p.to.clusterID = string(in.bytes())
	p.to.topicID = in.uuid()
	for range in.elements(8 + 4) {
		at, epoch := in.int64(), in.int32()
		if at < 0 || epoch < -1 {
			in.fail(Malformed, "position %d in leader epoch %d", at, epoch)
		}
		p.to.positions, p.to.epochs = append(p.to.positions, at), append(p.to.epochs, epoch)
	}
}

func (p *parser) segment(in *reader) {
	if !p.inside {
		in.fail(Malformed, "a segment of no partition")
	}
	flags := in.int8()
	s := tier.SegmentRestored{Segment: tier.Segment{Partition: p.partition, Topic: p.topic}}
	s.Segment.ID = in.uuid()
	in.body(&s.Segment)
	if flags&flagOwnName != 0 {
		s.Segment.Topic = in.topic()
	}
	if flags&flagShadowed != 0 {
		for range in.elements(4) {
			s.Shadowed = append(s.Shadowed, in.int32())
		}
	}
	// The frame's buffer is used again before the tier makes its copy.
	s.Segment.Custom = bytes.Clone(s.Segment.Custom)
	p.segments++
	p.changes = append(p.changes, s)
}

func (p *parser) apply() error {
	rejected := p.to.tier.Apply(p.changes...)
	clear(p.changes)
	p.changes = p.changes[:0]
	if len(rejected) > 0 {
		return fmt.Errorf("an entry is %s", rejected[0].Reason)
	}
	return nil
}
