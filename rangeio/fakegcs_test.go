package rangeio_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/rangeio"
)

// fakeGCS is a bucket in memory that does what the JSON API promises and fake-gcs-server does not: conditions on reads,
// checksums, unpacking of gzip.
type fakeGCS struct {
	*httptest.Server
	t *testing.T

	// fault sees each request first; true means that it has answered. Set before the requests it is for.
	fault func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	objects  map[string]gcsObject
	uploads  map[string]*gcsUpload
	last     int64 // generation or upload given out last
	requests []*http.Request
}

type gcsObject struct {
	content    []byte
	generation int64
	gzip       bool // stored with Content-Encoding gzip
}

type gcsUpload struct {
	name    string
	content []byte
}

const fakeBucket = "bucket.name"

func newFakeGCS(t *testing.T) *fakeGCS {
	f := &fakeGCS{t: t, objects: map[string]gcsObject{}, uploads: map[string]*gcsUpload{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeGCS) open(t *testing.T, change ...func(*rangeio.GCSConfig)) rangeio.Backend {
	cfg := rangeio.GCSConfig{Bucket: fakeBucket, Endpoint: f.URL, Anonymous: true, Connections: 8}
	for _, c := range change {
		c(&cfg)
	}
	return openGCS(t, cfg)
}

// count tells how many requests met a condition, and forgets them.
func (f *fakeGCS) count(met func(*http.Request) bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(slices.DeleteFunc(slices.Clone(f.requests), func(r *http.Request) bool { return !met(r) }))
	f.requests = nil
	return n
}

func isMedia(r *http.Request) bool { return r.URL.Query().Get("alt") == "media" }

func refuseGCS(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"message":%q,"domain":"global","reason":%q}]}}`, status, message, message, reason)
}

func (f *fakeGCS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	if f.fault != nil && f.fault(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/upload")
	bucket, object, _ := strings.Cut(strings.TrimPrefix(path, "/storage/v1/b/"), "/o")
	object, err := url.PathUnescape(strings.TrimPrefix(object, "/"))
	q := r.URL.Query()
	switch {
	case err != nil:
		refuseGCS(w, 400, "invalid", err.Error())
	case bucket != fakeBucket:
		refuseGCS(w, 404, "notFound", "The specified bucket does not exist.")
	case path != r.URL.EscapedPath() && q.Get("uploadType") == "multipart":
		f.insert(w, r)
	case path != r.URL.EscapedPath() && q.Get("upload_id") == "":
		f.begin(w, r)
	case path != r.URL.EscapedPath():
		f.resume(w, r, q.Get("upload_id"))
	case object == "":
		f.list(w, q)
	default:
		f.object(w, r, object)
	}
}

func (f *fakeGCS) object(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	o, found := f.objects[name]
	if r.Method == "DELETE" {
		delete(f.objects, name)
	}
	f.mu.Unlock()
	want := r.URL.Query().Get("ifGenerationMatch")
	switch {
	case !found && isMedia(r):
		http.Error(w, "No such object: "+fakeBucket+"/"+name, 404)
	case !found:
		refuseGCS(w, 404, "notFound", "No such object: "+fakeBucket+"/"+name)
	case want != "" && want != fmt.Sprint(o.generation):
		refuseGCS(w, 412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
	case r.Method == "DELETE":
		w.WriteHeader(204)
	case isMedia(r):
		w.Header().Set("X-Goog-Generation", fmt.Sprint(o.generation))
		w.Header().Set("X-Goog-Stored-Content-Length", fmt.Sprint(len(o.content)))
		w.Header().Set("Content-Type", "application/octet-stream")
		if o.gzip {
			w.Header().Set("X-Goog-Stored-Content-Encoding", "gzip")
			if r.Header.Get("Accept-Encoding") != "gzip" {
				io.WriteString(w, "the object unpacked")
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
		}
		if r.Header.Get("Range") != "" && len(o.content) == 0 {
			http.Error(w, "The requested range cannot be satisfied.", http.StatusRequestedRangeNotSatisfiable)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(o.content)))
	default:
		f.answer(w, o)
	}
}

func (f *fakeGCS) answer(w http.ResponseWriter, o gcsObject) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"size":"%d","generation":"%d"}`, len(o.content), o.generation)
}

