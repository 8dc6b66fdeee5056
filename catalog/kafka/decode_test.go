package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coldtap/internal/testing/clusterfixture"
	"coldtap/segment"
	"coldtap/tier"
)

func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// TestNewerWritersAreUnderstood: KIP-1266 writes message version 1 with tagged fields more, and what a later release
// adds there is skipped.
func TestNewerWritersAreUnderstood(t *testing.T) {
	epoch := "010004" + "00000007" // one tag: number 0, 4 bytes
	long := "02" + "0102" + "beef" + "ff7f" + "00"
	for name, c := range map[string]struct {
		hex  string
		want Record
	}{
		"segment of version 1": {
			"010001" + strings.TrimSuffix(goldenTxnEmpty[6:], "01000101") + "02" + "000101" + "010400000007",
			golden()[1].record},
		"unknown tags everywhere": {
			strings.Replace(strings.Replace(strings.TrimSuffix(goldenStarted, "00")+long,
				"0000000300", "00000003"+long, 1),
				"000000006400000000"+"06", "0000000064"+long+"00000006", 1),
			golden()[0].record},
		"update of version 1":               {"010101" + strings.TrimSuffix(goldenFinished[6:], "00") + "02" + "000400000007" + "0108000000000000015e", golden()[2].record},
		"partition delete with a tag":       {strings.TrimSuffix(goldenPartition, "00") + epoch, golden()[4].record},
		"numbers that are longer than need": {"8100" + "8100" + "80808000" + goldenCustom[6:], golden()[3].record},
		"a false TxnIndexEmpty":             {strings.TrimSuffix(goldenStarted, "00") + "01000100", golden()[0].record},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(unhex(t, c.hex))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

// TestCustomMetadata: null and empty are different, since an update replaces what was known with either.
func TestCustomMetadata(t *testing.T) {
	for _, custom := range [][]byte{nil, {}, []byte("key"), bytes.Repeat([]byte{7}, 300)} {
		value, err := appendRecord(nil, ordersUpdate(tier.DeleteStarted, custom))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.(*Update).Custom; !bytes.Equal(got, custom) || (got == nil) != (custom == nil) {
			t.Errorf("%v came back as %v", custom, got)
		}
	}
}

// TestEpochsComeInAnyOrder, for Kafka reads them into a sorted map; the last one of an epoch stays.
func TestEpochsComeInAnyOrder(t *testing.T) {
	s := ordersSegment()
	s.Epochs = []segment.EpochStart{{Epoch: 5, StartOffset: 100}, {Epoch: 6, StartOffset: 300}, {Epoch: 9, StartOffset: 310}}
	value, err := appendRecord(nil, &Segment{s})
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(value, []byte{4, 0, 0, 0, 5}) + 1
	const size = 13
	first, last := slices.Clone(value[at:at+size]), slices.Clone(value[at+2*size:at+3*size])
	copy(value[at:], last)
	copy(value[at+2*size:], first)
	r, err := Decode(value)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.(*Segment).Epochs; !slices.Equal(got, s.Epochs) {
		t.Errorf("%v, want %v", got, s.Epochs)
	}

	copy(value[at+size:], last) // 9, 9, 5
	binary.BigEndian.PutUint64(value[at+size+4:], 320)
	want := []segment.EpochStart{{Epoch: 5, StartOffset: 100}, {Epoch: 9, StartOffset: 320}}
	if r, err = Decode(value); err != nil || !slices.Equal(r.(*Segment).Epochs, want) {
		t.Errorf("%+v (%v), want %v", r, err, want)
	}
}

// TestWhatCannotBeReadIsToldApart, so that whoever follows the topic can count and go on.
func TestWhatCannotBeReadIsToldApart(t *testing.T) {
	array := func(n uint64) string { // a segment with an array of n epochs, of which none is there
		head, _, _ := strings.Cut(goldenStarted, "0300000005")
		return head + string(appendHex(n+1))
	}
	for name, c := range map[string]struct {
		hex  string
		want Kind
	}{
		"tombstone":                  {"", NullValue},
		"frame version 0":            {"00" + goldenStarted[2:], UnknownFrame},
		"frame version 2":            {"02" + goldenStarted[2:], UnknownFrame},
		"api key 4":                  {"0104" + goldenStarted[4:], UnknownRecord},
		"message version 2":          {"010002" + goldenStarted[6:], UnknownVersion},
		"envelope only":              {"010000", Malformed},
		"a byte too many":            {goldenFinished + "00", Malformed},
		"number of six bytes":        {"8180808080" + "00" + goldenStarted[2:], Malformed},
		"null name":                  {"01000000" + goldenStarted[20:], Malformed},
		"name out of the folder":     {strings.Replace(goldenStarted, "6f7264657273", "2e2e2f612f62", 1), Malformed},
		"name longer than the value": {"010000ff7f" + goldenStarted[8:], Malformed},
		"negative length":            {"010000ffffffff0f" + goldenStarted[8:], Malformed},
		"more epochs than bytes":     {array(1000), Malformed},
		"null epochs":                {array(math.MaxUint64), Malformed},
		"too many epochs":            {array(1_000_001), TooLarge},
		"too many tags":              {strings.TrimSuffix(goldenStarted, "00") + "914e", TooLarge},
		"tag without its bytes":      {strings.TrimSuffix(goldenStarted, "00") + "010005ff", Malformed},
		"TxnIndexEmpty of no bytes":  {strings.TrimSuffix(goldenStarted, "00") + "010000", Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(unhex(t, c.hex)); kindOf(err) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	for _, g := range golden() {
		value := unhex(t, g.hex)
		for n := 1; n < len(value); n++ {
			if _, err := Decode(value[:n]); kindOf(err) != Malformed {
				t.Errorf("%s cut at %d: %v", g.name, n, err)
			}
		}
	}
}

func appendHex(n uint64) []byte {
	const digits = "0123456789abcdef"
	var text []byte
	for _, b := range binary.AppendUvarint(nil, n) {
		text = append(text, digits[b>>4], digits[b&15])
	}
	return text
}

// TestKindsAreLabels: each kind has a name of its own.
func TestKindsAreLabels(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if name := k.String(); seen[name] || strings.HasPrefix(name, "kind ") {
			t.Errorf("kind %d is called %q", k, name)
		} else {
			seen[name] = true
		}
	}
	if len(seen) != int(BadBatch) {
		t.Errorf("%d kinds", len(seen))
	}
}

// FuzzDecode: no value makes it panic, and what appendRecord takes of what it gives comes back the same.
func FuzzDecode(f *testing.F) {
	for _, g := range golden() {
		f.Add(unhex(f, g.hex))
	}
	for _, m := range clusterfixture.Load(f).Metadata {
		f.Add(m.Value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil {
			if kindOf(err) == 0 || r != nil {
				t.Fatalf("%v with %v", r, err)
			}
			return
		}
		Changes(nil, r)
		written, err := appendRecord(nil, r)
		if err != nil {
			return
		}
		if len(written) > len(value) {
			t.Fatalf("%d bytes became %d", len(value), len(written))
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v came back as %+v", r, again)
		}
	})
}
