package export

import (
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dripping gives a byte each pause.
type dripping struct {
	io.Reader
	pause time.Duration
}

func (d dripping) Read(p []byte) (int, error) {
	time.Sleep(d.pause)
	return d.Reader.Read(p[:min(len(p), 1)])
}

// TestASlowLineIsNotAStalledOne: a chunk that takes longer than the patience is read while it comes.
func TestASlowLineIsNotAStalledOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 100 << 10
		body := dripping{strings.NewReader("19000\r\n" + strings.Repeat("x", size) + "\r\n0\r\n\r\n"), time.Millisecond}
		stalled := false
		const patience = 30 * time.Second
		g := &guard{ctx: t.Context(), cancel: func(error) {}, patience: patience, body: io.NopCloser(httputil.NewChunkedReader(body)),
			timer: time.AfterFunc(time.Hour, func() { stalled = true })}
		n, err := io.ReadFull(g, make([]byte, size))
		if n != size || err != nil || stalled {
			t.Errorf("%d bytes, %v, stalled %v", n, err, stalled)
		}
	})
}
