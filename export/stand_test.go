package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/catalog/embedded"
	"coldtap/gateway"
	"coldtap/internal/assembly"
	"coldtap/internal/sample"
	"coldtap/layout/native"
	"coldtap/offload"
	"coldtap/rangeio"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	cleanup := goleak.Cleanup(func(code int) {
		if dir, err := tiered(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	})
	goleak.VerifyTestMain(m, cleanup, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// tiered is a folder with the sample, offloaded: objects and metadata, made once.
var tiered = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "coldtap-export-"); err != nil {
		return "", err
	}
	logs := filepath.Join(dir, "logdir")
	if err := sample.Extract(logs); err != nil {
		return "", err
	}
	backend, err := rangeio.OpenFile(filepath.Join(dir, "objects"), true)
	if err != nil {
		return "", err
	}
	defer backend.Close()
	db, err := embedded.OpenWriter(context.Background(), filepath.Join(dir, "coldtap.db"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	report, err := offload.Once(context.Background(), offload.Config{LogDirs: []string{logs}, Catalog: db, Logger: slog.New(slog.DiscardHandler),
		Layout: native.New(rangeio.NewClient(backend, rangeio.Config{}), "")})
	if err == nil && report.Failed() {
		err = fmt.Errorf("%+v", report)
	}
	return dir, err
})

// startGateway serves the sample and gives its URL.
func startGateway(t *testing.T) string {
	t.Helper()
	made, err := tiered()
	if err != nil {
		t.Fatal(err)
	}
	// A copy, because the one that was made goes with no test.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
		t.Fatal(err)
	}
	backend, err := rangeio.OpenFile(filepath.Join(dir, "objects"), false)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := embedded.OpenReader(t.Context(), filepath.Join(dir, "coldtap.db"), embedded.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := assembly.New(assembly.Options{Source: catalog, Layout: native.New(rangeio.NewClient(backend, rangeio.Config{}), ""),
		ChunkMemory: 8 << 20, Chunk: 64 << 10, IndexMemory: 8 << 20, DecodeMemory: 64 << 20, Threads: 8, MaxPending: 100, QueueTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	server := gateway.New(gateway.Config{Service: path.Service, Decode: path.Decode, LookAhead: 128 << 10})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(server.Shutdown(ctx), <-served, path.Close(ctx), catalog.Close(), backend.Close()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// small makes many requests, checkpoints and parts of the small sample, and no waits.
func small(o Options) Options {
	o.tuning = tuning{requestBytes: 4 << 10, checkpointBytes: 32 << 10, checkpointEvery: time.Minute, partBytes: 8 << 10, rowGroupBytes: 4 << 10, tries: 5, wait: noWait}
	return o
}

func noWait(time.Duration) <-chan time.Time {
	now := make(chan time.Time, 1)
	now <- time.Time{}
	return now
}

// fetchLines gives the gateway's ndjson records of a range, one line each.
func fetchLines(t *testing.T, base, dir, query string) (lines []string) {
	t.Helper()
	i := strings.LastIndexByte(dir, '-')
	next := query
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/topics/"+dir[:i]+"/partitions/"+dir[i+1:]+"/records?"+next, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v: %s", next, resp.Status, err, body)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, `{"topic":`) {
				lines = append(lines, line)
			}
		}
		field := func(name string) string { return resp.Header.Get(name) + resp.Trailer.Get(name) }
		if field("X-Kafka-End") != "limit" {
			return lines
		}
		_, rest, _ := strings.Cut(query, "&")
		next = "offset=" + field("X-Kafka-Next-Offset") + "&" + rest
	}
}

// mustRun runs an export that must be complete.
func mustRun(t *testing.T, o Options) *Manifest {
	t.Helper()
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Complete {
		var text bytes.Buffer
		m.Summarize(&text)
		t.Fatalf("%s", text.String())
	}
	return m
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
