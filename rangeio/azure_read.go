package rangeio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// azureFolder marks the directories of an account with a hierarchical namespace, which look like blobs of no bytes.
const azureFolder = "hdi_isfolder"

func isAzureFolder(metadata map[string]*string) bool {
	for name, value := range metadata {
		if strings.EqualFold(name, azureFolder) && value != nil && strings.EqualFold(*value, "true") {
			return true
		}
	}
	return false
}

func noObject(op, key string) *Error {
	return &Error{Kind: NotFound, Op: op, Key: key, Err: errors.New("a directory is there")}
}

func azureVersion(etag *azcore.ETag) string {
	if etag == nil {
		return ""
	}
	return string(*etag)
}

// Open sends one GET with a range and If-Match and checks that the answer is the one asked for.
func (s *azureStore) Open(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	name, kerr := s.name(opGet, key)
	if kerr != nil {
		return nil, Info{}, kerr
	}
	if err := checkRange(key, off, n); err != nil {
		return nil, Info{}, err
	}
	o := &blob.DownloadStreamOptions{}
	if n >= 0 {
		o.Range = blob.HTTPRange{Offset: off, Count: n}
	}
	if etag != "" {
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(etag))}}
	}
	var out blob.DownloadStreamResponse
	if err := s.call(ctx, opGet, key, func() (err error) {
		out, err = s.reads.NewBlobClient(name).DownloadStream(withPayload(ctx), o)
		return err
	}); err != nil {
		return nil, Info{}, err
	}
	if isAzureFolder(out.Metadata) {
		out.Body.Close()
		return nil, Info{}, noObject(opGet, key)
	}
	answer := rangeAnswer{out.ContentRange, -1}
	if out.ContentLength != nil {
		answer.contentLength = *out.ContentLength
	}
	if n > 0 && answer.contentLength == 0 {
		out.Body.Close() // not 416: Azurite at the end of an object
		return nil, Info{}, &Error{Kind: BadRange, Op: opGet, Key: key, Err: fmt.Errorf("nothing at %d", off)}
	}
	size, length, err := answer.check(off, n)
	if err != nil {
		out.Body.Close()
		return nil, Info{}, &Error{Kind: BadAnswer, Op: opGet, Key: key, Err: err}
	}
	return newRangeBody(ctx, out.Body, length, s.pools.reads), Info{Size: size, ETag: azureVersion(out.ETag)}, nil
}

// Stat is a HEAD. Its error has a code too, in a header, so a missing container differs from a missing blob.
func (s *azureStore) Stat(ctx context.Context, key string) (Info, error) {
	name, kerr := s.name(opStat, key)
	if kerr != nil {
		return Info{}, kerr
	}
	var out blob.GetPropertiesResponse
	if err := s.call(ctx, opStat, key, func() (err error) {
		out, err = s.reads.NewBlobClient(name).GetProperties(ctx, nil)
		return err
	}); err != nil {
		return Info{}, err
	}
	if isAzureFolder(out.Metadata) {
		return Info{}, noObject(opStat, key)
	}
	if out.ContentLength == nil || *out.ContentLength < 0 {
		return Info{}, &Error{Kind: BadAnswer, Op: opStat, Key: key, Err: errors.New("answer without a length")}
	}
	return Info{Size: *out.ContentLength, ETag: azureVersion(out.ETag)}, nil
}

// List pages through the container. Accounts with a hierarchical namespace go through directories one after the other,
// which is byte order unless one directory's name continues another's with a character below the slash; that ends the
// listing with BadAnswer rather than with keys left out.
func (s *azureStore) List(ctx context.Context, prefix string, fn func(Object) error) error {
	bad := func(err error) error { return &Error{Kind: BadAnswer, Op: opList, Key: prefix, Err: err} }
	order := listOrder{prefix: s.prefix + prefix}
	pager := s.reads.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		MaxResults: to.Ptr(int32(1000)),                                                // see maxAnswer; the default is 5,000
		Prefix:     &order.prefix, Include: container.ListBlobsInclude{Metadata: true}, // the mark of directories; our own blobs have none
	})
	for marker := ""; pager.More(); {
		var page container.ListBlobsFlatResponse
		if err := s.call(ctx, opList, prefix, func() (err error) {
			page, err = pager.NextPage(ctx)
			return err
		}); err != nil {
			if err.Kind == NotFound {
				err.Kind = NoBucket
			}
			return err
		}
		if page.Segment == nil {
			return bad(errors.New("a page without entries"))
		}
		for _, item := range page.Segment.BlobItems {
			if item.Name == nil || item.Properties == nil || item.Properties.ContentLength == nil || item.Properties.LastModified == nil {
				return bad(errors.New("an entry without name, size or time"))
			}
			size := *item.Properties.ContentLength
			if err := order.check(*item.Name, size); err != nil {
				return bad(err)
			}
			key := (*item.Name)[len(s.prefix):]
			if key == "" || isAzureFolder(item.Metadata) {
				continue
			}
			if err := fn(Object{Key: key, Size: size, ModTime: *item.Properties.LastModified}); err != nil {
				return err
			}
		}
		if next := page.NextMarker; next != nil && *next != "" {
			if *next == marker {
				return bad(errors.New("a page that does not lead on"))
			}
			marker = *next
		}
	}
	return nil
}
