package aiven

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coldtap/segment"
	"coldtap/tier"
)

const (
	// MaxManifest is the largest .rsm-manifest, in bytes: 4 bytes for each of maxChunks, in base64, and room for the rest.
	// One of a segment of 1 GiB has some 2 KiB.
	MaxManifest = 6 << 20
	// MaxIndexes is the largest .indexes object, in bytes. The indexes of a 1 GiB log are 5 MiB at Kafka's default
	// interval.
	MaxIndexes = 64 << 20

	maxEpochs  = 100_000
	maxAAD     = 1 << 10 // the plugin's has 32 bytes
	maxWrapped = 2 << 10 // bytes; RSA of 16,384 bits
	maxKeyID   = 256
)

// Manifest is a .rsm-manifest, checked. Immutable.
type Manifest struct {
	// Segment is what the manifest says of its segment: ids, offsets, epochs, times, size. Its State is CopyFinished,
	// since a manifest is written last. It has no custom metadata, which only the broker keeps. Nil in a manifest of
	// before September 2023.
	Segment *tier.Segment

	LogSize    int64 // bytes of the log
	StoredSize int64 // bytes of the .log object
	ChunkSize  int64 // log bytes of a stored chunk
	Chunks     int
	Compressed bool
	Encrypted  bool
	KeyID      string // names the key that the data key is wrapped with; "" when not encrypted, or in a manifest of 2023

	chunks chunkIndex
	seal   sealing
	files  [fileCount]fileRange
	// separate: a manifest of before October 2023, whose small files are objects of their own.
	separate bool
}

// sealing is how a segment's chunks and files were encrypted.
type sealing struct {
	keyID   string
	wrapped []byte // the data key
	aad     []byte
}

// fileRange is the part of .indexes that is a small file.
type fileRange struct {
	position, size int64 // stored bytes; size 0 = the file is empty, and not sealed
	exists         bool
}

// The small files in the order in which they are stored.
const (
	fileOffset = iota
	fileTime
	fileSnapshot
	fileEpochs
	fileTxn
	fileCount
)

type manifestJSON struct {
	Version    string `json:"version"`
	ChunkIndex *struct {
		Type         string `json:"type"`
		ChunkSize    int64  `json:"originalChunkSize"`
		FileSize     *int64 `json:"originalFileSize"`
		Stored       int64  `json:"transformedChunkSize"`
		StoredLast   int64  `json:"finalTransformedChunkSize"`
		StoredChunks string `json:"transformedChunks"`
	} `json:"chunkIndex"`
	Indexes *struct {
		Offset   *rangeJSON `json:"offset"`
		Time     *rangeJSON `json:"timestamp"`
		Snapshot *rangeJSON `json:"producerSnapshot"`
		Epochs   *rangeJSON `json:"leaderEpoch"`
		Txn      *rangeJSON `json:"transaction"`
	} `json:"segmentIndexes"`
	Compression *bool `json:"compression"`
	Encryption  *struct {
		DataKey string `json:"dataKey"`
		AAD     string `json:"aad"`
	} `json:"encryption"`
	Metadata *metadataJSON `json:"remoteLogSegmentMetadata"`
}

type rangeJSON struct {
	Position *int64 `json:"position"`
	Size     *int64 `json:"size"`
}

type metadataJSON struct {
	ID struct {
		Partition struct {
			TopicID segment.UUID `json:"topicId"`
			Topic   struct {
				Name      string `json:"topic"`
				Partition *int32 `json:"partition"`
			} `json:"topicPartition"`
		} `json:"topicIdPartition"`
		ID segment.UUID `json:"id"`
	} `json:"remoteLogSegmentId"`
	StartOffset  *int64           `json:"startOffset"`
	EndOffset    *int64           `json:"endOffset"`
	MaxTimestamp int64            `json:"maxTimestampMs"`
	BrokerID     int32            `json:"brokerId"`
	EventTime    int64            `json:"eventTimestampMs"`
	Epochs       map[string]int64 `json:"segmentLeaderEpochs"`
}

// ErrVersion says that a manifest is of a version that this package does not know.
var ErrVersion = errors.New("unsupported manifest version")

