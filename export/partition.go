package export

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"coldtap/segment"
)

// reader exports one partition: it reads batches from the gateway, and gives the wanted records to the sink.
type reader struct {
	e       *export
	p       *Partition // changed through the journal only
	sink    sink
	decoder *segment.Decoder
	batches batchReader

	next    int64 // everything before it went to the sink, or is a hole
	end     int64 // exclusive; MaxInt64: not known yet
	stop    int64 // a record at or after this time ends the range; -1: none
	records int64 // in all
	scanned int64 // bytes of batches, in this run
}

// localError is a fault on this side, such as a full disk: another request does not help.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// readPartition brings p to its end, or to where it cannot go on, which p then says. An error is a fault on this side.
func (e *export) readPartition(ctx context.Context, p *Partition) error {
	s, err := e.openSink(p)
	if err != nil {
		return err
	}
	r := &reader{e: e, p: p, sink: s, decoder: segment.NewDecoder(maxDecoded, nil), next: p.NextOffset, end: math.MaxInt64, stop: -1,
		records: p.Records, batches: batchReader{from: bufio.NewReaderSize(nil, 256<<10)}}
	defer r.decoder.Close()
	if p.EndOffset != nil {
		r.end = *p.EndOffset
	} else {
		r.stop = *p.StopTimestamp
	}
	ended, message, err := r.run(ctx)
	if err == nil {
		err = r.checkpoint(true, func(p *Partition) {
			p.Ended, p.Message = ended, message
			if ended == endedRange && p.EndOffset == nil {
				p.EndOffset = &r.next
			}
		})
	}
	if err := errors.Join(err, s.close()); err != nil {
		return fmt.Errorf("partition %d: %w", p.Partition, err)
	}
	return nil
}

// run reads until the range ends, or the tries without progress are used up.
func (r *reader) run(ctx context.Context) (ended, message string, err error) {
	tuning := &r.e.options.tuning
	tries := 0
	for r.next < r.end {
		before := r.next
		a, err := r.request(ctx)
		// A sink that failed may have lost records: no checkpoint is made, even when the run ends at the same moment, as it
		// does for all partitions when one finds the disk full.
		if local, ok := errors.AsType[*localError](err); ok {
			return "", "", local.err
		}
		if ctx.Err() != nil {
			return endedInterrupted, "interrupted", nil
		}
		if r.next > before {
			tries = 0
		}
		switch p := (*problem)(nil); {
		case err == nil && a.end == endedRange:
			return endedRange, "", nil
		case err == nil && a.end == endedTier:
			return endedTier, r.tierEnds(), nil
		case err == nil && a.end == endedUndecided:
			return endedUndecided, fmt.Sprintf("what follows offset %d is undecided: the outcome of an open transaction is not in the tier", r.next), nil
		case err == nil && r.next > before:
			continue
		case err == nil:
			err = fmt.Errorf("the gateway makes no progress at offset %d", r.next)
		case errors.As(err, &p):
			ended, message, handled, fault := r.refused(p)
			if fault != nil || ended != "" {
				return ended, message, fault
			}
			if handled {
				continue
			}
		}
		if tries++; tries >= tuning.tries || final(err) {
			if damage, ok := errors.AsType[*damage](err); ok {
				if ended, message, fault := r.damaged(damage.next, damage.Error()); fault != nil || ended != "" {
					return ended, message, fault
				}
				tries = 0
				continue
			}
			return endedFailed, err.Error(), nil
		}
		if !r.e.pause(ctx, tries, err) {
			return endedInterrupted, "interrupted", nil
		}
	}
	return endedRange, "", nil
}

func (r *reader) tierEnds() string {
	if r.stop < 0 {
		return fmt.Sprintf("the tier ends at offset %d", r.next)
	}
	return fmt.Sprintf("the tier ends at offset %d, and has no record at or after %s that ends the range", r.next, Time(r.stop))
}

// refused decides what an answer without data means: the partition's end, something to go on behind (handled), or
// neither: ask again.
func (r *reader) refused(p *problem) (ended, message string, handled bool, fault error) {
	switch {
	case p.Code == codeOutOfRange && p.LogStart != nil && *p.LogStart > r.next:
		return "", "", true, r.skip(min(*p.LogStart, r.end), "retention took it")
	case p.Code == codeOutOfRange:
		return endedTier, p.Error(), false, nil
	case p.damaged():
		next := int64(-1)
		if p.NextOffset != nil {
			next = *p.NextOffset
		}
		ended, message, fault = r.damaged(next, p.Error())
		return ended, message, ended == "", fault
	case p.passes():
		return "", "", false, nil
	}
	return endedFailed, p.Error(), false, nil
}

