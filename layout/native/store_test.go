package native

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/sample"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// memoryStore is a store in a map whose faults a test can set. It keeps the order of writes and deletes.
type memoryStore struct {
	mu      sync.Mutex
	objects map[string][]byte
	etags   map[string]int
	steps   []string // "put key", "delete key"
	asked   []string // "key etag" of each GET

	putFault  func(key string) error // before anything is read
	listFault error
	cut       func(key string, b []byte) []byte // what of a put the store keeps
}

func newMemoryStore() *memoryStore {
	return &memoryStore{objects: map[string][]byte{}, etags: map[string]int{}}
}

func (s *memoryStore) Open(_ context.Context, key string, off, n int64, etag string) (io.ReadCloser, rangeio.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, key+" "+etag)
	b, ok := s.objects[key]
	if !ok {
		return nil, rangeio.Info{}, &rangeio.Error{Kind: rangeio.NotFound, Op: "get", Key: key}
	}
	info := s.infoLocked(key)
	if etag != "" && etag != info.ETag {
		return nil, rangeio.Info{}, &rangeio.Error{Kind: rangeio.Changed, Op: "get", Key: key}
	}
	if n < 0 {
		n = int64(len(b))
	}
	if off >= int64(len(b)) && n > 0 && len(b) > 0 {
		return nil, rangeio.Info{}, &rangeio.Error{Kind: rangeio.BadRange, Op: "get", Key: key}
	}
	return io.NopCloser(bytes.NewReader(b[off:min(off+n, int64(len(b)))])), info, nil
}

func (s *memoryStore) infoLocked(key string) rangeio.Info {
	return rangeio.Info{Size: int64(len(s.objects[key])), ETag: fmt.Sprintf("%q", fmt.Sprint("v", s.etags[key]))}
}

func (s *memoryStore) Stat(_ context.Context, key string) (rangeio.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[key]; !ok {
		return rangeio.Info{}, &rangeio.Error{Kind: rangeio.NotFound, Op: "stat", Key: key}
	}
	return s.infoLocked(key), nil
}

func (s *memoryStore) Put(_ context.Context, key string, c rangeio.Content) (rangeio.Info, error) {
	if s.putFault != nil {
		if err := s.putFault(key); err != nil {
			return rangeio.Info{}, err
		}
	}
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return rangeio.Info{}, &rangeio.Error{Kind: rangeio.Unavailable, Op: "put", Key: key, Err: err}
	}
	if s.cut != nil {
		b = s.cut(key, b)
	}
	s.write(key, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.infoLocked(key), nil
}

func (s *memoryStore) write(key string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = b
	s.etags[key]++
	s.steps = append(s.steps, "put "+key)
}

func (s *memoryStore) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	s.steps = append(s.steps, "delete "+key)
	return nil
}

func (s *memoryStore) List(_ context.Context, prefix string, fn func(rangeio.Object) error) error {
	if s.listFault != nil {
		return s.listFault
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) {
			if err := fn(rangeio.Object{Key: key, Size: int64(len(s.objects[key]))}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memoryStore) String() string { return "memory" }
func (s *memoryStore) Close() error   { return nil }

func newTestLayout(s rangeio.Backend, prefix string) *Layout {
	return New(rangeio.NewClient(s, rangeio.Config{Attempts: 1}), prefix)
}

var sampleFiles = sync.OnceValues(sample.Files)

// realSegment is a closed segment of the sample, with an aborted transaction.
func realSegment(tb testing.TB) (seg *tier.Segment, log []byte, files *segment.Files) {
	tb.Helper()
	all, err := sampleFiles()
	if err != nil {
		tb.Fatal(err)
	}
	const at = "txn-0/00000000000000000174"
	log = all[at+".log"]
	topicID, err := segment.ParsePartitionMetadata(all["txn-0/partition.metadata"])
	if err != nil {
		tb.Fatal(err)
	}
	aborted, err := segment.ParseTxnIndex(all[at+".txnindex"], 174)
	if err != nil || len(aborted) == 0 {
		tb.Fatal(err)
	}
	seg = &tier.Segment{
		ID:        segment.UUID{0: 0xfb, 1: 0xef, 2: 0xbf, 15: 3},
		Partition: tier.PartitionID{Topic: topicID}, Topic: "txn",
		BaseOffset: 174, EndOffset: 257, MaxTimestamp: 1_700_000_000_000, EventTime: 1_700_000_000_001, BrokerID: 1,
		Epochs: []segment.EpochStart{{Epoch: 0, StartOffset: 174}}, Size: int64(len(log)),
	}
	return seg, log, &segment.Files{
		OffsetIndex: all[at+".index"], TimeIndex: all[at+".timeindex"], TxnIndex: all[at+".txnindex"],
		Snapshot: all["txn-0/00000000000000000258.snapshot"], LeaderEpochs: all["txn-0/leader-epoch-checkpoint"],
		Aborted: aborted, Decided: true, Dense: true,
	}
}

func sha(b []byte) string { return sumOf(b).SHA256 }

// sameFiles compares files; nil and empty are different.
func sameFiles(a, b *segment.Files) bool {
	same := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return same(a.OffsetIndex, b.OffsetIndex) && same(a.TimeIndex, b.TimeIndex) && same(a.TxnIndex, b.TxnIndex) &&
		same(a.Snapshot, b.Snapshot) && same(a.LeaderEpochs, b.LeaderEpochs) && slices.Equal(a.Aborted, b.Aborted) &&
		a.Decided == b.Decided && a.Dense == b.Dense && a.TxnDamaged == b.TxnDamaged && slices.Equal(a.IndexDamaged, b.IndexDamaged)
}
