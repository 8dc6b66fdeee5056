package segment

import (
	"encoding/binary"

	"github.com/klauspost/compress/snappy"
)

const (
	// xerialMagic starts the framing of snappy-java's SnappyOutputStream, which Kafka uses instead of snappy's own.
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 4 + 4 // version and oldest compatible version follow
	xerialHead   = "\x82SNA"                // where a chunk length is expected, it starts another stream

	// snappyRatio bounds what a raw block can expand to: its densest element is a copy of 64 bytes in 3. The decoder
	// also understands an extension with far denser ones, which no Kafka client can read.
	snappyRatio = 22
)

// unsnappy decompresses xerial framing, streams back to back included, or else one raw snappy block. The whole magic
// decides: a raw block of 130 bytes starts with 0x82 too.
func (o *output) unsnappy(src []byte) error {
	if !isXerial(src) {
		return o.unsnappyBlock(src)
	}
	for rest := src; len(rest) > 0; {
		if isXerial(rest) {
			version := int32(binary.BigEndian.Uint32(rest[len(xerialMagic):]))
			if version < 1 {
				return fail(Unsupported, "snappy", -1, "framing version %d", version)
			}
			rest = rest[xerialHeader:]
			continue
		}
		if len(rest) < 4 {
			return corrupt("snappy", -1, "chunk length cut short")
		}
		if string(rest[:4]) == xerialHead {
			return corrupt("snappy", -1, "stream header cut short")
		}
		n := int64(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[4:]
		if n < 0 || n > int64(len(rest)) {
			return corrupt("snappy", -1, "chunk of %d bytes, %d left", n, len(rest))
		}
		if err := o.unsnappyBlock(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func isXerial(b []byte) bool {
	return len(b) >= xerialHeader && string(b[:len(xerialMagic)]) == xerialMagic
}

func (o *output) unsnappyBlock(block []byte) error {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return codecError("snappy", err)
	}
	if int64(n) > snappyRatio*int64(len(block)) {
		return corrupt("snappy", -1, "%d bytes from %d", n, len(block))
	}
	if err := o.room(int64(n), "snappy"); err != nil {
		return err
	}
	have := len(o.b)
	if _, err := snappy.Decode(o.b[have:have+n:have+n], block); err != nil {
		return codecError("snappy", err)
	}
	o.b = o.b[:have+n]
	return nil
}
