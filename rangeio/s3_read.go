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
	name, kerr := objectName(s.prefix, opGet, key)
	if kerr != nil {
		return nil, Info{}, kerr
	}
	if err := checkRange(key, off, n); err != nil {
		return nil, Info{}, err
	}
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &name}
	if n >= 0 {
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
	answer := rangeAnswer{out.ContentRange, -1}
	if out.ContentLength != nil {
		answer.contentLength = *out.ContentLength
	}
	size, length, err := answer.check(off, n)
	if err != nil {
		out.Body.Close()
		return nil, Info{}, &Error{Kind: BadAnswer, Op: opGet, Key: key, Err: err}
	}
	return newRangeBody(ctx, out.Body, length, s.pools.reads), Info{Size: size, ETag: aws.ToString(out.ETag)}, nil
}

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
	name, kerr := objectName(s.prefix, op, key)
	if kerr != nil {
		return Info{}, "", kerr
	}
	var out *s3.HeadObjectOutput
	if err := s.call(ctx, op, key, func() (err error) {
		out, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &name})
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
	bad := func(err error) error { return &Error{Kind: BadAnswer, Op: opList, Key: prefix, Err: err} }
	order := listOrder{prefix: s.prefix + prefix}
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &order.prefix}
	for {
		var page *s3.ListObjectsV2Output
		if err := s.call(ctx, opList, prefix, func() (err error) {
			page, err = s.reads.ListObjectsV2(ctx, in)
			return err
		}); err != nil {
			return err
		}
		for _, o := range page.Contents {
			name, size := aws.ToString(o.Key), aws.ToInt64(o.Size)
			if err := order.check(name, size); err != nil {
				return bad(err)
			}
			key := name[len(s.prefix):]
			if key == "" {
				continue // the prefix itself as a folder marker
			}
			if err := fn(Object{Key: key, Size: size, ModTime: aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
		if !aws.ToBool(page.IsTruncated) {
			return nil
		}
		next := aws.ToString(page.NextContinuationToken)
		if next == "" || next == aws.ToString(in.ContinuationToken) {
			return bad(errors.New("a page that does not lead on"))
		}
		in.ContinuationToken = &next
	}
}
