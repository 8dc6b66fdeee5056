package aiven

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha3"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/internal/testing/faultstore"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/klauspost/compress/zstd"
)

// writer makes a segment's objects as the plugin does, from the description of the format alone.
type writer struct {
	chunk      int
	compressed bool
	keyID      string // "" = not encrypted
	key        *rsa.PrivateKey
	prefix     string

	dataKey, aad []byte // made by put when nil
}

// testKey and otherKey are throw-away keys of the real sets: making one takes half a second under the race detector.
var (
	testKey  = sync.OnceValue(func() *rsa.PrivateKey { return throwAwayKey("k1") })
	otherKey = sync.OnceValue(func() *rsa.PrivateKey { return throwAwayKey("k2") })
)

func throwAwayKey(id string) *rsa.PrivateKey {
	z, err := zip.NewReader(bytes.NewReader(setsZip), int64(len(setsZip)))
	if err != nil {
		panic(err)
	}
	text, err := fs.ReadFile(z, "encrypted/keys/"+id+".private.pem")
	if err != nil {
		panic(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		panic(err)
	}
	return key.(*rsa.PrivateKey)
}

func pkcs8(tb testing.TB, key any) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func testKeys(tb testing.TB) []PrivateKey {
	return []PrivateKey{{ID: "k1", PEM: pkcs8(tb, testKey())}}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// testLog has n bytes that compress by half or so, the same for each n.
func testLog(n int) []byte {
	r := mathrand.New(mathrand.NewPCG(1, uint64(n)))
	log := make([]byte, 0, n+8)
	for len(log) < n {
		if r.IntN(2) == 0 {
			log = append(log, "some text "...)
		}
		log = binary.LittleEndian.AppendUint64(log, r.Uint64())
	}
	return log[:n]
}

func testSegment(size int) *tier.Segment {
	return &tier.Segment{
		ID: segment.UUID{0: 0xfb, 1: 0xef, 2: 0xbf, 15: 3}, Topic: "lat-1",
		Partition:  tier.PartitionID{Topic: segment.UUID{0: 0xfb, 15: 1}, Partition: 7},
		BaseOffset: 1234, EndOffset: 2345, MaxTimestamp: 1_700_000_000_000, EventTime: 1_700_000_000_001, BrokerID: 3,
		Epochs: []segment.EpochStart{{Epoch: 2, StartOffset: 1234}, {Epoch: 10, StartOffset: 2000}},
		Size:   int64(size), State: tier.CopyFinished,
	}
}

func testFiles() *segment.Files {
	return &segment.Files{
		OffsetIndex: bytes.Repeat([]byte{1}, 80), TimeIndex: bytes.Repeat([]byte{2}, 120), Snapshot: bytes.Repeat([]byte{3}, 14),
		LeaderEpochs: []byte("0\n1\n2 1234\n"), TxnIndex: bytes.Repeat([]byte{5}, 34),
	}
}

func (w *writer) seal(b []byte) []byte {
	aead, err := newAEAD(w.dataKey)
	if err != nil {
		panic(err)
	}
	nonce := random(nonceSize)
	return aead.Seal(nonce, nonce, b, w.aad)
}

var encoder = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(err)
	}
	return z
})

func compress(b []byte) []byte { return encoder().EncodeAll(b, nil) }

// store gives the stored chunks of a log.
func (w *writer) store(log []byte) (object []byte, sizes []int) {
	for chunk := range slices.Chunk(log, w.chunk) {
		b := chunk
		if w.compressed {
			b = compress(b)
		}
		if w.keyID != "" {
			b = w.seal(b)
		}
		object = append(object, b...)
		sizes = append(sizes, len(b))
	}
	return object, sizes
}

// packSizes is the inverse of decodeSizes.
func packSizes(sizes []int) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(sizes)))
	switch n := len(sizes); n {
	case 0:
	case 1:
		b = binary.BigEndian.AppendUint32(b, uint32(sizes[0]))
	default:
		base, most := slices.Min(sizes[:n-1]), slices.Max(sizes[:n-1])
		width := 1
		for most-base >= 1<<(8*width) {
			width++
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(base)), byte(width))
		for _, size := range sizes[:n-1] {
			var delta [4]byte
			binary.BigEndian.PutUint32(delta[:], uint32(size-base))
			b = append(b, delta[4-width:]...)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(sizes[n-1]))
	}
	return base64.StdEncoding.EncodeToString(compress(b))
}

// wrap gives the manifest's text of the data key; without a key, one that nobody can unwrap.
func (w *writer) wrap() string {
	if w.key == nil {
		return w.keyID + ":" + base64.StdEncoding.EncodeToString(make([]byte, 256))
	}
	b, err := rsa.EncryptOAEP(sha3.New512(), rand.Reader, &w.key.PublicKey, w.dataKey, nil)
	if err != nil {
		panic(err)
	}
	return w.keyID + ":" + base64.StdEncoding.EncodeToString(b)
}

// object is a JSON object.
type object = map[string]any

