package rangeio

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	storage "google.golang.org/api/storage/v1"
)

const (
	// gcsChunk is how much an upload sends at a time, and holds in memory. 16 MiB is Google's own default; each chunk
	// costs a round trip.
	gcsChunk = 16 << 20
	// gcsAttempts bounds the attempts at one chunk, so that a hiccup does not send the whole object again.
	gcsAttempts = 3
	// gcsChunkDeadline bounds the time of those attempts.
	gcsChunkDeadline = time.Minute
)

// Put sends the object in one request, or in chunks of a resumable upload when it is larger than gcsChunk. The last
// request carries the CRC-32C of the whole, which the store compares before the object appears. An upload that was left
// forgets itself after a week.
func (s *gcsStore) Put(ctx context.Context, key string, c Content) (Info, error) {
	name, kerr := objectName(s.prefix, opPut, key)
	if kerr != nil {
		return Info{}, kerr
	}
	body := newContentReader(c)
	chunk := int(min(gcsChunk, body.size+1)) // a small object in one request, out of a buffer of its own size
	var o *storage.Object
	err := s.call(ctx, opPut, key, func() (err error) {
		o, err = s.writes.Objects.Insert(s.bucket, &storage.Object{Name: name}).
			Media(body, googleapi.ContentType("application/octet-stream"), googleapi.ChunkSize(chunk), googleapi.EnableAutoChecksum(),
				googleapi.ChunkRetryDeadline(gcsChunkDeadline)).
			WithRetry(&gax.Backoff{Initial: 50 * time.Millisecond, Max: 2 * time.Second, Multiplier: 2}, retryUpTo(gcsAttempts)).
			Fields("size", "generation").Context(ctx).Do()
		if body.err != nil {
			err = body.err
		}
		return err
	})
	if err != nil {
		if _, ok := errors.AsType[contentError](err); ok {
			err.Kind = BadContent
		} else if err.Kind == NotFound {
			err.Kind = NoBucket // of a write only the container or bucket can be missing
		}
		return Info{}, err
	}
	info, ierr := gcsInfo(opPut, key, o)
	if ierr == nil && info.Size != c.Size() {
		ierr = &Error{Kind: Unavailable, Op: opPut, Key: key, Err: fmt.Errorf("the store has %d bytes, %d sent", info.Size, c.Size())}
	}
	if ierr != nil {
		return Info{}, ierr
	}
	return info, nil
}

// retryUpTo is the library's predicate for another attempt. It is called after each attempt, successful ones too, by
// one goroutine.
func retryUpTo(attempts int) func(error) bool {
	failures := 0
	return func(err error) bool {
		if err == nil {
			failures = 0
			return false
		}
		failures++
		kind, _ := gcsFailure(context.Background(), err)
		return failures < attempts && (kind == Unavailable || kind == Throttled) && !errors.Is(err, context.Canceled)
	}
}

// Delete removes the object.
func (s *gcsStore) Delete(ctx context.Context, key string) error {
	name, kerr := objectName(s.prefix, opDelete, key)
	if kerr != nil {
		return kerr
	}
	err := s.call(ctx, opDelete, key, func() error {
		return s.writes.Objects.Delete(s.bucket, name).Context(ctx).Do()
	})
	if err == nil {
		return nil
	}
	if err = s.missing(ctx, err); err.Kind == NotFound {
		return nil
	}
	return err
}
