package offload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"coldtap/internal/readlimit"
	"coldtap/segment"
)

// indexLimit bounds an index file that is read: twice what an index of segment.index.bytes at its default of 10 MiB
// can hold. A larger one is made anew.
const indexLimit = 20 << 20

// checked is a segment that may be copied: every byte of its log was checked, and files are its small files.
type checked struct {
	*localSegment
	log          *os.File
	sha256       string
	maxTimestamp int64
	epochs       []segment.EpochStart
	files        segment.Files
	rebuilt      []rebuiltFile
}

type rebuiltFile struct{ suffix, why string }

func (c *checked) close() { c.log.Close() }

// checker is one pass over a segment's log.
type checker struct {
	p       *localLog
	s       *localSegment
	t       *transactions
	indexes *indexes
	txns    *txnIndex
	// producers is nil where the broker's own snapshot holds them.
	producers producers
	aborted   []segment.AbortedTxn // with data here, ended here
	gap       string               // the first place where offsets are missing
	cleaned   bool
	dense     bool // each batch begins where the one before ends
	// earlier are the batches' own epochs below the first one of the lineage.
	earlier []segment.EpochStart
}

var errNoEpoch = &fault{NoLeaderEpoch, errors.New("leader-epoch-checkpoint has none for these offsets")}

// checkSegment reads the whole of a segment, which has to be closed or sealed. t is the state at its base and becomes
// the one at its end; after an error it must not be used. The caller closes the result.
func (p *localLog) checkSegment(ctx context.Context, s *localSegment, t *transactions, o *laterMarkers) (c *checked, err error) {
	if s.size > math.MaxInt32 {
		return nil, damaged(s.logName(), "%d bytes: a log has at most 2 GiB", s.size)
	}
	// The cleaner leaves an empty log where every record of a segment was superseded.
	if s.size == 0 && s.hasLog && !p.compacted {
		return nil, damaged(s.logName(), "empty, and nothing shows that the log was ever compacted")
	}
	if p.epochsFrom < 0 {
		return nil, errNoEpoch
	}
	var known producers
	var snapshot []byte
	var states []segment.ProducerState
	if s.sealed {
		known, err = p.producersAt(s.base)
	} else {
		snapshot, states, err = p.readSnapshot(s.next)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, readlimit.ErrTooLarge) {
			return nil, damaged(segment.FileName(s.next, ".snapshot"), "%v", err)
		}
	}
	if err != nil {
		return nil, err
	}
	f, info, err := p.openLog(s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	offsetFile, offsetErr := p.readIndex(s, ".index")
	timeFile, timeErr := p.readIndex(s, ".timeindex")
	txnFile, txnErr := p.readIndex(s, ".txnindex")
	ck := &checker{
		p: p, s: s, t: t, producers: known,
		indexes: newIndexes(s.base, s.size, offsetFile, offsetErr, timeFile, timeErr),
		txns:    newTxnIndex(s.base, s.next, txnFile, txnErr),
		dense:   true,
	}
	sum := sha256.New()
	r := newBatchReader(ctx, s.logName(), io.TeeReader(io.NewSectionReader(f, 0, s.size), sum), s.size, s.base, s.next)
	t.startSegment()
	for {
		b, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := ck.checkBatch(&b, r.want-1); err != nil {
			return nil, err
		}
	}
	if err := ck.finish(r.want); err != nil {
		return nil, err
	}
	epochs := extendDown(ck.earlier, segmentEpochs(p.lineage, s.base, s.next))
	if len(epochs) == 0 {
		return nil, errNoEpoch
	}
	if s.sealed {
		states = known.states()
		snapshot = segment.AppendSnapshot(nil, states)
	}
	if err := t.checkSnapshot(states); err != nil {
		return nil, damaged(segment.FileName(s.next, ".snapshot"), "%v", err)
	}
	later, err := o.abortedOf(ctx, t, s.next)
	if err != nil {
		return nil, err
	}
	c = &checked{
		localSegment: s, log: f, sha256: hex.EncodeToString(sum.Sum(nil)), epochs: epochs,
		maxTimestamp: ck.indexes.maxTimestamp,
	}
	if c.maxTimestamp < 0 {
		c.maxTimestamp = info.ModTime().UnixMilli()
	}
	c.files = segment.Files{
		Snapshot:     snapshot,
		LeaderEpochs: segment.AppendEpochCheckpoint(nil, extendDown(ck.earlier, epochsBelow(p.lineage, s.next))),
		Aborted:      append(ck.aborted, later...),
		Decided:      true,
		Dense:        ck.dense && r.want == s.next,
	}
	slices.SortFunc(c.files.Aborted, func(a, b segment.AbortedTxn) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.LastOffset, b.LastOffset))
	})
	c.chooseIndexes(ck, offsetFile, timeFile, txnFile)
	return c, nil
}

// errNotClosed is why a sealed segment's index files are not used: a broker writes their last entries when it closes
// the segment, and entries may lie behind the cut.
var errNotClosed = errors.New("the segment is not closed")

// readIndex reads an index file; nil without an error is a missing .txnindex: a broker writes none without aborts.
func (p *localLog) readIndex(s *localSegment, suffix string) ([]byte, error) {
	if s.sealed {
		return nil, errNotClosed
	}
	raw, err := readSmall(p.root, segment.FileName(s.base, suffix), indexLimit)
	if errors.Is(err, fs.ErrNotExist) {
		if suffix == ".txnindex" {
			return nil, nil
		}
		return nil, errors.New("missing")
	}
	return raw, err
}

