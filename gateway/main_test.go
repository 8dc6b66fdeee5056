package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coldtap/fetch"
	"coldtap/internal/budget"
	"coldtap/segment"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// fasthttp's clock for the Date header runs as long as the process; its pool's cleaner of a stopped server sleeps
	// out its last 10 s.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// harness is a running data plane over a scripted service.
type harness struct {
	*Server
	fake   *fakeService
	addr   string
	client *http.Client
	pinned atomic.Int64
	closed atomic.Int64
	reg    *prometheus.Registry
}

func newHarness(tb testing.TB, change ...func(*Config)) *harness {
	tb.Helper()
	r := &harness{fake: &fakeService{}, reg: prometheus.NewRegistry()}
	cfg := Config{Decode: budget.New(64 << 20), Registerer: r.reg, Hosts: []string{"x"}, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	r.Server = newServer(cfg, r.fake)
	r.serve(tb)
	return r
}

// metric gives the value of a metric of ours, as operators see it: of the one with this label value, if one is given.
func (r *harness) metric(name string, label ...string) float64 {
	families, err := r.reg.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() != "coldtap_gateway_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) == 0 || m.GetLabel()[0].GetValue() == label[0] {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	panic("no metric " + name)
}

func (r *harness) serve(tb testing.TB) {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(ln) }()
	transport := &http.Transport{DisableCompression: true}
	r.client = &http.Client{Transport: transport}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			tb.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
		if n := r.pinned.Load(); n != 0 {
			tb.Errorf("%d pieces never released", n)
		}
		if n := r.decode.InUse(); n != 0 {
			tb.Errorf("%d bytes of the decode budget never given back", n)
		}
	})
}

// stream makes a fake stream that the harness keeps account of.
func (r *harness) stream(start, next int64) *fakeStream {
	return &fakeStream{start: start, reached: next, end: fetch.EndTier, pinned: &r.pinned, closed: &r.closed}
}

// runs makes every read give these pieces.
func (r *harness) runs(runs ...fakeRun) {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 10)
		s.runs = runs
		return s, nil
	}
}

func (r *harness) records(records ...fakeRecord) {
	r.fake.open = func(context.Context, *fetch.Request) (stream, error) {
		s := r.stream(10, 10)
		s.records = records
		return s, nil
	}
}

type reply struct {
	*http.Response
	body string
	err  error // of reading the body
}

func (r *harness) do(tb testing.TB, method, path string, header ...string) reply {
	tb.Helper()
	req, err := http.NewRequest(method, "http://"+r.addr+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if r.fake != nil {
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
	}
	return reply{resp, string(body), err}
}

func (r *harness) get(tb testing.TB, path string, header ...string) reply {
	tb.Helper()
	return r.do(tb, http.MethodGet, path, header...)
}

const recordsPath = "/topics/orders/partitions/3/records"

// dial opens a raw connection that fails the test rather than hang.
func (r *harness) dial(tb testing.TB) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		tb.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// exchangeRaw sends bytes and gives everything until the connection's end, which it must have.
func (r *harness) exchangeRaw(tb testing.TB, request string) string {
	tb.Helper()
	conn := r.dial(tb)
	if _, err := io.WriteString(conn, request); err != nil {
		tb.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		tb.Errorf("%.100q: after %.300q: %v", request, answer, err)
	}
	return string(answer)
}

func readResponse(tb testing.TB, br *bufio.Reader, method string) reply {
	tb.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		tb.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	return reply{resp, string(body), err}
}

// until waits for a condition that another goroutine brings about.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func record(offset int64, value string) segment.Record {
	return segment.Record{Offset: offset, Timestamp: 1700000000000 + offset, LeaderEpoch: 2, Key: []byte("k"), Value: []byte(value)}
}

func batch(n int, c byte) []byte { return []byte(strings.Repeat(string(c), n)) }
