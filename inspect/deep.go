package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// deep reads the objects of segments, cfg.Workers segments at a time.
func (v *verification) deep(ctx context.Context, segments []*tier.Segment) error {
	var all int64
	for _, seg := range segments {
		all += seg.Size
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	jobs := make(chan *tier.Segment)
	var workers sync.WaitGroup
	for range v.cfg.Workers {
		workers.Go(func() {
			for seg := range jobs {
				c := &contentCheck{v: v, seg: seg}
				c.read = func(n int64) {
					mu.Lock()
					defer mu.Unlock()
					v.summary.BytesRead += n
					if v.cfg.Progress != nil {
						v.cfg.Progress(v.summary.BytesRead, all)
					}
				}
				err := c.run(ctx)
				if err == nil && len(c.findings) > 0 {
					err = v.stillThere(ctx, c)
				}
				mu.Lock()
				for _, f := range c.findings {
					v.find(f)
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, seg := range segments {
		if ctx.Err() != nil {
			break
		}
		jobs <- seg
	}
	close(jobs)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return v.out.err
}

// stillThere drops the findings of a segment whose deletion began while it was read.
func (v *verification) stillThere(ctx context.Context, c *contentCheck) error {
	if err := v.cfg.Metadata.Refresh(ctx, c.seg.Partition); err != nil {
		return err
	}
	p, _ := v.cfg.Metadata.Snapshot().Partition(c.seg.Partition)
	if !p.HasFinished(c.seg.ID) {
		c.findings = nil
	}
	return nil
}

// contentCheck reads one segment's objects whole.
type contentCheck struct {
	v        *verification
	seg      *tier.Segment
	dense    bool // what the manifest says of gaps in the log
	read     func(n int64)
	findings []Finding
}

func (c *contentCheck) find(problem Problem, key, format string, args ...any) {
	c.findings = append(c.findings, findingOf(c.seg, problem, key, fmt.Sprintf(format, args...)))
}

// judge separates an error of one object, which is a finding, from one that ends the verification: when the store does
// not answer, nothing is known of any object.
func judge(err error) (problem Problem, fatal error) {
	if _, ok := rangeio.Withheld(err); ok {
		return WithheldObject, nil
	}
	if rangeio.IsKind(err, rangeio.NotFound, rangeio.Changed, rangeio.BadRange, rangeio.BadAnswer) {
		return UnreadableData, nil
	}
	if _, ok := errors.AsType[*layout.Error](err); ok {
		return DamagedMeta, nil
	}
	return "", err
}

// explain gives the remedy where one is known, else the error.
func explain(err error) string {
	if why, ok := rangeio.Withheld(err); ok {
		return why
	}
	return err.Error()
}

func (c *contentCheck) run(ctx context.Context) error {
	if c.v.native == nil {
		return c.runPlain(ctx)
	}
	key := c.v.native.MetaKey(c.seg)
	raw, _, _, err := c.v.cfg.Store.ReadObject(ctx, key, native.MaxMeta)
	if err != nil {
		problem, fatal := judge(err)
		if fatal == nil {
			c.find(problem, key, "%s", explain(err))
		}
		return fatal
	}
	m, files, err := native.DecodeMeta(raw)
	raw = nil
	if err != nil {
		c.find(DamagedMeta, key, "%v", err)
		return c.log(ctx, "")
	}
	if err := m.Describes(c.seg); err != nil {
		c.find(DamagedMeta, key, "it %v", err)
	} else if !slices.Equal(m.LeaderEpochs, c.seg.Epochs) {
		c.find(DamagedMeta, key, "its leader epochs are not those of the metadata")
	}
	c.files(key, files)
	c.dense = files.Dense
	return c.log(ctx, m.Log.SHA256)
}

// files checks the small files: what the layout said of them, and their content.
func (c *contentCheck) files(key string, files *segment.Files) {
	for _, name := range files.IndexDamaged {
		c.find(DamagedFile, key, "%s: it is missing or cut off, or a checksum differs", name)
	}
	if files.TxnDamaged {
		c.find(DamagedFile, key, "txnindex or the list of aborted transactions is damaged")
	}
	check := func(name string, raw []byte, err error) {
		if raw != nil && err != nil {
			c.find(DamagedFile, key, "%s: %v", name, err)
		}
	}
	_, err := segment.ParseOffsetIndex(files.OffsetIndex, c.seg.BaseOffset, c.seg.Size)
	check("index", files.OffsetIndex, err)
	_, err = segment.ParseTimeIndex(files.TimeIndex, c.seg.BaseOffset)
	check("timeindex", files.TimeIndex, err)
	_, err = segment.ParseTxnIndex(files.TxnIndex, c.seg.BaseOffset)
	check("txnindex", files.TxnIndex, err)
	_, err = segment.ParseSnapshot(files.Snapshot)
	check("snapshot", files.Snapshot, err)
	_, err = segment.ParseEpochCheckpoint(files.LeaderEpochs)
	check("leader-epoch-checkpoint", files.LeaderEpochs, err)
}

// maxBadBatches bounds the findings of one log.
const maxBadBatches = 10

// log streams the log once: its SHA-256, unless want is "", and every batch.
func (c *contentCheck) log(ctx context.Context, want string) error {
	key := c.v.native.LogKey(c.seg)
	object := &Object{ctx: ctx, store: c.v.cfg.Store, key: key, size: c.seg.Size}
	sum := sha256.New()
	r := segment.NewLogReader(io.TeeReader(object, sum), c.seg.Size, 0)
	err := c.batches(ctx, r, key)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		problem, fatal := judge(err)
		if fatal == nil {
			c.find(problem, key, "%s", explain(err))
		}
		return fatal
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want != "" && got != want {
		c.find(WrongChecksum, key, "SHA-256 %s, the manifest says %s", got, want)
	}
	return nil
}

// batches checks each batch's CRC, that offsets ascend within the segment, and that they leave no gap where the
// manifest says so. An error is the store's.
func (c *contentCheck) batches(ctx context.Context, r *segment.LogReader, key string) error {
	bad := 0
	next, gap := c.seg.BaseOffset, int64(-1)
	reported := int64(0)
	defer func() { c.read(r.Position() - reported) }()
	for {
		if r.Position()-reported >= pieceSize {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.read(r.Position() - reported)
			reported = r.Position()
		}
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if damage, ok := errors.AsType[*segment.Error](err); ok {
			c.find(DamagedLog, key, "%v", damage)
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case e.CRCError != nil:
			if bad++; bad <= maxBadBatches {
				c.find(WrongCRC, key, "batch at byte %d, offsets %d to %d", e.Position, e.BaseOffset, e.LastOffset())
			}
		case e.BaseOffset < next || e.LastOffset() > c.seg.EndOffset:
			c.find(DamagedLog, key, "batch at byte %d has offsets %d to %d, where %d to %d are possible",
				e.Position, e.BaseOffset, e.LastOffset(), next, c.seg.EndOffset)
			return nil
		default:
			if gap < 0 && e.BaseOffset > next {
				gap = next
			}
			next = e.LastOffset() + 1
		}
	}
	if gap < 0 && next <= c.seg.EndOffset {
		gap = next
	}
	if c.dense && gap >= 0 && bad == 0 {
		c.find(DamagedMeta, c.v.native.MetaKey(c.seg), "it says that the log has no gaps, but offset %d is missing", gap)
	}
	if bad > maxBadBatches {
		c.find(WrongCRC, key, "%d batches in all", bad)
	}
	return nil
}