// manifest describes a segment whose log and files were stored with these lengths.
func (w *writer) manifest(seg *tier.Segment, sizes []int, files [fileCount]*fileRange) object {
	index := object{"originalChunkSize": w.chunk, "originalFileSize": seg.Size}
	if w.compressed {
		index["type"], index["transformedChunks"] = "variable", packSizes(sizes)
	} else {
		overhead := 0
		if w.keyID != "" {
			overhead = sealSize
		}
		index["type"], index["transformedChunkSize"] = "fixed", w.chunk+overhead
		index["finalTransformedChunkSize"] = overhead
		if len(sizes) > 0 {
			index["finalTransformedChunkSize"] = sizes[len(sizes)-1]
		}
	}
	indexes := object{}
	for i, name := range []string{"offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"} {
		if f := files[i]; f != nil {
			indexes[name] = object{"position": f.position, "size": f.size}
		} else {
			indexes[name] = nil
		}
	}
	epochs := map[string]int64{}
	for _, e := range seg.Epochs {
		epochs[fmt.Sprint(e.Epoch)] = e.StartOffset
	}
	m := object{
		"version": "1", "chunkIndex": index, "segmentIndexes": indexes, "compression": w.compressed,
		"remoteLogSegmentMetadata": object{
			"remoteLogSegmentId": object{
				"topicIdPartition": object{
					"topicId": seg.Partition.Topic.String(), "topicPartition": object{"topic": seg.Topic, "partition": seg.Partition.Partition},
				},
				"id": seg.ID.String(),
			},
			"startOffset": seg.BaseOffset, "endOffset": seg.EndOffset, "maxTimestampMs": seg.MaxTimestamp, "brokerId": seg.BrokerID,
			"eventTimestampMs": seg.EventTime, "segmentLeaderEpochs": epochs, "txnIdxEmpty": true,
		},
	}
	if w.keyID != "" {
		m["encryption"] = object{"dataKey": w.wrap(), "aad": base64.StdEncoding.EncodeToString(w.aad)}
	}
	return m
}

func toJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// objects makes the three objects of a segment.
func (w *writer) objects(seg *tier.Segment, log []byte, f *segment.Files) (stored, indexes []byte, manifest object) {
	if w.keyID != "" && w.dataKey == nil {
		w.dataKey, w.aad = random(dataKeySize), random(32)
	}
	stored, sizes := w.store(log)
	var places [fileCount]*fileRange
	for i, b := range [][]byte{f.OffsetIndex, f.TimeIndex, f.Snapshot, f.LeaderEpochs, f.TxnIndex} {
		if b == nil {
			continue
		}
		if w.keyID != "" && len(b) > 0 {
			b = w.seal(b)
		}
		places[i] = &fileRange{position: int64(len(indexes)), size: int64(len(b))}
		indexes = append(indexes, b...)
	}
	return stored, indexes, w.manifest(seg, sizes, places)
}

// put writes a segment's objects.
func (w *writer) put(mem *simstore.Memory, seg *tier.Segment, log []byte, f *segment.Files) {
	stored, indexes, manifest := w.objects(seg, log, f)
	stem := w.prefix + mainPath(seg)
	mem.Set(stem+SuffixLog, stored)
	if len(indexes) > 0 {
		mem.Set(stem+SuffixIndexes, indexes)
	}
	mem.Set(stem+SuffixManifest, toJSON(manifest))
}

// writers are all the ways in which the plugin writes.
func writers(chunk int) map[string]*writer {
	return map[string]*writer{
		"plain":      {chunk: chunk},
		"compressed": {chunk: chunk, compressed: true},
		"encrypted":  {chunk: chunk, keyID: "k1", key: testKey()},
		"both":       {chunk: chunk, compressed: true, keyID: "k1", key: testKey()},
	}
}

// stand is a store with faults and a layout over it.
type stand struct {
	*simstore.Memory
	faults *faultstore.Store
	*Layout
}

func newStand(tb testing.TB, o Options) *stand {
	tb.Helper()
	mem := simstore.NewMemory()
	faults := faultstore.New(mem)
	if o.Keys == nil {
		o.Keys = testKeys(tb)
	}
	l, err := New(rangeio.NewClient(faults, rangeio.Config{Attempts: 1}), o)
	if err != nil {
		tb.Fatal(err)
	}
	return &stand{Memory: mem, faults: faults, Layout: l}
}

func (s *stand) gets(suffix string) int {
	return s.faults.Count(faultstore.Get, faultstore.Suffix(suffix))
}

// customOf encodes custom metadata; a nil string is left out.
func customOf(size int64, prefix, path *string) []byte {
	var fields [][]byte
	field := func(tag byte, payload []byte) {
		fields = append(fields, append([]byte{tag, byte(len(payload))}, payload...))
	}
	if size >= 0 {
		field(tagRemoteSize, binary.AppendVarint(nil, size))
	}
	for tag, s := range map[byte]*string{tagObjectPrefix: prefix, tagObjectKey: path} {
		if s != nil {
			field(tag, append([]byte{byte(len(*s) + 1)}, *s...))
		}
	}
	slices.SortFunc(fields, bytes.Compare)
	return append([]byte{byte(len(fields))}, slices.Concat(fields...)...)
}
