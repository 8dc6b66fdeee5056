package segment

import (
	"encoding/binary"

	"github.com/pierrec/lz4/v4"
)

// The parts of an LZ4 frame (lz4_Frame_format, version 1.6).
const (
	lz4Magic = 0x184d2204

	lz4Version         = 0x40 // the only one, in the flag byte's two top bits
	lz4VersionMask     = 0xc0
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4Reserved        = 0x02
	lz4Dictionary      = 0x01

	lz4Stored = 1 << 31 // in a block's size: the block is not compressed
)

// unlz4 decompresses LZ4 frames, one after the other. Like Kafka's KafkaLZ4BlockInputStream it wants independent blocks
// and no dictionary; unlike it, it compares every checksum and the content size, and goes on after the first frame.
// strict says to compare the header checksum too.
//
// It is our own because the library's frame reader refuses the header checksum of magic 0 and allocates blocks of up to
// 4 MiB by what the frame claims.
func (o *output) unlz4(src []byte, strict bool) error {
	for {
		rest, err := o.unlz4Frame(src, strict)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		src = rest
	}
}

func (o *output) unlz4Frame(src []byte, strict bool) (rest []byte, err error) {
	if len(src) < 7 {
		return nil, errLZ4Cut
	}
	if magic := binary.LittleEndian.Uint32(src); magic != lz4Magic {
		return nil, corrupt("lz4", -1, "frame magic %08x", magic)
	}
	flags, block := src[4], src[5]
	if flags&lz4VersionMask != lz4Version || flags&(lz4Reserved|lz4Dictionary) != 0 || flags&lz4Independent == 0 {
		return nil, fail(Unsupported, "lz4", -1, "frame flags %02x", flags)
	}
	if block&^0x70 != 0 || block < 4<<4 {
		return nil, fail(Unsupported, "lz4", -1, "block descriptor %02x", block)
	}
	blockMax := int64(1) << (8 + 2*(block>>4)) // 64 KiB, 256 KiB, 1 MiB, 4 MiB
	at := 6
	var claim uint64
	if flags&lz4ContentSize != 0 {
		if len(src) < at+8+1 {
			return nil, errLZ4Cut
		}
		claim = binary.LittleEndian.Uint64(src[at:])
		at += 8
	}
	if sum := byte(xxh32(src[4:at]) >> 8); strict && src[at] != sum {
		return nil, corrupt("lz4", -1, "header checksum %02x, computed %02x", src[at], sum)
	}
	src = src[at+1:]

	start := len(o.b)
	for {
		if len(src) < 4 {
			return nil, errLZ4Cut
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			break
		}
		n := int64(size &^ lz4Stored)
		if n > blockMax {
			return nil, corrupt("lz4", -1, "block of %d bytes, at most %d allowed", n, blockMax)
		}
		if n > int64(len(src)) {
			return nil, errLZ4Cut
		}
		data := src[:n]
		src = src[n:]
		if flags&lz4BlockChecksum != 0 {
			if src, err = lz4Checksum(src, data, "block"); err != nil {
				return nil, err
			}
		}
		if err := o.unlz4Block(data, size&lz4Stored != 0, blockMax); err != nil {
			return nil, err
		}
	}
	content := o.b[start:]
	if flags&lz4ContentChecksum != 0 {
		if src, err = lz4Checksum(src, content, "content"); err != nil {
			return nil, err
		}
	}
	if flags&lz4ContentSize != 0 && claim != uint64(len(content)) {
		return nil, corrupt("lz4", -1, "content of %d bytes, %d claimed", len(content), claim)
	}
	return src, nil
}

func (o *output) unlz4Block(data []byte, stored bool, blockMax int64) error {
	if stored {
		if err := o.room(int64(len(data)), "lz4"); err != nil {
			return err
		}
		o.b = append(o.b, data...)
		return nil
	}
	n, ok := lz4BlockSize(data)
	if !ok || n > blockMax {
		return corrupt("lz4", -1, "malformed block")
	}
	if err := o.room(n, "lz4"); err != nil {
		return err
	}
	have := len(o.b)
	end := have + int(n)
	if got, err := lz4.UncompressBlock(data, o.b[have:end:end]); err != nil {
		return codecError("lz4", err)
	} else if int64(got) != n {
		return corrupt("lz4", -1, "malformed block")
	}
	o.b = o.b[:end]
	return nil
}

var errLZ4Cut = corrupt("lz4", -1, "frame cut short")

// lz4Checksum compares the checksum at the start of src with that of data and gives what follows it.
func lz4Checksum(src, data []byte, what string) ([]byte, error) {
	if len(src) < 4 {
		return nil, errLZ4Cut
	}
	if stored, sum := binary.LittleEndian.Uint32(src), xxh32(data); stored != sum {
		return nil, corrupt("lz4", -1, "%s checksum %08x, computed %08x", what, stored, sum)
	}
	return src[4:], nil
}

// lz4BlockSize adds up what a block's sequences give, so that exactly that much is reserved: clients declare blocks of
// up to 4 MiB for batches of a few KiB.
func lz4BlockSize(b []byte) (size int64, ok bool) {
	for at := 0; at < len(b); {
		token := b[at]
		at++
		literals, next := lz4Length(b, at, int(token>>4))
		if next < 0 || literals > len(b)-next {
			return 0, false
		}
		size += int64(literals)
		at = next + literals
		if at == len(b) {
			return size, true // the last sequence is literals alone
		}
		if len(b)-at < 2 {
			return 0, false
		}
		match, next := lz4Length(b, at+2, int(token&15))
		if next < 0 {
			return 0, false
		}
		size += int64(match) + 4
		at = next
	}
	return 0, false
}

// lz4Length extends a token's 4-bit length by the bytes at b[at:]; next is -1 when they are cut short.
func lz4Length(b []byte, at, length int) (total, next int) {
	if length < 15 {
		return length, at
	}
	for at < len(b) {
		more := b[at]
		at++
		length += int(more)
		if more < 255 {
			return length, at
		}
	}
	return 0, -1
}
