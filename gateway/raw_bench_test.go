package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// bareBody is the least that a fasthttp handler can do for a large body from memory: the same bytes in writes of 1 MiB.
// All of them are distinct: one MiB sent again and again would come from the processor's cache.
type bareBody struct{ data []byte }

func (b *bareBody) Read([]byte) (int, error)  { return 0, io.EOF }
func (b *bareBody) SupportsBodyWriteTo() bool { return true }
func (b *bareBody) WriteTo(w io.Writer) (int64, error) {
	for left := b.data; len(left) > 0; {
		n := min(len(left), 1<<20)
		if _, err := w.Write(left[:n]); err != nil {
			return 0, err
		}
		left = left[n:]
	}
	return int64(len(b.data)), nil
}

// BenchmarkRawFromMemory compares the CPU of raw answers from memory with a bare handler's. The client throws bytes
// away in the kernel (MSG_TRUNC), so that nearly all of the process' CPU is the server's. Read cpu-s/GiB.
func BenchmarkRawFromMemory(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20, 4 << 20} {
		r := newRealHarness(b, 4<<20, 128<<20)
		r.addEndless(b, 64<<20)
		path := fmt.Sprintf("%s?offset=0&max_bytes=%d", endlessPath, size)
		got := r.get(b, path, "Accept", rawType)
		b.Run(fmt.Sprintf("coldtap/%dKiB", size>>10), func(b *testing.B) {
			drain(b, r.addr, path, len(got.body))
		})
		b.Run(fmt.Sprintf("bare/%dKiB", size>>10), func(b *testing.B) {
			data := []byte(got.body)
			bare := &fasthttp.Server{ReduceMemoryUsage: true, NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
				ctx.SetBodyStream(&bareBody{data}, len(data))
			}}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go bare.Serve(ln)
			drain(b, ln.Addr().String(), "/", len(got.body))
			bare.Shutdown()
		})
	}
}

// drain asks for the same answer again and again over one connection.
func drain(b *testing.B, addr, path string, size int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: x\r\nAccept: " + rawType + "\r\n\r\n")
	br := bufio.NewReaderSize(conn, 4<<10)
	scratch := make([]byte, 1<<20)
	b.SetBytes(int64(size))
	before := cpu()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		left := size - br.Buffered()
		br.Discard(br.Buffered())
		for left > 0 {
			n := 0
			err := raw.Read(func(fd uintptr) bool {
				var errno error
				n, _, errno = syscall.Recvfrom(int(fd), scratch[:min(left, len(scratch))], syscall.MSG_TRUNC)
				return errno != syscall.EAGAIN
			})
			if err != nil || n <= 0 {
				b.Fatal(n, err)
			}
			left -= n
		}
	}
	b.ReportMetric((cpu()-before).Seconds()/(float64(size)*float64(b.N)/(1<<30)), "cpu-s/GiB")
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
