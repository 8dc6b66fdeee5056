//go:build hostile

// Package hostile runs the built binary under attack and out of luck: without file descriptors, over stores that never
// stop talking, with readers that never read, asked by other sites' pages, and ended at bad moments.
package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"coldtap/bench"
	"coldtap/catalog/embedded"
	"coldtap/rangeio"
)

// launchLimit makes this test binary a launcher: it sets the limit of open files and becomes the command in its
// arguments.
const launchLimit = "COLDTAP_HOSTILE_NOFILE"

// served is what a gateway serves: objects in a folder, and a database.
type served struct {
	dir     string
	records int64
}

// tier is what all gateways serve but those that need records of another size.
var tier served

// usual are batches of about half a mebibyte, of records as most are.
var usual = bench.Spec{Segments: 2, SegmentBytes: 24 << 20, BatchRecords: 512, ValueBytes: 1000}

func TestMain(m *testing.M) {
	if limit := os.Getenv(launchLimit); limit != "" {
		launch(limit)
	}
	os.Exit(run(m))
}

// launch does not return.
func launch(limit string) {
	n, err := strconv.ParseUint(limit, 10, 64)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n})
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coldtap-hostile-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if tier, err = makeTier(context.Background(), dir, usual); err != nil {
		panic(err)
	}
	return m.Run()
}

func makeTier(ctx context.Context, dir string, spec bench.Spec) (served, error) {
	s := served{dir: dir}
	backend, err := rangeio.OpenFile(s.objects(), true)
	if err != nil {
		return s, err
	}
	defer backend.Close()
	data, err := bench.Generate(ctx, backend, spec)
	if err != nil {
		return s, err
	}
	s.records = data.Records
	db, err := embedded.OpenWriter(ctx, s.database())
	if err != nil {
		return s, err
	}
	defer db.Close()
	return s, data.Publish(ctx, db)
}

func (s *served) objects() string  { return filepath.Join(s.dir, "objects") }
func (s *served) database() string { return filepath.Join(s.dir, "coldtap.db") }

// config serves it from its folder.
func (s *served) config() string {
	return fmt.Sprintf("store: {kind: file, file: {dir: %q}}\n", s.objects()) + s.commonConfig()
}

func (s *served) commonConfig() string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nmetadata: {embedded: {path: %q}}\ncache: {memory: 64MiB, chunk: 1MiB}\n", s.database())
}

func localConfig() string  { return tier.config() }
func commonConfig() string { return tier.commonConfig() }

// records is the address of records in JSON, of about so many bytes.
func records(offset int64, maxBytes int) string {
	return fmt.Sprintf("/topics/%s/partitions/0/records?offset=%d&max_bytes=%d", bench.Topic, offset, maxBytes)
}

// binary is the one that make builds.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/coldtap")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make", err)
	}
	return path
}

// gateway is a running binary.
type gateway struct {
	t           *testing.T
	cmd         *exec.Cmd
	config      string
	data, admin string
	done        chan struct{} // closed when it has ended, and what it said is complete

	mu   sync.Mutex
	said strings.Builder
}

// spawner starts every child from one thread that lives as long as the run: the kernel kills a child (Pdeathsig) when
// the thread that started it ends, which is how no child outlives a run that is killed.
var spawner = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// launchGateway starts the binary with a configuration and gives it before it has said that it serves. files is its
// limit of open files, 0: this process's.
func launchGateway(t *testing.T, config string, files int, args ...string) *gateway {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coldtap.yaml")
	if config != "" {
		if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, config: path, done: make(chan struct{})}
	args = append([]string{binary(t), "serve", "--config", path, "--log-format", "json"}, args...)
	g.cmd = exec.Command(args[0], args[1:]...)
	g.cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
	if files > 0 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		g.cmd = exec.Command(self, args...)
		g.cmd.Env = append(os.Environ(), launchLimit+"="+strconv.Itoa(files))
	}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	spawner() <- func() { started <- g.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	serving := make(chan struct{})
	go g.listen(stderr, serving)
	t.Cleanup(func() {
		g.cmd.Process.Kill()
		<-g.done
		if t.Failed() {
			t.Logf("the gateway said:\n%.4000s", g.log())
		}
	})
	if config == "" {
		return g
	}
	select {
	case <-serving:
	case <-g.done:
		t.Fatalf("it ended at once:\n%s", g.log())
	case <-time.After(20 * time.Second):
		t.Fatal("it does not serve")
	}
	return g
}

func startGateway(t *testing.T, config string) *gateway {
	t.Helper()
	return launchGateway(t, config, 0)
}

// listen takes in what the gateway says.
func (g *gateway) listen(stderr io.Reader, serving chan<- struct{}) {
	defer close(g.done)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		g.mu.Lock()
		g.said.WriteString(lines.Text() + "\n")
		g.mu.Unlock()
		var line struct{ Msg, Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			g.data, g.admin = line.Listen, line.Admin
			close(serving)
		}
	}
	g.cmd.Wait()
}

func (g *gateway) log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.said.String()
}

// signal sends a signal.
func (g *gateway) signal(s os.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

// exit waits for the end and gives the exit code.
func (g *gateway) exit(within time.Duration) int {
	g.t.Helper()
	select {
	case <-g.done:
		return g.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		g.t.Fatalf("it has not ended within %s", within)
		return -1
	}
}

func (g *gateway) alive() bool {
	select {
	case <-g.done:
		return false
	default:
		return true
	}
}

// peakMemory is the highest resident set so far, in bytes.
func (g *gateway) peakMemory() int64 {
	g.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return kib << 10
		}
	}
	g.t.Fatal("no VmHWM")
	return 0
}

// get asks on a connection of its own and gives the status, 0 when there was no answer in time, and the body.
func get(addr, path string, within time.Duration, header ...string) (status int, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// eventually asks until it is answered well.
func eventually(t *testing.T, what, addr, path string, within time.Duration) {
	t.Helper()
	status, body := 0, ""
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if status, body = get(addr, path, 5*time.Second); status == http.StatusOK {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s is not answered: %d %.200s", what, status, body)
}

// connect opens connections that say nothing.
func connect(t *testing.T, addr string, n int) (conns []net.Conn) {
	t.Helper()
	for range n {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatalf("connection %d: %v", len(conns), err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
	}
	return conns
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}
