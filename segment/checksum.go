package segment

import "hash/crc32"

// Where the bytes begin that a batch's CRC covers.
const (
	crcStartV2     = 21
	crcStartLegacy = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum checks a batch's CRC (CRC-32C for v2, CRC-32 for magic 0 and 1) over bytes that come piece by piece, so that
// neither a batch that straddles two buffers has to be joined nor a large one held. Offset, length, magic and leader
// epoch of v2 are outside the CRC: a match proves nothing about them.
type Checksum struct {
	header *Header
	table  *crc32.Table
	skip   int // bytes to come that the CRC does not cover
	size   int64
	crc    uint32
}

// NewChecksum begins a check of the batch with this header, which must stay unchanged until Verify.
func NewChecksum(h *Header) Checksum {
	if h.Magic < 2 {
		return Checksum{header: h, table: crc32.IEEETable, skip: crcStartLegacy}
	}
	return Checksum{header: h, table: castagnoli, skip: crcStartV2}
}

// Add takes the batch's next bytes.
func (c *Checksum) Add(p []byte) {
	c.size += int64(len(p))
	n := min(c.skip, len(p))
	c.skip -= n
	c.crc = crc32.Update(c.crc, c.table, p[n:])
}

// Verify says whether what was added is the whole batch, and right.
func (c *Checksum) Verify() error {
	h := c.header
	switch {
	case c.size < h.Size():
		return fail(Truncated, "batch checksum", c.size, "batch at offset %d has %d bytes, got %d", h.BaseOffset, h.Size(), c.size)
	case c.size > h.Size():
		return corrupt("batch checksum", h.Size(), "batch at offset %d has %d bytes, got %d", h.BaseOffset, h.Size(), c.size)
	case c.crc != h.CRC:
		return corrupt("batch checksum", 0, "batch at offset %d: stored %08x, computed %08x", h.BaseOffset, h.CRC, c.crc)
	}
	return nil
}

// VerifyCRC is Checksum over pieces that are at hand, whose concatenation is the whole batch.
func VerifyCRC(h *Header, pieces ...[]byte) error {
	c := NewChecksum(h)
	for _, p := range pieces {
		c.Add(p)
	}
	return c.Verify()
}
