package inspect

import (
	"context"
	"errors"
	"io"

	"coldtap/segment"
)

// batchRow is one batch, or one message of magic 0 or 1, where base_offset is that of its last record.
type batchRow struct {
	Type          string `json:"type"` // batch
	Position      int64  `json:"position"`
	Size          int64  `json:"size"`
	Magic         int8   `json:"magic"`
	BaseOffset    int64  `json:"base_offset"`
	LastOffset    int64  `json:"last_offset"`
	Records       int32  `json:"records"` // -1 = only decompression tells
	Codec         string `json:"codec"`
	TimestampType string `json:"timestamp_type"`
	BaseTimestamp int64  `json:"base_timestamp"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	LeaderEpoch   int32  `json:"leader_epoch"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	Transactional bool   `json:"transactional"`
	Control       bool   `json:"control"`
	Marker        string `json:"marker,omitempty"` // commit or abort
	CRC           string `json:"crc"`              // ok or bad
}

func (*batchRow) header() string {
	return "POSITION\tSIZE\tOFFSETS\tRECORDS\tCODEC\tMAX TIMESTAMP\tEPOCH\tPRODUCER\tSEQUENCE\tTXN\tMAGIC\tCRC"
}

func (b *batchRow) cells() []string {
	txn := mark(b.Transactional, "txn")
	switch {
	case b.Marker != "":
		txn = b.Marker
	case b.Control:
		txn = "control"
	}
	producer := "-"
	if b.ProducerID >= 0 {
		producer = number(b.ProducerID) + "/" + number(b.ProducerEpoch)
	}
	return []string{number(b.Position), number(b.Size), number(b.BaseOffset) + ".." + number(b.LastOffset), number(b.Records), b.Codec,
		moment(b.MaxTimestamp), number(b.LeaderEpoch), producer, number(b.BaseSequence), txn, number(b.Magic), b.CRC}
}

// recordRow is one record; keys and values are base64 in JSON.
type recordRow struct {
	Type          string         `json:"type"` // record
	Offset        int64          `json:"offset"`
	Timestamp     int64          `json:"timestamp"`
	TimestampType string         `json:"timestamp_type"`
	LeaderEpoch   int32          `json:"leader_epoch"`
	Key           []byte         `json:"key"`
	Value         []byte         `json:"value"`
	Headers       []recordHeader `json:"headers"`
}

type recordHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

func (*recordRow) header() string { return "  OFFSET\tTIMESTAMP\tKEY\tVALUE\tHEADERS" }

func (r *recordRow) cells() []string {
	headers := ""
	for i, h := range r.Headers {
		if i > 0 {
			headers += " "
		}
		if headers += excerpt([]byte(h.Key)) + "=" + excerpt(h.Value); len(headers) > 4*maxShown {
			headers += " …" + number(len(r.Headers)) + " headers"
			break
		}
	}
	return []string{"  " + number(r.Offset), moment(r.Timestamp), excerpt(r.Key), excerpt(r.Value), headers}
}

// maxWhole is the largest batch whose records can be shown.
const maxWhole = 64 << 20

// LogOptions say what Log shows.
type LogOptions struct {
	Records bool
	// DecodeLimit bounds one batch after decompression, in bytes; 0 = 256 MiB.
	DecodeLimit int64
	Progress    func(done, all int64) // bytes; may be nil
}

// Log shows the batches of a log of size bytes. Damage that ends it is *Error of kind Damaged, after all that came
// before was shown; a batch with a wrong CRC is shown as such, goes without records, and makes Log fail at the end.
func Log(ctx context.Context, o *Output, name string, in io.Reader, size int64, options LogOptions) error {
	r := segment.NewLogReader(in, size, maxWhole)
	limit := options.DecodeLimit
	if limit <= 0 {
		limit = 256 << 20
	}
	decoder := segment.NewDecoder(limit, nil)
	defer decoder.Close()
	bad := 0
	var unreadable error
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if _, ok := errors.AsType[*segment.Error](err); ok {
			return &Error{Kind: Damaged, Op: name, Err: err}
		}
		if err != nil {
			return err
		}
		if e.CRCError != nil {
			bad++
		}
		if err := o.add(newBatchRow(&e)); err != nil {
			return err
		}
		if options.Progress != nil {
			options.Progress(r.Position(), size)
		}
		if !options.Records || e.CRCError != nil {
			continue
		}
		if err := showRecords(o, decoder, &e); err != nil {
			if _, ok := errors.AsType[*segment.Error](err); !ok {
				return err
			}
			o.Note(err.Error())
			if unreadable == nil {
				unreadable = err
			}
		}
	}
	switch {
	case bad > 0:
		return fail(Damaged, name, "%d batches do not match their CRC", bad)
	case unreadable != nil:
		return &Error{Kind: Damaged, Op: name, Err: unreadable}
	}
	return nil
}

func newBatchRow(e *segment.LogEntry) *batchRow {
	b := &batchRow{
		Type: "batch", Position: e.Position, Size: e.Size(), Magic: e.Magic, BaseOffset: e.BaseOffset, LastOffset: e.LastOffset(),
		Records: e.Count, Codec: e.Codec().String(), TimestampType: e.TimestampType().String(), BaseTimestamp: e.BaseTimestamp,
		MaxTimestamp: e.MaxTimestamp, LeaderEpoch: e.LeaderEpoch, ProducerID: e.ProducerID, ProducerEpoch: e.ProducerEpoch,
		BaseSequence: e.BaseSequence, Transactional: e.IsTransactional(), Control: e.IsControl(), CRC: "bad",
	}
	if e.CRCError == nil {
		b.CRC = "ok"
	}
	if b.Control && e.CRCError == nil && e.Bytes != nil {
		if t, _, ok, err := segment.ParseControl(e.Bytes); ok && err == nil {
			b.Marker = "commit"
			if t == segment.ControlAbort {
				b.Marker = "abort"
			}
		}
	}
	return b
}

func showRecords(o *Output, d *segment.Decoder, e *segment.LogEntry) error {
	if e.Bytes == nil {
		return &segment.Error{Kind: segment.TooLarge, Op: "records", Position: e.Position, Detail: "batch of " + number(e.Size()) + " bytes"}
	}
	if err := d.Open(e.Bytes); err != nil {
		return err
	}
	var rec segment.Record
	for {
		ok, err := d.Next(&rec)
		if err != nil || !ok {
			return err
		}
		r := &recordRow{
			Type: "record", Offset: rec.Offset, Timestamp: rec.Timestamp, TimestampType: rec.TimestampType.String(),
			LeaderEpoch: rec.LeaderEpoch, Key: rec.Key, Value: rec.Value, Headers: []recordHeader{},
		}
		for _, h := range rec.Headers {
			r.Headers = append(r.Headers, recordHeader{string(h.Key), h.Value})
		}
		if err := o.add(r); err != nil {
			return err
		}
	}
}
