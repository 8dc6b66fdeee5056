package segment

import "testing"

func TestA4Markers(t *testing.T) {
	for _, c := range []struct {
		id   string
		want ControlType
	}{{"A4", ControlAbort}, {"A5", ControlCommit}} {
		b := goldenBytes(t, c.id)
		got, epoch, ok, err := ParseControl(b)
		if err != nil || !ok || got != c.want || epoch != 9 {
			t.Errorf("%s: %d, epoch %d, %t, %v", c.id, got, epoch, ok, err)
		}
		h, err := ParseHeader(b, 1000)
		if err != nil || !h.IsControl() || !h.IsTransactional() {
			t.Errorf("%s: %+v, %v", c.id, h, err)
		}
		// A marker takes an offset, and whoever asks for records gets it as one.
		if records := mustDecode(t, b); len(records) != 1 || records[0].Offset != h.LastOffset() {
			t.Errorf("%s: %+v", c.id, records)
		}
	}
}

func TestParseControlKinds(t *testing.T) {
	control := func(key, value []byte) []byte {
		return buildBatch(9, 0x30, 0, 1, recordBytes([]testRecord{{key: key, value: value}}))
	}
	value := []byte{0, 0, 0, 0, 0, 3}
	if _, _, ok, err := ParseControl(buildBatch(9, 0x30, 0, 0, nil)); ok || err != nil {
		t.Errorf("emptied: %t, %v", ok, err)
	}
	if got, epoch, ok, err := ParseControl(control([]byte{0, 0, 0, 2}, []byte("leader change"))); got != 2 || epoch != -1 || ok || err != nil {
		t.Errorf("other type: %d, %d, %t, %v", got, epoch, ok, err)
	}
	if got, epoch, ok, err := ParseControl(control([]byte{0, 4, 0, 1, 9}, append(value, 9))); got != ControlCommit || epoch != 3 || !ok || err != nil {
		t.Errorf("later version: %d, %d, %t, %v", got, epoch, ok, err)
	}
	for name, b := range map[string][]byte{
		"data batch":       plainBatch(0, 1),
		"no key":           control(nil, value),
		"key short":        control([]byte{0, 0, 0}, value),
		"version negative": control([]byte{0x80, 0, 0, 0}, value),
		"no value":         control([]byte{0, 0, 0, 0}, nil),
		"value short":      control([]byte{0, 0, 0, 0}, value[:5]),
		"value version":    control([]byte{0, 0, 0, 0}, []byte{0xff, 0, 0, 0, 0, 3}),
		"record cut":       buildBatch(9, 0x30, 0, 1, []byte{0x20, 0, 0, 0, 8, 0, 0}),
	} {
		_, _, ok, err := ParseControl(b)
		if ok {
			t.Errorf("%s: accepted", name)
		}
		wantKind(t, err, Corrupt)
	}
}

// The sample's markers are those of the broker that wrote it: each transactional producer's.
func TestParseControlOnSample(t *testing.T) {
	names, files := sampleFiles(t, ".log")
	var commits, aborts int
	for _, name := range names {
		for b, err := range Batches(files[name]) {
			if err != nil {
				t.Fatal(err)
			}
			if !b.Header.IsControl() {
				continue
			}
			switch got, _, ok, err := ParseControl(b.Bytes); {
			case err != nil:
				t.Fatalf("%s: %v", name, err)
			case ok && got == ControlAbort:
				aborts++
			case ok:
				commits++
			}
		}
	}
	if commits == 0 || aborts == 0 {
		t.Errorf("%d commits, %d aborts", commits, aborts)
	}
}

func TestParseControlAllocatesNothing(t *testing.T) {
	b := goldenBytes(t, "A4")
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok, err := ParseControl(b); !ok || err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
