package rangeio

import (
	"fmt"
	"testing"
)

func TestParseContentRange(t *testing.T) {
	for s, want := range map[string]contentRange{
		"bytes 0-0/1":             {0, 0, 1},
		"Bytes 10000-10000/10001": {10000, 10000, 10001},
		"bytes 0-9223372036854775806/9223372036854775807": {0, 1<<63 - 2, 1<<63 - 1},
	} {
		if got, err := parseContentRange(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "bytes", "bytes ", "bytes 0-0", "bytes */1", "bytes 0-0/*", "bytes 1-0/2", "bytes 0-1/1", "bytes 0--1/5", "bytes -1-0/5", "bytes +0-0/1",
		"bytes 0x0-1/2", "bytes 0-1/2/3", "items 0-0/1", "bytes 0-9223372036854775807/9223372036854775808", "bytes 0-1/21000000000000000000", "bytes 0-1 /5",
	} {
		if got, err := parseContentRange(s); err == nil {
			t.Errorf("%q was taken for %+v", s, got)
		}
	}
}

func FuzzParseContentRange(f *testing.F) {
	f.Add("bytes 0-99/100")
	f.Add("bytes 5-5/*")
	f.Add("bytes 0-1/21000000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseContentRange(s)
		if err != nil {
			return
		}
		if r.first < 0 || r.first > r.last || r.last >= r.total {
			t.Fatalf("%q: %+v", s, r)
		}
		again, err := parseContentRange(fmt.Sprintf("bytes %d-%d/%d", r.first, r.last, r.total))
		if err != nil || again != r {
			t.Fatalf("%q: %+v, then %+v, %v", s, r, again, err)
		}
	})
}
