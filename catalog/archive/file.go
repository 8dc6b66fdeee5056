package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"coldtap/internal/atomicfile"
	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// The snapshot file: 8 bytes of magic and version, the identity, records, and the CRC-32C of all before it, big endian.
// Numbers are varints. A record begins with its kind; segments and lineage belong to the partition before them.
const (
	fileMagic = "CTARCH\x00\x01"

	recordEnd       = 0
	recordOrigin    = 1
	recordPartition = 2
	recordSegment   = 3
	recordLineage   = 4

	maxText   = 4096    // bytes of a text in the file
	maxEpochs = 100_000 // as in manifests
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errOtherArchive = errors.New("it belongs to another store, prefix or layout")
	errDamagedFile  = errors.New("it is damaged")
	errFileVersion  = errors.New("it is no snapshot of this version")
)

// loadFile reads the snapshot file, if there is one that can be used.
func (a *Archive) loadFile() {
	if a.opt.Snapshot == "" {
		return
	}
	k, err := readFile(a.opt.Snapshot, a.opt.Identity)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.log.Warn("the archive's snapshot is not used, all manifests are read", "path", a.opt.Snapshot, "error", err)
	default:
		a.inventory = k
	}
}

// saveFile replaces the snapshot file if something is new. A failure costs reading manifests again, nothing else.
func (a *Archive) saveFile() {
	// The lock is held until the file is written: partitions that are listed meanwhile come into the view after it.
	a.inventory.mu.Lock()
	defer a.inventory.mu.Unlock()
	if a.opt.Snapshot == "" || !a.inventory.dirty {
		return
	}
	if err := writeFile(a.opt.Snapshot, a.opt.Identity, a.inventory); err != nil {
		if a.unsaving.Failed(time.Now(), "", true) {
			a.log.Warn("the archive's snapshot could not be written", "path", a.opt.Snapshot, "error", err)
		}
		return
	}
	if _, logged := a.unsaving.Over(time.Now()); logged {
		a.log.Info("the archive's snapshot is written again", "path", a.opt.Snapshot)
	}
	a.inventory.dirty = false
}

func readFile(path, identity string) (*inventory, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return decode(f, info.Size(), identity)
}

// writeFile replaces the file.
func writeFile(path, identity string, k *inventory) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// One name, so that crashes leave one file. Two processes that share it spoil it for each other, and notice.
	return atomicfile.Write(path, filepath.Base(path)+".tmp", 0o600, func(w io.Writer) error { return encode(w, identity, k) })
}

// encode writes the manifests that have no flaw. The same inventory gives the same bytes.
func encode(w io.Writer, identity string, k *inventory) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	e := encoder{inventory: k, origins: make(map[uint32]uint64)}
	e.b = append(e.b, fileMagic...)
	e.text(identity)
	entries := make([]*entry, 0, k.entries.size)
	for x := range k.entries.all {
		if !x.pending && !x.flawed {
			entries = append(entries, x)
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(bytes.Compare(a.seg.Partition.Topic[:], b.seg.Partition.Topic[:]),
			cmp.Compare(a.seg.Partition.Partition, b.seg.Partition.Partition), bytes.Compare(a.seg.ID[:], b.seg.ID[:]))
	})
	for i, x := range entries {
		if i == 0 || entries[i-1].seg.Partition != x.seg.Partition || entries[i-1].seg.Topic != x.seg.Topic {
			e.partition(x.seg)
			if i == 0 || entries[i-1].seg.Partition != x.seg.Partition {
				e.lineage(k.partition(x.seg.Partition).lineage)
			}
		}
		e.segment(x)
		if _, err := out.Write(e.b); err != nil {
			return err
		}
		e.b = e.b[:0]
	}
	e.number(recordEnd)
	if _, err := out.Write(e.b); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

type encoder struct {
	b         []byte
	inventory *inventory
	origins   map[uint32]uint64 // their numbers in the file
}

