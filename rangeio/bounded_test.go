package rangeio_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"coldtap/internal/testing/fakes3"
	"coldtap/rangeio"
	"coldtap/rangeio/rangeiotest"
)

// allocated gives the bytes that f allocated, those that were freed since included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// endless answers with a status, a beginning, and then the same piece until the client leaves.
func endless(status int, begin, piece string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		if strings.HasPrefix(begin, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		if r.Method == http.MethodHead {
			return
		}
		fmt.Fprint(w, begin)
		block := []byte(strings.Repeat(piece, 1+32<<10/len(piece)))
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// answering opens a store of each kind that is spoken to over HTTP, whose server answers everything alike.
func answering(t *testing.T, h http.HandlerFunc) map[string]rangeio.Backend {
	s3, azure, gcs := fakes3.New(t), newFakeAzure(t), newFakeGCS(t)
	s3.Inject(fakes3.Rule{Fault: fakes3.Fault{Handler: h}})
	answer := func(w http.ResponseWriter, r *http.Request) bool { h(w, r); return true }
	azure.fault, gcs.fault = answer, answer
	return map[string]rangeio.Backend{"s3": s3.Backend(t), "azure": azure.open(t), "gcs": gcs.open(t)}
}

// A store whose answers do not end costs little memory, whatever is asked of it, whatever it answers.
func TestAnswersWithoutEnd(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	ask := map[string]func(ctx context.Context, b rangeio.Backend) error{
		"get": func(ctx context.Context, b rangeio.Backend) error {
			_, _, err := b.Open(ctx, "o", 0, 1000, "")
			return err
		},
		"whole": func(ctx context.Context, b rangeio.Backend) error {
			_, _, err := b.Open(ctx, "o", 0, -1, "")
			return err
		},
		"stat": func(ctx context.Context, b rangeio.Backend) error { _, err := b.Stat(ctx, "o"); return err },
		"put": func(ctx context.Context, b rangeio.Backend) error {
			_, err := b.Put(ctx, "o", strings.NewReader("x"))
			return err
		},
		"delete": func(ctx context.Context, b rangeio.Backend) error { return b.Delete(ctx, "o") },
		"list": func(ctx context.Context, b rangeio.Backend) error {
			return b.List(ctx, "", func(rangeio.Object) error { return nil })
		},
	}
	for _, c := range []struct {
		name        string
		status      int
		begin, more string
		ops         string
		limit       uint64
	}{
		{"error", 500, "", "<html>", "get whole stat list", 10 * mib},
		{"error in XML", 500, "<Error><Code>InternalError</Code><Message>", "no end ", "get list", 10 * mib},
		{"error in JSON", 500, `{"error":{"message":"`, "no end ", "get list", 10 * mib},
		{"refusal", 403, "<Error><Code>AccessDenied</Code><Message>", "no end ", "get whole stat list put delete", 10 * mib},
		{"redirect", 301, "", "<html>", "get list put", 10 * mib},
		{"page of S3", 200, "<ListBucketResult>", "<Contents><Key>a</Key><Size>1</Size></Contents>", "list put delete", 800 * mib},
		{"page of Azure", 200, "<EnumerationResults><Blobs>", "<Blob><Name>a</Name></Blob>", "list put delete", 800 * mib},
		{"page of GCS", 200, `{"items":[{"name":"a","size":"1"}`, `,{"name":"a","size":"1"}`, "list put delete", 400 * mib},
		{"long name", 200, "<ListBucketResult><Contents><Key>", "aaaaaaaa", "list", 200 * mib},
		{"blanks", 200, "", " ", "list put delete", 200 * mib},
	} {
		for kind, b := range answering(t, endless(c.status, c.begin, c.more)) {
			for op := range strings.FieldsSeq(c.ops) {
				var err error
				spent := allocated(func() { err = ask[op](t.Context(), b) })
				if spent > c.limit {
					t.Errorf("%s: %s of %s took %d KiB, at most %d allowed", c.name, op, kind, spent/kib, c.limit/kib)
				}
				if err == nil && op == "list" || err == nil && c.status != 200 {
					t.Errorf("%s: %s of %s succeeded", c.name, op, kind)
				}
			}
		}
	}
}

// Services that give credentials are held to a bound too.
func TestCredentialsWithoutEnd(t *testing.T) {
	const mib = 1 << 20
	s := httptest.NewServer(endless(200, `{"AccessKeyId":"`, "no end "))
	defer s.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", s.URL)
	b, err := rangeio.OpenS3(t.Context(), rangeio.S3Config{Bucket: "tier", Region: "us-east-1", Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	spent := allocated(func() { _, _, err = b.Open(t.Context(), "o", 0, 1000, "") })
	rangeiotest.IsKind(t, err, rangeio.BadCredentials)
	if spent > 300*mib {
		t.Errorf("%d MiB", spent/mib)
	}
}
