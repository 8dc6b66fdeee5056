package segment

import "hash/crc32"

// message is one entry of magic 0 or 1. Brokers stopped writing these in 4.0 but old segments keep them.
type message struct {
	offset     int64
	attributes int8
	magic      int8
	timestamp  int64 // -1 for magic 0
	key, value []byte
	end        int // position after the entry
}

func (m *message) codec() Codec { return Codec(m.attributes & attributeCodec) }

// parseMessage reads the entry at b[at:]. Inside a compressed message crc says to check it, as Kafka's consumer does.
func parseMessage(b []byte, at int, crc bool) (m message, fault string) {
	c := cursor{b: b, at: at}
	m.offset = c.int64()
	size := c.int32()
	if c.fault != "" {
		return m, c.fault
	}
	if size < minSizeV0-lengthEnd || int(size) > c.left() {
		return m, "length does not fit"
	}
	m.end = c.at + int(size)
	c.b = c.b[:m.end]
	stored := uint32(c.int32())
	if crc && crc32.ChecksumIEEE(c.b[c.at:]) != stored {
		return m, "checksum differs"
	}
	m.magic, m.attributes, m.timestamp = c.int8(), c.int8(), -1
	switch m.magic {
	case 0:
	case 1:
		m.timestamp = c.int64()
	default:
		return m, "magic is neither 0 nor 1"
	}
	m.key = c.bytes(c.int32())
	m.value = c.bytes(c.int32())
	if c.fault != "" {
		return m, c.fault
	}
	if c.at != m.end {
		return m, "bytes left over"
	}
	if m.offset < 0 {
		return m, "negative offset"
	}
	return m, ""
}

// openLegacy starts an entry of magic 0 or 1. A compressed one is walked to its end at once: the offsets of magic 1
// are relative to the last inner message.
func (d *Decoder) openLegacy(entry []byte) error {
	m, fault := parseMessage(entry, 0, false)
	if fault != "" {
		return corrupt("message", 0, "%s (at offset %d)", fault, d.header.BaseOffset)
	}
	codec := m.codec()
	if codec == None {
		d.records, d.left = entry, 1
		return nil
	}
	if codec == Zstd {
		return fail(Unsupported, "message", crcStartLegacy+1, "zstd in magic %d at offset %d", m.magic, m.offset)
	}
	if m.value == nil {
		return corrupt("message", 0, "compressed null at offset %d", m.offset)
	}
	inner, err := d.decompress(codec, m.value)
	if err != nil {
		return err
	}
	last, count := int64(-1), 0
	for at := 0; at < len(inner); count++ {
		in, fault := parseMessage(inner, at, true)
		switch {
		case fault != "":
		case in.codec() != None:
			fault = "compressed within a compressed message"
		case in.offset <= last:
			fault = "offset out of order"
		}
		if fault != "" {
			return corrupt("message", -1, "%s (in the message at offset %d, byte %d of its messages)", fault, m.offset, at)
		}
		last, at = in.offset, in.end
	}
	if count == 0 {
		return corrupt("message", -1, "no message within the one at offset %d", m.offset)
	}
	// An old librdkafka left the outer offset of magic 1 at 0; Kafka then takes the inner offsets as they are.
	if m.magic == 0 || m.offset != 0 {
		if last > m.offset {
			return corrupt("message", -1, "inner offset %d above the outer %d", last, m.offset)
		}
		if m.magic == 1 {
			d.shift = m.offset - last
		}
	}
	d.records, d.left = inner, int32(count)
	return nil
}

// nextMessage reads the next message, which openLegacy has checked.
func (d *Decoder) nextMessage(rec *Record) {
	m, _ := parseMessage(d.records, d.at, false)
	d.at = m.end
	rec.Offset = m.offset + d.shift
	rec.Timestamp = m.timestamp
	rec.TimestampType = CreateTime
	if m.magic == 1 {
		// Inside a compressed message the outer one decides; for one that is not compressed it is the same byte.
		rec.TimestampType = d.header.TimestampType()
		if rec.TimestampType == LogAppendTime {
			rec.Timestamp = d.header.MaxTimestamp
		}
	}
	rec.LeaderEpoch = -1
	rec.Key, rec.Value = m.key, m.value
	rec.Headers = nil
}
