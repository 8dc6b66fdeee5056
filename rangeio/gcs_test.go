package rangeio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestGCSAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return newFakeGCS(t).open(t, func(c *rangeio.GCSConfig) { c.Prefix = "x+y z/%2F-" })
	})
}

func TestGCSRoundTrips(t *testing.T) {
	b := newFakeGCS(t).open(t)
	for _, size := range []int{0, 1000, 16 << 20, 40<<20 + 1} {
		roundTrip(t, b, fmt.Sprint("of ", size), size)
	}
	storeWithoutBucket(t, newFakeGCS(t).open(t, func(c *rangeio.GCSConfig) { c.Bucket = "another" }))
}

// TestGCSGzipObjectsComeAsStored: by default the store unpacks them on the way, which has no ranges and another size.
func TestGCSGzipObjectsComeAsStored(t *testing.T) {
	f := newFakeGCS(t)
	content := rangeiotest.Bytes(1, 5000)
	f.objects["o"] = gcsObject{content: content, generation: 7, gzip: true}
	got, info, _, err := quick(f.open(t)).ReadObject(t.Context(), "o", 5000)
	if err != nil || !bytes.Equal(got, content) || info.ETag != `"7"` {
		t.Errorf("%d bytes, %+v, %v", len(got), info, err)
	}
	f.fault = func(w http.ResponseWriter, r *http.Request) bool { r.Header.Del("Accept-Encoding"); return false } // a store that unpacks all the same
	_, _, err = f.open(t).Open(t.Context(), "o", 0, 10, "")
	rangeiotest.IsKind(t, err, rangeio.BadAnswer)
}

func TestGCSRefusals(t *testing.T) {
	f := newFakeGCS(t)
	b := f.open(t)
	put(t, b, "obj", []byte("content"))
	for _, c := range []struct {
		status          int
		reason, message string
		kind            rangeio.Kind
	}{
		{400, "invalid", "Invalid argument.", rangeio.BadAnswer},
		{401, "required", "Anonymous caller does not have storage.objects.get access.", rangeio.BadCredentials},
		{403, "forbidden", "no access", rangeio.Forbidden},
		{403, "rateLimitExceeded", "less", rangeio.Throttled},
		{403, "userRateLimitExceeded", "less", rangeio.Throttled},
		{404, "notFound", "The specified bucket does not exist.", rangeio.NoBucket},
		{404, "notFound", "Not Found", rangeio.NotFound}, // the bucket is there: it is asked
		{408, "requestTimeout", "slow", rangeio.Unavailable},
		{412, "conditionNotMet", "another", rangeio.Changed},
		{416, "requestedRangeNotSatisfiable", "short", rangeio.BadRange},
		{429, "rateLimitExceeded", "less", rangeio.Throttled},
		{500, "backendError", "oops", rangeio.Unavailable},
		{501, "notImplemented", "what", rangeio.BadAnswer},
		{503, "backendError", "busy", rangeio.Throttled},
		{507, "", "full", rangeio.Full},
		{302, "", "elsewhere", rangeio.BadAnswer},
	} {
		t.Run(fmt.Sprint(c.status, c.reason), func(t *testing.T) {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/o") {
					return false
				}
				refuseGCS(w, c.status, c.reason, c.message)
				return true
			}
			f.count(isMedia)
			_, _, err := b.Open(t.Context(), "obj", 0, 3, "")
			rangeiotest.IsKind(t, err, c.kind)
			if n := f.count(isMedia); n != 1 {
				t.Errorf("%d GETs: the library must not repeat them", n)
			}
			if c.message != "" && !strings.Contains(err.Error(), c.message) {
				t.Errorf("the store's words are lost: %v", err)
			}
			_, err = b.Stat(t.Context(), "obj")
			rangeiotest.IsKind(t, err, c.kind)
		})
	}
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(404)
		fmt.Fprint(w, "<html>our portal", strings.Repeat(" is nice", 1<<16))
		return true
	}
	_, _, err := b.Open(t.Context(), "obj", 0, 3, "")
	rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestGCSLyingAnswers(t *testing.T) {
	f := newFakeGCS(t)
	b := f.open(t)
	content := rangeiotest.Bytes(1, 10_000)
	info := put(t, b, "o", content)
	for name, lie := range map[string]map[string]string{
		"range moved by one":  {"Content-Range": "bytes 101-200/10000", "Content-Length": "100"},
		"range too long":      {"Content-Range": "bytes 100-300/10000", "Content-Length": "201"},
		"range without total": {"Content-Range": "bytes 100-199/*", "Content-Length": "100"},
		"total that wraps":    {"Content-Range": "bytes 100-199/21000000000000000000", "Content-Length": "100"},
		"length of another":   {"Content-Range": "bytes 100-199/10000", "Content-Length": "50"},
		"another size":        {"Content-Range": "bytes 100-199/10000", "Content-Length": "100", "X-Goog-Stored-Content-Length": "9999"},
		"no generation":       {"Content-Range": "bytes 100-199/10000", "Content-Length": "100", "X-Goog-Generation": "x"},
		"ranges unknown":      {"Content-Length": "10000"},
	} {
		t.Run(name, func(t *testing.T) {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				for k, v := range lie {
					w.Header().Set(k, v)
				}
				w.WriteHeader(206)
				return true
			}
			f.count(isMedia)
			_, _, err := quick(b).ReadRange(t.Context(), "o", make([]byte, 100), 100, "", -1)
			rangeiotest.IsKind(t, err, rangeio.BadAnswer)
			if n := f.count(isMedia); n != 2 {
				t.Errorf("%d GETs, nonsense is worth one retry", n)
			}
		})
	}
	// A part with an empty header is not taken for the whole object.
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Range", "")
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(206)
		w.Write(content[:100])
		return true
	}
	if body, info, err := b.Open(t.Context(), "o", 0, 100, ""); err == nil {
		body.Close()
		t.Errorf("believed: %+v", info)
	} else {
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	}
	// A server that is deaf to conditions.
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		q.Del("ifGenerationMatch")
		r.URL.RawQuery = q.Encode()
		return false
	}
	put(t, b, "o", content)
	_, _, err := b.Open(t.Context(), "o", 0, 10, info.ETag)
	rangeiotest.IsKind(t, err, rangeio.Changed)
	_, _, err = b.Open(t.Context(), "o", 0, 10, `"d41d8cd98f00b204e9800998ecf8427e"`)
	rangeiotest.IsKind(t, err, rangeio.Changed)
}

