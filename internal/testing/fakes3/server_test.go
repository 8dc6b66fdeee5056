package fakes3_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogAndRules(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t, func(c *rangeio.S3Config) { c.Prefix = "pre/" })
	content := rangeiotest.Bytes(1, 5000)
	for _, key := range []string{"a.log", "b.log", "b.meta"} {
		if _, err := b.Put(t.Context(), key, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	hits, remove := s.Inject(fakes3.Rule{Match: fakes3.All(fakes3.Op(fakes3.Get), fakes3.Suffix(".log")), Skip: 1, Times: 1, Fault: fakes3.Fault{Status: 503}})
	read := func(key string) error {
		body, _, err := b.Open(t.Context(), key, 100, 50, "")
		if err != nil {
			return err
		}
		defer body.Close()
		got, err := io.ReadAll(body)
		if err == nil && !bytes.Equal(got, content[100:150]) {
			t.Errorf("%s: wrong bytes", key)
		}
		return err
	}
	for i, want := range []bool{true, false, true} {
		if err := read("b.log"); (err == nil) != want {
			t.Errorf("read %d: %v", i, err)
		}
	}
	if hits() != 1 {
		t.Errorf("%d hits", hits())
	}
	remove()
	if err := read("b.meta"); err != nil {
		t.Error(err)
	}
	if s.GETs() != 4 || s.GETs(fakes3.Suffix(".log")) != 3 || s.GETs(fakes3.Key("pre/b.meta")) != 1 || s.Count(fakes3.Op(fakes3.Put), fakes3.Prefix("pre/")) != 3 {
		t.Errorf("log: %+v", s.Requests())
	}
	last := s.Requests()[6]
	if last.Range != "bytes=100-149" || last.Status != 206 || last.Bytes != 50 {
		t.Errorf("last request %+v", last)
	}
	if sent := s.Sent(fakes3.Op(fakes3.Get), fakes3.Key("pre/b.log")); sent != 100 {
		t.Errorf("%d bytes sent", sent)
	}
}

func TestRangedAnswersAreS3s(t *testing.T) {
	s := fakes3.New(t)
	if _, err := s.Backend(t).Put(t.Context(), "o", bytes.NewReader(rangeiotest.Bytes(1, 1000))); err != nil {
		t.Fatal(err)
	}
	ask := func(header, value string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/tier/o", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		req.Header.Set("x-amz-checksum-mode", "ENABLED")
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res
	}
	if res := ask("Range", "bytes=990-2000"); res.StatusCode != 206 || res.Header.Get("X-Amz-Checksum-Crc32") != "" || res.Header.Get("Content-Range") != "bytes 990-999/1000" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := ask("If-Match", `"another"`); res.StatusCode != 412 {
		t.Errorf("%d", res.StatusCode)
	}
	if res := ask("If-Match", s.Object("o").ETag); res.StatusCode != 200 {
		t.Errorf("%d", res.StatusCode)
	}
}

func TestStaleObject(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	put := func(content string) rangeio.Info {
		info, err := b.Put(t.Context(), "o", bytes.NewReader([]byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	put("old version")
	old := s.Object("o")
	now := put("new")
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{Serve: old}})
	body, info, err := b.Open(t.Context(), "o", 4, 3, "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, _ := io.ReadAll(body); string(got) != "ver" || info.ETag != old.ETag || info.Size != 11 {
		t.Errorf("%q, %+v", got, info)
	}
	_, _, err = b.Open(t.Context(), "o", 0, 3, now.ETag)
	rangeiotest.IsKind(t, err, rangeio.Changed)
}

// TestHangingAnswersEndWithTheServer: a test that hangs a body must still be able to end.
func TestHangingAnswersEndWithTheServer(t *testing.T) {
	s := fakes3.Start(fakes3.Options{})
	b := s.Backend(t)
	if _, err := b.Put(t.Context(), "o", bytes.NewReader(rangeiotest.Bytes(1, 1<<20))); err != nil {
		t.Fatal(err)
	}
	s.Inject(fakes3.Rule{Match: fakes3.Op(fakes3.Get), Fault: fakes3.Fault{CutAfter: 1000, Hang: true}})
	body, _, err := b.Open(t.Context(), "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := io.Copy(io.Discard, body); err == nil {
		t.Error("the body ended well")
	}
}

func TestRateAndDelayChangeNoByte(t *testing.T) {
	s := fakes3.New(t)
	b := s.Backend(t)
	content := rangeiotest.Bytes(1, 300_000)
	if _, err := b.Put(t.Context(), "o", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	s.Inject(fakes3.Rule{Fault: fakes3.Fault{Delay: time.Millisecond, Rate: 100 << 20}})
	body, _, err := b.Open(t.Context(), "o", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