// ParseManifest reads a .rsm-manifest and trusts nothing in it. Unknown fields are ignored at every level, because the
// plugin writes whatever accessors the broker's metadata class happens to have. The result holds no reference to raw.
// No key is needed: a manifest is never encrypted.
func ParseManifest(raw []byte) (*Manifest, error) {
	if len(raw) > MaxManifest {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(raw), MaxManifest)
	}
	// The version first: another one may have other types in the same places.
	var version struct {
		Version any `json:"version"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return nil, err
	}
	if version.Version != "1" {
		return nil, fmt.Errorf("%w: %.40q", ErrVersion, fmt.Sprint(version.Version))
	}
	var j manifestJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := cmp.Or(m.setSealing(&j), m.setChunks(&j), m.setFiles(&j)); err != nil {
		return nil, err
	}
	if j.Metadata != nil {
		if err := m.setSegment(j.Metadata); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Manifest) setSealing(j *manifestJSON) error {
	if j.Encryption == nil {
		return nil
	}
	id, text, named := strings.Cut(j.Encryption.DataKey, ":")
	switch {
	case !named:
		id, text = "", id // before July 2023
	case strings.TrimSpace(id) == "" || len(id) > maxKeyID || strings.Contains(text, ":"):
		return errors.New("data key has no valid key id")
	}
	if len(text) > base64.StdEncoding.EncodedLen(maxWrapped) || len(j.Encryption.AAD) > base64.StdEncoding.EncodedLen(maxAAD) {
		return errors.New("data key or additional data is too long")
	}
	wrapped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("data key: %w", err)
	}
	aad, err := base64.StdEncoding.DecodeString(j.Encryption.AAD)
	if err != nil {
		return fmt.Errorf("additional data: %w", err)
	}
	m.Encrypted, m.KeyID, m.seal = true, id, sealing{keyID: id, wrapped: wrapped, aad: aad}
	return nil
}

func (m *Manifest) setChunks(j *manifestJSON) error {
	x := j.ChunkIndex
	if x == nil || x.FileSize == nil || j.Compression == nil {
		return errors.New("no chunk index")
	}
	chunks, err := newChunkIndex(x.ChunkSize, *x.FileSize)
	if err != nil {
		return err
	}
	m.Compressed = *j.Compression
	switch {
	case x.Type == "fixed" && !m.Compressed:
		err = chunks.setFixed(x.Stored, x.StoredLast, m.Encrypted)
	case x.Type == "variable" && m.Compressed:
		err = chunks.setVariable(x.StoredChunks, m.Encrypted)
	default:
		err = fmt.Errorf("chunk index of type %.40q with compression %t", x.Type, m.Compressed)
	}
	if err != nil {
		return err
	}
	m.chunks = chunks
	m.LogSize, m.StoredSize, m.ChunkSize, m.Chunks = chunks.file, chunks.total(), chunks.chunk, chunks.count
	return nil
}

func (m *Manifest) setFiles(j *manifestJSON) error {
	if j.Indexes == nil {
		m.separate = true
		return nil
	}
	x := j.Indexes
	var end int64
	for i, p := range [fileCount]*rangeJSON{x.Offset, x.Time, x.Snapshot, x.Epochs, x.Txn} {
		if p == nil && i == fileTxn {
			continue
		}
		if p == nil || p.Position == nil || p.Size == nil {
			return fmt.Errorf("no place of the %s", fileNames[i])
		}
		if *p.Position != end || *p.Size < 0 || *p.Size > MaxIndexes-end || m.Encrypted && *p.Size > 0 && *p.Size <= sealSize {
			return fmt.Errorf("%s lies at %d with %d bytes", fileNames[i], *p.Position, *p.Size)
		}
		m.files[i] = fileRange{position: *p.Position, size: *p.Size, exists: true}
		end += *p.Size
	}
	return nil
}

func (m *Manifest) setSegment(j *metadataJSON) error {
	topic := j.ID.Partition.Topic
	if topic.Partition == nil || j.StartOffset == nil || j.EndOffset == nil {
		return errors.New("metadata of the segment are not complete")
	}
	seg := &tier.Segment{
		ID: j.ID.ID, Topic: topic.Name,
		Partition:  tier.PartitionID{Topic: j.ID.Partition.TopicID, Partition: *topic.Partition},
		BaseOffset: *j.StartOffset, EndOffset: *j.EndOffset,
		MaxTimestamp: j.MaxTimestamp, EventTime: j.EventTime, BrokerID: j.BrokerID,
		Size: m.LogSize, State: tier.CopyFinished,
		TxnIndexEmpty: !m.separate && m.files[fileTxn].size == 0,
	}
	if len(j.Epochs) == 0 || len(j.Epochs) > maxEpochs {
		return fmt.Errorf("%d leader epochs", len(j.Epochs))
	}
	for text, start := range j.Epochs {
		epoch, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("leader epoch %.40q", text)
		}
		seg.Epochs = append(seg.Epochs, segment.EpochStart{Epoch: int32(epoch), StartOffset: start})
	}
	slices.SortFunc(seg.Epochs, func(a, b segment.EpochStart) int { return cmp.Compare(a.Epoch, b.Epoch) })
	if err := checkSegment(seg); err != nil {
		return err
	}
	if err := seg.Validate(); err != nil {
		return err
	}
	m.Segment = seg
	return nil
}

// describes says why the manifest is not that of seg. The topic's name is not compared: the id is its identity.
func (m *Manifest) describes(seg *tier.Segment) error {
	if m.LogSize != seg.Size {
		return fmt.Errorf("names a log of %d bytes, the metadata says %d", m.LogSize, seg.Size)
	}
	switch own := m.Segment; {
	case own == nil:
	case own.ID != seg.ID || own.Partition != seg.Partition:
		return fmt.Errorf("belongs to segment %v of partition %d of topic %v", own.ID, own.Partition.Partition, own.Partition.Topic)
	case own.BaseOffset != seg.BaseOffset || own.EndOffset != seg.EndOffset:
		return fmt.Errorf("covers offsets %d to %d, the metadata says %d to %d",
			own.BaseOffset, own.EndOffset, seg.BaseOffset, seg.EndOffset)
	}
	return nil
}

// plain says that the .log object is the log, byte for byte.
func (m *Manifest) plain() bool { return !m.Compressed && !m.Encrypted }
