package offload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/time/rate"
)

// progressStep is how many bytes are sent between two events of one segment.
const progressStep = 8 << 20

// logContent is a log as a Layout sends it: it keeps to the rate, reports progress, and remembers a read error of the
// file, so that a broken disk is not taken for a broken store. It implements rangeio.Content.
//
// A layout may read the log once to see that it is still the file that was checked, and again to send it. So the first
// size bytes that are read cost no tokens; waitForRest charges for them when the log was read only once.
type logContent struct {
	ctx     context.Context
	name    string
	log     io.ReaderAt
	size    int64
	limiter *rate.Limiter
	sent    func(n int64) // called now and then with the bytes sent so far, one call at a time

	mu       sync.Mutex
	read     int64 // bytes, repeated ones included
	charged  int64
	reported int64
	err      error
}

func (c *logContent) Size() int64 { return c.size }

// ReadAt never gives io.EOF short of the size: a sender would take it for the end of a shorter log, and a log that was
// cut while it is sent must not look whole.
func (c *logContent) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= c.size {
		return 0, io.EOF
	}
	want := min(int64(len(p)), c.size-off)
	if err := c.charge(want); err != nil {
		return 0, err
	}
	n, err := c.log.ReadAt(p[:want], off)
	if int64(n) < want {
		return n, c.fail(off+int64(n), err)
	}
	if want < int64(len(p)) {
		return n, io.EOF
	}
	return n, nil
}

// charge counts bytes that are about to be read, and waits until the rate allows them.
func (c *logContent) charge(n int64) error {
	c.mu.Lock()
	c.read += n
	charge := max(0, min(n, c.read-c.size))
	c.charged += charge
	if sent := min(c.read-c.size, c.size); sent-c.reported >= progressStep {
		c.reported = sent
		c.sent(sent)
	}
	c.mu.Unlock()
	return c.wait(charge)
}

// waitForRest waits for the bytes that were sent without being charged.
func (c *logContent) waitForRest() error {
	c.mu.Lock()
	due := max(0, c.size-c.charged)
	c.mu.Unlock()
	return c.wait(due)
}

func (c *logContent) wait(n int64) error {
	if c.limiter == nil {
		return nil
	}
	for n > 0 {
		piece := min(n, int64(c.limiter.Burst()))
		if err := c.limiter.WaitN(c.ctx, int(piece)); err != nil {
			return err
		}
		n -= piece
	}
	return nil
}

func (c *logContent) fail(at int64, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	err = fmt.Errorf("%s: byte %d of %d, while it was sent: %w", c.name, at, c.size, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	return err
}

// readError is the file's first read error, nil when there was none.
func (c *logContent) readError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
