package offload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

func newContent(ctx context.Context, log []byte, size int64, l *rate.Limiter) *logContent {
	return &logContent{ctx: ctx, name: "log", log: bytes.NewReader(log), size: size, limiter: l, sent: func(int64) {}}
}

func TestShrunkenLogIsNoShorterLog(t *testing.T) {
	c := newContent(t.Context(), make([]byte, 600), 1000, nil)
	var sink bytes.Buffer
	_, err := io.Copy(&sink, io.NewSectionReader(c, 0, c.Size()))
	if !errors.Is(err, io.ErrUnexpectedEOF) || c.readError() == nil {
		t.Errorf("copied %d bytes, error %v", sink.Len(), err)
	}
}

func TestContentReadsLikeItsFile(t *testing.T) {
	log := []byte("0123456789")
	c := newContent(t.Context(), log, 10, nil)
	got, err := io.ReadAll(io.NewSectionReader(c, 3, 100))
	if string(got) != "3456789" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if n, err := c.ReadAt(make([]byte, 4), 8); n != 2 || err != io.EOF {
		t.Errorf("%d %v at the end", n, err)
	}
	if n, err := c.ReadAt(make([]byte, 4), 10); n != 0 || err != io.EOF {
		t.Errorf("%d %v behind the end", n, err)
	}
}

// The rate counts what is sent: not a first pass that only compares, and not nothing when there is no such pass.
func TestRateCountsEachByteOnce(t *testing.T) {
	for _, passes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			const size = 10 << 20
			limiter := rate.NewLimiter(1<<20, 1<<18)
			c := newContent(t.Context(), make([]byte, size), size, limiter)
			start := time.Now()
			for range passes {
				if _, err := io.Copy(io.Discard, io.NewSectionReader(c, 0, size)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.waitForRest(); err != nil {
				t.Fatal(err)
			}
			// The burst of a quarter second comes free.
			if took := time.Since(start); took < 9700*time.Millisecond || took > 10*time.Second {
				t.Errorf("%d passes of 10 MiB at 1 MiB/s took %v", passes, took)
			}
		})
	}
}

func TestRateStopsWaitingWhenTheRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newContent(ctx, make([]byte, 100), 100, rate.NewLimiter(1, 1))
	c.read = 100
	if _, err := c.ReadAt(make([]byte, 100), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