// cutAfter sends the first bytes of what the fake would answer, and breaks the connection.
type cutAfter struct {
	http.ResponseWriter
	left int
}

func (c *cutAfter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

func TestGCSBrokenBodiesAreResumed(t *testing.T) {
	f := newFakeGCS(t)
	b := f.open(t)
	content := rangeiotest.Bytes(1, 3<<20)
	info := put(t, b, "o", content)
	var cuts atomic.Int32
	var ranges []string
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		ranges = append(ranges, r.Header.Get("Range")+" "+r.URL.Query().Get("ifGenerationMatch"))
		if cuts.Add(1) > 2 {
			return false
		}
		f.object(&cutAfter{w, 64 << 10}, r, "o")
		return true
	}
	got := make([]byte, 2<<20)
	_, cost, err := quick(b).ReadRange(t.Context(), "o", got, 1<<20, "", -1)
	if err != nil || !bytes.Equal(got, content[1<<20:]) || cost.Requests != 3 || cost.Bytes != int64(len(got)) {
		t.Errorf("%+v, %v", cost, err)
	}
	generation := strings.Trim(info.ETag, `"`)
	if ranges[0] != "bytes=1048576-3145727 " || !strings.HasSuffix(ranges[1], " "+generation) || ranges[1] == ranges[0]+generation {
		t.Errorf("asked for %q", ranges)
	}
}

// TestGCSPutRepeatsChunks: a chunk that failed halfway is sent again from its own start, an upload in one request from
// its.
func TestGCSPutRepeatsChunks(t *testing.T) {
	for _, size := range []int{1 << 20, 40 << 20} {
		f := newFakeGCS(t)
		b := f.open(t)
		var n atomic.Int32
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			switch n.Add(1) {
			case 2: // the second chunk, or the only request again
				io.CopyN(io.Discard, r.Body, 100_000)
				refuseGCS(w, 503, "backendError", "busy")
				return true
			case 1, 3:
				if size == 1<<20 {
					refuseGCS(w, 500, "backendError", "oops")
					return true
				}
			}
			return false
		}
		content := rangeiotest.Bytes(1, size)
		info, err := quick(b).Put(t.Context(), "o", bytes.NewReader(content))
		if err != nil || info.Size != int64(size) || !bytes.Equal(f.objects["o"].content, content) {
			t.Errorf("%d bytes: %+v, %v", size, info, err)
		}
		if now, err := b.Stat(t.Context(), "o"); err != nil || now != info {
			t.Errorf("put says %+v, stat %+v, %v", info, now, err)
		}
	}
}

func TestGCSPutGivesUp(t *testing.T) {
	f := newFakeGCS(t)
	b := f.open(t)
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		refuseGCS(w, 500, "backendError", "oops")
		return true
	}
	for _, size := range []int{1000, 20 << 20} {
		_, err := b.Put(t.Context(), "o", bytes.NewReader(make([]byte, size)))
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
		if n := f.count(func(*http.Request) bool { return true }); n != 3 {
			t.Errorf("%d bytes: %d attempts", size, n)
		}
	}
	// Content that arrives damaged never becomes an object.
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Goog-Hash") != "" {
			r.Header.Set("X-Goog-Hash", "crc32c=AAAAAA==")
		}
		return false
	}
	_, err := quick(b).Put(t.Context(), "o", bytes.NewReader(make([]byte, 20<<20)))
	rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	if len(f.objects) != 0 {
		t.Error("there is an object")
	}
}

