package export

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// faultyProxy hands requests on to a gateway, and does to a third of the answers what networks, proxies and busy
// gateways do.
type faultyProxy struct {
	to     string
	mu     sync.Mutex
	random *rand.Rand
	faults map[string]int
}

func (p *faultyProxy) pick() (fault string, at float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []string{"503", "429", "502 of a proxy", "reset", "cut", "cut", "cut", "flipped", "no trailers", "no trailers"}
	fault = "none"
	if p.random.IntN(3) == 0 {
		fault = all[p.random.IntN(len(all))]
	}
	p.faults[fault]++
	return fault, p.random.Float64()
}

func (p *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, at := p.pick()
	switch fault {
	case "503":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error_code":50301,"message":"busy"}`)
		return
	case "429":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case "502 of a proxy":
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "<html>Bad Gateway</html>")
		return
	case "reset":
		panic(http.ErrAbortHandler)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.to+r.URL.RequestURI(), nil)
	if err != nil {
		panic(err)
	}
	req.Header = r.Header
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Header {
		if fault != "no trailers" || !strings.HasPrefix(name, "X-Kafka-") {
			w.Header()[name] = values
		}
	}
	if fault != "no trailers" {
		for name, values := range resp.Trailer {
			w.Header()[http.TrailerPrefix+name] = values
		}
	}
	switch {
	case fault == "cut":
		w.WriteHeader(resp.StatusCode)
		w.Write(body[:int(at*float64(len(body)))])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case fault == "flipped" && len(body) > 100 && resp.Header.Get("Content-Type") == mediaBatches:
		// What stands before the checksum is not covered by it.
		body[22+int(at*70)] ^= 4
	}
	w.WriteHeader(resp.StatusCode)
	w.Write(body)
}

// TestFaultsOnTheWayLeaveNeitherGapNorDuplicate exports through a proxy that cuts, garbles and refuses.
func TestFaultsOnTheWayLeaveNeitherGapNorDuplicate(t *testing.T) {
	base := startGateway(t)
	for format, lines := range lineReaders {
		t.Run(string(format), func(t *testing.T) {
			proxy := &faultyProxy{to: base, random: rand.New(rand.NewPCG(3, uint64(len(format)))), faults: map[string]int{}}
			server := httptest.NewServer(proxy)
			defer server.Close()
			for _, topic := range sampleTopics {
				dir := t.TempDir()
				o := small(Options{URL: server.URL, Topic: topic, To: Latest, Format: format, Encoding: encodingFor(format), Dir: dir})
				o.tuning.tries = 100
				m := mustRun(t, o)
				forEachPartition(m, func(name string, p *Partition) {
					equal(t, name, lines(t, dir, name, m, p), fetchLines(t, base, name, "offset=earliest&encoding=base64"))
				})
			}
			if len(proxy.faults) < 8 {
				t.Errorf("too few faults: %v", proxy.faults)
			}
		})
	}
}

// TestPatienceIsBounded: a gateway that is always busy ends the partition, and the next run goes on.
func TestPatienceIsBounded(t *testing.T) {
	base := startGateway(t)
	var busy atomic.Bool
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() && strings.HasSuffix(r.URL.Path, "/records") && r.URL.Query().Get("offset") >= "3" {
			asked.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error_code":50303,"message":"the object store cannot be reached"}`)
			return
		}
		(&faultyProxy{to: base, random: rand.New(quietSource{}), faults: map[string]int{}}).ServeHTTP(w, r)
	}))
	defer server.Close()
	busy.Store(true)
	dir := t.TempDir()
	o := small(Options{URL: server.URL, Topic: "plain", To: Latest, Format: NDJSON, Dir: dir})
	m, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Partitions[0]
	if m.Complete || p.Ended != endedFailed || !strings.Contains(p.Message, "50303") || asked.Load() != int64(o.tuning.tries) || p.NextOffset == 0 {
		t.Errorf("%+v after %d tries", p, asked.Load())
	}
	busy.Store(false)
	mustRun(t, o)
	if got, want := readFile(t, dir, "plain-0.ndjson"), strings.Join(fetchLines(t, base, "plain-0", "offset=earliest"), ""); got != want {
		t.Error("what the second run added does not fit")
	}
}

// quietSource makes a faultyProxy do no fault.
type quietSource struct{}

func (quietSource) Uint64() uint64 { return 1<<64 - 1 }

// TestAStalledBodyIsCut: a gateway that stops in the middle of an answer costs one wait.
func TestAStalledBodyIsCut(t *testing.T) {
	base := startGateway(t)
	var stalled atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/records") && stalled.Add(1) <= 2 {
			w.Header().Set("Content-Type", mediaBatches)
			w.Write([]byte{0, 0, 0})
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		(&faultyProxy{to: base, random: rand.New(quietSource{}), faults: map[string]int{}}).ServeHTTP(w, r)
	}))
	defer server.Close()
	var out bytes.Buffer
	o := small(Options{URL: server.URL, Topic: "plain", To: Latest, Format: NDJSON, Out: &out, Timeout: 1e6})
	o.tuning.grace = 50e6
	o.tuning.tries = 1000
	mustRun(t, o)
	if want := strings.Join(fetchLines(t, base, "plain-0", "offset=earliest"), ""); out.String() != want || stalled.Load() < 3 {
		t.Error(fmt.Sprint("differs; asked ", stalled.Load()))
	}
}
