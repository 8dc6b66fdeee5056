package rangeio_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

func TestAzureAcceptance(t *testing.T) {
	rangeiotest.AcceptanceTest(t, func(t *testing.T) rangeio.Backend {
		return newFakeAzure(t).open(t, func(c *rangeio.AzureConfig) { c.Prefix = "x+y z/%2F-" })
	}, `\`, "./")
}

func TestAzureRoundTrips(t *testing.T) {
	b := newFakeAzure(t).open(t)
	for _, size := range []int{0, 1000, 8 << 20, 40<<20 + 1} {
		roundTrip(t, b, fmt.Sprint("of ", size), size)
	}
	storeWithoutBucket(t, newFakeAzure(t).open(t, func(c *rangeio.AzureConfig) { c.Endpoint += "/other" }))
}

func TestAzureRefusals(t *testing.T) {
	f := newFakeAzure(t)
	b := f.open(t)
	for _, c := range []struct {
		status int
		code   string
		kind   rangeio.Kind
	}{
		{400, "InvalidHeaderValue", rangeio.BadAnswer},
		{400, "InvalidUri", rangeio.BadKey},
		{401, "NoAuthenticationInformation", rangeio.BadCredentials},
		{403, "AuthenticationFailed", rangeio.BadCredentials},
		{403, "AuthorizationPermissionMismatch", rangeio.Forbidden},
		{403, "AccountIsDisabled", rangeio.Forbidden},
		{404, "BlobNotFound", rangeio.NotFound},
		{404, "ContainerNotFound", rangeio.NoBucket},
		{404, "", rangeio.BadAnswer},
		{409, "ContainerBeingDeleted", rangeio.NoBucket},
		{409, "BlobArchived", rangeio.Archived},
		{409, "BlobBeingRehydrated", rangeio.Archived},
		{409, "PublicAccessNotPermitted", rangeio.Forbidden},
		{409, "AccountBeingCreated", rangeio.Unavailable},
		{412, "ConditionNotMet", rangeio.Changed},
		{412, "LeaseIdMissing", rangeio.Forbidden},
		{416, "InvalidRange", rangeio.BadRange},
		{429, "TooManyRequests", rangeio.Throttled},
		{500, "InternalError", rangeio.Unavailable},
		{500, "OperationTimedOut", rangeio.Unavailable},
		{503, "ServerBusy", rangeio.Throttled},
		{503, "", rangeio.Throttled},
		{507, "", rangeio.Full},
		{302, "", rangeio.BadAnswer},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			f.fault = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Retry-After", "1")
				refuseAzure(w, c.status, c.code)
				return true
			}
			f.count("GET")
			_, _, err := b.Open(t.Context(), "o", 0, 3, "")
			if c.code == "" && c.status == 404 {
				rangeiotest.IsKind(t, err, rangeio.BadAnswer)
				return
			}
			rangeiotest.IsKind(t, err, c.kind)
			if n := f.count("GET"); n != 1 {
				t.Errorf("%d GETs: the SDK must not repeat them", n)
			}
			if !strings.Contains(err.Error(), c.code) || !strings.Contains(err.Error(), "the-request-id") {
				t.Errorf("code or request are lost: %v", err)
			}
			_, err = b.Stat(t.Context(), "o")
			rangeiotest.IsKind(t, err, c.kind)
		})
	}
}

func TestAzureLyingAnswers(t *testing.T) {
	f := newFakeAzure(t)
	b := f.open(t)
	put(t, b, "o", rangeiotest.Bytes(1, 10_000))
	for name, lie := range map[string]map[string]string{
		"range moved by one":  {"Content-Range": "bytes 101-200/10000", "Content-Length": "100"},
		"range too long":      {"Content-Range": "bytes 100-300/10000", "Content-Length": "201"},
		"range without total": {"Content-Range": "bytes 100-199/*", "Content-Length": "100"},
		"total that wraps":    {"Content-Range": "bytes 100-199/21000000000000000000", "Content-Length": "100"},
		"length of another":   {"Content-Range": "bytes 100-199/10000", "Content-Length": "50"},
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
			f.count("GET")
			_, _, err := quick(b).ReadRange(t.Context(), "o", make([]byte, 100), 100, "", -1)
			rangeiotest.IsKind(t, err, rangeio.BadAnswer)
			if n := f.count("GET"); n != 2 {
				t.Errorf("%d GETs, nonsense is worth one retry", n)
			}
		})
	}
}

func TestAzureBrokenBodiesAreResumed(t *testing.T) {
	f := newFakeAzure(t)
	b := f.open(t)
	content := rangeiotest.Bytes(1, 3<<20)
	info := put(t, b, "o", content)
	var cuts atomic.Int32
	var conditions []string
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		conditions = append(conditions, r.Header.Get("If-Match"))
		if cuts.Add(1) > 2 {
			return false
		}
		f.blob(&cutAfter{w, 64 << 10}, r, "o")
		return true
	}
	got := make([]byte, 2<<20)
	_, cost, err := quick(b).ReadRange(t.Context(), "o", got, 1<<20, "", -1)
	if err != nil || !bytes.Equal(got, content[1<<20:]) || cost.Requests != 3 || cost.Bytes != int64(len(got)) {
		t.Errorf("%+v, %v", cost, err)
	}
	if !slices.Equal(conditions, []string{"", info.ETag, info.ETag}) {
		t.Errorf("asked for the versions %q", conditions)
	}
}

// TestAzurePutRepeatsBlocks: a request that failed halfway is sent again from its own start, and a block of another Put
// is never joined.
func TestAzurePutRepeatsBlocks(t *testing.T) {
	for _, size := range []int{1 << 20, 40<<20 + 1} {
		f := newFakeAzure(t)
		b := f.open(t)
		var n atomic.Int32
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			switch n.Add(1) {
			case 1:
				io.CopyN(io.Discard, r.Body, 100_000)
				refuseAzure(w, 503, "ServerBusy")
				return true
			case 2:
				io.CopyN(io.Discard, r.Body, 200_000)
				panic(http.ErrAbortHandler)
			}
			return false
		}
		content := rangeiotest.Bytes(1, size)
		info, err := quick(b).Put(t.Context(), "o", bytes.NewReader(content))
		if err != nil || info.Size != int64(size) || !bytes.Equal(f.blobs["o"].content, content) {
			t.Errorf("%d bytes: %+v, %v", size, info, err)
		}
		if now, err := b.Stat(t.Context(), "o"); err != nil || now != info {
			t.Errorf("put says %+v, stat %+v, %v", info, now, err)
		}
	}
}

func TestAzureBlocksTakenAwayAreSentAgain(t *testing.T) {
	f := newFakeAzure(t)
	lost := false
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("comp") == "blocklist" && !lost {
			lost = true
			f.blocks = map[string]map[string][]byte{} // another Put of the key was joined
		}
		return false
	}
	content := rangeiotest.Bytes(1, 20<<20)
	if _, err := quick(f.open(t)).Put(t.Context(), "o", bytes.NewReader(content)); err != nil || !lost || !bytes.Equal(f.blobs["o"].content, content) {
		t.Errorf("%v", err)
	}
}

// TestAzureDirectories: with a hierarchical namespace, directories answer like blobs of no bytes.
func TestAzureDirectories(t *testing.T) {
	f := newFakeAzure(t)
	b := f.open(t)
	put(t, b, "dir/o", []byte("x"))
	f.blobs["dir"] = azureBlob{etag: `"0x1"`, folder: true}
	_, _, err := b.Open(t.Context(), "dir", 0, -1, "")
	rangeiotest.IsKind(t, err, rangeio.NotFound)
	_, err = b.Stat(t.Context(), "dir")
	rangeiotest.IsKind(t, err, rangeio.NotFound)
	var keys []string
	if err := b.List(t.Context(), "", func(o rangeio.Object) error { keys = append(keys, o.Key); return nil }); err != nil || !slices.Equal(keys, []string{"dir/o"}) {
		t.Errorf("listed %q, %v", keys, err)
	}
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		refuseAzure(w, 409, "DirectoryIsNotEmpty")
		return true
	}
	if err := b.Delete(t.Context(), "dir"); err != nil {
		t.Error(err)
	}
}

func TestAzureLists(t *testing.T) {
	const entry = "<Blob><Name>%s</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Content-Length>%d</Content-Length></Properties></Blob>"
	f := newFakeAzure(t)
	b := f.open(t)
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Query().Get("marker") {
		case "":
			writeAzurePage(w, fmt.Sprintf(entry, "p/a", 1), "second")
		case "second":
			writeAzurePage(w, "", "third") // pages may be empty
		default:
			writeAzurePage(w, fmt.Sprintf(entry, "p/b", 2), "")
		}
		return true
	}
	var keys []string
	if err := b.List(t.Context(), "p/", func(o rangeio.Object) error { keys = append(keys, o.Key); return nil }); err != nil || !slices.Equal(keys, []string{"p/a", "p/b"}) {
		t.Errorf("listed %q, %v", keys, err)
	}
	for name, page := range map[string]struct{ blobs, marker string }{
		"order":             {fmt.Sprintf(entry+entry, "p/b", 1, "p/a", 1), ""},
		"foreign prefix":    {fmt.Sprintf(entry, "q/b", 1), ""},
		"negative size":     {fmt.Sprintf(entry, "p/b", -1), ""},
		"no size":           {"<Blob><Name>p/a</Name></Blob>", ""},
		"marker that stays": {"", "x"},
		"no XML":            {"<Blob", ""},
	} {
		f.fault = func(w http.ResponseWriter, r *http.Request) bool {
			writeAzurePage(w, page.blobs, page.marker)
			return true
		}
		err := b.List(t.Context(), "p/", func(rangeio.Object) error { return nil })
		if err == nil {
			t.Errorf("%s: believed", name)
			continue
		}
		rangeiotest.IsKind(t, err, rangeio.BadAnswer)
	}
}

func TestAzureConfig(t *testing.T) {
	good := rangeio.AzureConfig{Account: "account", Container: "con-tainer", SAS: "?sv=2026-01-01&sig=SECRET%3D", Endpoint: "http://127.0.0.1:1/account", Prefix: "tier/"}
	for _, change := range []func(*rangeio.AzureConfig){
		func(c *rangeio.AzureConfig) { c.Container = "" },
		func(c *rangeio.AzureConfig) { c.Container = "Up/per" },
		func(c *rangeio.AzureConfig) { c.Account, c.Endpoint = "", "" },
		func(c *rangeio.AzureConfig) { c.Account = "account.evil.example/" },
		func(c *rangeio.AzureConfig) { c.Endpoint = "account.blob.core.windows.net" },
		func(c *rangeio.AzureConfig) { c.Endpoint = "http://host/account?sig=SECRET" },
		func(c *rangeio.AzureConfig) { c.AccountKey = "SECRET" },
		func(c *rangeio.AzureConfig) { c.AccountKey, c.SAS = "SECRET!", "" },
		func(c *rangeio.AzureConfig) { c.Account, c.AccountKey, c.SAS = "", "c2VjcmV0", "" },
		func(c *rangeio.AzureConfig) { c.SAS = "sv=SECRET" },
		func(c *rangeio.AzureConfig) { c.SAS = "" }, // tokens over plain HTTP
		func(c *rangeio.AzureConfig) { c.SAS, c.ConnectionString = "", "AccountName=account;AccountKey=SECRET" },
		func(c *rangeio.AzureConfig) {
			c.SAS, c.ConnectionString, c.Account, c.Endpoint = "", "AccountKey=SECRET", "", ""
		},
	} {
		c := good
		change(&c)
		if _, err := rangeio.OpenAzure(t.Context(), c); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	b := openAzure(t, good)
	if b.String() != "azure://127.0.0.1:1/account/con-tainer/tier" {
		t.Error(b.String())
	}
	for _, err := range []error{
		func() error { _, err := b.Stat(t.Context(), "o"); return err }(), // nobody listens there
		func() error { _, err := b.Put(t.Context(), "o", strings.NewReader("x")); return err }(),
	} {
		rangeiotest.IsKind(t, err, rangeio.Unavailable)
		if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "sig=") {
			t.Errorf("a secret is in the words: %v", err)
		}
	}
	c := good
	c.SAS, c.Endpoint = "", ""
	if b := openAzure(t, c); b.String() != "azure://account.blob.core.windows.net/con-tainer/tier" {
		t.Error(b.String())
	}
}
