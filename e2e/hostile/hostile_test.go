//go:build hostile

package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"coldtap/bench"
)

// idleClients are more than a process with the usual soft limit of 1,024 files can take.
const (
	fewFiles       = 1024
	idleClients    = 1100
	hardlyAnyFiles = 64
)

// More idle clients than file descriptors: those that are connected are served on, reads of the store go on, operators
// get in, and when the clients are gone everything is as before.
func TestMoreClientsThanDescriptors(t *testing.T) {
	g := launchGateway(t, localConfig(), fewFiles)
	first, err := net.Dial("tcp", g.data)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	in := bufio.NewReader(first)
	ask := func(offset int64) {
		t.Helper()
		first.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(first, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", records(offset, 4096))
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("the first client: %d %v", resp.StatusCode, err)
		}
	}
	ask(0)
	idle := connect(t, g.data, idleClients)
	ask(tier.records / 2)
	if status, body := get(g.admin, "/ready", 5*time.Second); status != http.StatusOK {
		t.Errorf("/ready: %d %s", status, body)
	}
	status, body := get(g.data, "/topics", 5*time.Second)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `"error_code":50301`) {
		t.Errorf("one client more: %d %s", status, body)
	}
	closeAll(idle)
	eventually(t, "a new client", g.data, "/topics", 20*time.Second)
	if !strings.Contains(g.log(), "ulimit -n") {
		t.Error("no warning of the small limit")
	}
	if !g.alive() {
		t.Fatal("it has ended")
	}
}

// With fewer descriptors than idle clients of the admin plane may take, none is left, and accept fails on both planes.
func TestDescriptorsRunOut(t *testing.T) {
	g := launchGateway(t, localConfig(), hardlyAnyFiles)
	idle := append(connect(t, g.admin, 100), connect(t, g.data, 10)...)
	time.Sleep(500 * time.Millisecond) // in which accept fails, again and again
	closeAll(idle)
	eventually(t, "the data plane", g.data, "/topics", 20*time.Second)
	eventually(t, "the admin plane", g.admin, "/ready", 20*time.Second)
	_, metrics := get(g.admin, "/metrics", 5*time.Second)
	if strings.Contains(metrics, `coldtap_gateway_accept_errors_total{plane="admin"} 0`) || !strings.Contains(metrics, "coldtap_gateway_accept_errors_total") {
		t.Error("accept never failed: the test proves nothing")
	}
	if n := strings.Count(g.log(), "could not be accepted"); n < 1 || n > 4 {
		t.Errorf("%d log lines of failed accepts", n)
	}
	if !g.alive() {
		t.Fatal("it has ended")
	}
}

// endless answers everything with a status and a body that does not end before the client has left, or took so much
// that a test must have failed.
type endless struct {
	status int
	head   string // what the body begins with
	sent   atomic.Int64
	asked  atomic.Int64
}

const endlessMost = 192 << 20

// settled waits until the store was asked, and sends no more.
func (e *endless) settled(t *testing.T) {
	t.Helper()
	sent := int64(-1)
	for deadline := time.Now().Add(20 * time.Second); e.asked.Load() == 0 || e.sent.Load() != sent; time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("asked %d times, sent %d bytes: the test proves nothing", e.asked.Load(), e.sent.Load())
			return
		}
		sent = e.sent.Load()
	}
}

func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.asked.Add(1)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.status)
	if r.Method == http.MethodHead {
		return
	}
	io.WriteString(w, e.head)
	piece := []byte(strings.Repeat("x", 64<<10))
	for e.sent.Load() < endlessMost {
		n, err := w.Write(piece)
		e.sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// serveEndless gives its address.
func serveEndless(t *testing.T, e *endless) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: e}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return ln.Addr().String()
}

