package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"coldtap/internal/readcost"
)

// ReadRange fills dst with [off, off+len(dst)) of key: all of it or an error. etag "" takes any version; the whole
// object's size must be size unless that is -1. One GET when nothing goes wrong, none when dst is empty (a range of no
// bytes cannot be asked for). dst holds garbage after an error.
//
// A body that breaks is resumed at the byte where it broke, under the version of the first answer.
func (c *Client) ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (Info, readcost.Cost, error) {
	if len(dst) == 0 {
		return Info{Size: size, ETag: etag}, readcost.Cost{}, nil
	}
	if off < 0 || off > math.MaxInt64-int64(len(dst)) {
		return Info{}, readcost.Cost{}, &Error{Kind: BadRange, Op: opGet, Key: key, Err: fmt.Errorf("%d bytes at %d", len(dst), off)}
	}
	r := &read{c: c, key: key, dst: dst, off: off, etag: etag, size: size}
	return r.run(ctx)
}

// ReadObject reads a whole object of at most limit bytes with one GET. A larger one is BadAnswer, and its body is not
// read.
func (c *Client) ReadObject(ctx context.Context, key string, limit int64) ([]byte, Info, readcost.Cost, error) {
	r := &read{c: c, key: key, size: -1, whole: true, limit: min(limit, math.MaxInt)}
	info, cost, err := r.run(ctx)
	if err != nil {
		return nil, Info{}, cost, err
	}
	return r.dst, info, cost, nil
}

// read is one ReadRange or ReadObject across its attempts.
type read struct {
	c    *Client
	key  string
	dst  []byte
	off  int64  // of dst[0] in the object
	etag string // version asked for, or that of the first answer; "" = not known
	size int64  // of the whole object, -1 = not known

	whole bool  // ReadObject: dst is made when the first answer gives the size
	limit int64 // of a whole read

	answered bool // dst is allocated, and info is the first answer's
	info     Info
	got      int // bytes of dst that are right
	cost     readcost.Cost
}

func (r *read) run(ctx context.Context) (Info, readcost.Cost, error) {
	m := r.c.metrics
	m.requested.Add(float64(len(r.dst)))
	err := r.c.retry(ctx, opGet, r.key, func() *Error {
		err := r.attempt(ctx)
		if err != nil && err.Kind == Throttled {
			r.cost.Throttled++
		}
		return err
	})
	if err != nil {
		m.refetched.Add(float64(r.cost.Bytes))
		return Info{}, r.cost, err
	}
	if r.whole {
		m.requested.Add(float64(len(r.dst)))
	}
	m.refetched.Add(float64(r.cost.Bytes - int64(len(r.dst))))
	return r.info, r.cost, nil
}

// attempt sends one GET for what is missing and reads its body.
func (r *read) attempt(ctx context.Context) *Error {
	if r.got > 0 && r.etag == "" {
		r.got = 0 // without a version nothing proves that the rest belongs to the same bytes
	}
	off, n := r.off+int64(r.got), int64(len(r.dst)-r.got)
	if r.whole && r.got == 0 {
		n = -1
	}
	actx, watch := watchStall(ctx, r.c.cfg.StallTimeout)
	defer watch.stop()
	start := time.Now()
	r.cost.Requests++
	body, info, err := r.c.backend.Open(actx, r.key, off, n, r.etag)
	if err != nil {
		return classify(ctx, actx, opGet, r.key, err)
	}
	// The context ends before the body is closed: an unread rest is cut off instead of being read to keep the connection.
	defer func() {
		watch.stop()
		body.Close()
	}()
	if e := r.check(info); e != nil {
		return e
	}
	for idle := 0; r.got < len(r.dst); {
		n, err := body.Read(r.dst[r.got:])
		if n > 0 {
			if !start.IsZero() {
				r.c.metrics.firstByte.Observe(time.Since(start).Seconds())
				start = time.Time{}
			}
			watch.progress()
			r.got += n
			r.cost.Bytes += int64(n)
			r.c.metrics.fetched.Add(float64(n))
			idle = 0
		}
		switch {
		case r.got == len(r.dst):
		case err == io.EOF:
			return r.fail(Unavailable, fmt.Errorf("body ended %d bytes early: %w", len(r.dst)-r.got, io.ErrUnexpectedEOF))
		case err != nil:
			if e := classify(ctx, actx, opGet, r.key, err); e != nil {
				return e
			}
		case n == 0:
			if idle++; idle > 100 {
				return r.fail(Unavailable, io.ErrNoProgress)
			}
		}
	}
	return nil
}

// check compares an answer with what was asked and with the answers before it, before a byte of its body is taken.
func (r *read) check(info Info) *Error {
	if info.Size < 0 {
		return r.fail(BadAnswer, errors.New("the answer does not say how large the object is"))
	}
	if r.etag != "" && info.ETag != "" && info.ETag != r.etag {
		return r.fail(Changed, fmt.Errorf("version %s instead of %s", info.ETag, r.etag))
	}
	if r.size >= 0 && info.Size != r.size {
		if r.answered && r.info.Size == r.size {
			return r.fail(Changed, fmt.Errorf("%d bytes, %d in the answer before", info.Size, r.size))
		}
		return r.fail(BadAnswer, fmt.Errorf("object of %d bytes, expected %d", info.Size, r.size))
	}
	if r.answered {
		return nil
	}
	if r.whole {
		if info.Size > r.limit {
			e := r.fail(BadAnswer, fmt.Errorf("object of %d bytes, at most %d allowed", info.Size, r.limit))
			e.exhausted = true
			return e
		}
		r.dst = make([]byte, info.Size)
	}
	if end := r.off + int64(len(r.dst)); end > info.Size {
		return r.fail(BadRange, fmt.Errorf("object of %d bytes, asked up to %d", info.Size, end))
	}
	r.answered, r.info, r.size = true, info, info.Size
	if r.etag == "" {
		r.etag = info.ETag
	}
	return nil
}

func (r *read) fail(kind Kind, err error) *Error {
	return &Error{Kind: kind, Op: opGet, Key: r.key, Err: err}
}
