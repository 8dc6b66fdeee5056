package errkind

import "testing"

type kind uint8

func (k kind) String() string { return Name([]string{1: "damaged", 2: "out of range"}, k) }

func TestNames(t *testing.T) {
	for k, want := range map[kind][2]string{
		0: {"kind 0", "kind_0"}, 1: {"damaged", "damaged"}, 2: {"out of range", "out_of_range"}, 3: {"kind 3", "kind_3"}, 255: {"kind 255", "kind_255"},
	} {
		if k.String() != want[0] || Label(k) != want[1] {
			t.Errorf("kind %d is %q, as a label %q", uint8(k), k, Label(k))
		}
	}
}
