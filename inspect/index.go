package inspect

import (
	"fmt"
	"math"
	"path"
	"strings"

	"coldtap/layout/native"
	"coldtap/segment"
)

// MaxIndex is the largest file or object that Index takes, in bytes.
const MaxIndex = native.MaxMeta

type offsetRow struct {
	Offset   int64 `json:"offset"`
	Position int64 `json:"position"`
}

func (*offsetRow) header() string    { return "OFFSET\tPOSITION" }
func (r *offsetRow) cells() []string { return []string{number(r.Offset), number(r.Position)} }

type timeRow struct {
	Timestamp int64 `json:"timestamp"`
	Offset    int64 `json:"offset"`
}

func (*timeRow) header() string { return "TIMESTAMP\tMILLISECONDS\tOFFSET" }
func (r *timeRow) cells() []string {
	return []string{moment(r.Timestamp), number(r.Timestamp), number(r.Offset)}
}

type abortedRow struct {
	ProducerID       int64 `json:"producer_id"`
	FirstOffset      int64 `json:"first_offset"`
	LastOffset       int64 `json:"last_offset"`
	LastStableOffset int64 `json:"last_stable_offset"`
}

func (*abortedRow) header() string { return "PRODUCER\tFIRST OFFSET\tLAST OFFSET\tLAST STABLE OFFSET" }
func (r *abortedRow) cells() []string {
	return []string{number(r.ProducerID), number(r.FirstOffset), number(r.LastOffset), number(r.LastStableOffset)}
}

type producerRow struct {
	ProducerID       int64 `json:"producer_id"`
	ProducerEpoch    int16 `json:"producer_epoch"`
	LastSequence     int32 `json:"last_sequence"`
	LastOffset       int64 `json:"last_offset"`
	OffsetDelta      int32 `json:"offset_delta"`
	Timestamp        int64 `json:"timestamp"`
	CoordinatorEpoch int32 `json:"coordinator_epoch"`
	TxnFirstOffset   int64 `json:"txn_first_offset"` // -1 = no open transaction
}

func (*producerRow) header() string {
	return "PRODUCER\tEPOCH\tLAST SEQUENCE\tLAST OFFSET\tDELTA\tTIMESTAMP\tCOORDINATOR EPOCH\tOPEN TXN FROM"
}
func (r *producerRow) cells() []string {
	return []string{number(r.ProducerID), number(r.ProducerEpoch), number(r.LastSequence), number(r.LastOffset), number(r.OffsetDelta),
		moment(r.Timestamp), number(r.CoordinatorEpoch), number(r.TxnFirstOffset)}
}

type epochRow struct {
	Epoch       int32 `json:"epoch"`
	StartOffset int64 `json:"start_offset"`
}

func (*epochRow) header() string    { return "EPOCH\tSTART OFFSET" }
func (r *epochRow) cells() []string { return []string{number(r.Epoch), number(r.StartOffset)} }

// metaRow is a .meta object: its manifest, and the names of its damaged files.
type metaRow struct {
	*native.Manifest
	Damaged []string `json:"damaged,omitempty"` // names of files
}

func (*metaRow) header() string { return "FIELD\tVALUE" }

type startRow struct{ *native.Start }

func (startRow) header() string { return "CLUSTER\tTOPIC\tTOPIC ID\tPARTITION\tSTART OFFSET" }
func (r startRow) cells() []string {
	return []string{r.ClusterID, r.Topic, r.TopicID.String(), number(r.Partition), number(r.Offset)}
}

type fieldRow struct{ name, value string }

func (fieldRow) header() string    { return "FIELD\tVALUE" }
func (r fieldRow) cells() []string { return []string{r.name, r.value} }

type fileRow struct {
	name string
	*native.PackedFile
}

func (fileRow) header() string { return "FILE\tSIZE\tOFFSET\tSHA-256" }
func (r fileRow) cells() []string {
	return []string{r.name, number(r.Size), number(r.Offset), r.SHA256}
}