func (f *fakeGCS) store(w http.ResponseWriter, name string, content []byte, crc32c string) {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))
	if crc32c == "" {
		f.t.Error("an upload without a checksum")
	}
	if crc32c != base64.StdEncoding.EncodeToString(sum) {
		refuseGCS(w, 400, "invalid", "Provided CRC32C doesn't match calculated CRC32C.")
		return
	}
	f.mu.Lock()
	f.last++
	o := gcsObject{content: content, generation: 1_700_000_000_000_000 + f.last}
	f.objects[name] = o
	f.mu.Unlock()
	f.answer(w, o)
}

func (f *fakeGCS) insert(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		refuseGCS(w, 400, "invalid", err.Error())
		return
	}
	var meta struct{ Name, Crc32c string }
	parts := multipart.NewReader(r.Body, params["boundary"])
	for i := 0; ; i++ {
		part, err := parts.NextPart()
		if err != nil {
			refuseGCS(w, 400, "invalid", err.Error())
			return
		}
		content, err := io.ReadAll(part)
		if err != nil {
			refuseGCS(w, 400, "invalid", err.Error())
			return
		}
		if i == 0 {
			json.Unmarshal(content, &meta)
			continue
		}
		f.store(w, meta.Name, content, meta.Crc32c)
		return
	}
}

func (f *fakeGCS) begin(w http.ResponseWriter, r *http.Request) {
	var meta struct{ Name string }
	if err := json.NewDecoder(r.Body).Decode(&meta); err != nil {
		refuseGCS(w, 400, "invalid", err.Error())
		return
	}
	f.mu.Lock()
	f.last++
	id := fmt.Sprint("session-", f.last)
	f.uploads[id] = &gcsUpload{name: meta.Name}
	f.mu.Unlock()
	w.Header().Set("Location", f.URL+r.URL.EscapedPath()+"?uploadType=resumable&upload_id="+id)
}

// resume takes a chunk: "bytes 0-99/*", or "bytes 100-149/150" for the last one.
func (f *fakeGCS) resume(w http.ResponseWriter, r *http.Request, id string) {
	f.mu.Lock()
	u := f.uploads[id]
	f.mu.Unlock()
	if u == nil {
		refuseGCS(w, 410, "gone", "Gone")
		return
	}
	chunk, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	span, total, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
	first, _, _ := strings.Cut(span, "-")
	off, err := strconv.Atoi(first)
	if first == "*" {
		off, err = len(u.content), nil
	}
	if err != nil || off > len(u.content) || len(u.content) > off+len(chunk) {
		refuseGCS(w, 400, "invalid", "chunk at "+first)
		return
	}
	u.content = append(u.content[:off], chunk...)
	if total == "*" {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(u.content)-1))
		return
	}
	_, sum, _ := strings.Cut(r.Header.Get("X-Goog-Hash"), "crc32c=")
	f.store(w, u.name, u.content, sum)
}

func (f *fakeGCS) list(w http.ResponseWriter, q url.Values) {
	f.mu.Lock()
	defer f.mu.Unlock()
	limit, _ := strconv.Atoi(q.Get("maxResults"))
	items, next := []string{}, ""
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if !strings.HasPrefix(name, q.Get("prefix")) || name < q.Get("pageToken") {
			continue
		}
		if len(items) == limit {
			next = name
			break
		}
		quoted, _ := json.Marshal(name)
		items = append(items, fmt.Sprintf(`{"name":%s,"size":"%d","updated":"2026-01-02T03:04:05.678Z"}`, quoted, len(f.objects[name].content)))
	}
	quoted, _ := json.Marshal(next)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"items":[%s],"nextPageToken":%s}`, strings.Join(items, ","), quoted)
}
