package aiven

import (
	"encoding/hex"
	"testing"
	"unicode/utf8"
)

// Custom metadata comes out of a topic; whatever it holds, what is taken of it are texts within it.
func FuzzCustomMetadata(f *testing.F) {
	for _, vector := range []string{"", "010002c801", "020002c801020404666f6f", "01010101", "020002c8010703aabbcc", "ffffffffffffffffff01"} {
		raw, err := hex.DecodeString(vector)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parseCustom(raw)
		if err != nil {
			return
		}
		if len(c.prefix)+len(c.path) > len(raw) || !utf8.ValidString(c.prefix) || !utf8.ValidString(c.path) || c.remoteSize < -1 {
			t.Errorf("%+v of %d bytes", c, len(raw))
		}
	})
}
