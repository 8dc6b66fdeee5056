package gateway

import (
	"errors"
	"io"
	"strconv"

	"coldtap/fetch"

	"github.com/valyala/fasthttp"
)

// sendJSON builds the whole answer, bounded, before the status line.
func sendJSON(x *exchange, ctx *fasthttp.RequestCtx, st stream) error {
	a := x.newAnswer()
	a.st = st
	progress, err := buildJSON(x, ctx, a)
	if err != nil {
		return err
	}
	x.reportAll(progress, st)
	a.closeStream()
	a.send(ctx)
	return nil
}

// buildJSON encodes records until the stream or the answer's share of the decode budget ends. The records of the first
// batch are all given as long as the budget has room. A batch is taken to end where the stream has no more records
// buffered.
func buildJSON(x *exchange, ctx *fasthttp.RequestCtx, a *answer) (progress, error) {
	uri, st, format := ctx.URI(), a.st, x.want.format
	path, queryString := uri.PathOriginal(), uri.QueryString()
	headRoom := int64(1024 + 6*(len(path)+len(queryString)))
	if err := a.reserveHead(headRoom); err != nil {
		return progress{}, err
	}

	tail := "]}\n" // every record is added with room for it behind
	if format.isArray() {
		tail = "]\n"
	}
	name, _ := st.Topic()
	encoder := &x.lines.encoder
	record := &x.lines.record
	encoder.Reset(name, x.req.Partition, x.want.encoding)
	var p progress
	records, length, firstBatch := 0, 0, true
	for {
		if records > 0 && !st.Buffered() {
			firstBatch = false
			if a.underPressure() {
				p = limitAt(st.NextOffset())
				break
			}
		}
		if !firstBatch && length >= x.srv.jsonShare {
			p = limitAt(st.NextOffset())
			break
		}
		if records == 0 || !st.Buffered() {
			x.BeginWait()
		}
		err := st.NextRecord(x.Context(), record)
		x.EndWait()
		if err != nil {
			if p, err = endOfJSON(st, records > 0, err); err != nil {
				return progress{}, err
			}
			break
		}
		b, ok, err := a.blockFor(encoder.SizeBound(record) + len(",") + len(tail))
		if err != nil {
			return progress{}, withNextOffset(err, record.Offset+1)
		}
		if !ok {
			p = limitAt(record.Offset)
			break
		}
		before := len(b.B)
		if records > 0 {
			b.B = append(b.B, ',')
		}
		var fits bool
		if b.B, fits = encoder.TryAppendRecord(b.B, record); !fits {
			b.B = b.B[:before]
			if records == 0 {
				return progress{}, unrepresentable(record.Offset, format)
			}
			p = limitAt(record.Offset)
			break
		}
		length += len(b.B) - before
		records++
	}

	a.head = append(a.head[:0], '[')
	if !format.isArray() {
		a.head = x.appendMetadata(a.head[:0], path, queryString, p)
	}
	if records == 0 {
		a.head = append(a.head, tail...)
	} else {
		last := a.blocks[len(a.blocks)-1]
		last.B = append(last.B, tail...)
	}
	return p, nil
}

// withNextOffset adds where to go on to the refusal of a record that is too large.
func withNextOffset(err error, next int64) error {
	if p, ok := errors.AsType[*problem](err); ok && p.code == codeTooLarge {
		p.nextOffset = next
	}
	return err
}

// appendMetadata appends what stands before the records.
func (x *exchange) appendMetadata(dst, path, queryString []byte, p progress) []byte {
	dst = append(dst, `{"kind":"KafkaRecordList","metadata":{"self":"`...)
	dst = appendURI(dst, path)
	if len(queryString) > 0 {
		dst = appendURI(append(dst, '?'), queryString)
	}
	dst = append(dst, `","next":`...)
	if p.end == fetch.EndLimit {
		dst = append(x.report.appendPage(append(dst, '"'), p.next), '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `,"next_offset":`...), p.next, 10)
	dst = x.report.appendEnd(append(dst, ','), p)
	return append(dst, `},"data":[`...)
}

// unrepresentable refuses a record that has no form in the format.
func unrepresentable(offset int64, format format) *problem {
	what := "its value is no JSON document"
	if format == formatTextV2 {
		what = "its key or value is no valid UTF-8"
	}
	p := newProblem(codeUnrepresentable, "the record at offset %d cannot be given as %s: %s; accept %s",
		offset, formats[format].mediaType, what, formats[formatBinaryV2].mediaType)
	p.offset = offset
	return p
}

// endOfJSON says where an answer ends whose stream gave no record: at the stream's end, or at an error, which behind
// the first record (some) only ends this answer.
func endOfJSON(st stream, some bool, err error) (progress, error) {
	if err == io.EOF {
		return progressOf(st), nil
	}
	if !some || problemOf(err).gone {
		return progress{}, err
	}
	return limitAt(st.NextOffset()), nil
}
