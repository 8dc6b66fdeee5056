package gateway

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"coldtap/fetch"
)

const filePath = "/topics/orders/partitions/3/segments/0/log"

func TestByteRanges(t *testing.T) {
	const data = "0123456789"
	r := newHarness(t)
	for _, c := range []struct {
		size   int
		header string
		status int
		body   string
	}{
		{10, "", 200, data},
		{10, "bytes=0-", 206, data},
		{10, "bytes=0-0", 206, "0"},
		{10, "bytes=3-5", 206, "345"},
		{10, "bytes=9-9", 206, "9"},
		{10, "bytes=9-10", 206, "9"},
		{10, "bytes=9-99999999999999999999", 206, "9"},
		{10, "bytes=-5", 206, "56789"},
		{10, "bytes=-10", 206, data},
		{10, "bytes=-50", 206, data},
		{10, "bytes=-99999999999999999999", 206, data},
		{10, "BYTES = 3 - 5", 206, "345"},
		{10, "bytes=-0", 416, ""},
		{10, "bytes=10-", 416, ""},
		{10, "bytes=10-20", 416, ""},
		{10, "bytes=99999999999999999999-", 416, ""},
		{10, "bytes=99999999999999999998-99999999999999999999", 416, ""},
		{10, "bytes=9-3", 200, data},
		{10, "bytes=99999999999999999999-3", 200, data},
		{10, "bytes=", 200, data},
		{10, "bytes=-", 200, data},
		{10, "bytes=a-b", 200, data},
		{10, "bytes=1", 200, data},
		{10, "bytes=+1-2", 200, data},
		{10, "bytes=--1", 200, data},
		{10, "bytes=1-2-3", 200, data},
		{10, "bytes=0-1,3-4", 200, data},
		{10, "lines=0-1", 200, data},
		{10, "garbage", 200, data},
		{0, "", 200, ""},
		{0, "bytes=0-", 416, ""},
		{0, "bytes=-5", 416, ""},
		{0, "bytes=-0", 416, ""},
		{0, "bytes=9-3", 200, ""},
		{0, "bytes=0-0", 416, ""},
	} {
		r.fake.openFile = func(string, string) (file, error) {
			return &fakeFile{data: []byte(data[:c.size]), step: 4, pinned: &r.pinned}, nil
		}
		for _, method := range []string{"GET", "HEAD", "GET"} {
			var header []string
			if c.header != "" {
				header = []string{"Range", c.header}
			}
			got := r.do(t, method, filePath, header...)
			wantBody := c.body
			if method == "HEAD" {
				wantBody = ""
			}
			if got.StatusCode != c.status || got.err != nil || c.status != 416 && (got.body != wantBody || got.ContentLength != int64(len(c.body))) {
				t.Errorf("%s %q of %d: %d %q (length %d)", method, c.header, c.size, got.StatusCode, got.body, got.ContentLength)
			}
			contentRange := got.Header.Get("Content-Range")
			switch c.status {
			case 206:
				from := strings.Index(data, c.body)
				if want := "bytes " + strconv.Itoa(from) + "-" + strconv.Itoa(from+len(c.body)-1) + "/10"; contentRange != want {
					t.Errorf("%q: %s, want %s", c.header, contentRange, want)
				}
			case 416:
				if want := "bytes */" + strconv.Itoa(c.size); contentRange != want {
					t.Errorf("%q: %s, want %s", c.header, contentRange, want)
				}
			default:
				if contentRange != "" || got.Header.Get("Accept-Ranges") != "bytes" {
					t.Errorf("%q: %v", c.header, got.Header)
				}
			}
		}
	}
}

