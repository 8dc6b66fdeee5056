package native

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	metaMagic  = "CTSG"
	startMagic = "CTST"

	frameVersion = 1
	frameHeader  = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame writes the header and body that open an object.
func appendFrame(dst []byte, magic string, body []byte) []byte {
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint16(dst, frameVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	return append(dst, body...)
}

// splitFrame gives the body that appendFrame wrote, checked, and what follows it. Both are views into raw.
func splitFrame(raw []byte, magic string) (body, rest []byte, err error) {
	if len(raw) < frameHeader {
		return nil, nil, fmt.Errorf("%d bytes are too few for a header", len(raw))
	}
	if string(raw[:4]) != magic {
		return nil, nil, fmt.Errorf("begins with %q instead of %q", raw[:4], magic)
	}
	if v := binary.BigEndian.Uint16(raw[4:]); v != frameVersion {
		return nil, nil, fmt.Errorf("version %d is unknown, a newer coldtap may have written it", v)
	}
	if binary.BigEndian.Uint16(raw[6:]) != 0 {
		return nil, nil, errors.New("reserved bytes of the header are not zero")
	}
	n := int64(binary.BigEndian.Uint32(raw[8:]))
	if n > int64(len(raw)-frameHeader) {
		return nil, nil, fmt.Errorf("cut off: a manifest of %d bytes in an object of %d", n, len(raw))
	}
	body, rest = raw[frameHeader:frameHeader+n], raw[frameHeader+n:]
	if sum := binary.BigEndian.Uint32(raw[12:]); sum != crc32.Checksum(body, castagnoli) {
		return nil, nil, errors.New("checksum of the manifest does not match")
	}
	return body, rest, nil
}
