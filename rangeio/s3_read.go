package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Open sends one GET with Range and If-Match and checks that the answer is the one asked for.
func (s *s3Store) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	name, kerr := s.name(opGet, key)
	if kerr != nil {
		return nil, Info{}, kerr
	}
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: name}
	if n >= 0 {
		if off < 0 || n == 0 || off > off+n-1 {
			return nil, Info{}, &Error{Kind: BadRange, Op: opGet, Key: key, Err: fmt.Errorf("%d bytes at %d", n, off)}
		}
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	}
	if etag != "" {
		in.IfMatch = &etag
	}
	var out *s3.GetObjectOutput
	if err := s.call(ctx, opGet, key, func() (err error) {
		out, err = s.reads.GetObject(withPayload(ctx), in)
		return err
	}); err != nil {
		return nil, Info{}, err
	}
	info := Info{ETag: aws.ToString(out.ETag)}
	length, err := answeredRange(out, off, n, &info)
	if err != nil {
		out.Body.Close()
		return nil, Info{}, &Error{Kind: BadAnswer, Op: opGet, Key: key, Err: err}
	}
	return &s3Body{Reader: io.LimitReader(out.Body, length), body: out.Body, store: s, ctx: ctx}, info, nil
}

// answeredRange checks the headers of an answer against the question, sets the object's size, and gives the number of
// body bytes to expect.
func answeredRange(out *s3.GetObjectOutput, off, n int64, info *Info) (int64, error) {
	if out.ContentRange == nil {
		// 200: the whole object, either because that was asked or because the store knows no ranges. From the start of the
		// object it serves all the same.
		if out.ContentLength == nil || *out.ContentLength < 0 {
			return 0, errors.New("answer without a length")
		}
		info.Size = *out.ContentLength
		switch {
		case n < 0:
			return info.Size, nil
		case off == 0:
			return min(n, info.Size), nil
		}
		return 0, fmt.Errorf("asked for %d bytes at %d, got the whole object", n, off)
	}
	r, err := parseContentRange(*out.ContentRange)
	if err != nil {
		return 0, err
	}
	info.Size = r.total
	last := r.total - 1
	if n < 0 {
		off = 0
	} else if n <= r.total-off {
		last = off + n - 1
	}
	if r.first != off || r.last != last {
		return 0, fmt.Errorf("asked for bytes %d-%d, got %d-%d of %d", off, last, r.first, r.last, r.total)
	}
	length := r.last - r.first + 1
	if out.ContentLength != nil && *out.ContentLength != length {
		return 0, fmt.Errorf("content-length %d for a range of %d bytes", *out.ContentLength, length)
	}
	return length, nil
}

// s3Body is an answer's body, limited to the range.
type s3Body struct {
	io.Reader
	body  io.Closer
	store *s3Store
	ctx   context.Context
}

func (b *s3Body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF && suspectsConnections(b.ctx, err) {
		b.store.readPool.CloseIdleConnections()
	}
	return n, err
}

func (b *s3Body) Close() error { return b.body.Close() }

// Stat is a HEAD.
func (s *s3Store) Stat(ctx context.Context, key string) (Info, error) {
	info, _, err := s.head(ctx, s.reads, opStat, key)
	if err == nil {
		return info, nil
	}
	if err.Kind == NotFound {
		// The answer to a HEAD has no body, so a missing bucket looks like a missing object, which would be reported as lost
		// data. Ask.
		berr := s.call(ctx, opStat, key, func() error {
			_, e := s.reads.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.bucket})
			return e
		})
		if berr != nil && berr.Kind == NotFound {
			err.Kind = NoBucket
		}
	}
	return Info{}, err
}

// head gives an object's size, version and the mark of the upload that made it, if any.
func (s *s3Store) head(ctx context.Context, client *s3.Client, op, key string) (Info, string, *Error) {
	name, kerr := s.name(op, key)
	if kerr != nil {
		return Info{}, "", kerr
	}
	var out *s3.HeadObjectOutput
	if err := s.call(ctx, op, key, func() (err error) {
		out, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: name})
		return err
	}); err != nil {
		return Info{}, "", err
	}
	if out.ContentLength == nil || *out.ContentLength < 0 {
		return Info{}, "", &Error{Kind: BadAnswer, Op: op, Key: key, Err: errors.New("answer without a length")}
	}
	return Info{Size: *out.ContentLength, ETag: aws.ToString(out.ETag)}, out.Metadata[uploadMark], nil
}

// List pages through ListObjectsV2.
func (s *s3Store) List(ctx context.Context, prefix string, fn func(Object) error) error {
	bad := func(format string, args ...any) error {
		return &Error{Kind: BadAnswer, Op: opList, Key: prefix, Err: fmt.Errorf(format, args...)}
	}
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.prefix + prefix)}
	last := ""
	for {
		var page *s3.ListObjectsV2Output
		if err := s.call(ctx, opList, prefix, func() (err error) {
			page, err = s.reads.ListObjectsV2(ctx, in)
			return err
		}); err != nil {
			return err
		}
		for _, o := range page.Contents {
			name := aws.ToString(o.Key)
			if len(name) < len(*in.Prefix) || name[:len(*in.Prefix)] != *in.Prefix || aws.ToInt64(o.Size) < 0 {
				return bad("entry %.80q of %d bytes below prefix %q", name, aws.ToInt64(o.Size), *in.Prefix)
			}
			if name <= last && last != "" {
				return bad("entry %.80q after %.80q", name, last)
			}
			last = name
			key := name[len(s.prefix):]
			if key == "" {
				continue // the prefix itself as a folder marker
			}
			if err := fn(Object{Key: key, Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return nil
		}
		next := aws.ToString(page.NextContinuationToken)
		if next == "" || next == aws.ToString(in.ContinuationToken) {
			return bad("a page that does not lead on")
		}
		in.ContinuationToken = &next
	}
}
