package fetch

import (
	"io"
	"testing"

	"coldtap/segment"
)

// hot is 32 MiB of batches of 16 KiB in memory, in chunks of 4 MiB.
func hot(b *testing.B) (*harness, *Request) {
	s := newHarness(b, shape{chunk: 4 << 20, memory: 128 << 20})
	s.topic("t", 0)
	var log []byte
	offset := int64(0)
	for ; len(log) < 32<<20; offset += 16 {
		batch := batchOf{base: offset}
		for i := range 16 {
			batch.records = append(batch.records, rec{delta: i, time: 1000, key: "key", value: string(make([]byte, 1000))})
		}
		log = append(log, batch.encode()...)
	}
	s.add(stored{base: 0, end: offset - 1, log: log, files: segment.Files{Decided: true}})
	r := committed(0)
	if a := s.raw(r); a.err != nil {
		b.Fatal(a.err)
	}
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	return s, r
}

func BenchmarkRunsFromMemory(b *testing.B) {
	s, r := hot(b)
	var run Run
	for b.Loop() {
		st, err := s.Open(b.Context(), r)
		for err == nil {
			err = st.NextRun(b.Context(), &run)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		st.Close()
	}
}

func BenchmarkRecordsFromMemory(b *testing.B) {
	s, r := hot(b)
	var rec segment.Record
	for b.Loop() {
		st, err := s.Open(b.Context(), r)
		for err == nil {
			err = st.NextRecord(b.Context(), &rec)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		st.Close()
	}
}
