package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"coldtap/internal/config"
)

// Whatever keeps a store from being read, /ready and /healthy say it with the store's own word and what to mend, and a
// read is no "try again".
func TestAStoreThatRefusesIsVisible(t *testing.T) {
	s3 := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
		}
	}
	azure := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Ms-Error-Code", code)
			w.WriteHeader(status)
		}
	}
	gcs := func(status int, reason string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"message":"%s","errors":[{"reason":"%s"}]}}`, reason, reason)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg := testConfig(t)
	if _, err := offloadOnce(t.Context(), cfg, offloadOptions{}, quiet()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind   string
		answer http.HandlerFunc
		says   []string
	}{
		{"s3", s3(403, "AccessDenied"), []string{"AccessDenied", "permission"}},
		{"s3", s3(403, "SignatureDoesNotMatch"), []string{"SignatureDoesNotMatch", "credentials"}},
		{"s3", s3(400, "ExpiredToken"), []string{"ExpiredToken", "renew"}},
		{"s3", s3(404, "NoSuchBucket"), []string{"NoSuchBucket", "bucket"}},
		{"s3", s3(301, "PermanentRedirect"), []string{"PermanentRedirect", "region"}},
		{"s3", s3(404, "NoSuchKey"), []string{"NoSuchKey", "another bucket, prefix or folder"}},
		{"azure", azure(403, "AuthenticationFailed"), []string{"AuthenticationFailed", "credentials"}},
		{"azure", azure(404, "ContainerNotFound"), []string{"ContainerNotFound", "container"}},
		{"gcs", gcs(403, "forbidden"), []string{"forbidden", "permission"}},
		{"gcs", gcs(401, "authError"), []string{"authError", "credentials"}},
		{"gcs", gcs(404, "The specified bucket does not exist."), []string{"bucket does not exist", "bucket"}},
	} {
		t.Run(c.kind+" "+c.says[0], func(t *testing.T) {
			store := httptest.NewServer(c.answer)
			defer store.Close()
			cfg := cfg
			cfg.Store = config.Default().Store
			cfg.Store.Kind = c.kind
			cfg.Store.S3.Bucket, cfg.Store.S3.Region, cfg.Store.S3.Endpoint, cfg.Store.S3.PathStyle = "tier", "us-east-1", store.URL, true
			cfg.Store.Azure.Account, cfg.Store.Azure.Container, cfg.Store.Azure.AccountKey, cfg.Store.Azure.Endpoint = "account", "tier", "a2V5", store.URL+"/account"
			cfg.Store.GCS.Bucket, cfg.Store.GCS.Anonymous, cfg.Store.GCS.Endpoint = "tier", true, store.URL
			data, admin := startServer(t, cfg)
			var body []byte
			until(t, "unready with a reason", func() bool {
				var resp *http.Response
				resp, body = get(t, admin+"/ready", "")
				if resp.StatusCode == http.StatusOK {
					t.Fatalf("ready: %s", body)
				}
				return !strings.Contains(string(body), "first time")
			})
			_, healthy := get(t, admin+"/healthy", "")
			for _, want := range c.says {
				if !strings.Contains(string(body), want) || !strings.Contains(string(healthy), want) {
					t.Errorf("no %q in\n%s%s", want, body, healthy)
				}
			}
			resp, answer := get(t, data+"/topics/plain/partitions/0/records?offset=0", "")
			if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Retry-After") != "" || !strings.Contains(string(answer), "50201") {
				t.Errorf("%s, Retry-After %q: %s", resp.Status, resp.Header.Get("Retry-After"), answer)
			}
		})
	}
}

// An archive names no objects before it was listed: /ready and /healthy say what the listing failed with, and what to
// mend.
func TestAnArchiveThatCannotBeListedIsVisible(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>")
	}))
	defer store.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg := testConfig(t)
	cfg.Metadata.Kind = "archive"
	cfg.Store = config.Default().Store
	cfg.Store.Kind = "s3"
	cfg.Store.S3.Bucket, cfg.Store.S3.Region, cfg.Store.S3.Endpoint, cfg.Store.S3.PathStyle = "tier", "us-east-1", store.URL, true
	data, admin := startServer(t, cfg)
	for _, path := range []string{"/ready", "/healthy"} {
		until(t, path+" names the remedy", func() bool {
			resp, body := get(t, admin+path, "")
			if path == "/ready" && resp.StatusCode == http.StatusOK {
				t.Fatalf("ready: %s", body)
			}
			return strings.Contains(string(body), "NoSuchBucket") && strings.Contains(string(body), "compare store.kind's bucket")
		})
	}
	// Coming back later does not mend it.
	resp, body := get(t, data+"/topics/plain/partitions/0/records?offset=0", "")
	if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Retry-After") != "" || !strings.Contains(string(body), "compare store.kind's bucket") {
		t.Errorf("a read: %d %v %s", resp.StatusCode, resp.Header, body)
	}
}

// A file store whose folder is not there yet, goes, or is replaced by another: /ready tells, and reads go on without a
// restart once it is back.
func TestAFolderThatGoesAndComesBack(t *testing.T) {
	cfg := testConfig(t)
	if _, err := offloadOnce(t.Context(), cfg, offloadOptions{}, quiet()); err != nil {
		t.Fatal(err)
	}
	dir := cfg.Store.File.Dir
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(dir, dir+".away")
	data, admin := startServer(t, cfg)
	ready := func(want bool) {
		t.Helper()
		until(t, fmt.Sprintf("ready is %v", want), func() bool {
			resp, _ := get(t, admin+"/ready", "")
			return (resp.StatusCode == http.StatusOK) == want
		})
	}
	read := func(partition string) int {
		resp, _ := get(t, data+"/topics/"+partition+"/records?offset=0&max_records=1", "")
		return resp.StatusCode
	}
	until(t, "unready with a reason", func() bool {
		_, body := get(t, admin+"/ready", "")
		return strings.Contains(string(body), "folder")
	})
	if got := read("plain/partitions/0"); got != http.StatusBadGateway {
		t.Errorf("without a folder: %d", got)
	}
	move(dir+".away", dir)
	ready(true)
	if got := read("plain/partitions/0"); got != http.StatusOK {
		t.Errorf("with the folder: %d", got)
	}
	// Gone, and an empty one in its place.
	move(dir, dir+".away")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	copied := dir + ".copy"
	if err := os.CopyFS(copied, os.DirFS(dir+".away")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir + ".away"); err != nil {
		t.Fatal(err)
	}
	if got := read("txn/partitions/0"); got != http.StatusBadGateway && got != http.StatusServiceUnavailable {
		t.Errorf("from an empty folder: %d", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	move(copied, dir)
	ready(true)
	if got := read("txn/partitions/1"); got != http.StatusOK {
		t.Errorf("with another folder: %d", got)
	}
}
