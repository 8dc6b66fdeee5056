package aiven

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Tags of the plugin's custom metadata (SegmentCustomMetadataField).
const (
	tagRemoteSize   = 0 // zig-zag varint: bytes of all three objects
	tagObjectPrefix = 1 // compact string: key.prefix at the time of the upload
	tagObjectKey    = 2 // compact string: the key between prefix and suffix
)

// customMetadata is what the plugin lets the broker keep beside a segment's metadata: where its objects were put.
type customMetadata struct {
	remoteSize         int64 // -1 when absent
	prefix, path       string
	hasPrefix, hasPath bool // either may be recorded as empty
}

var errCustomCut = errors.New("custom metadata is cut off")

// parseCustom reads a section of Kafka's tagged fields (KIP-482) and skips tags that it does not know. No bytes are no
// fields.
func parseCustom(raw []byte) (customMetadata, error) {
	c := customMetadata{remoteSize: -1}
	if len(raw) == 0 {
		return c, nil
	}
	count, raw, err := uvarint(raw)
	if err != nil {
		return c, err
	}
	last := int64(-1)
	for range count {
		var tag, size uint64
		if tag, raw, err = uvarint(raw); err != nil {
			return c, err
		}
		if size, raw, err = uvarint(raw); err != nil {
			return c, err
		}
		if size > uint64(len(raw)) {
			return c, errCustomCut
		}
		if tag > 1<<31-1 || int64(tag) <= last {
			return c, fmt.Errorf("custom metadata has tag %d behind %d", tag, last)
		}
		last = int64(tag)
		payload := raw[:size]
		raw = raw[size:]
		switch tag {
		case tagRemoteSize:
			v, n := binary.Varint(payload)
			if n != len(payload) || v < 0 {
				return c, errors.New("custom metadata has no valid size")
			}
			c.remoteSize = v
		case tagObjectPrefix:
			c.prefix, err = compactString(payload)
			c.hasPrefix = true
		case tagObjectKey:
			c.path, err = compactString(payload)
			c.hasPath = true
		}
		if err != nil {
			return c, err
		}
	}
	if len(raw) > 0 {
		return c, fmt.Errorf("%d bytes behind the custom metadata", len(raw))
	}
	return c, nil
}

// compactString reads a payload that is one string, its length plus one in front.
func compactString(b []byte) (string, error) {
	n, b, err := uvarint(b)
	if err != nil {
		return "", err
	}
	if n == 0 || n-1 != uint64(len(b)) || !utf8.Valid(b) {
		return "", errors.New("custom metadata has no valid string")
	}
	return string(b), nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errCustomCut
	}
	return v, b[n:], nil
}
