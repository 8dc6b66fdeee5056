package gateway

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"coldtap/fetch"
	"coldtap/internal/budget"

	"github.com/klauspost/compress/zstd"
)

func decompress(t *testing.T, got reply) string {
	t.Helper()
	var from io.Reader
	var err error
	switch got.Header.Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(strings.NewReader(got.body))
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(strings.NewReader(got.body), zstd.WithDecoderConcurrency(1))
		if err == nil {
			defer z.Close()
		}
		from = z
	default:
		return got.body
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		t.Errorf("%s: %v", got.Header.Get("Content-Encoding"), err)
	}
	return string(plain)
}

// TestTextIsCompressedWhenAskedFor: small, large and streamed bodies come out as they are without.
func TestTextIsCompressedWhenAskedFor(t *testing.T) {
	r := newHarness(t)
	for i := range 30_000 {
		r.fake.topics = append(r.fake.topics, "topic-"+strings.Repeat("x", i%50))
	}
	ended := func(_ context.Context, req *fetch.Request) (stream, error) {
		st, err := endless(r, 10, 10_000, func(i int64) error {
			if i == 50 {
				return io.EOF
			}
			return nil
		})(nil, req)
		return st, err
	}
	r.fake.open = ended
	for _, c := range []struct{ path, accept string }{
		{"/topics", ""}, {"/openapi.json", ""},
		{recordsPath + "?offset=0", "application/json"}, {recordsPath + "?offset=0", jsonV2}, {recordsPath + "?offset=0", binaryV2},
		{recordsPath + "?offset=0", "application/x-ndjson"}, {recordsPath + "?offset=0", eventType},
		{recordsPath + "?offset=49", "application/x-ndjson"},
	} {
		plain := r.get(t, c.path, "Accept", c.accept)
		if c.accept == jsonV2 {
			continue // its values are no JSON
		}
		for _, coding := range []string{"gzip", "zstd"} {
			got := r.get(t, c.path, "Accept", c.accept, "Accept-Encoding", coding)
			if got.err != nil || got.Header.Get("Content-Encoding") != coding || decompress(t, got) != plain.body || len(got.body) > len(plain.body)/2 {
				t.Errorf("%s as %s in %s: %v, %d bytes of %d, %v", c.path, c.accept, coding, got.err, len(got.body), len(plain.body), got.Header)
			}
			if !strings.Contains(got.Header.Get("Vary"), "Accept-Encoding") {
				t.Errorf("%v", got.Header)
			}
			if head := r.do(t, http.MethodHead, c.path, "Accept", c.accept, "Accept-Encoding", coding); head.StatusCode != 200 || head.body != "" {
				t.Errorf("HEAD %s: %d", c.path, head.StatusCode)
			}
		}
	}
}

func TestWhatIsNotCompressed(t *testing.T) {
	r := newHarness(t)
	r.fake.topics = []string{"small"}
	r.runs(fakeRun{data: batch(50_000, 'a'), next: 20})
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(50_000, 'f'), step: 30_000, pinned: &r.pinned}, nil
	}
	for _, c := range []struct{ path, accept string }{{"/topics", ""}, {recordsPath + "?offset=0", rawType}, {filePath, ""}} {
		if got := r.get(t, c.path, "Accept", c.accept, "Accept-Encoding", "gzip, zstd"); got.StatusCode != 200 || got.Header.Get("Content-Encoding") != "" || got.ContentLength != int64(len(got.body)) {
			t.Errorf("%s: %d %v", c.path, got.StatusCode, got.Header)
		}
	}
	// A client of HTTP/1.0 gets a length, and with all memory in use bodies go out as they are.
	r.fake.topics = []string{strings.Repeat("t", 5000)}
	answer := r.exchangeRaw(t, "GET /topics HTTP/1.0\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
	if !strings.Contains(answer, "Content-Length: 5005\r\n") || strings.Contains(answer, "Content-Encoding") {
		t.Errorf("%.300s", answer)
	}
	tight := newHarness(t, func(c *Config) { c.Decode = budget.New(100 << 10) })
	tight.fake.topics = r.fake.topics
	if got := tight.get(t, "/topics", "Accept-Encoding", "gzip"); got.StatusCode != 200 || got.Header.Get("Content-Encoding") != "" || len(got.body) != 5005 {
		t.Errorf("%d %v", got.StatusCode, got.Header)
	}
}

// TestCompressedBodyThatBreaksDoesNotLookWhole covers both ends that a client may look at.
func TestCompressedBodyThatBreaksDoesNotLookWhole(t *testing.T) {
	r := newHarness(t)
	r.fake.open = endless(r, 10, 10_000, func(i int64) error {
		if i == 105 {
			panic("in the decoder")
		}
		return nil
	})
	for _, coding := range []string{"gzip", "zstd"} {
		got := r.get(t, recordsPath+"?offset=0", "Accept", "application/x-ndjson", "Accept-Encoding", coding)
		if got.StatusCode != 200 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d %v", coding, got.StatusCode, got.err)
		}
	}
}
