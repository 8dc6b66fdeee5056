package inspect

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestIndexKinds(t *testing.T) {
	s := newStand(t)
	meta, err := os.ReadFile(s.file(s.layout.MetaKey(s.segments(t)[1])))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		raw   []byte
		part  string
		first map[string]any
	}{
		{"a/b/00000000000000000000.index", sampleFile(t, "txn-1/00000000000000000000.index"), "", map[string]any{"offset": 7.0, "position": 3155.0}},
		{"00000000000000000000-id.timeindex", sampleFile(t, "txn-1/00000000000000000000.timeindex"), "", map[string]any{"offset": 6.0}},
		{"x/leader-epoch-checkpoint", []byte("0\n1\n4 17\n"), "", map[string]any{"epoch": 4.0, "start_offset": 17.0}},
		{"00000000000000000000-id.leader_epoch_checkpoint", []byte("0\n1\n4 17\n"), "", map[string]any{"epoch": 4.0}},
		{"x.meta", meta, "", map[string]any{"topic": "plain", "base_offset": 92.0, "decided": true}},
		{"x.meta", meta, "leader-epoch-checkpoint", map[string]any{"epoch": 0.0}},
		{"x.meta", meta, "index", map[string]any{}},
	} {
		values, err := lines(t, func(o *Output) error { return Index(o, c.name, c.raw, -1, c.part) })
		if err != nil || len(values) == 0 {
			t.Errorf("%s %s: %v %v", c.name, c.part, values, err)
			continue
		}
		for field, want := range c.first {
			if values[0][field] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.name, c.part, field, values[0][field], want)
			}
		}
		if text, err := table(t, func(o *Output) error { return Index(o, c.name, c.raw, -1, c.part) }); err != nil || strings.Count(text, "\n") < 2 {
			t.Errorf("%s %s as a table: %v\n%s", c.name, c.part, err, text)
		}
	}
}

func TestIndexErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		raw  string
		part string
		kind Kind
	}{
		{"x.index", "12345678", "", Misused}, // no base
		{"00000000000000000000.index", "1234567", "", Damaged},
		{"00000000000000000000.timeindex", "1", "", Damaged},
		{"00000000000000000000.txnindex", "1", "", Damaged},
		{"00000000000000000000.snapshot", "1", "", Damaged},
		{"leader-epoch-checkpoint", "x", "", Damaged},
		{"x.meta", "CTSG", "", Damaged},
		{"start", "CTST", "", Damaged},
		{"x.log", "", "", Misused},
		{"00000000000000000000.index", "", "aborted", Misused},
	} {
		_, err := lines(t, func(o *Output) error { return Index(o, c.name, []byte(c.raw), -1, c.part) })
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestADamagedFileWithinAMetaIsNamed(t *testing.T) {
	s := newStand(t)
	raw, err := os.ReadFile(s.file(s.layout.MetaKey(s.segments(t)[0])))
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 1
	values, err := lines(t, func(o *Output) error { return Index(o, "x.meta", raw, -1, "") })
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Damaged || len(values) != 1 {
		t.Fatalf("%v %v", values, err)
	}
	if damaged, _ := values[0]["damaged"].([]any); len(damaged) != 1 || damaged[0] != "leader-epoch-checkpoint" {
		t.Errorf("%v", values[0]["damaged"])
	}
}

func TestNothingUnprintableReachesATerminal(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"orders-1 …", "orders-1 …"}, {`a"b`, `a"b`}, {"a\x1b[2Jb", `"a\x1b[2Jb"`}, {"\x9b1m", `"\x9b1m"`}, {"a\nb", `"a\nb"`}, {"\u202e", `"\u202e"`},
	} {
		if got := Printable(c.in); got != c.want {
			t.Errorf("%q is shown as %s", c.in, got)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add("00000000000000000000.index", sampleFile(f, "txn-1/00000000000000000000.index"))
	f.Add("00000000000000000000.timeindex", sampleFile(f, "txn-1/00000000000000000000.timeindex"))
	f.Add("leader-epoch-checkpoint", []byte("0\n1\n4 17\n"))
	f.Add("x.meta", []byte("CTSG"))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		var out bytes.Buffer
		o := NewOutput(&out, false)
		Index(o, name, raw, -1, "")
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(out.Bytes(), 0x1b) >= 0 {
			t.Fatal("an escape reaches the terminal")
		}
	})
}
