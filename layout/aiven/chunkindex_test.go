package aiven

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func sizesOf(t *testing.T, text string, count int) []int64 {
	t.Helper()
	s, err := decodeSizes(text, count)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var sizes []int64
	for i := range count {
		sizes = append(sizes, s.at(i))
	}
	return sizes
}

// Lists that the plugin itself made.
func TestListsOfThePlugin(t *testing.T) {
	for text, want := range map[string][]int64{
		"KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe":     {10, 20, 30},
		"KLUv/SAIQQAAAAAAAQAAAao=":             {426},
		"KLUv/SARiQAAAAAAAwAAPRICI0QAAAAAR9Y=": {24662, 15634, 18390},
		"KLUv/SAlKQEAAAAAGQAABT8BHykiRSYxPrM/RiYsmwhkTTxhREl8AEw6AAACXw==": {1374, 1384, 1377, 1412, 1381, 1392, 1405, 1522,
			1406, 1413, 1381, 1387, 1498, 1351, 1443, 1420, 1403, 1440, 1411, 1416, 1467, 1343, 1419, 1401, 607},
	} {
		if got := sizesOf(t, text, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestListWidths(t *testing.T) {
	for _, sizes := range [][]int{
		{0, 1000, 2, 44002, 369}, {2147483647, 2147483646, 2147483645, 10}, {1, 1 << 20, 7}, {1, 1 << 30, 7}, {5, 5}, {9},
	} {
		var want []int64
		for _, n := range sizes {
			want = append(want, int64(n))
		}
		if got := sizesOf(t, packSizes(sizes), len(sizes)); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestDamagedLists(t *testing.T) {
	good := packSizes([]int{10, 20, 30})
	list := func(count uint32, rest ...byte) string {
		return base64.StdEncoding.EncodeToString(compress(append(binary.BigEndian.AppendUint32(nil, count), rest...)))
	}
	bomb := base64.StdEncoding.EncodeToString(compress(make([]byte, 10<<20)))
	// A frame that does not say how much it holds.
	var unsized strings.Builder
	w, _ := zstd.NewWriter(&unsized)
	w.Write([]byte("0123456789"))
	w.Flush()
	w.Close()
	for name, text := range map[string]string{
		"empty":            "",
		"not base64":       "!!!",
		"not zstd":         base64.StdEncoding.EncodeToString([]byte("hello, hello")),
		"cut":              good[:len(good)-8],
		"bomb":             bomb,
		"size unknown":     base64.StdEncoding.EncodeToString([]byte(unsized.String())),
		"fewer":            packSizes([]int{10, 20}),
		"more":             packSizes([]int{10, 20, 30, 40}),
		"none":             list(0, 0, 0, 0, 0),
		"no base":          list(3),
		"width 0":          list(3, 0, 0, 0, 1, 0, 0, 0, 0, 1),
		"width 5":          list(3, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
		"a delta too few":  list(3, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1),
		"a delta too many": list(3, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1),
		"count of 4 G":     list(math.MaxUint32, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1),
	} {
		if s, err := decodeSizes(text, 3); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestImpossibleLengths(t *testing.T) {
	for name, sizes := range map[string][]int{
		"nothing":           {0, 50, 50},
		"larger than zstd":  {50, 100 + 100/16 + 1024 + 1, 50},
		"huge last":         {50, 50, math.MaxInt32},
		"smaller than seal": {sealSize, 50, 50},
	} {
		x, err := newChunkIndex(100, 250)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.setVariable(packSizes(sizes), name == "smaller than seal"); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, tt := range []struct{ chunk, file, stored, last int64 }{
		{100, 250, 100, 51}, {100, 250, 101, 50}, {100, 250, 100, 100}, {100, 200, 100, 0}, {100, 250, -100, 50},
		{100, 50, 50, 50}, {math.MaxInt32, 50, 0, 50},
	} {
		x, err := newChunkIndex(tt.chunk, tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.setFixed(tt.stored, tt.last, false); err == nil {
			t.Errorf("%+v was accepted", tt)
		}
	}
	for _, tt := range [][2]int64{{0, 1}, {-1, 1}, {1 << 31, 1}, {1, -1}, {100, 1 << 31}, {1, maxChunks + 1}} {
		if _, err := newChunkIndex(tt[0], tt[1]); err == nil {
			t.Errorf("chunks of %d of a log of %d were accepted", tt[0], tt[1])
		}
	}
}

// Positions near 2 GiB: the plugin itself overflows there, and cannot read such a segment.
func TestLastChunkOfTheLargestLog(t *testing.T) {
	x, err := newChunkIndex(4<<20, math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(math.MaxInt32 - 511*(4<<20))
	if err := x.setFixed(4<<20+sealSize, last+sealSize, true); err != nil {
		t.Fatal(err)
	}
	from, to := x.span(511, 511)
	if x.count != 512 || from != 511*(4<<20+sealSize) || to != from+last+sealSize || x.total() != to {
		t.Errorf("%d chunks, the last from %d to %d", x.count, from, to)
	}
}

func FuzzChunkList(f *testing.F) {
	f.Add("KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe", int64(100), int64(250), false)
	f.Add("KLUv/SAIQQAAAAAAAQAAAao=", int64(4096), int64(1000), true)
	f.Add(packSizes([]int{1, 70_000, 2}), int64(70_000), int64(200_000), false)
	f.Fuzz(func(t *testing.T, text string, chunk, file int64, sealed bool) {
		x, err := newChunkIndex(chunk, file)
		if err != nil || x.setVariable(text, sealed) != nil {
			return
		}
		var end, covered int64
		for i := range x.count {
			from, to := x.span(i, i)
			lo, hi := x.covers(i)
			if from != end || to <= from || lo != covered || hi <= lo {
				t.Fatalf("chunk %d: stored %d to %d, log %d to %d", i, from, to, lo, hi)
			}
			end, covered = to, hi
		}
		if x.total() != end || covered != file {
			t.Fatalf("%d stored bytes, total %d; %d log bytes of %d", end, x.total(), covered, file)
		}
	})
}

func FuzzChunkListBytes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 0, 0, 0, 10, 1, 0, 10, 0, 0, 0, 30}, 3)
	f.Fuzz(func(t *testing.T, b []byte, count int) {
		if count < 1 || count > maxChunks {
			return
		}
		s, err := parseSizes(b, count)
		if err != nil {
			return
		}
		for i := range count {
			if n := s.at(i); n < math.MinInt32 || n > math.MaxInt32+math.MaxUint32 {
				t.Fatalf("length %d is %d", i, n)
			}
		}
	})
}
