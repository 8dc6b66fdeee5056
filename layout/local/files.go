package local

import (
	"context"

	"coldtap/internal/readcost"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

const (
	suffixLog = ".log"
	suffixTxn = ".txnindex"
)

// maxFile bounds a small file, in bytes. Kafka preallocates indexes at 10 MiB (segment.index.bytes), and one of a 1 GiB
// log has 3 MiB at the default index.interval.bytes. A larger one is left out as damaged, unread.
const maxFile = 32 << 20

// ReadFiles reads the segment's small files, one request each, one after the other: the callers' bound on reads that
// run at a time holds.
//
// A transaction index is optional. Brokers since Kafka 4.0 say when a segment has none (TxnIndexEmpty), and then it is
// not asked for. Otherwise it exists, or was never there because the segment is an older broker's, or is lost; the
// metadata does not tell which. Every other file is always copied, so:
//   - missing beside all the others, it never existed, as brokers take it (KIP-405);
//   - missing with others, it is lost: Files.TxnDamaged;
//   - when nothing is left, the segment is being deleted: *rangeio.Error of Kind NotFound.
//
// It is asked for first, because a delete that overtakes the requests then shows in those that follow.
func (l *Layout) ReadFiles(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
	stem, err := l.stem(seg)
	if err != nil {
		return nil, readcost.Cost{}, err
	}
	r := fileReader{layout: l, stem: stem}
	files := new(segment.Files)
	if !seg.TxnIndexEmpty {
		if files.TxnIndex, err = r.read(ctx, suffixTxn); err != nil {
			return nil, r.cost, err
		}
		files.TxnDamaged = r.found > 0 && files.TxnIndex == nil
	}
	for _, f := range []struct {
		name, suffix string // name as Files.IndexDamaged knows it
		to           *[]byte
	}{
		{"index", ".index", &files.OffsetIndex},
		{"timeindex", ".timeindex", &files.TimeIndex},
		{"snapshot", ".snapshot", &files.Snapshot},
		{"leader-epoch-checkpoint", ".leader_epoch_checkpoint", &files.LeaderEpochs},
	} {
		if *f.to, err = r.read(ctx, f.suffix); err != nil {
			return nil, r.cost, err
		}
		if *f.to == nil {
			files.IndexDamaged = append(files.IndexDamaged, f.name)
		}
	}
	if r.found == 0 {
		return nil, r.cost, r.missing
	}
	lost := !seg.TxnIndexEmpty && files.TxnIndex == nil && len(files.IndexDamaged) > 0
	if lost {
		files.TxnDamaged, files.TxnMissing = true, stem+suffixTxn
	}
	return files, r.cost, nil
}

// fileReader reads the small files of one segment.
type fileReader struct {
	layout  *Layout
	stem    string
	cost    readcost.Cost
	found   int   // files that are there
	missing error // of the last one that is not
}

// read gives a file's bytes, nil when it is not there or is no file of its kind.
func (r *fileReader) read(ctx context.Context, suffix string) ([]byte, error) {
	raw, _, cost, err := r.layout.store.ReadObject(ctx, r.stem+suffix, maxFile)
	r.cost.Add(cost)
	switch {
	case rangeio.IsKind(err, rangeio.NotFound):
		r.missing = err
		return nil, nil
	case rangeio.IsKind(err, rangeio.BadAnswer):
		r.found++
		return nil, nil
	case err != nil:
		return nil, err
	}
	r.found++
	return raw, nil
}
