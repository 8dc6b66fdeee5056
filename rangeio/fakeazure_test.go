package rangeio_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/rangeio"
)

// fakeAzure is a container in memory with the faults that Azurite has no switch for, and the checksums that it does not
// know.
type fakeAzure struct {
	*httptest.Server
	t *testing.T

	// fault sees each request first; true means that it has answered. Set before the requests it is for.
	fault func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	blobs    map[string]azureBlob
	blocks   map[string]map[string][]byte
	version  int
	requests []*http.Request
}

type azureBlob struct {
	content []byte
	etag    string
	folder  bool // a directory of a hierarchical namespace
}

const azureRoot = "/account/container/"

func newFakeAzure(t *testing.T) *fakeAzure {
	f := &fakeAzure{t: t, blobs: map[string]azureBlob{}, blocks: map[string]map[string][]byte{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAzure) open(t *testing.T, change ...func(*rangeio.AzureConfig)) rangeio.Backend {
	cfg := rangeio.AzureConfig{Account: "account", AccountKey: "c2VjcmV0", Endpoint: f.URL + "/account", Container: "container", Connections: 8}
	for _, c := range change {
		c(&cfg)
	}
	return openAzure(t, cfg)
}

// count tells how many requests had the method, and forgets all.
func (f *fakeAzure) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(slices.DeleteFunc(slices.Clone(f.requests), func(r *http.Request) bool { return r.Method != method }))
	f.requests = nil
	return n
}

func refuseAzure(w http.ResponseWriter, status int, code string) {
	if code != "" {
		w.Header().Set("X-Ms-Error-Code", code)
	}
	w.Header().Set("X-Ms-Request-Id", "the-request-id")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>words</Message></Error>`, code)
}

func (f *fakeAzure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	if f.fault != nil && f.fault(w, r) {
		return
	}
	name, inside := strings.CutPrefix(r.URL.Path, azureRoot)
	switch q := r.URL.Query(); {
	case q.Get("comp") == "list" && r.URL.Path+"/" == azureRoot:
		f.list(w, q.Get("prefix"))
	case !inside:
		refuseAzure(w, 404, "ContainerNotFound")
	case r.Method == "PUT":
		f.put(w, r, name)
	default:
		f.blob(w, r, name)
	}
}

func (f *fakeAzure) blob(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	b, found := f.blobs[name]
	if r.Method == "DELETE" {
		delete(f.blobs, name)
	}
	f.mu.Unlock()
	switch match := r.Header.Get("If-Match"); {
	case !found:
		refuseAzure(w, 404, "BlobNotFound")
	case match != "" && match != b.etag:
		refuseAzure(w, 412, "ConditionNotMet")
	case r.Method == "DELETE":
		w.WriteHeader(202)
	case r.Header.Get("X-Ms-Range") != "" && len(b.content) == 0:
		refuseAzure(w, 416, "InvalidRange")
	default:
		if b.folder {
			w.Header().Set("X-Ms-Meta-Hdi_isfolder", "true")
		}
		w.Header().Set("Etag", b.etag)
		w.Header().Set("Content-Type", "application/octet-stream")
		if asked := r.Header.Get("X-Ms-Range"); asked != "" {
			r.Header.Set("Range", asked)
		}
		http.ServeContent(&azureRanges{w}, r, "", time.Now(), strings.NewReader(string(b.content)))
	}
}

// azureRanges gives 416 the code that the service gives it.
type azureRanges struct{ http.ResponseWriter }

func (a *azureRanges) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		a.Header().Set("X-Ms-Error-Code", "InvalidRange")
	}
	a.ResponseWriter.WriteHeader(status)
}

func (f *fakeAzure) put(w http.ResponseWriter, r *http.Request, name string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	q := r.URL.Query()
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Get("comp") == "blocklist" {
		var list struct{ Latest []string }
		if err := xml.Unmarshal(content, &list); err != nil {
			refuseAzure(w, 400, "InvalidXmlDocument")
			return
		}
		content = nil
		for _, id := range list.Latest {
			block, found := f.blocks[name][id]
			if !found {
				refuseAzure(w, 400, "InvalidBlockList")
				return
			}
			content = append(content, block...)
		}
		delete(f.blocks, name)
	} else {
		sum := crc64.Checksum(content, crc64.MakeTable(0x9A6C9329AC4BC9B5))
		if r.Header.Get("X-Ms-Content-Crc64") != base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, sum)) {
			refuseAzure(w, 400, "Crc64Mismatch")
			return
		}
		if q.Get("comp") == "block" {
			if f.blocks[name] == nil {
				f.blocks[name] = map[string][]byte{}
			}
			f.blocks[name][q.Get("blockid")] = content
			w.WriteHeader(201)
			return
		}
	}
	f.version++
	b := azureBlob{content: content, etag: fmt.Sprintf(`"0x8D%X"`, f.version)}
	f.blobs[name] = b
	w.Header().Set("Etag", b.etag)
	w.WriteHeader(201)
}

func (f *fakeAzure) list(w http.ResponseWriter, prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.blobs)) {
		if strings.HasPrefix(name, prefix) {
			b := f.blobs[name]
			meta := ""
			if b.folder {
				meta = "<hdi_isfolder>true</hdi_isfolder>"
			}
			page.WriteString("<Blob><Name>")
			xml.EscapeText(&page, []byte(name))
			fmt.Fprintf(&page, "</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Content-Length>%d</Content-Length></Properties><Metadata>%s</Metadata></Blob>",
				len(b.content), meta)
		}
	}
	writeAzurePage(w, page.String(), "")
}

func writeAzurePage(w http.ResponseWriter, blobs, marker string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>%s</Blobs><NextMarker>%s</NextMarker></EnumerationResults>`, blobs, marker)
}
