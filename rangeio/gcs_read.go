package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	storage "google.golang.org/api/storage/v1"
)

// gcsVersion writes a generation, which is what the store can hold a read to, as an ETag.
func gcsVersion(generation int64) string { return `"` + strconv.FormatInt(generation, 10) + `"` }

// gcsGeneration reads it back; ok is false for what no object of this store can have.
func gcsGeneration(etag string) (generation int64, ok bool) {
	generation, err := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64)
	return generation, err == nil && generation > 0 && gcsVersion(generation) == etag
}

// Open sends one GET with Range and ifGenerationMatch and checks that the answer is the one asked for. The bytes are
// those that are stored, also of objects with Content-Encoding gzip.
func (s *gcsStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	name, kerr := objectName(s.prefix, opGet, key)
	if kerr != nil {
		return nil, Info{}, kerr
	}
	if err := checkRange(key, off, n); err != nil {
		return nil, Info{}, err
	}
	get := s.reads.Objects.Get(s.bucket, name).Context(withPayload(ctx))
	if n >= 0 {
		get.Header().Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	}
	if etag != "" {
		generation, ok := gcsGeneration(etag)
		if !ok {
			return nil, Info{}, &Error{Kind: Changed, Op: opGet, Key: key, Err: fmt.Errorf("no object here has the version %.80q", etag)}
		}
		get.IfGenerationMatch(generation)
	}
	var res *http.Response
	if err := s.call(ctx, opGet, key, func() (err error) {
		res, err = get.Download()
		return err
	}); err != nil {
		return nil, Info{}, s.missing(ctx, err)
	}
	info, length, err := gcsAnswer(res, off, n)
	if err != nil {
		res.Body.Close()
		return nil, Info{}, &Error{Kind: BadAnswer, Op: opGet, Key: key, Err: err}
	}
	if etag != "" && info.ETag != "" && info.ETag != etag {
		res.Body.Close() // a server that knows no conditions, such as an emulator
		return nil, Info{}, &Error{Kind: Changed, Op: opGet, Key: key, Err: fmt.Errorf("version %s instead of %s", info.ETag, etag)}
	}
	return newRangeBody(ctx, res.Body, length, s.pools.reads), info, nil
}

func gcsAnswer(res *http.Response, off, n int64) (Info, int64, error) {
	h := res.Header
	if h.Get("X-Goog-Stored-Content-Encoding") == "gzip" && h.Get("Content-Encoding") != "gzip" {
		return Info{}, 0, errors.New("the store unpacked the object on the way")
	}
	answer := rangeAnswer{contentLength: res.ContentLength}
	if ranges := h.Values("Content-Range"); len(ranges) > 0 {
		answer.contentRange = &ranges[0]
	}
	stored := int64(-1)
	if s := h.Get("X-Goog-Stored-Content-Length"); s != "" {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return Info{}, 0, fmt.Errorf("stored length %.40q", s)
		}
		stored = int64(n)
		if answer.contentRange == nil && answer.contentLength < 0 {
			answer.contentLength = stored // sent in pieces
		}
	}
	size, length, err := answer.check(off, n)
	if err != nil {
		return Info{}, 0, err
	}
	if stored >= 0 && stored != size {
		return Info{}, 0, fmt.Errorf("object of %d bytes, of which %d are stored", size, stored)
	}
	info := Info{Size: size}
	if g := h.Get("X-Goog-Generation"); g != "" {
		info.ETag = `"` + g + `"`
		if _, ok := gcsGeneration(info.ETag); !ok {
			return Info{}, 0, fmt.Errorf("generation %.40q", g)
		}
	}
	return info, length, nil
}

// Stat asks for the object's metadata.
func (s *gcsStore) Stat(ctx context.Context, key string) (Info, error) {
	name, kerr := objectName(s.prefix, opStat, key)
	if kerr != nil {
		return Info{}, kerr
	}
	var o *storage.Object
	if err := s.call(ctx, opStat, key, func() (err error) {
		o, err = s.reads.Objects.Get(s.bucket, name).Fields("size", "generation").Context(ctx).Do()
		return err
	}); err != nil {
		return Info{}, s.missing(ctx, err)
	}
	return gcsInfo(opStat, key, o)
}

func gcsInfo(op, key string, o *storage.Object) (Info, error) {
	if int64(o.Size) < 0 || o.Generation <= 0 {
		return Info{}, &Error{Kind: BadAnswer, Op: op, Key: key, Err: fmt.Errorf("size %d, generation %d", o.Size, o.Generation)}
	}
	return Info{Size: int64(o.Size), ETag: gcsVersion(o.Generation)}, nil
}

// missing makes sure that "not found" is about the object: a missing bucket would be reported as lost data. A listing
// of one name is what every reader may ask for, other than the bucket's own settings.
func (s *gcsStore) missing(ctx context.Context, err *Error) *Error {
	r, ok := err.Err.(refusal)
	if err.Kind != NotFound || (ok && gcsNamesObject(r.message)) {
		return err
	}
	berr := s.call(ctx, err.Op, err.Key, func() error {
		_, e := s.reads.Objects.List(s.bucket).Prefix(s.prefix).MaxResults(1).Fields("nextPageToken").Context(ctx).Do()
		return e
	})
	if berr != nil && (berr.Kind == NotFound || berr.Kind == NoBucket) {
		err.Kind = NoBucket
	}
	return err
}

// List pages through the bucket's objects.
func (s *gcsStore) List(ctx context.Context, prefix string, fn func(Object) error) error {
	bad := func(err error) error { return &Error{Kind: BadAnswer, Op: opList, Key: prefix, Err: err} }
	order := listOrder{prefix: s.prefix + prefix}
	token := ""
	for {
		var page *storage.Objects
		if err := s.call(ctx, opList, prefix, func() (err error) {
			page, err = s.reads.Objects.List(s.bucket).Prefix(order.prefix).PageToken(token).MaxResults(1000).
				Fields("nextPageToken", "items(name,size,updated)").Context(ctx).Do()
			return err
		}); err != nil {
			if err.Kind == NotFound {
				err.Kind = NoBucket
			}
			return err
		}
		for _, o := range page.Items {
			if err := order.check(o.Name, int64(o.Size)); err != nil {
				return bad(err)
			}
			updated, err := time.Parse(time.RFC3339, o.Updated)
			if err != nil {
				return bad(err)
			}
			key := o.Name[len(s.prefix):]
			if key == "" {
				continue // the prefix itself as a folder marker
			}
			if err := fn(Object{Key: key, Size: int64(o.Size), ModTime: updated}); err != nil {
				return err
			}
		}
		switch page.NextPageToken {
		case "":
			return nil
		case token:
			return bad(errors.New("a page that does not lead on"))
		}
		token = page.NextPageToken
	}
}