// A store's answers that are no payload are not kept whole, whatever their length.
func TestStoresThatNeverStopTalking(t *testing.T) {
	const most = 64 << 20 // bytes that the resident set may grow
	for _, c := range []struct {
		name  string
		store string // with the store's address
		more  string

		status int
		head   string
	}{
		{"S3 errors", "store: {kind: s3, s3: {bucket: b, endpoint: \"http://%s\", path_style: true}}\n", commonConfig(),
			500, "<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>"},
		{"S3 refusals", "store: {kind: s3, s3: {bucket: b, endpoint: \"http://%s\", path_style: true}}\n", commonConfig(),
			403, "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>"},
		{"Azure errors", "store: {kind: azure, azure: {account: acct, container: con, endpoint: \"http://%s/acct\", account_key: a2V5}}\n", commonConfig(),
			500, "<?xml version=\"1.0\"?><Error><Code>InternalError</Code><Message>"},
		{"GCS errors", "store: {kind: gcs, gcs: {bucket: bkt, endpoint: \"http://%s\", anonymous: true}}\n", commonConfig(),
			500, "{\"error\":{\"message\":\""},
		{"S3 listings", "store: {kind: s3, s3: {bucket: b, endpoint: \"http://%s\", path_style: true}}\n",
			"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nmetadata: {kind: archive, archive: {snapshot: \"\"}}\ncache: {memory: 64MiB, chunk: 1MiB}\n",
			200, "<?xml version=\"1.0\"?><ListBucketResult><Name>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := &endless{status: c.status, head: c.head}
			g := startGateway(t, fmt.Sprintf(c.store, serveEndless(t, store))+c.more)
			before := g.peakMemory()
			status, body := get(g.data, records(0, 1000), 40*time.Second)
			if status < 500 {
				t.Errorf("%d %.300s", status, body)
			}
			store.settled(t)
			if grown := g.peakMemory() - before; grown > most {
				t.Errorf("the store sent %d MiB, the resident set grew by %d MiB", store.sent.Load()>>20, grown>>20)
			}
		})
	}
}

// A thousand clients that ask for records and read nothing must not keep others from getting theirs, however large the
// records are.
func TestReadersThatReadNothing(t *testing.T) {
	t.Run("of 1,000 bytes", func(t *testing.T) { readersThatReadNothing(t, &tier) })
	for name, spec := range map[string]bench.Spec{
		"of 256 KiB": {Segments: 2, SegmentBytes: 24 << 20, BatchRecords: 2, ValueBytes: 256 << 10},
		"of 1 MiB":   {Segments: 2, SegmentBytes: 24 << 20, BatchRecords: 1, ValueBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			large, err := makeTier(t.Context(), t.TempDir(), spec)
			if err != nil {
				t.Fatal(err)
			}
			readersThatReadNothing(t, &large)
		})
	}
}

func readersThatReadNothing(t *testing.T, from *served) {
	g := startGateway(t, from.config())
	for i := range 1000 {
		conn, err := net.Dial("tcp", g.data)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// A small window: the answer must wait in the gateway, not in this machine's socket buffers.
		if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n", records(int64(i)*from.records/2000, 32<<20))
	}
	n := 0
	for deadline := time.Now().Add(15 * time.Second); n < 900; n = stalledOrCut(t, g) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d clients read nothing: the test proves nothing", n)
		}
		time.Sleep(50 * time.Millisecond)
	}
	var slowest [2]time.Duration // of listings and of records
	for i := range 10 {
		for j, path := range []string{"/topics", records(int64(i)*from.records/20, 1<<20<<(i%3))} {
			began := time.Now()
			if status, body := get(g.data, path, 10*time.Second); status != http.StatusOK {
				t.Errorf("%s after %s: %d %.200s", path, time.Since(began), status, body)
			}
			slowest[j] = max(slowest[j], time.Since(began))
		}
	}
	t.Logf("slowest listing %s, slowest records %s", slowest[0], slowest[1])
	eventually(t, "/ready", g.admin, "/ready", 5*time.Second)
}

