package rangeio_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// TestF5RangeAtTheInt32Edge reads the end of an object of 2^31 - 1 bytes, and around it in larger ones: the range names
// its last byte, not one more and not a wrapped one.
func TestF5RangeAtTheInt32Edge(t *testing.T) {
	for _, c := range []struct {
		size, off int64
		want      string
	}{
		{1<<31 - 1, 2_147_482_000, "bytes=2147482000-2147483646"},
		{1<<31 + 1, 1<<31 - 1000, "bytes=2147482648-2147483648"},
		{5 << 30, 1<<32 - 10, "bytes=4294967286-4294971381"},
	} {
		s := fakes3.New(t)
		n := min(c.size-c.off, 4096)
		content := rangeiotest.Bytes(1, int(n))
		s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"big"`)
			w.Header().Set("Content-Length", fmt.Sprint(n))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", c.off, c.off+n-1, c.size))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(content)
		}}})
		got := make([]byte, n)
		info, cost, err := quick(s.Backend(t)).ReadRange(t.Context(), "big", got, c.off, "", c.size)
		if err != nil || !bytes.Equal(got, content) || info.Size != c.size || cost.Bytes != n {
			t.Errorf("size %d: %+v, %+v, %v", c.size, info, cost, err)
		}
		if asked := s.Requests(); len(asked) != 1 || asked[0].Range != c.want {
			t.Errorf("size %d: asked for %+v, want %s", c.size, asked, c.want)
		}
	}
}

// TestI6HerdRenewsOnce: twenty readers whose credentials the store calls expired, long before these end by themselves,
// all succeed, and do not renew twenty times.
func TestI6HerdRenewsOnce(t *testing.T) {
	s := fakes3.New(t)
	source := &expiring{}
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Credentials = source })
	content := rangeiotest.Bytes(1, 5000)
	put(t, b, "o", content)
	hits, _ := s.Inject(fakes3.Rule{Match: func(r fakes3.Request) bool {
		return strings.Contains(r.Header.Get("Authorization"), "Credential=key1/")
	}, Fault: fakes3.Fault{Status: 400, Code: "ExpiredToken"}})
	c := quick(b)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			got := make([]byte, 5000)
			if _, _, err := c.ReadRange(t.Context(), "o", got, 0, "", 5000); err != nil || !bytes.Equal(got, content) {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	// A renewal a second at most; once is the rule, a machine that stops for seconds may need more.
	if source.calls < 2 || source.calls > 4 || hits() == 0 {
		t.Errorf("%d retrievals, %d answers of expiry", source.calls, hits())
	}
}