func (e *encoder) number(v uint64)      { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) signed(v int64)       { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) uuid(id segment.UUID) { e.b = append(e.b, id[:]...) }
func (e *encoder) text(s string)        { e.number(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) flag(set bool)        { e.b = append(e.b, map[bool]byte{true: 1}[set]) }
func (e *encoder) partition(s *tier.Segment) {
	e.number(recordPartition)
	e.uuid(s.Partition.Topic)
	e.number(uint64(s.Partition.Partition))
	e.text(s.Topic)
}

func (e *encoder) epochs(list []segment.EpochStart) {
	e.number(uint64(len(list)))
	for _, x := range list {
		e.number(uint64(x.Epoch))
		e.number(uint64(x.StartOffset))
	}
}

func (e *encoder) mark(m mark) {
	e.uuid(m.id)
	e.signed(m.size)
	e.signed(m.modTime)
}

func (e *encoder) lineage(l *lineage) {
	if l == nil || l.checkpoint == nil {
		return
	}
	e.number(recordLineage)
	e.mark(l.of)
	e.signed(l.checkpoint.Start)
	e.epochs(l.checkpoint.Epochs)
}

func (e *encoder) segment(x *entry) {
	at, ok := e.origins[x.from]
	if !ok {
		at = uint64(len(e.origins))
		e.origins[x.from] = at
		e.number(recordOrigin)
		from := e.inventory.origins.get(x.from)
		e.text(from.prefix)
		e.text(from.cluster)
	}
	s := x.seg
	e.number(recordSegment)
	e.number(at)
	e.mark(x.mark())
	e.number(uint64(s.BaseOffset))
	e.number(uint64(s.EndOffset))
	e.signed(s.MaxTimestamp)
	e.signed(s.EventTime)
	e.signed(int64(s.BrokerID))
	e.number(uint64(s.Size))
	e.flag(s.TxnIndexEmpty)
	e.epochs(s.Epochs)
	e.number(uint64(x.logSize))
	e.number(uint64(x.filesSize))
}

// decode reads a file of so many bytes and trusts nothing in it.
func decode(r io.Reader, size int64, identity string) (*inventory, error) {
	const trailer = 4
	if size < int64(len(fileMagic)+trailer) {
		return nil, errFileVersion
	}
	sum := crc32.New(castagnoli)
	d := decoder{in: bufio.NewReaderSize(io.TeeReader(io.LimitReader(r, size-trailer), sum), 64<<10)}
	if string(d.bytes(len(fileMagic))) != fileMagic {
		return nil, errFileVersion
	}
	if own := d.text(); d.err == nil && own != identity {
		return nil, errOtherArchive
	}
	k := newInventory()
	d.records(k)
	if d.err == nil {
		if _, err := d.in.ReadByte(); err != io.EOF {
			d.fail()
		}
	}
	var want [trailer]byte
	if d.err == nil {
		if _, err := io.ReadFull(r, want[:]); err != nil || binary.BigEndian.Uint32(want[:]) != sum.Sum32() {
			d.fail()
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	return k, nil
}

type decoder struct {
	in  *bufio.Reader
	err error

	origins []uint32
	at      tier.PartitionID
	topic   string
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errDamagedFile
	}
}

func (d *decoder) bytes(n int) []byte {
	b := make([]byte, n)
	if d.err == nil {
		if _, err := io.ReadFull(d.in, b); err != nil {
			d.fail()
		}
	}
	return b
}

func (d *decoder) number(most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d.in)
	if err != nil || v > most {
		d.fail()
		return 0
	}
	return v
}

const (
	most31 = 1<<31 - 1
	most63 = 1<<63 - 1
)

func (d *decoder) offset() int64 { return int64(d.number(most63)) }

func (d *decoder) signed() int64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadVarint(d.in)
	if err != nil {
		d.fail()
	}
	return v
}

// uuid needs no memory of its own, of which there would be two pieces a segment.
func (d *decoder) uuid() (id segment.UUID) {
	if d.err == nil {
		b, err := d.in.Peek(len(id))
		if err != nil {
			d.fail()
		}
		copy(id[:], b)
		d.in.Discard(len(b))
	}
	return id
}

func (d *decoder) flag() bool {
	if d.err != nil {
		return false
	}
	b, err := d.in.ReadByte()
	if err != nil {
		d.fail()
	}
	return b == 1
}

func (d *decoder) text() string { return string(d.bytes(int(d.number(maxText)))) }

func (d *decoder) epochs() []segment.EpochStart {
	n := int(d.number(maxEpochs))
	var list []segment.EpochStart
	for i := 0; i < n && d.err == nil; i++ {
		list = append(list, segment.EpochStart{Epoch: int32(d.number(most31)), StartOffset: d.offset()})
	}
	return list
}

func (d *decoder) mark() mark { return mark{d.uuid(), d.signed(), d.signed()} }

func (d *decoder) records(k *inventory) {
	for d.err == nil {
		switch d.number(recordLineage) {
		case recordEnd:
			return
		case recordOrigin:
			prefix := d.text()
			d.origins = append(d.origins, k.origins.number(prefix, d.text()))
		case recordPartition:
			d.at = tier.PartitionID{Topic: d.uuid(), Partition: int32(d.number(most31))}
			if topic := d.text(); topic != d.topic {
				d.topic = topic
			}
			if !segment.LegalTopic(d.topic) {
				d.fail()
			}
		case recordSegment:
			d.segment(k)
		case recordLineage:
			l := &lineage{of: d.mark()}
			l.checkpoint = &layout.Checkpoint{Start: d.signed()}
			l.checkpoint.Epochs = d.epochs()
			if len(l.checkpoint.Epochs) == 0 || l.checkpoint.Start < -1 || d.topic == "" {
				d.fail()
			}
			k.partition(d.at).lineage = l
		}
	}
}

func (d *decoder) segment(k *inventory) {
	at := d.number(most31)
	m := d.mark()
	x := &entry{size: capped(m.size), modTime: m.modTime}
	x.seg = &tier.Segment{
		ID: m.id, Partition: d.at, Topic: d.topic, BaseOffset: d.offset(), EndOffset: d.offset(), MaxTimestamp: d.signed(), EventTime: d.signed(),
		BrokerID: int32(d.signed()), Size: d.offset(), TxnIndexEmpty: d.flag(), Epochs: d.epochs(), State: tier.CopyFinished,
	}
	x.logSize, x.filesSize = uint32(d.number(math.MaxUint32)), uint32(d.number(math.MaxUint32))
	if d.err != nil || at >= uint64(len(d.origins)) || d.topic == "" || m.size < 0 || x.seg.Validate() != nil || k.entries.get(m.id) != nil {
		d.fail()
		return
	}
	x.from = d.origins[at]
	k.link(x)
}