func TestConditionalFiles(t *testing.T) {
	r := newHarness(t)
	r.fake.openFile = func(seg, name string) (file, error) {
		if seg != "0" || name != "log" {
			t.Errorf("%s %s", seg, name)
		}
		return &fakeFile{data: batch(100, 'x'), step: 30, pinned: &r.pinned}, nil
	}
	const current = `"id-log"`
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"If-None-Match", current}, 304},
		{[]string{"If-None-Match", "W/" + current}, 304},
		{[]string{"If-None-Match", `"a", ` + current}, 304},
		{[]string{"If-None-Match", `,"a",,W/"b" , ` + current + `,`}, 304},
		{[]string{"If-None-Match", `"a"`, "If-None-Match", current}, 304},
		{[]string{"If-None-Match", `*`}, 304},
		{[]string{"If-None-Match", `"other"`}, 200},
		{[]string{"If-None-Match", `"a,` + "id-log" + `"`}, 200},
		{[]string{"If-None-Match", current + ", *"}, 200},
		{[]string{"If-None-Match", "id-log"}, 200},
		{[]string{"If-None-Match", current + ` "b"`}, 200},
		{[]string{"If-None-Match", current, "Range", "bytes=0-1"}, 304},
		{[]string{"If-None-Match", current, "Range", "bytes=1000-"}, 304},
		{[]string{"If-Match", current}, 200},
		{[]string{"If-Match", current, "Range", "bytes=0-1"}, 206},
		{[]string{"If-Match", `"a", ` + current}, 200},
		{[]string{"If-Match", `"a"`, "If-Match", current}, 200},
		{[]string{"If-Match", "*"}, 200},
		{[]string{"If-Match", "*", "If-None-Match", "*"}, 304},
		{[]string{"If-Match", current, "If-None-Match", current}, 304},
		{[]string{"If-Match", current, "If-Unmodified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200},
		{[]string{"If-Unmodified-Since", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200},
		{[]string{"If-Modified-Since", "Fri, 02 Jan 2099 15:04:05 GMT"}, 200},
		{[]string{"If-Match", `"other"`}, 412},
		{[]string{"If-Match", "W/" + current}, 412},
		{[]string{"If-Match", `"other"`, "If-None-Match", current}, 412},
		{[]string{"If-Match", `"other"`, "Range", "bytes=0-1"}, 412},
		{[]string{"If-Match", `"other"`, "Range", "bytes=1000-"}, 412},
		{[]string{"If-Match", `"other"`, "If-Range", current, "Range", "bytes=0-1"}, 412},
		{[]string{"If-Match", "id-log"}, 412},
		{[]string{"If-Match", ""}, 412},
		{[]string{"If-Match", ","}, 412},
		{[]string{"If-Match", current + ", *"}, 412},
		{[]string{"If-Match", "*", "If-Match", current}, 412},
		{[]string{"If-Match", `"a` + "\t" + `b", ` + current}, 412},
		{[]string{"If-Match", current[:3]}, 412},
		{[]string{"If-Range", current, "Range", "bytes=0-1"}, 206},
		{[]string{"If-Range", current, "Range", "bytes=1000-"}, 416},
		{[]string{"If-Range", `"other"`, "Range", "bytes=0-1"}, 200},
		{[]string{"If-Range", `"other"`, "Range", "bytes=1000-"}, 200},
		{[]string{"If-Range", `"other"`}, 200},
		{[]string{"If-Range", "W/" + current, "Range", "bytes=0-1"}, 200},
		{[]string{"If-Range", current, "If-Range", current, "Range", "bytes=0-1"}, 200},
		{[]string{"If-Range", `Mon, 02 Jan 2026 00:00:00 GMT`, "Range", "bytes=0-1"}, 200},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := r.do(t, method, filePath, c.header...)
			if got.StatusCode != c.status || c.status < 400 && (got.Header.Get("ETag") != current || got.Header.Get("Cache-Control") != "private, no-cache") {
				t.Errorf("%s %v: %d %v", method, c.header, got.StatusCode, got.Header)
			}
			if method == "GET" && c.status == 412 && !strings.Contains(got.body, `{"error_code":41201,"message":"If-Match `) {
				t.Errorf("%v: %s", c.header, got.body)
			}
		}
	}
	if got := r.get(t, "/topics/orders/partitions/3/segments/0/lag", "If-Match", `"other"`); got.StatusCode != 404 {
		t.Errorf("a file that is not there: %d", got.StatusCode)
	}
}

// A client that fetches a file in ranges must not get a mixture when the segment is replaced by another of the same
// offsets in between.
func TestSegmentReplacedBetweenTwoRanges(t *testing.T) {
	r := newHarness(t)
	stored := &fakeFile{data: batch(200, 'x'), step: 30, pinned: &r.pinned, tag: `"first"`}
	r.fake.openFile = func(string, string) (file, error) { return stored, nil }
	first := r.get(t, filePath, "Range", "bytes=0-99")
	tag := first.Header.Get("ETag")
	if first.StatusCode != 206 || first.body != string(batch(100, 'x')) || tag != `"first"` {
		t.Fatalf("%d %q %v", first.StatusCode, first.body, first.Header)
	}
	stored = &fakeFile{data: batch(200, 'y'), step: 30, pinned: &r.pinned, tag: `"second"`}
	if got := r.get(t, filePath, "Range", "bytes=100-199", "If-Match", tag); got.StatusCode != 412 || !strings.Contains(got.body, `is \"second\" now`) {
		t.Errorf("If-Match: %d %s", got.StatusCode, got.body)
	}
	if got := r.get(t, filePath, "Range", "bytes=100-199", "If-Range", tag); got.StatusCode != 200 || got.body != string(batch(200, 'y')) {
		t.Errorf("If-Range: %d %q", got.StatusCode, got.body)
	}
}

