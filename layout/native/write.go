package native

import (
	"bytes"
	"context"
	"fmt"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// Put writes the .log, then the .meta, overwriting what an earlier attempt left, and returns once the store says that
// both are there with the right size.
//
// logSHA256 (hex) is what the caller computed while it checked the file. log is read twice: once to see that it is
// still that file, then block by block for the store, each block compared with the first pass. A log that differs,
// changes or shrinks fails with *layout.Error around ErrSourceChanged, and no .meta is written. Memory is 1 MiB, 8
// bytes per 32 KiB of log, and the .meta object. After an error a .log may be left, never a .meta of this call that
// lacks its .log.
func (l *Layout) Put(ctx context.Context, clusterID string, seg *tier.Segment, log rangeio.Content, logSHA256 string, files *segment.Files) error {
	if err := checkSegment(seg); err != nil {
		return err
	}
	logKey, metaKey := l.LogKey(seg), l.MetaKey(seg)
	meta, err := EncodeMeta(newManifest(clusterID, seg, logSHA256), files)
	if err != nil {
		return &layout.Error{Object: metaKey, Err: err}
	}
	checked, err := checkLog(ctx, log, seg.Size, logSHA256)
	if err != nil {
		return &layout.Error{Object: logKey, Err: err}
	}
	l.versions.Forget(logKey)
	_, err = l.store.Put(ctx, logKey, checked)
	// When reading the source failed, that error counts, even if the store's client returned success.
	if source := checked.failure(); source != nil {
		return &layout.Error{Object: logKey, Err: source}
	}
	if err != nil {
		return err
	}
	if err := l.verifySize(ctx, logKey, seg.Size); err != nil {
		return err
	}
	if _, err := l.store.Put(ctx, metaKey, bytes.NewReader(meta)); err != nil {
		return err
	}
	return l.verifySize(ctx, metaKey, int64(len(meta)))
}

// Delete removes the .meta, then the .log. What is not there is no error, so an interrupted Delete can be repeated.
func (l *Layout) Delete(ctx context.Context, seg *tier.Segment) error {
	if err := checkSegment(seg); err != nil {
		return err
	}
	for _, key := range []string{l.MetaKey(seg), l.LogKey(seg)} {
		if err := l.store.Delete(ctx, key); err != nil {
			return err
		}
	}
	l.versions.Forget(l.LogKey(seg))
	return nil
}

func (l *Layout) verifySize(ctx context.Context, key string, want int64) error {
	info, err := l.store.Stat(ctx, key)
	if err != nil {
		return err
	}
	if info.Size != want {
		return &layout.Error{Object: key, Err: fmt.Errorf("holds %d bytes after %d were written", info.Size, want)}
	}
	return nil
}
