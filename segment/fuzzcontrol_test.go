package segment

import "testing"

// Whatever a batch holds, its marker is told or an error, and a marker that is told is one of the two that count.
func FuzzControl(f *testing.F) {
	for _, b := range [][]byte{sampleMarker(f), nil, make([]byte, HeaderSize)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, epoch, ok, err := ParseControl(b)
		if ok && (err != nil || kind != ControlAbort && kind != ControlCommit) {
			t.Errorf("kind %d, epoch %d, %v", kind, epoch, err)
		}
		if err != nil {
			return
		}
		if h, herr := ParseHeader(b, int64(len(b))); herr != nil || !h.IsControl() {
			t.Errorf("a marker of no control batch: %v", herr)
		}
	})
}

// sampleMarker is a control batch that a broker wrote.
func sampleMarker(tb testing.TB) []byte {
	tb.Helper()
	names, files := sampleFiles(tb, ".log")
	for _, name := range names {
		for b, err := range Batches(files[name]) {
			if err != nil {
				tb.Fatal(err)
			}
			if b.Header.IsControl() {
				return b.Bytes
			}
		}
	}
	tb.Fatal("no marker in the sample")
	return nil
}
