package kafka

import (
	"encoding/binary"

	"coldtap/tier"
)

const (
	// Name is the topic's name.
	Name = "__remote_log_metadata"
	// DefaultPartitions is how many partitions brokers create it with, unless they are configured otherwise.
	DefaultPartitions = 50
)

// PartitionOf gives the metadata partition that holds the records of a user partition, of a topic that has count of
// them (RemoteLogMetadataTopicPartitioner). count must be positive, and the topic's real one: it is the modulus. A
// topic's name does not count, only its id.
func PartitionOf(id tier.PartitionID, count int32) int32 {
	// Java's Objects.hash over the id's two halves, the lower one first, and the number.
	h := int32(1)
	h = 31*h + fold(binary.BigEndian.Uint64(id.Topic[8:]))
	h = 31*h + fold(binary.BigEndian.Uint64(id.Topic[:8]))
	h = 31*h + id.Partition
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(h))
	return int32(murmur2(b[:])&0x7fffffff) % count
}

// fold is Java's Long.hashCode.
func fold(v uint64) int32 { return int32(uint32(v ^ v>>32)) }

// murmur2 is Kafka's variant (Utils.murmur2), which partitioners use everywhere.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