// damaged ends the partition before damage, or goes on behind it at next.
func (r *reader) damaged(next int64, what string) (ended, message string, fault error) {
	switch {
	case next <= r.next:
		return endedDamaged, fmt.Sprintf("damage at offset %d, and the gateway does not say where to go on: %s", r.next, what), nil
	case !r.e.options.SkipDamaged:
		return endedDamaged, fmt.Sprintf("damage from offset %d to %d: %s", r.next, min(next, r.end)-1, what), nil
	}
	return "", "", r.skip(min(next, r.end), what)
}

// skip records a hole from here to an offset. It is in the manifest before anything behind it is read.
func (r *reader) skip(to int64, reason string) error {
	hole := Hole{From: r.next, To: to, Reason: reason}
	r.next = to
	return r.checkpoint(true, func(p *Partition) { p.Holes = append(p.Holes, hole) })
}

const (
	firstPause = 200 * time.Millisecond
	maxPause   = 30 * time.Second
)

// pause waits before the same is asked again; false when ctx ended.
func (e *export) pause(ctx context.Context, tries int, err error) bool {
	d := min(firstPause<<min(tries-1, 10), maxPause)
	d = d/2 + rand.N(d/2)
	if p, ok := errors.AsType[*problem](err); ok {
		d = max(d, p.retryAfter)
	}
	e.options.Logger.Info("asking again", "topic", e.options.Topic, "try", tries+1, "of", e.options.tuning.tries, "in", d.Round(time.Millisecond), "because", err.Error())
	select {
	case <-ctx.Done():
		return false
	case <-e.options.tuning.wait(d):
		return true
	}
}

// checkpoint makes the state durable when enough was written since the last one, and reports the progress.
func (r *reader) checkpoint(force bool, change func(p *Partition)) error {
	files, done, err := r.sink.checkpoint(r.next, r.scanned, force)
	if err != nil {
		return err
	}
	if done {
		now := force || len(files) > len(r.p.Files)
		err = r.e.journal.update(r.p, now, func(p *Partition) {
			p.Files, p.NextOffset, p.Records = files, r.next, r.records
			if change != nil {
				change(p)
			}
		})
	}
	r.e.progress.advance(r.p.Partition, r.next-r.p.StartOffset, r.records)
	return err
}

// answer is why a whole answer stopped.
type answer struct{ end string }

// damage is a batch that does not hold what it claims, though the gateway served it; next is the offset behind it.
type damage struct {
	next int64
	err  error
}

func (d *damage) Error() string { return "a batch cannot be read: " + d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// request reads one answer. Whatever its error, what was whole before it has been exported.
func (r *reader) request(ctx context.Context) (answer, error) {
	o := &r.e.options
	query := url.Values{
		"offset": {strconv.FormatInt(r.next, 10)}, "max_bytes": {strconv.FormatInt(o.tuning.requestBytes, 10)},
		"isolation_level": {o.Isolation}, "lane": {"bulk"}, "timeout": {strconv.FormatInt(o.Timeout.Milliseconds(), 10)},
		"topic_id": {r.e.journal.manifest.TopicID},
	}
	if r.end != math.MaxInt64 {
		query.Set("end_offset", strconv.FormatInt(r.end, 10))
	}
	resp, err := r.e.client.open(ctx, mediaBatches, partitionPath(o.Topic, r.p.Partition)+"/records", query)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != mediaBatches {
		return answer{}, fmt.Errorf("the gateway sent %q in place of batches", printable(got))
	}
	r.batches.from.Reset(resp.Body)
	before := r.next
	last := int64(-1) // of the batch before
	for {
		b, err := r.batches.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if bad, ok := errors.AsType[*segment.Error](err); ok {
				// What fails its checksum may lie about its offsets too.
				return answer{}, &damage{next: -1, err: bad}
			}
			return answer{}, fmt.Errorf("the answer broke off behind offset %d: %w", r.next-1, err)
		}
		if b.Header.BaseOffset <= last && b.Header.Magic >= 2 || b.Header.LastOffset() <= last {
			return answer{}, outOfOrder(b.Header.BaseOffset, last)
		}
		last = b.Header.LastOffset()
		if err := r.follows(&b, resp); err != nil {
			return answer{}, err
		}
		if err := r.exportBatch(&b); err != nil {
			return answer{}, err
		}
		r.scanned += int64(len(b.Bytes))
		if err := r.checkpoint(false, nil); err != nil {
			return answer{}, &localError{err}
		}
		if r.next >= r.end {
			return answer{endedRange}, nil
		}
	}
	return r.progress(resp, before)
}

