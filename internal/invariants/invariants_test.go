package invariants

import "testing"

func TestScribbleOnlyWhenEnabled(t *testing.T) {
	b := []byte{1, 2, 3}
	Scribble(b)
	if poisoned := b[0] == Poison && b[2] == Poison; poisoned != Enabled {
		t.Fatalf("Enabled %v, but bytes are %v", Enabled, b)
	}
}
