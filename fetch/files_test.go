package fetch

import (
	"bytes"
	"io"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/segment"
)

func readFile(t *testing.T, f *File, from, to int64) []byte {
	t.Helper()
	fs := f.Range(from, to)
	defer fs.Close()
	var run Run
	defer run.Release()
	var got []byte
	for {
		err := fs.Next(t.Context(), &run)
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, run.Bytes()...)
	}
}

func TestFiles(t *testing.T) {
	s := newHarness(t, shape{})
	s.topic("t", 0)
	files := segment.Files{OffsetIndex: offsetIndex(0, 5, 10), TimeIndex: []byte{}, Snapshot: snapshotOf(), LeaderEpochs: []byte("0\n1\n0 0\n")}
	seg := s.add(stored{base: 0, end: 9, log: dense(0, 9, false), files: files})
	broken := s.add(stored{base: 10, end: 19, log: dense(10, 19, false), files: segment.Files{IndexDamaged: []string{"index"}, TxnDamaged: true}})
	open := func(seg, file string) (*File, error) {
		return s.OpenFile(t.Context(), "t", segment.UUID{}, 0, seg, file, 0)
	}
	for name, content := range map[string][]byte{"log": dense(0, 9, false), "index": files.OffsetIndex, "timeindex": {},
		"snapshot": files.Snapshot, "leader-epoch-checkpoint": files.LeaderEpochs} {
		for _, by := range []string{seg.ID.String(), "0", "00000000000000000000"} {
			f, err := open(by, name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := readFile(t, f, 0, f.Size()); !bytes.Equal(got, content) || f.Size() != int64(len(content)) {
				t.Errorf("%s: %d bytes of %d", name, len(got), f.Size())
			}
			if tag := f.ETag(); tag[0] != '"' || tag[len(tag)-1] != '"' || !bytes.Contains([]byte(tag), []byte(seg.ID.String())) {
				t.Errorf("%s: tag %s", name, tag)
			}
		}
	}
	for _, c := range []struct {
		seg, file string
		kind      Kind
	}{
		{"0", "txnindex", SegmentUnknown}, {"0", "secrets", SegmentUnknown}, {"0", "../log", SegmentUnknown}, {"0", "", SegmentUnknown},
		{"5", "log", SegmentUnknown}, {idOf(99).String(), "log", SegmentUnknown}, {"x", "log", SegmentUnknown}, {"-1", "log", SegmentUnknown},
		{broken.ID.String(), "index", Damaged}, {broken.ID.String(), "txnindex", Damaged}, {broken.ID.String(), "timeindex", SegmentUnknown},
	} {
		if _, err := open(c.seg, c.file); kindOf(err) != c.kind {
			t.Errorf("%s/%s: %v, want %v", c.seg, c.file, err, c.kind)
		}
	}
	if s.logGets() == 0 {
		t.Error("the log was not read")
	}
}

// A file that is deleted while it streams fails; it does not just end.
func TestFileDeletedWhileStreaming(t *testing.T) {
	s := newHarness(t, shape{chunk: 4 << 10})
	segs := s.plain()
	f, err := s.OpenFile(t.Context(), "t", segment.UUID{}, 0, "0", "log", 0)
	if err != nil {
		t.Fatal(err)
	}
	fs := f.Range(0, f.Size())
	defer fs.Close()
	var run Run
	defer run.Release()
	if err := fs.Next(t.Context(), &run); err != nil {
		t.Fatal(err)
	}
	s.drop(segs[0])
	if err := fs.Next(t.Context(), &run); kindOf(err) != SegmentUnknown {
		t.Errorf("got %v", err)
	}
	if err := fs.Next(t.Context(), &run); kindOf(err) != SegmentUnknown {
		t.Errorf("again: %v", err)
	}
}

func TestListings(t *testing.T) {
	s := newHarness(t, shape{})
	segs := s.plain()
	if names, err := s.Topics(false); err != nil || len(names) != 1 || names[0] != "t" {
		t.Errorf("topics %v %v", names, err)
	}
	info, err := s.Topic("t", segment.UUID{})
	if err != nil || info.ID != testTopic || len(info.Partitions) != 1 {
		t.Fatalf("topic %+v %v", info, err)
	}
	p, err := s.Partition("", testTopic, 0)
	wanted := PartitionInfo{Start: 0, LocalStart: -1, TieredEnd: 300, LastStable: -1, HighWatermark: -1, TieredBytes: 300_000, Segments: 3}
	if err != nil || !reflect.DeepEqual(p, wanted) || !reflect.DeepEqual(info.Partitions[0], wanted) {
		t.Errorf("partition %+v %v", p, err)
	}
	s.drop(segs[0])
	readable, err := s.Segments("t", segment.UUID{}, 0, false)
	if err != nil || len(readable) != 2 || readable[0].Segment.BaseOffset != 100 || readable[0].Files[0] != (FileInfo{"log", 100_000}) {
		t.Errorf("segments %+v %v", readable, err)
	}
	if all, err := s.Segments("t", segment.UUID{}, 0, true); err != nil || len(all) != 3 {
		t.Errorf("all segments %+v %v", all, err)
	}
	for name, call := range map[string]func() error{
		"topic":            func() error { _, err := s.Topic("u", segment.UUID{}); return err },
		"topic id":         func() error { _, err := s.Topic("", idOf(5)); return err },
		"name and id":      func() error { _, err := s.Topic("u", testTopic); return err },
		"segments' topic":  func() error { _, err := s.Segments("u", segment.UUID{}, 0, false); return err },
		"partition's":      func() error { _, err := s.Partition("u", segment.UUID{}, 0); return err },
		"records' topic":   func() error { r := from(0); r.Topic = "u"; return s.records(r).err },
		"by time":          func() error { _, err := s.OffsetForTime(t.Context(), "u", segment.UUID{}, 0, 0, 0, 0); return err },
		"the file's topic": func() error { _, err := s.OpenFile(t.Context(), "u", segment.UUID{}, 0, "0", "log", 0); return err },
	} {
		if err := call(); kindOf(err) != TopicUnknown {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := from(0)
	r.Partition = 5
	wantKind(t, "partition", s.records(r), PartitionUnknown)
	s.ready = io.ErrUnexpectedEOF
	if _, err := s.Topics(true); kindOf(err) != NotReady {
		t.Errorf("while loading: %v", err)
	}
}

// A store that drips holds a file's reader no longer than its timeout for each wait, however long the whole file takes;
// and a look-up by time no longer than its timeout in all.
func TestTimeoutOfFilesAndLookUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, shape{chunk: 10_000, window: -1})
		s.plain()
		var delay atomic.Int64
		s.loadLog = func(segment.UUID, int64) error { time.Sleep(time.Duration(delay.Load())); return nil }
		s.loadFile = func(segment.UUID) error { time.Sleep(time.Minute); return nil }
		began := time.Now()
		_, err := s.OpenFile(t.Context(), "t", segment.UUID{}, 0, "0", "index", 3*time.Second)
		if kindOf(err) != TimedOut || time.Since(began) != 3*time.Second {
			t.Errorf("an index: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.loadFile = nil
		s.mu.Unlock()

		open := func() (*FileStream, *Run) {
			f, err := s.OpenFile(t.Context(), "t", segment.UUID{}, 0, "0", "log", 3*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return f.Range(0, f.Size()), new(Run)
		}
		delay.Store(int64(4 * time.Second))
		fs, run := open()
		began = time.Now()
		if err := fs.Next(t.Context(), run); kindOf(err) != TimedOut || time.Since(began) != 3*time.Second {
			t.Errorf("the log: %v after %v", err, time.Since(began))
		}
		fs.Close()
		time.Sleep(time.Minute)

		delay.Store(int64(2 * time.Second)) // for each of the nine other chunks
		fs, run = open()
		n := 0
		for err = nil; err == nil; err = fs.Next(t.Context(), run) {
			n += len(run.Bytes())
		}
		if err != io.EOF || int64(n) != fs.file.Size() {
			t.Errorf("slow, but never for long: %d bytes, %v", n, err)
		}
		fs.Close()

		began = time.Now()
		_, err = s.OffsetForTime(t.Context(), "t", segment.UUID{}, 0, plainTime+299, ReadUncommitted, time.Second)
		if kindOf(err) != TimedOut || time.Since(began) != time.Second {
			t.Errorf("by time: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}