// Parts are the names by which Index shows one file of a .meta object, or its list of aborted transactions.
var Parts = []string{"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "aborted"}

// Index shows a small file by its name's ending: .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint,
// .meta or start. base is the segment's base offset, -1 = the name tells. part, for a .meta only, shows one of Parts
// instead of the manifest.
func Index(o *Output, name string, raw []byte, base int64, part string) error {
	kind := kindOf(name)
	if part != "" && kind != "meta" {
		return fail(Misused, name, "only a .meta object has parts")
	}
	if base < 0 {
		base = baseOf(name)
	}
	switch kind {
	case "meta":
		return showMeta(o, name, raw, part)
	case "start":
		s, err := native.DecodeStart(raw)
		if err != nil {
			return &Error{Kind: Damaged, Op: name, Err: err}
		}
		return o.add(startRow{s})
	case "":
		return fail(Misused, name, "its ending is none of .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint, .meta, start")
	case "index", "timeindex", "txnindex":
		if base < 0 {
			return fail(Misused, name, "the name does not tell the base offset")
		}
	}
	return showFile(o, name, kind, raw, base, math.MaxInt32+1)
}

// kindOf gives the kind of small file that a name ends in, as Parts and the metadata name it.
func kindOf(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	switch name {
	case "start", "leader-epoch-checkpoint":
		return name
	}
	for _, kind := range []string{"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "meta"} {
		if strings.HasSuffix(name, "."+kind) {
			return kind
		}
	}
	// Kafka's LocalTieredStorage calls it .leader_epoch_checkpoint and the transaction index .txnindex.
	if strings.HasSuffix(name, ".leader_epoch_checkpoint") {
		return "leader-epoch-checkpoint"
	}
	return ""
}

// baseOf reads the 20 digits that every layout begins a segment's file name with; -1 when there are none.
func baseOf(name string) int64 {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if len(name) < 20 {
		return -1
	}
	base, _, ok := segment.ParseFileName(name[:20] + ".x")
	if !ok {
		return -1
	}
	return base
}

// showFile shows a file of one of Parts but "aborted".
func showFile(o *Output, name, kind string, raw []byte, base, logSize int64) (err error) {
	defer func() {
		if e, ok := err.(*segment.Error); ok {
			err = &Error{Kind: Damaged, Op: name, Err: e}
		}
	}()
	switch kind {
	case "index":
		x, err := segment.ParseOffsetIndex(raw, base, logSize)
		if err != nil {
			return err
		}
		for i := range x.Len() {
			offset, position := x.Entry(i)
			if err := o.add(&offsetRow{offset, position}); err != nil {
				return err
			}
		}
	case "timeindex":
		x, err := segment.ParseTimeIndex(raw, base)
		if err != nil {
			return err
		}
		for i := range x.Len() {
			timestamp, offset := x.Entry(i)
			if err := o.add(&timeRow{timestamp, offset}); err != nil {
				return err
			}
		}
	case "txnindex":
		txns, err := segment.ParseTxnIndex(raw, base)
		if err != nil {
			return err
		}
		return showAborted(o, txns)
	case "snapshot":
		states, err := segment.ParseSnapshot(raw)
		if err != nil {
			return err
		}
		for _, s := range states {
			if err := o.add(&producerRow{s.ProducerID, s.Epoch, s.LastSequence, s.LastOffset, s.OffsetDelta, s.Timestamp,
				s.CoordinatorEpoch, s.TxnFirstOffset}); err != nil {
				return err
			}
		}
	case "leader-epoch-checkpoint":
		epochs, err := segment.ParseEpochCheckpoint(raw)
		if err != nil {
			return err
		}
		for _, e := range epochs {
			if err := o.add(&epochRow{e.Epoch, e.StartOffset}); err != nil {
				return err
			}
		}
	}
	return nil
}

func showAborted(o *Output, txns []segment.AbortedTxn) error {
	for _, t := range txns {
		if err := o.add(&abortedRow{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset}); err != nil {
			return err
		}
	}
	return nil
}

// decodeMeta reads a .meta object. Damage within it is in the row.
func decodeMeta(name string, raw []byte) (*metaRow, *segment.Files, error) {
	m, files, err := native.DecodeMeta(raw)
	if err != nil {
		return nil, nil, &Error{Kind: Damaged, Op: name, Err: err}
	}
	row := &metaRow{m, files.IndexDamaged}
	if files.TxnDamaged {
		row.Damaged = append(row.Damaged, "txnindex")
	}
	return row, files, nil
}

func showMeta(o *Output, name string, raw []byte, part string) error {
	m, files, err := decodeMeta(name, raw)
	if err != nil {
		return err
	}
	if part == "" {
		if err := m.show(o); err != nil {
			return err
		}
		if len(m.Damaged) > 0 {
			return fail(Damaged, name, "damaged: %s", strings.Join(m.Damaged, ", "))
		}
		return nil
	}
	file, known := map[string][]byte{
		"index": files.OffsetIndex, "timeindex": files.TimeIndex, "txnindex": files.TxnIndex, "snapshot": files.Snapshot,
		"leader-epoch-checkpoint": files.LeaderEpochs, "aborted": nil,
	}[part]
	switch {
	case !known:
		return fail(Misused, name, "%q is none of %s", part, strings.Join(Parts, ", "))
	case part == "aborted":
		return showAborted(o, files.Aborted)
	case file == nil:
		return fail(Unknown, name, "it has no %s, or a damaged one", part)
	}
	return showFile(o, name, part, file, m.BaseOffset, m.Log.Size)
}

// show writes the manifest: one JSON value, or two tables.
func (r *metaRow) show(o *Output) error {
	if o.json != nil {
		return o.add(r)
	}
	m := r.Manifest
	for _, f := range []fieldRow{
		{"cluster", m.ClusterID}, {"topic", m.Topic}, {"topic id", m.TopicID.String()}, {"partition", number(m.Partition)},
		{"segment", m.SegmentID.String()}, {"offsets", number(m.BaseOffset) + ".." + number(m.EndOffset)},
		{"leader epochs", epochList(m.LeaderEpochs)}, {"max timestamp", moment(m.MaxTimestamp)}, {"copied", moment(m.EventTime)},
		{"broker", number(m.BrokerID)}, {"log size", number(m.Log.Size)}, {"log SHA-256", m.Log.SHA256},
		{"aborted transactions", number(len(m.Aborted))}, {"decided", fmt.Sprint(m.Decided)}, {"known to have no gaps", fmt.Sprint(m.Dense)},
	} {
		o.add(f)
	}
	for _, f := range []fileRow{
		{"index", m.Files.OffsetIndex}, {"timeindex", m.Files.TimeIndex}, {"txnindex", m.Files.TxnIndex},
		{"snapshot", m.Files.Snapshot}, {"leader-epoch-checkpoint", m.Files.LeaderEpochs},
	} {
		if f.PackedFile != nil {
			o.add(f)
		}
	}
	return o.err
}

func (r *metaRow) cells() []string { return []string{"segment", r.SegmentID.String()} }

// epochList shows leader epochs as epoch@start.
func epochList(epochs []segment.EpochStart) string {
	const most = 8
	var b strings.Builder
	for i, e := range epochs {
		if i == most {
			fmt.Fprintf(&b, " …%d in all", len(epochs))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d@%d", e.Epoch, e.StartOffset)
	}
	return b.String()
}
