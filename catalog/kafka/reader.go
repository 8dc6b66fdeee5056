package kafka

import (
	"encoding/binary"

	"coldtap/segment"
)

const (
	// maxElements and maxTags are what Kafka's decoders take since 4.4.
	maxElements = 1_000_000
	maxTags     = 10_000

	maxVarint = 5 // bytes
)

// reader takes fields off a value, front to back. After the first fault all fields are zero.
type reader struct {
	b   []byte
	at  int
	err *Error
}

func (r *reader) fail(kind Kind, format string, args ...any) {
	if r.err == nil {
		r.err = fail(kind, r.at, format, args...)
	}
}

// next gives the next n bytes, as a view.
func (r *reader) next(n int) []byte {
	if left := len(r.b) - r.at; r.err != nil || n < 0 || n > left {
		r.fail(Malformed, "%d bytes are wanted, %d are left", n, left)
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) int8() int8 {
	if b := r.next(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uuid() (u segment.UUID) {
	copy(u[:], r.next(len(u)))
	return u
}

// uvarint reads at most 5 bytes. Like Kafka it takes encodings that are longer than need be, and drops the bits of the
// fifth byte that 32 have no room for.
func (r *reader) uvarint() uint32 {
	var v uint32
	for i := range maxVarint {
		b := r.next(1)
		if b == nil {
			return 0
		}
		v |= uint32(b[0]&0x7f) << (7 * i)
		if b[0] < 0x80 {
			return v
		}
	}
	r.fail(Malformed, "a number of more than %d bytes", maxVarint)
	return 0
}

// length reads a compact length, which is stored plus one: -1 is null.
func (r *reader) length() int { return int(int32(r.uvarint())) - 1 }

// bytes reads compact nullable bytes, as a view; nil is null.
func (r *reader) bytes() []byte {
	n := r.length()
	if n == -1 {
		return nil
	}
	return r.next(n)
}

// topic reads a topic's name. Names become object keys, so one that Kafka could not have created is refused here.
func (r *reader) topic() string {
	name := string(r.bytes())
	if r.err == nil && !segment.LegalTopic(name) {
		r.fail(Malformed, "%.300q is no topic name", name)
	}
	return name
}

// elements reads an array's length, of elements that take at least size bytes each.
func (r *reader) elements(size int) int {
	n := r.length()
	switch left := len(r.b) - r.at; {
	case r.err != nil:
		return 0
	case n > maxElements:
		r.fail(TooLarge, "an array of %d elements, at most %d are allowed", n, maxElements)
	case n < 0 || n > left/size:
		r.fail(Malformed, "an array of %d elements in %d bytes", n, left)
	default:
		return n
	}
	return 0
}

// tags reads a section of tagged fields. known is called with each one and may be nil: unknown fields are skipped.
func (r *reader) tags(known func(tag uint32, field *reader)) {
	n := r.uvarint()
	if n > maxTags {
		r.fail(TooLarge, "%d tagged fields, at most %d are allowed", n, maxTags)
	}
	for range n {
		tag, size := r.uvarint(), int(int32(r.uvarint()))
		start := r.at
		payload := r.next(size)
		if r.err != nil {
			return
		}
		if known == nil {
			continue
		}
		field := reader{b: payload}
		if known(tag, &field); field.err != nil {
			field.err.Position += start
			r.err = field.err
			return
		}
	}
}
