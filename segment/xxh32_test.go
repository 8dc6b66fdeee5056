package segment

import "testing"

// Vectors of the xxHash project's own test tool and of common use.
func TestXXH32(t *testing.T) {
	for s, want := range map[string]uint32{
		"":                 0x02cc5d05,
		"a":                0x550d7456,
		"abc":              0x32d153ff,
		"0123456789abcdef": 0xc2c45b69,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxh32([]byte(s)); got != want {
			t.Errorf("%q: %08x, want %08x", s, got, want)
		}
	}
}