func TestFileThatFails(t *testing.T) {
	r := newHarness(t)
	for _, c := range []struct {
		failAt int64
		status int
	}{{1, 503}, {40_000, 200}} {
		r.fake.openFile = func(string, string) (file, error) {
			return &fakeFile{data: batch(100_000, 'x'), step: 30_000, pinned: &r.pinned, failAt: c.failAt}, nil
		}
		got := r.get(t, filePath, "Range", map[bool]string{true: "bytes=1-"}[c.status == 503])
		if got.StatusCode != c.status || c.status == 200 && !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("fails at %d: %d %v", c.failAt, got.StatusCode, got.err)
		}
	}
	r.fake.err = &fetch.Error{Kind: fetch.SegmentUnknown}
	if got := r.get(t, filePath); got.StatusCode != 404 || !strings.Contains(got.body, "40404") {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

func FuzzParseRange(f *testing.F) {
	f.Add([]byte("bytes=-5"), int64(0))
	f.Add([]byte("bytes=0-99999999999999999999"), int64(1<<62))
	f.Add([]byte("bytes=9-3"), int64(10))
	f.Fuzz(func(t *testing.T, header []byte, size int64) {
		if size < 0 {
			return
		}
		from, to, result := parseRange(header, size)
		switch result {
		case rangeWhole:
			if from != 0 || to != size {
				t.Errorf("whole: [%d, %d) of %d", from, to, size)
			}
		case rangePart:
			if from < 0 || from >= to || to > size {
				t.Errorf("part: [%d, %d) of %d", from, to, size)
			}
		}
	})
}

func FuzzPreconditions(f *testing.F) {
	f.Add([]byte(`"a", W/"b"`), `"a"`)
	f.Add([]byte(` *`), `W/"b"`)
	f.Add([]byte(`"a,b",,`), `"a,b"`)
	f.Fuzz(func(t *testing.T, field []byte, tag string) {
		fields := [][]byte{field}
		strongly, sound := matchesTag(fields, tag, false)
		weakly, _ := matchesTag(fields, tag, true)
		if strongly && (!weakly || !sound) || weakly && !sound {
			t.Errorf("%q names %q strongly %v, weakly %v, sound %v", field, tag, strongly, weakly, sound)
		}
	})
}

func FuzzQuery(f *testing.F) {
	f.Add([]byte("offset=1&a=%41+b&&=&x"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := new(query)
		q.reset(raw)
		for range len(raw) + 1 {
			ok, err := q.next()
			if err != nil || !ok {
				return
			}
			if len(q.name)+len(q.value) > len(raw) {
				t.Fatal("longer than what was sent")
			}
		}
		t.Fatal("no end")
	})
}

// A file and a look-up by time wait no longer for the store than their client wants.
func TestTimeoutOfFilesAndLookUps(t *testing.T) {
	r := newHarness(t)
	r.fake.openFile = func(string, string) (file, error) {
		return &fakeFile{data: batch(100, 'x'), step: 30, pinned: &r.pinned}, nil
	}
	for _, path := range []string{filePath, "/topics/orders/partitions/3/offsets?timestamp=5"} {
		for query, want := range map[string]time.Duration{"": 30 * time.Second, "timeout=1500": 1500 * time.Millisecond} {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			if got := r.get(t, path+separator+query); got.StatusCode != 200 || r.fake.asked.Timeout != want {
				t.Errorf("%s, %q: %d, %v", path, query, got.StatusCode, r.fake.asked.Timeout)
			}
			if got := r.get(t, path+separator+"timeout=600001"); got.StatusCode != 400 {
				t.Errorf("%s: %d", path, got.StatusCode)
			}
		}
	}
	r.fake.err = &fetch.Error{Kind: fetch.TimedOut, Position: -1, NextOffset: -1}
	if got := r.get(t, filePath); got.StatusCode != 504 || !strings.Contains(got.body, `"error_code":50401`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}