// follows says why a batch may not be where it claims to be: its checksum leaves out its base offset. One that leaves a
// gap, as compaction and aborted transactions do, is believed when what comes behind it agrees: the next batch, or the
// answer's end.
func (r *reader) follows(b *segment.Batch, resp *http.Response) error {
	h := &b.Header
	if h.BaseOffset <= r.next || h.Magic < 2 {
		return nil
	}
	start, err := r.batches.from.Peek(segment.HeaderSize)
	if len(start) == segment.HeaderSize {
		if next, err := segment.ParseHeader(start, maxBatch); err == nil && next.LastOffset() <= h.LastOffset() {
			return outOfOrder(next.BaseOffset, h.LastOffset())
		}
		return nil
	}
	next, bad := strconv.ParseInt(progressField(resp, "X-Kafka-Next-Offset"), 10, 64)
	if err == io.EOF && bad == nil && next < min(h.LastOffset()+1, r.end) {
		return outOfOrder(next, h.LastOffset())
	}
	return nil
}

func outOfOrder(offset, behind int64) error {
	return fmt.Errorf("the gateway's batches are out of order: offset %d behind %d", offset, behind)
}

// progressField reads a field of an answer's progress: a trailer, or a header where everything was known at the start.
// Trailers are there once the body has been read.
func progressField(resp *http.Response, name string) string {
	return cmp.Or(resp.Trailer.Get(name), resp.Header.Get(name))
}

// progress reads why a whole answer ended and where to go on: behind batches that the reader is not to see, too.
// Proxies drop trailers; without them the batches that came say where to go on, and an answer without batches has
// headers. Headers say what was sent, not what arrived: they are ignored for a body whose end looks like a cut.
func (r *reader) progress(resp *http.Response, before int64) (answer, error) {
	if resp.ProtoMajor < 2 && resp.ContentLength < 0 && !slices.Contains(resp.TransferEncoding, "chunked") {
		if r.next == before {
			return answer{}, errors.New("an answer of no length, and nothing in it: does a proxy that speaks HTTP/1.0 lie between?")
		}
		return answer{}, nil
	}
	if text := progressField(resp, "X-Kafka-Next-Offset"); text != "" {
		next, err := strconv.ParseInt(text, 10, 64)
		if err != nil || next < r.next {
			return answer{}, fmt.Errorf("the gateway says to go on at %q behind offset %d", printable(text), r.next-1)
		}
		r.next = min(next, r.end)
		if err := r.checkpoint(false, nil); err != nil {
			return answer{}, &localError{err}
		}
	}
	end := progressField(resp, "X-Kafka-End")
	switch {
	case r.next >= r.end, end == endedRange && r.end != math.MaxInt64:
		r.next = r.end
		return answer{endedRange}, nil
	case end == endedTier, end == endedUndecided:
		return answer{end}, nil
	}
	return answer{}, nil
}

// exportBatch gives the wanted part of a batch to the sink.
func (r *reader) exportBatch(b *segment.Batch) error {
	h := &b.Header
	if h.LastOffset() < r.next || h.Magic >= 2 && h.BaseOffset >= r.end {
		return nil
	}
	raw := r.e.options.Format == Raw
	switch {
	case raw && (r.stop < 0 || h.Magic >= 1 && h.MaxTimestamp < r.stop):
		if err := r.sink.writeBatch(b); err != nil {
			return &localError{err}
		}
		r.records += int64(max(h.Count, 0))
	case h.IsControl() && !raw:
	default:
		wanted, err := r.decode(b, raw)
		if err != nil {
			return err
		}
		if raw && wanted {
			if err := r.sink.writeBatch(b); err != nil {
				return &localError{err}
			}
			r.records += int64(max(h.Count, 0))
		}
	}
	r.next = max(r.next, min(h.LastOffset()+1, r.end))
	return nil
}

// decode gives a batch's wanted records to the sink, or with raw only looks for the range's end. wanted: there is a
// record before it.
func (r *reader) decode(b *segment.Batch, raw bool) (wanted bool, err error) {
	damaged := func(err error) error { return &damage{next: b.Header.LastOffset() + 1, err: err} }
	if err := r.decoder.Open(b.Bytes); err != nil {
		return false, damaged(err)
	}
	var rec segment.Record
	for {
		more, err := r.decoder.Next(&rec)
		if err != nil {
			return false, damaged(err)
		}
		if !more {
			return wanted, nil
		}
		if rec.Offset < r.next {
			continue
		}
		if r.stop >= 0 && rec.Timestamp >= r.stop && !b.Header.IsControl() {
			r.end = rec.Offset
		}
		if rec.Offset >= r.end {
			return wanted, nil
		}
		wanted = true
		if raw {
			continue
		}
		if r.e.filter.matches(&rec) {
			if err := r.sink.write(&rec); err != nil {
				return false, &localError{err}
			}
			r.records++
		}
		// Should a later record of the batch turn out damaged, this one must not come again.
		r.next = rec.Offset + 1
	}
}