// checkBatch checks one batch, which ends at the offset last.
func (k *checker) checkBatch(b *batch, last int64) error {
	if b.gap && k.gap == "" {
		k.gap = fmt.Sprintf("byte %d: offsets are missing before %d", b.Position, b.BaseOffset)
	}
	k.cleaned = k.cleaned || b.cleaned
	k.dense = k.dense && b.adjoins
	// A checkpoint that a crash left short would put offsets into the wrong epoch, where no reader looks for them.
	if b.LeaderEpoch >= 0 && b.BaseOffset >= k.p.epochsFrom {
		if epoch, ok := epochAt(k.p.lineage, b.BaseOffset); ok && epoch != b.LeaderEpoch {
			return damaged("leader-epoch-checkpoint", "has epoch %d for offset %d, the batch there has %d",
				epoch, b.BaseOffset, b.LeaderEpoch)
		}
	}
	k.addEarlierEpoch(b)
	k.indexes.checkBatch(b)
	if err := k.txns.checkEntries(b, last, k.t); err != nil {
		return err
	}
	e, err := k.t.apply(b)
	if err != nil {
		return damaged(k.s.logName(), "%v", err)
	}
	if k.producers != nil {
		if err := k.producers.apply(b); err != nil {
			return damaged(k.s.logName(), "byte %d: %v", b.Position, err)
		}
	}
	if e != nil && e.aborted {
		k.txns.addAborted(e)
		if e.inSegment {
			k.aborted = append(k.aborted, e.abortedTxn())
		}
	}
	return nil
}

// addEarlierEpoch takes the epoch from a batch below the lineage's first entry. The broker cuts its lineage at the log
// start as soon as that moves, but checkpoints the log start once a minute only: after a crash it goes back to the
// older start, and serves what lies between.
func (k *checker) addEarlierEpoch(b *batch) {
	if b.LeaderEpoch < 0 || b.BaseOffset >= k.p.lineage[0].StartOffset {
		return
	}
	if n := len(k.earlier); n > 0 && k.earlier[n-1].Epoch == b.LeaderEpoch {
		return
	}
	start := b.BaseOffset
	if len(k.earlier) == 0 {
		start = k.s.base
	}
	k.earlier = append(k.earlier, segment.EpochStart{Epoch: b.LeaderEpoch, StartOffset: start})
}

// extendDown puts epochs that were read from batches before a lineage that begins above them.
func extendDown(earlier, lineage []segment.EpochStart) []segment.EpochStart {
	if len(earlier) == 0 {
		return lineage
	}
	if last := earlier[len(earlier)-1]; len(lineage) > 0 && lineage[0].Epoch <= last.Epoch {
		lineage = lineage[1:]
	}
	return slices.Concat(earlier, lineage)
}

// finish checks the end of the segment; want is the offset behind the last batch.
func (k *checker) finish(want int64) error {
	if want < k.s.next && k.gap == "" {
		k.gap = fmt.Sprintf("offsets %d to %d are missing at the end", want, k.s.end())
	}
	if k.gap != "" {
		// Missing offsets are damage unless the cleaner has been there.
		if !k.p.compacted && !k.cleaned {
			return damaged(k.s.logName(), "%s, and nothing shows that the log was ever compacted", k.gap)
		}
		k.t.compacted = true
	}
	k.p.compacted = k.p.compacted || k.cleaned
	k.indexes.finish(k.s.size, want-1)
	return nil
}

// epochAt gives the epoch of an offset; ok is false below the lineage.
func epochAt(lineage []segment.EpochStart, offset int64) (epoch int32, ok bool) {
	for _, e := range lineage {
		if e.StartOffset > offset {
			break
		}
		epoch, ok = e.Epoch, true
	}
	return epoch, ok
}

// chooseIndexes takes the broker's own index files where they are right, cut to the entries in use, else the rebuilt
// ones.
func (c *checked) chooseIndexes(k *checker, offsetFile, timeFile, txnFile []byte) {
	x := k.indexes
	if x.offsetFault == "" {
		c.files.OffsetIndex = offsetFile[:8*x.offsets.Len()]
	} else {
		c.files.OffsetIndex = append([]byte{}, x.newOffsets...)
		c.rebuilt = append(c.rebuilt, rebuiltFile{".index", x.offsetFault})
	}
	if x.timeFault == "" {
		c.files.TimeIndex = timeFile[:12*x.times.Len()]
	} else {
		c.files.TimeIndex = append([]byte{}, x.newTimes...)
		c.rebuilt = append(c.rebuilt, rebuiltFile{".timeindex", x.timeFault})
	}
	if k.txns.fault == "" {
		c.files.TxnIndex = txnFile
	} else {
		c.files.TxnIndex = segment.AppendTxnIndex([]byte{}, k.txns.fromLog...)
		c.rebuilt = append(c.rebuilt, rebuiltFile{".txnindex", k.txns.fault})
	}
	if c.sealed {
		// The broker's files are not wrong, only not closed; without aborts a broker writes no .txnindex.
		c.rebuilt = nil
		if len(k.txns.fromLog) == 0 {
			c.files.TxnIndex = nil
		}
	}
}
