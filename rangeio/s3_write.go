package rangeio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// uploadMark is the object metadata that names the Put which made an object. When the answer to the last step of an
// upload is lost or lies, the mark tells whether the object now under the key is this Put's; its size alone might be
// the version's before.
const uploadMark = "coldtap-upload"

// Put sends the object in one request, or in parts from uploadPart bytes on. The bytes of a part are held in memory
// while it is under way, so the SDK's retry of a part sends the same bytes from their start.
func (s *s3Store) Put(ctx context.Context, key string, c Content) (Info, error) {
	name, kerr := objectName(s.prefix, opPut, key)
	if kerr != nil {
		return Info{}, kerr
	}
	var (
		mark string
		body *contentReader
		out  *transfermanager.UploadObjectOutput
	)
	err := s.call(ctx, opPut, key, func() (err error) {
		mark, body = rand.Text(), newContentReader(c)
		out, err = s.uploads.UploadObject(ctx, &transfermanager.UploadObjectInput{
			Bucket: &s.bucket, Key: &name, Body: body, Metadata: map[string]string{uploadMark: mark},
		})
		if body.err != nil {
			err = body.err
		}
		return err
	})
	switch {
	case err == nil && out.UploadID == nil:
		return Info{Size: c.Size(), ETag: aws.ToString(out.ETag)}, nil
	case err == nil:
		return s.confirm(ctx, key, c.Size(), mark, false)
	}
	if _, ok := errors.AsType[contentError](err); ok {
		err.Kind = BadContent
		return Info{}, err
	}
	if s3Code(err.Err) == "NoSuchUpload" {
		// Either the upload was taken from under us, or joining the parts had succeeded, its answer was lost, and the SDK
		// asked again.
		if info, cerr := s.confirm(ctx, key, c.Size(), mark, true); cerr == nil {
			return info, nil
		}
	}
	if status := httpStatus(err.Err); err.Kind == BadAnswer && (status == http.StatusBadRequest || status == http.StatusNotImplemented) {
		err.Err = fmt.Errorf("%w (a store that knows no upload checksums needs checksums: when_required)", err.Err)
	}
	return Info{}, err
}

// confirm looks whether an upload in parts really made the object: the last step answers 200 before the work is done
// and may fail after it. With needMark, an object without this Put's mark is not taken for it; otherwise only one with
// another's mark is not.
func (s *s3Store) confirm(ctx context.Context, key string, size int64, mark string, needMark bool) (Info, error) {
	info, found, err := s.head(ctx, s.writes, opPut, key)
	if err != nil {
		if err.Kind == NotFound {
			err.Kind = Unavailable
			err.Err = fmt.Errorf("the store joined the parts but has no object: %w", err.Err)
		}
		return Info{}, err
	}
	if info.Size != size || (found != mark && (needMark || found != "")) {
		return Info{}, &Error{Kind: Unavailable, Op: opPut, Key: key,
			Err: fmt.Errorf("the store joined the parts but has another object of %d bytes, %d sent", info.Size, size)}
	}
	return info, nil
}

// Delete removes the object. Some stores answer 404 when there is none.
func (s *s3Store) Delete(ctx context.Context, key string) error {
	name, kerr := objectName(s.prefix, opDelete, key)
	if kerr != nil {
		return kerr
	}
	err := s.call(ctx, opDelete, key, func() error {
		_, e := s.writes.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &name})
		return e
	})
	if err == nil || err.Kind == NotFound {
		return nil
	}
	return err
}
