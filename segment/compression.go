package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// decompress gives the whole of a compressed payload, in the decoder's buffer. Formats and their quirks are those of
// Kafka's Compression classes.
func (d *Decoder) decompress(codec Codec, src []byte) ([]byte, error) {
	d.out.b = d.out.b[:0]
	var err error
	switch codec {
	case Gzip:
		err = d.out.gunzip(src)
	case Snappy:
		err = d.out.unsnappy(src)
	case LZ4:
		// Producers of magic 0 computed the header checksum over the wrong bytes, and Kafka ignores it there.
		err = d.out.unlz4(src, d.header.Magic > 0)
	case Zstd:
		err = d.out.unzstd(src)
	default:
		err = fail(Unsupported, "batch", crcStartV2, "codec %d at offset %d", codec, d.header.BaseOffset)
	}
	if err != nil {
		return nil, err
	}
	return d.out.b, nil
}

// gunzipper is a gzip reader with the source and the scratch byte it needs, pooled together: 45 KiB.
type gunzipper struct {
	src  bytes.Reader
	gzip gzip.Reader
	next [1]byte
}

var gunzippers = sync.Pool{New: func() any { return new(gunzipper) }}

// gunzip decompresses any number of gzip members.
func (o *output) gunzip(src []byte) error {
	z := gunzippers.Get().(*gunzipper)
	defer func() {
		z.src.Reset(nil) // the pool must not keep the batch alive
		gunzippers.Put(z)
	}()
	z.src.Reset(src)
	if err := z.gzip.Reset(&z.src); err != nil {
		return codecError("gzip", err)
	}
	// The last 4 bytes claim the size. They are believed up to 8 times the input, which covers most batches in one
	// growth; beyond that the bytes themselves must come.
	claim := int64(binary.LittleEndian.Uint32(src[len(src)-4:]))
	if err := o.room(min(claim, 8*int64(len(src)), o.limit), "gzip"); err != nil {
		return err
	}
	for {
		for len(o.b) < cap(o.b) {
			n, err := z.gzip.Read(o.b[len(o.b):cap(o.b)])
			o.b = o.b[:len(o.b)+n]
			if err == io.EOF {
				return o.within("gzip")
			}
			if err != nil {
				return codecError("gzip", err)
			}
		}
		// Full, often exactly: see whether more comes before growing.
		n, err := z.gzip.Read(z.next[:])
		if n > 0 {
			if err := o.room(1, "gzip"); err != nil {
				return err
			}
			o.b = append(o.b, z.next[0])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return codecError("gzip", err)
		}
	}
}

// within catches what a buffer larger than the limit let through.
func (o *output) within(op string) error {
	if int64(len(o.b)) > o.limit {
		return o.tooLarge(op)
	}
	return nil
}

const (
	zstdBlock = 128 << 10 // no block decompresses to more
	zstdSlack = 16        // what the decoder's fast copies want beyond the output

	// zstdFirst is the output that is made room for at once, when the blocks might give more: the default
	// max.message.bytes of a broker, 1 MiB, bounds most batches.
	zstdFirst = 1 << 20
)

// zstdDecoders are for DecodeAll alone, which uses the output as its window: 0.4 MiB each, whatever window a frame asks
// for. The output's capacity is the limit of what they decompress.
var zstdDecoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

// unzstd decompresses any number of frames; skippable ones are skipped.
func (o *output) unzstd(src []byte) error {
	z := zstdDecoders.Get().(*zstd.Decoder)
	defer zstdDecoders.Put(z)
	for len(src) > 0 {
		f, err := measureZstd(src)
		if err != nil {
			return err
		}
		if !f.skippable {
			if err := o.unzstdFrame(z, src[:f.size], f); err != nil {
				return err
			}
		}
		src = src[f.size:]
	}
	return nil
}

// unzstdFrame appends one frame. Where its blocks might give much more than they do (a small one counts as 128 KiB), it
// starts with less room and tries again with 4 times as much, a third more work at worst.
func (o *output) unzstdFrame(z *zstd.Decoder, frame []byte, f zstdFrame) error {
	have := len(o.b)
	left := o.limit - int64(have)
	free := int64(cap(o.b)-have) - zstdSlack
	room := min(f.most, left, max(zstdFirst, 8*int64(len(frame)), f.claim, free))
	for {
		err := o.grow(int64(have)+room+zstdSlack, 0)
		if err != nil {
			return err
		}
		// Only where the blocks might not fit can the decoder, which notices after a block of repeated or stored
		// bytes, allocate on its own: a quarter more, as append does.
		var beyond int64
		if room < f.most {
			beyond = room + room/4 + 2*zstdBlock
			if err := o.reserve(beyond); err != nil {
				return err
			}
		}
		got, err := z.DecodeAll(frame, o.b[have:have:int64(have)+room+zstdSlack])
		o.release(beyond)
		switch {
		case err == nil && int64(len(got)) <= min(room+zstdSlack, left):
			o.b = o.b[:have+len(got)]
			if len(got) > 0 && &got[0] != &o.b[have] {
				copy(o.b[have:], got)
			}
			return nil
		case err == nil:
			return o.tooLarge("zstd")
		case room == f.most:
			return codecError("zstd", err)
		case room == left:
			// The decoder has no error of its own for most ways of running out of room.
			return &Error{Kind: TooLarge, Op: "zstd", Position: -1,
				Detail: fmt.Sprintf("damaged, or more than %d bytes decompressed", o.limit), Err: err}
		}
		room = min(4*room, f.most, left)
	}
}

// zstdFrame is what a frame's headers tell without decompressing.
type zstdFrame struct {
	size      int   // bytes of the whole frame
	most      int64 // no more can come out
	claim     int64 // what the frame says will come out, at most most; 0 when it does not say
	skippable bool
}

var errZstdCut = corrupt("zstd", -1, "frame cut short")

// measureZstd measures the frame at the start of src by its block headers (RFC 8878).
func measureZstd(src []byte) (zstdFrame, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return zstdFrame{}, codecError("zstd", err)
	}
	if h.Skippable {
		size := int64(h.HeaderSize) + int64(h.SkippableSize)
		if size > int64(len(src)) {
			return zstdFrame{}, errZstdCut
		}
		return zstdFrame{size: int(size), skippable: true}, nil
	}
	f := zstdFrame{size: h.HeaderSize}
	for last := false; !last; {
		if len(src)-f.size < 3 {
			return zstdFrame{}, errZstdCut
		}
		block := int(src[f.size]) | int(src[f.size+1])<<8 | int(src[f.size+2])<<16
		last = block&1 != 0
		stored := block >> 3
		if stored > zstdBlock {
			return zstdFrame{}, corrupt("zstd", -1, "block of %d bytes", stored)
		}
		switch block >> 1 & 3 {
		case 0: // as it is
			f.most += int64(stored)
		case 1: // one byte, repeated
			f.most += int64(stored)
			stored = 1
		case 2:
			f.most += zstdBlock
		default:
			return zstdFrame{}, corrupt("zstd", -1, "reserved block type")
		}
		f.size += 3
		if len(src)-f.size < stored {
			return zstdFrame{}, errZstdCut
		}
		f.size += stored
	}
	if h.HasCheckSum {
		if len(src)-f.size < 4 {
			return zstdFrame{}, errZstdCut
		}
		f.size += 4
	}
	if h.HasFCS {
		f.claim = int64(min(h.FrameContentSize, uint64(f.most)))
	}
	return f, nil
}

func codecError(op string, err error) error {
	return &Error{Kind: Corrupt, Op: op, Position: -1, Err: err}
}