// stalledOrCut is how many requests are under way, were cut, or were refused for want of memory.
func stalledOrCut(t *testing.T, g *gateway) (n int) {
	t.Helper()
	_, metrics := get(g.admin, "/metrics", 10*time.Second)
	for _, m := range regexp.MustCompile(`(?m)^coldtap_gateway_(?:in_flight_requests|cut_clients_total\{reason="(?:pressure|stalled)"\}|requests_total\{route="records",status="503"\}) (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		v, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}

// What another site's page makes a browser ask.
func TestOtherSitesPages(t *testing.T) {
	g := startGateway(t, localConfig()+"hosts: [tier.example]\n")
	_, port, err := net.SplitHostPort(g.data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"Host", "localhost:" + port}, 200},
		{[]string{"Host", "[::1]:" + port}, 200},
		{[]string{"Host", "tier.example"}, 200},
		{[]string{"Host", "localhost", "Origin", "http://localhost:3000"}, 200},
		{[]string{"Host", "evil.example:" + port}, 421},
		{[]string{"Host", "127.0.0.1.evil.example"}, 421},
		{[]string{"Host", "evil.example", "Origin", "http://evil.example"}, 421},
		{[]string{"Host", "localhost", "Origin", "http://evil.example"}, 403},
		{[]string{"Host", "localhost", "Origin", "null"}, 403},
		{[]string{"Host", "localhost", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
	} {
		for _, at := range [][2]string{{g.data, "/topics"}, {g.data, records(0, 100)}, {g.admin, "/metrics"}, {g.admin, "/debug/pprof/heap"}} {
			status, body := get(at[0], at[1], 10*time.Second, c.header...)
			if status != c.status || status != 200 && (strings.Contains(body, bench.Topic) || !strings.Contains(body, `{"error_code":`+fmt.Sprint(status))) {
				t.Errorf("%s with %v: %d %.200s", at[1], c.header, status, body)
			}
		}
	}
}

// promptly is what an end may take that has nothing to wait for.
const promptly = 12 * time.Second

// A configuration that cannot be read to its end must not keep the process from ending.
func TestEndWhileTheConfigurationHangs(t *testing.T) {
	t.Run("at a hang-up", func(t *testing.T) {
		t.Parallel()
		g := startGateway(t, localConfig())
		if err := os.Remove(g.config); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(g.config, 0o600); err != nil {
			t.Fatal(err)
		}
		g.signal(syscall.SIGHUP)
		defer beingRead(t, g.config).Close()
		g.signal(syscall.SIGTERM)
		if code := g.exit(promptly); code != 0 {
			t.Errorf("exit %d", code)
		}
	})
	t.Run("at the start", func(t *testing.T) {
		t.Parallel()
		g := launchGateway(t, "", 0)
		defer beingRead(t, g.config).Close()
		g.signal(syscall.SIGTERM)
		if code := g.exit(promptly); code != 1 {
			t.Errorf("exit %d", code)
		}
	})
}

// beingRead waits until a pipe is read from, and keeps the reader waiting until it is closed.
func beingRead(t *testing.T, fifo string) *os.File {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		// Opening it for writing without waiting fails until somebody has it open for reading.
		if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			return f
		}
	}
	t.Fatal("the configuration is not read")
	return nil
}

// A request of minutes to the admin plane must not use the time that answers of the data plane have.
func TestEndWhileATraceRuns(t *testing.T) {
	g := startGateway(t, localConfig())
	conn := connect(t, g.admin, 1)[0]
	fmt.Fprint(conn, "GET /debug/pprof/trace?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil { // it has begun
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	if code := g.exit(promptly); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A client that reads nothing costs the drain, and the exit code says that its answer was cut.
func TestEndWhileAReaderReadsNothing(t *testing.T) {
	g := launchGateway(t, localConfig(), 0, "--drain", "1s")
	conn := connect(t, g.data, 1)[0]
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/vnd.kafka.recordbatch\r\n\r\n", records(0, 32<<20))
	if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil { // it has begun
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	if code := g.exit(promptly); code != 1 || !strings.Contains(g.log(), "drain") {
		t.Errorf("exit %d", code)
	}
}
