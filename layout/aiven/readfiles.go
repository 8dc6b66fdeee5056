package aiven

import (
	"bytes"
	"context"

	"coldtap/internal/readcost"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// fileNames are what segment.Files.IndexDamaged calls the small files.
var fileNames = [fileCount]string{
	fileOffset: "index", fileTime: "timeindex", fileSnapshot: "snapshot", fileEpochs: "leader-epoch-checkpoint",
	fileTxn: "txnindex",
}

// separateSuffixes are the objects that held the small files before October 2023.
var separateSuffixes = [fileCount]string{
	fileOffset: ".index", fileTime: ".timeindex", fileSnapshot: ".snapshot", fileEpochs: ".leader-epoch-checkpoint",
	fileTxn: ".txnindex",
}

// ReadFiles reads the segment's small files: the manifest, if it is not in memory, and one GET for all of them. The
// plugin keeps no list of aborted transactions, so the result is never decided.
//
// A file that is missing though the manifest has it, that fails authentication, or that lies in an object of another
// length than the manifest says and is not authenticated, is left out and named in IndexDamaged, or makes TxnDamaged
// true. When the object is not there, the manifest is asked for again first: if it is gone too, the segment is, and the
// error is that.
func (l *Layout) ReadFiles(ctx context.Context, seg *tier.Segment) (*segment.Files, readcost.Cost, error) {
	if err := checkSegment(seg); err != nil {
		return nil, readcost.Cost{}, err
	}
	var sum readcost.Cost
	for again := false; ; again = true {
		m, cost, err := l.manifest(ctx, seg)
		sum.Add(cost)
		if err != nil {
			return nil, sum, err
		}
		var files *segment.Files
		if m.separate {
			files, err = l.readSeparate(ctx, seg, m, &sum)
		} else {
			files, err = l.readPacked(ctx, seg, m, &sum)
		}
		if !rangeio.IsKind(err, rangeio.NotFound) {
			return files, sum, err
		}
		if again {
			files := m.unpackFiles(nil)
			if files.TxnDamaged {
				files.TxnMissing = stems(seg, m.lastStem(), l.prefixes)[0] + SuffixIndexes
			}
			return files, sum, nil
		}
		l.manifests.forget(seg.Key())
	}
}

// readPacked reads .indexes.
func (l *Layout) readPacked(
	ctx context.Context, seg *tier.Segment, m *manifestEntry, sum *readcost.Cost) (*segment.Files, error) {
	if m.indexSize() == 0 {
		return m.unpackFiles(nil), nil // S3 has no object then
	}
	var raw []byte
	err := tryStems(stems(seg, m.lastStem(), l.prefixesOf(seg)), func(stem string) (err error) {
		var cost readcost.Cost
		raw, _, cost, err = l.store.ReadObject(ctx, stem+SuffixIndexes, MaxIndexes)
		sum.Add(cost)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m.unpackFiles(raw), nil
}

// indexSize is the length of .indexes.
func (m *Manifest) indexSize() (n int64) {
	for _, p := range m.files {
		n += p.size
	}
	return n
}

// unpackFiles cuts the small files out of .indexes. The result holds no reference to raw.
func (m *manifestEntry) unpackFiles(raw []byte) *segment.Files {
	f := new(segment.Files)
	right := int64(len(raw)) == m.indexSize()
	for i, p := range m.files {
		switch {
		case !p.exists:
		case p.size == 0:
			m.setFile(f, i, []byte{}, true)
		case p.position+p.size > int64(len(raw)):
			m.setFile(f, i, nil, false)
		default:
			b, ok := m.openFile(raw[p.position : p.position+p.size])
			m.setFile(f, i, b, ok && (right || m.Encrypted))
		}
	}
	return f
}

// openFile gives a copy of a stored file's content.
func (m *manifestEntry) openFile(stored []byte) ([]byte, bool) {
	if !m.Encrypted {
		return bytes.Clone(stored), true
	}
	b, err := unseal(m.aead, m.seal.aad, stored, []byte{})
	return b, err == nil
}

func (m *manifestEntry) setFile(f *segment.Files, i int, b []byte, ok bool) {
	slot := [fileCount]*[]byte{
		fileOffset: &f.OffsetIndex, fileTime: &f.TimeIndex, fileSnapshot: &f.Snapshot, fileEpochs: &f.LeaderEpochs,
		fileTxn: &f.TxnIndex,
	}[i]
	switch {
	case ok:
		*slot = b
	case i == fileTxn:
		f.TxnDamaged = true
	default:
		f.IndexDamaged = append(f.IndexDamaged, fileNames[i])
	}
}

// readSeparate reads the small files of a segment of before October 2023, one object each. Only the transaction index
// may be missing.
func (l *Layout) readSeparate(
	ctx context.Context, seg *tier.Segment, m *manifestEntry, sum *readcost.Cost) (*segment.Files, error) {
	f := new(segment.Files)
	left := int64(MaxIndexes)
	for i, suffix := range separateSuffixes {
		var raw []byte
		err := tryStems(stems(seg, m.lastStem(), l.prefixesOf(seg)), func(stem string) (err error) {
			var cost readcost.Cost
			raw, _, cost, err = l.store.ReadObject(ctx, stem+suffix, left)
			sum.Add(cost)
			return err
		})
		switch {
		case rangeio.IsKind(err, rangeio.NotFound):
			if i != fileTxn {
				m.setFile(f, i, nil, false)
			}
		case err != nil:
			return nil, err
		default:
			left -= int64(len(raw))
			b, ok := m.openFile(raw)
			if len(raw) == 0 {
				b, ok = []byte{}, true
			}
			m.setFile(f, i, b, ok)
		}
	}
	return f, nil
}
