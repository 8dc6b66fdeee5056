package main

import (
	"go/build"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coldtap/internal/config"
	"coldtap/internal/testing/fakes3"
)

// s3Config is testConfig with an S3 store.
func s3Config(t *testing.T, endpoint string) config.Config {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg := testConfig(t)
	cfg.Store.Kind = "s3"
	cfg.Store.S3.Bucket, cfg.Store.S3.Endpoint, cfg.Store.S3.PathStyle = fakes3.Bucket, endpoint, true
	cfg.Store.S3.Prefix = "some prefix/with+signs%2F/"
	return cfg
}

// Reads through S3 are right while the store throttles, breaks bodies, answers in drops and forgets to answer.
func TestReadsEqualABrokersFromAFaultyS3(t *testing.T) {
	s3 := fakes3.Start(fakes3.Options{Seed: 3})
	t.Cleanup(s3.Close)
	cfg := s3Config(t, s3.URL())
	get, log := fakes3.Op(fakes3.Get), fakes3.Suffix(".log")
	for _, rule := range []fakes3.Rule{
		{Match: fakes3.All(get, once(0)), Fault: fakes3.Fault{Status: 503, Code: "SlowDown"}},
		{Match: fakes3.All(get, log, once(1, 2, 3)), Fault: fakes3.Fault{CutAfter: 7000, Reset: true}},
		{Match: fakes3.All(get, once(4, 5)), Fault: fakes3.Fault{Drop: true}},
		{Match: get, Share: 0.1, Fault: fakes3.Fault{Piece: 1460}},
		{Match: fakes3.All(fakes3.Op(fakes3.Put), once(6)), Fault: fakes3.Fault{Status: 500, Eat: 1000}},
	} {
		s3.Inject(rule)
	}
	base, _ := startTier(t, cfg)
	judge(t, base, 4)
	if n := s3.Count(func(r fakes3.Request) bool { return strings.HasPrefix(r.Key, cfg.Store.S3.Prefix) }); n < 46*3 {
		t.Errorf("%d requests below the prefix: the reads did not go through S3", n)
	}
}

// The same through a real S3 server, where its binary is there.
func TestReadsEqualABrokersFromVersitygw(t *testing.T) {
	binary, err := exec.LookPath("versitygw")
	if err != nil {
		binary = filepath.Join(build.Default.GOPATH, "bin", "versitygw")
		if _, err := os.Stat(binary); err != nil {
			t.Skip("versitygw is not installed")
		}
	}
	dir := t.TempDir()
	for _, d := range []string{"root/" + fakes3.Bucket, "attributes"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	server := exec.Command(binary, "--port", address, "--access", "key", "--secret", "secret", "--quiet",
		"posix", "--sidecar", filepath.Join(dir, "attributes"), filepath.Join(dir, "root"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	waitForPort(t, address)
	cfg := s3Config(t, "http://"+address)
	cfg.Store.S3.Prefix = "tiered/"
	base, _ := startTier(t, cfg)
	judge(t, base, 2)
}

func waitForPort(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			conn.Close()
			return
		}
		time.Sleep(20 * time.Millisecond) // another process: there is nothing to wait on but its port
	}
	t.Fatalf("nothing listens on %s", address)
}

// once matches the first request for each key of the given classes (of eight). Rules with classes of their own leave
// every operation attempts enough, whatever ids the segments were given.
func once(classes ...uint32) fakes3.Match {
	var mu sync.Mutex
	met := make(map[string]bool)
	return func(r fakes3.Request) bool {
		h := fnv.New32a()
		h.Write([]byte(r.Key))
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(classes, h.Sum32()%8) || met[r.Key] {
			return false
		}
		met[r.Key] = true
		return true
	}
}
