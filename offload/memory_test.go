package offload

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A segment of 64 MiB whose largest batch has 24 MiB costs a small part of that.
func TestMemoryIsBoundedWhateverTheSegment(t *testing.T) {
	const want = 12 << 20
	l := newLog(t, "a", 0)
	l.roll() // an empty file that is replaced below
	f, err := os.Create(l.path(segment.FileName(0, ".log")))
	if err != nil {
		t.Fatal(err)
	}
	offset := int64(0)
	value := bytes.Repeat([]byte("x"), 900<<10)
	for size := 0; size < 64<<20; offset++ {
		if offset == 20 {
			value = bytes.Repeat([]byte("y"), 24<<20)
		} else if offset == 21 {
			value = bytes.Repeat([]byte("z"), 900)
		}
		n, err := f.Write(encode(offset, 0, batchSpec{timestamp: 1000 + offset, value: value}))
		if err != nil {
			t.Fatal(err)
		}
		size += n
	}
	f.Close()
	os.Remove(l.path(segment.FileName(0, ".index")))
	os.Remove(l.path(segment.FileName(0, ".timeindex")))
	l.base, l.next = offset, offset
	os.Remove(l.path(segment.FileName(0, ".snapshot")))
	l.file(segment.FileName(offset, ".snapshot"), segment.AppendSnapshot(nil, nil))
	l.done()
	l.highWatermark(offset)

	w := newFakeTier()
	cfg := w.config(l.dir)
	sent := 0
	cfg.Progress = func(e Event) {
		if e.Step == StepCopying {
			sent++
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report := w.offload(t, cfg)
	runtime.ReadMemStats(&after)
	if report.Failed() || report.Partitions[0].Segments != 1 || len(report.Partitions[0].Rebuilt) != 2 {
		t.Fatalf("report %+v", report.Partitions)
	}
	if total := after.TotalAlloc - before.TotalAlloc; total > want {
		t.Errorf("%d KiB were allocated for a segment of 64 MiB", total>>10)
	}
	if sent < 7 {
		t.Errorf("%d events of progress", sent)
	}
}

// A length that lies must cost nothing.
func TestLyingLengthIsNotAllocated(t *testing.T) {
	log := append(encode(0, 0, batchSpec{}), make([]byte, 48<<20)...)
	put32(8, 40<<20)(log)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAll(log, 0, 10)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("error %v", err)
	}
	if total := after.TotalAlloc - before.TotalAlloc; total > 3<<20 {
		t.Errorf("%d KiB were allocated", total>>10)
	}
}

func TestMetricsTellWhatHappened(t *testing.T) {
	good := newLog(t, "a", 0).data(10).roll().data(10).roll().data(1).done()
	os.Remove(good.path(segment.FileName(0, ".index")))
	bad := newLog(t, "a", 0).data(10).roll().data(10).roll().data(1).done()
	edit(t, bad.path(segment.FileName(10, ".log")), flip(-1))
	reg := prometheus.NewRegistry()
	for _, dir := range []string{good.dir, bad.dir} {
		w := newFakeTier()
		cfg := w.config(dir)
		cfg.Registerer = reg
		w.offload(t, cfg)
	}
	err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP coldtap_offload_indexes_rebuilt_total Index files that were missing or wrong and were made anew from the log, by kind of file.
# TYPE coldtap_offload_indexes_rebuilt_total counter
coldtap_offload_indexes_rebuilt_total{file="index"} 1
coldtap_offload_indexes_rebuilt_total{file="timeindex"} 0
coldtap_offload_indexes_rebuilt_total{file="txnindex"} 0
# HELP coldtap_offload_segments_total Segments worked on, by result: copied (FINISHED), damaged (the partition stopped there), hole (damaged and given up), failed (store or catalog).
# TYPE coldtap_offload_segments_total counter
coldtap_offload_segments_total{result="copied"} 3
coldtap_offload_segments_total{result="damaged"} 1
coldtap_offload_segments_total{result="failed"} 0
coldtap_offload_segments_total{result="hole"} 0
`), "coldtap_offload_indexes_rebuilt_total", "coldtap_offload_segments_total")
	if err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "coldtap_offload_partitions_stopped_total"); err != nil || n != len(failures) {
		t.Errorf("%d reasons, %v", n, err)
	}
}
