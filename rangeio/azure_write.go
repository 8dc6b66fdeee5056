package rangeio

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"io"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"golang.org/x/sync/errgroup"
)

// azureCRC is the polynomial of the service's x-ms-content-crc64.
var azureCRC = crc64.MakeTable(0x9A6C9329AC4BC9B5)

// Put sends the object in one request, or as blocks of uploadPart bytes, uploadParallel at a time, that the last
// request joins. Every request with bytes carries their CRC-64, which the store compares. A block is held in memory
// while it is under way and sent from its start again when that failed. Blocks that are never joined stay invisible,
// and the store forgets them after a week.
func (s *azureStore) Put(ctx context.Context, key string, c Content) (Info, error) {
	name, kerr := s.name(opPut, key)
	if kerr != nil {
		return Info{}, kerr
	}
	body := newContentReader(c)
	client := s.writes.NewBlockBlobClient(name)
	var info Info
	err := s.call(ctx, opPut, key, func() (err error) {
		if body.size <= uploadPart {
			info, err = putBlob(ctx, client, body)
		} else {
			info, err = putBlocks(ctx, client, body)
		}
		if body.err != nil {
			err = body.err
		}
		return err
	})
	if err == nil {
		return info, nil
	}
	if _, ok := errors.AsType[contentError](err); ok {
		err.Kind = BadContent
	} else if err.Kind == NotFound {
		err.Kind = NoBucket // of a write only the container or bucket can be missing
	}
	return Info{}, err
}

// azureAttempts bounds the attempts at one request of a write, so that a hiccup does not send the whole object again.
const azureAttempts = 3

func repeat(ctx context.Context, attempt func() error) error {
	for n := 1; ; n++ {
		err := attempt()
		if err == nil || n == azureAttempts {
			return err
		}
		kind, _ := azureFailure(ctx, err)
		if (kind != Unavailable && kind != Throttled) || !pause(ctx, backoff(n, kind, 2*time.Second)) {
			return err
		}
	}
}

func checksum(p []byte) blob.TransferValidationType {
	return blob.TransferValidationTypeCRC64(crc64.Checksum(p, azureCRC))
}

func putBlob(ctx context.Context, client *blockblob.Client, body *contentReader) (Info, error) {
	content := make([]byte, body.size)
	if _, err := io.ReadFull(body, content); err != nil {
		return Info{}, err
	}
	var out blockblob.UploadResponse
	if err := repeat(ctx, func() (err error) {
		out, err = client.Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), &blockblob.UploadOptions{TransactionalValidation: checksum(content)})
		return err
	}); err != nil {
		return Info{}, err
	}
	return Info{Size: body.size, ETag: azureVersion(out.ETag)}, nil
}

func putBlocks(ctx context.Context, client *blockblob.Client, body *contentReader) (Info, error) {
	// The store keeps blocks by name until they are joined. Names of this Put's own keep it from joining another's.
	nonce := make([]byte, 12)
	rand.Read(nonce)
	var ids []string
	buffers := make(chan []byte, uploadParallel) // one a block under way
	for range uploadParallel {
		buffers <- nil
	}
	group, gctx := errgroup.WithContext(ctx)
	for body.off < body.size && gctx.Err() == nil {
		buffer := <-buffers
		if buffer == nil {
			buffer = make([]byte, uploadPart)
		}
		block := buffer[:min(uploadPart, body.size-body.off)]
		if _, err := io.ReadFull(body, block); err != nil {
			break // body keeps it
		}
		id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nonce[:len(nonce):len(nonce)], uint32(len(ids))))
		ids = append(ids, id)
		group.Go(func() error {
			defer func() { buffers <- buffer }()
			return repeat(gctx, func() error {
				_, err := client.StageBlock(gctx, id, streaming.NopCloser(bytes.NewReader(block)), &blockblob.StageBlockOptions{TransactionalValidation: checksum(block)})
				if err != nil {
					buffer = nil // net/http may still be reading it
				}
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return Info{}, err
	}
	if err := errors.Join(body.err, ctx.Err()); err != nil {
		return Info{}, err
	}
	var out blockblob.CommitBlockListResponse
	if err := repeat(ctx, func() (err error) {
		out, err = client.CommitBlockList(ctx, ids, nil) // the same list again does no harm
		return err
	}); err != nil {
		return Info{}, err
	}
	return Info{Size: body.size, ETag: azureVersion(out.ETag)}, nil
}

// Delete removes the blob and its snapshots, without which the store would refuse.
func (s *azureStore) Delete(ctx context.Context, key string) error {
	name, kerr := s.name(opDelete, key)
	if kerr != nil {
		return kerr
	}
	err := s.call(ctx, opDelete, key, func() error {
		_, e := s.writes.NewBlobClient(name).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
		return e
	})
	if err == nil || err.Kind == NotFound {
		return nil
	}
	if r, ok := err.Err.(refusal); ok && r.code == "DirectoryIsNotEmpty" {
		return nil // a directory of a hierarchical namespace: no object
	}
	return err
}