// TestGCSUploadElsewhere: the address at which an upload goes on is the store's word, and is not followed to another
// host.
func TestGCSUploadElsewhere(t *testing.T) {
	f := newFakeGCS(t)
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Location", "http://127.0.0.2:1/upload?upload_id=x")
		return true
	}
	_, err := f.open(t).Put(t.Context(), "o", bytes.NewReader(make([]byte, 20<<20)))
	if err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("%v", err)
	}
}

func TestGCSListLiesAreNoticed(t *testing.T) {
	const entry = `{"name":"%s","size":"%s","updated":"2026-01-02T03:04:05Z"}`
	for name, page := range map[string]string{
		"order":            fmt.Sprintf(`{"items":[`+entry+`,`+entry+`]}`, "p/b", "1", "p/a", "1"),
		"foreign prefix":   fmt.Sprintf(`{"items":[`+entry+`]}`, "q/b", "1"),
		"size that wraps":  fmt.Sprintf(`{"items":[`+entry+`]}`, "p/b", "18446744073709551615"),
		"no time":          `{"items":[{"name":"p/a","size":"1"}]}`,
		"token that stays": `{"nextPageToken":"x"}`,
		"no JSON":          `<html>`,
		"another shape":    `{"items":7}`,
	} {
		f := newFakeGCS(t)
		f.fault = func(w http.ResponseWriter, r *http.Request) bool { io.WriteString(w, page); return true }
		err := f.open(t).List(t.Context(), "p/", func(rangeio.Object) error { return nil })
		if err == nil {
			t.Errorf("%s: believed", name)
			continue
		}
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	}
}

// TestGCSCredentials: a key file is read when the store is opened, and signs requests with tokens of the token service
// that it names.
func TestGCSCredentials(t *testing.T) {
	f := newFakeGCS(t)
	status := http.StatusOK
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, `{"access_token":"good","expires_in":3600,"token_type":"Bearer"}`)
			return true
		}
		if r.Header.Get("Authorization") != "Bearer good" {
			refuseGCS(w, 401, "required", "no token")
			return true
		}
		return false
	}
	file := filepath.Join(t.TempDir(), "key.json")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withFile := func(c *rangeio.GCSConfig) { c.Anonymous, c.CredentialsFile = false, file }
	write(fmt.Sprintf(`{"type":"service_account","client_email":"a@b","private_key_id":"1","private_key":%q,"token_uri":%q}`, privateKey(t), f.URL+"/token"))
	b := f.open(t, withFile)
	if len(f.requests) > 0 {
		t.Error("opening asked somebody")
	}
	status = 503
	_, err := b.Stat(t.Context(), "o")
	rangeiotest.IsKind(t, err, rangeio.Unavailable)
	status = 400
	_, err = b.Stat(t.Context(), "o")
	rangeiotest.IsKind(t, err, rangeio.BadCredentials)
	status = 200
	roundTrip(t, b, "o", 1000)
	for _, content := range []string{"", "{}", `{"type":"service_account"}`, `{"type":"of another kind"}`} {
		write(content)
		cfg := rangeio.GCSConfig{Bucket: "b", CredentialsFile: file}
		if b, err := rangeio.OpenGCS(t.Context(), cfg); err == nil {
			b.Close()
			t.Errorf("%q was accepted", content)
		}
	}
}

func TestGCSConfig(t *testing.T) {
	good := rangeio.GCSConfig{Bucket: "b", Endpoint: "http://127.0.0.1:1/", Anonymous: true, Prefix: "tier/"}
	for _, change := range []func(*rangeio.GCSConfig){
		func(c *rangeio.GCSConfig) { c.Bucket = "" },
		func(c *rangeio.GCSConfig) { c.Endpoint = "localhost:4443" },
		func(c *rangeio.GCSConfig) { c.Endpoint = "ftp://host" },
		func(c *rangeio.GCSConfig) { c.Endpoint = "http://host/storage/v1" },
		func(c *rangeio.GCSConfig) { c.Endpoint = "http://user:secret@host" },
		func(c *rangeio.GCSConfig) { c.CredentialsFile = "key.json" },
		func(c *rangeio.GCSConfig) { c.Anonymous, c.CredentialsFile = false, filepath.Join(t.TempDir(), "none") },
	} {
		c := good
		change(&c)
		if _, err := rangeio.OpenGCS(t.Context(), c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	b := openGCS(t, good)
	if b.String() != "gs://b/tier" {
		t.Error(b.String())
	}
	_, err := b.Stat(t.Context(), "o") // nobody listens there
	rangeiotest.IsKind(t, err, rangeio.Unavailable)
	if e, ok := errors.AsType[*rangeio.Error](err); !ok || !e.Retriable() || strings.Contains(err.Error(), "/storage/v1") {
		t.Errorf("%v", err)
	}
}
