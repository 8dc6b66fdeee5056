package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

const (
	rawBody    = 4 << 20 // bytes of each answer
	rawClients = 4
	rawRounds  = 5   // pairs of measurements, coldtap and bare in turn
	rawAnswers = 256 // of each measurement: 1 GiB
	gib        = 1 << 30
)

// rawSpec is 64 MiB in one segment, in batches of 64 KiB.
var rawSpec = Spec{Segments: 1, SegmentBytes: 64 << 20, BatchRecords: 64, ValueBytes: 1000}

// Raw compares the CPU of raw batches from memory with a bare fasthttp handler that streams as many bytes, round by
// round in the same run. The middle ratio counts.
func Raw(ctx context.Context, self Self) ([]Figure, error) {
	setup, err := newGatewaySetup(ctx, rawSpec, "{memory: 256MiB, chunk: 4MiB}")
	if err != nil {
		return nil, err
	}
	defer setup.remove()
	gateway, err := setup.serve(ctx, self)
	if err != nil {
		return nil, err
	}
	defer gateway.stop()
	bare, err := start(ctx, self.Path, append(self.Args, bareServer)...)
	if err != nil {
		return nil, err
	}
	defer bare.stop()

	step := setup.data.Records / 16 // answers start at 16 places, each of them with 4 MiB behind it
	cold := func(i int) string {
		return fmt.Sprintf("http://%s/topics/%s/partitions/0/records?offset=%d&max_bytes=%d&isolation_level=read_uncommitted",
			gateway.addr, Topic, int64(i%15)*step, rawBody)
	}
	plain := func(int) string { return "http://" + bare.addr + "/" }
	if _, err := load(ctx, gateway, cold); err != nil { // fills the cache
		return nil, err
	}
	if _, err := load(ctx, bare, plain); err != nil {
		return nil, err
	}
	var ratios, ours, theirs []float64
	for range rawRounds {
		a, err := load(ctx, gateway, cold)
		if err != nil {
			return nil, err
		}
		b, err := load(ctx, bare, plain)
		if err != nil {
			return nil, err
		}
		ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
	}
	return []Figure{
		{Name: "CPU-s per GiB, bare fasthttp", Value: fmt.Sprintf("%.3f", median(theirs)), Bar: "-", OK: true},
		{Name: "CPU-s per GiB, coldtap", Value: fmt.Sprintf("%.3f", median(ours)), Bar: "-", OK: true},
		atMost("CPU, coldtap / bare", median(ratios), 1.5, ""),
	}, nil
}

// load asks for rawAnswers bodies over rawClients connections and gives the server's CPU seconds per GiB of body.
func load(ctx context.Context, p *process, url func(i int) string) (float64, error) {
	before, err := p.cpu()
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	bytes, errs := make([]int64, rawClients), make([]error, rawClients)
	for c := range rawClients {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{ReadBufferSize: 256 << 10}}
			defer client.CloseIdleConnections()
			buffer := make([]byte, 1<<20)
			for i := c; i < rawAnswers && errs[c] == nil; i += rawClients {
				var n int64
				n, errs[c] = get(ctx, client, url(i), buffer)
				bytes[c] += n
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	after, err := p.cpu()
	if err != nil {
		return 0, err
	}
	var total int64
	for _, n := range bytes {
		total += n
	}
	return (after - before) / (float64(total) / gib), nil
}

// get reads one answer into buffer, over and over, and gives its length.
func get(ctx context.Context, client *http.Client, url string, buffer []byte) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/vnd.kafka.recordbatch")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buffer)
}

// ServeBare is the server that Raw compares with: a fasthttp handler that streams rawBody bytes from memory, one MiB a
// write. It goes round as much memory as coldtap does, since sending the same few bytes from the processor's cache
// again and again would be cheaper than any server can be. It says where it listens as `coldtap serve --log-format
// json` does, and serves until ctx ends.
func ServeBare(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	memory := make([]byte, rawSpec.SegmentBytes)
	for i := range memory {
		memory[i] = byte(i) // pages that were never written are one page of zeros
	}
	var next atomic.Int64
	server := &fasthttp.Server{
		Handler: func(rc *fasthttp.RequestCtx) {
			rc.SetContentType("application/vnd.kafka.recordbatch")
			from := next.Add(1) % int64(len(memory)/rawBody) * rawBody
			rc.SetBodyStream(&bareBody{rest: memory[from : from+rawBody]}, rawBody)
		},
		NoDefaultServerHeader: true,
	}
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("serving", "listen", listener.Addr().String())
	context.AfterFunc(ctx, func() { server.Shutdown() })
	return server.Serve(listener)
}

// bareBody writes a slice, one MiB at a time.
type bareBody struct{ rest []byte }

func (b *bareBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *bareBody) WriteTo(w io.Writer) (total int64, err error) {
	for len(b.rest) > 0 {
		n, err := w.Write(b.rest[:min(len(b.rest), 1<<20)])
		total += int64(n)
		b.rest = b.rest[n:]
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// SupportsBodyWriteTo tells fasthttp to use WriteTo.
func (b *bareBody) SupportsBodyWriteTo() bool { return true }
