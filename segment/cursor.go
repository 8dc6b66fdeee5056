package segment

import "encoding/binary"

// cursor reads Kafka's primitives from a byte slice. The first misfit sets fault, which sticks; reads after it give
// zeros, so that a parser checks once per record instead of once per field.
type cursor struct {
	b     []byte
	at    int
	fault string
}

func (c *cursor) left() int { return len(c.b) - c.at }

func (c *cursor) fails(fault string) {
	if c.fault == "" {
		c.fault = fault
	}
	c.at = len(c.b)
}

func (c *cursor) int8() int8 {
	if c.at >= len(c.b) {
		c.fails("bytes missing")
		return 0
	}
	v := int8(c.b[c.at])
	c.at++
	return v
}

func (c *cursor) int16() int16 { return int16(binary.BigEndian.Uint16(c.fixed(2))) }
func (c *cursor) int32() int32 { return int32(binary.BigEndian.Uint32(c.fixed(4))) }
func (c *cursor) int64() int64 { return int64(binary.BigEndian.Uint64(c.fixed(8))) }

var zeros [8]byte

// fixed gives a view of the next n bytes, n ≤ 8; zeros after an error.
func (c *cursor) fixed(n int) []byte {
	if c.left() < n {
		c.fails("bytes missing")
		return zeros[:n]
	}
	c.at += n
	return c.b[c.at-n : c.at]
}

// varint reads a zig-zag LEB128 number of at most 5 bytes. As Kafka does, it accepts encodings longer than need be and
// drops bits beyond the 32nd.
func (c *cursor) varint() int32 {
	if c.at < len(c.b) && c.b[c.at] < 0x80 {
		v := uint32(c.b[c.at])
		c.at++
		return int32(v>>1) ^ -int32(v&1)
	}
	return c.longVarint()
}

func (c *cursor) longVarint() int32 {
	v := uint32(c.leb128(5))
	return int32(v>>1) ^ -int32(v&1)
}

// varlong is varint for 64 bits and at most 10 bytes.
func (c *cursor) varlong() int64 {
	v := c.leb128(10)
	return int64(v>>1) ^ -int64(v&1)
}

func (c *cursor) leb128(most int) uint64 {
	var v uint64
	for i := range most {
		if c.at >= len(c.b) {
			c.fails("bytes missing")
			return 0
		}
		b := c.b[c.at]
		c.at++
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v
		}
	}
	c.fails("number too long")
	return 0
}

// bytes gives a view of the next n bytes; nil, which stands for null, for any negative n, as Kafka's reader does.
func (c *cursor) bytes(n int32) []byte {
	if n < 0 {
		return nil
	}
	if int64(n) > int64(c.left()) {
		c.fails("bytes missing")
		return nil
	}
	end := c.at + int(n)
	v := c.b[c.at:end:end]
	c.at = end
	return v
}
