package segment

import "testing"

// A checksum is the same however the batch is cut, and tells a byte too few or too many from another one.
func TestChecksumOfPieces(t *testing.T) {
	for _, b := range [][]byte{plainBatch(100, 7), buildMessage(1, 5, 0, 1000, []byte("k"), []byte("some value"))} {
		h, err := ParseHeader(b, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for first := range len(b) + 1 {
			for _, second := range []int{0, 1, 20, len(b) - first} {
				second = min(second, len(b)-first)
				c := NewChecksum(&h)
				c.Add(b[:first])
				c.Add(b[first : first+second])
				c.Add(b[first+second:])
				if err := c.Verify(); err != nil {
					t.Fatalf("cut at %d and %d: %v", first, first+second, err)
				}
			}
		}
		c := NewChecksum(&h)
		c.Add(b[:len(b)-1])
		if err, ok := c.Verify().(*Error); !ok || err.Kind != Truncated {
			t.Errorf("a byte too few: %v", err)
		}
		c.Add([]byte{b[len(b)-1] ^ 1})
		if err, ok := c.Verify().(*Error); !ok || err.Kind != Corrupt {
			t.Errorf("another byte: %v", err)
		}
	}
}
