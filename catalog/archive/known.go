package archive

import (
	"bytes"
	"cmp"
	"slices"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// known is what the bucket's manifests have told so far. It outlives a listing that fails, so that the next one goes on
// where that ended.
type known struct {
	entries  map[segment.UUID]*entry
	lineages map[tier.PartitionID]*lineage
	starts   map[tier.PartitionID]start // of the newest complete listing
	touched  map[tier.PartitionID]bool  // partitions in which something changed since they were settled
	origins  map[origin]*origin
	flawed   int
	dirty    bool // something is known that the snapshot file does not have
}

// maxFlawed bounds the manifests that are remembered for being useless; those beyond are read again at each listing.
const maxFlawed = 1 << 16

func newKnown() *known {
	return &known{
		entries: make(map[segment.UUID]*entry), lineages: make(map[tier.PartitionID]*lineage),
		starts: make(map[tier.PartitionID]start), touched: make(map[tier.PartitionID]bool), origins: make(map[origin]*origin),
	}
}

// origin is where segments come from; there are few of them, and millions of segments.
type origin struct {
	prefix  string // of the key
	cluster string // "" where the layout does not tell
}

func (k *known) origin(prefix, cluster string) *origin {
	o := origin{prefix, cluster}
	if k.origins[o] == nil {
		k.origins[o] = &o
	}
	return k.origins[o]
}

// entry is one manifest.
type entry struct {
	seg       *tier.Segment // nil while the manifest is being read; of a flawed one only what its key says
	from      *origin
	flaw      *Finding // nil when the manifest is fine
	size      int64    // of the manifest's object
	modTime   int64    // ns, of the manifest's object
	logSize   int64    // as the manifest says
	filesSize int64    // as the manifest says; 0 = there need be none
	seen      uint32   // the listing in which it was seen last
	usable    bool     // the manifest is fine, and so was all else in that listing
}

// is says whether the entry is of the manifest that a listing has.
func (e *entry) is(n *layout.Name, manifest *rangeio.Object) bool {
	return e.seg != nil && e.size == manifest.Size && e.modTime == manifest.ModTime.UnixNano() && e.names(n)
}

func (e *entry) names(n *layout.Name) bool {
	return e.from.prefix == n.Prefix && describes(e.seg, n)
}

// describes says whether a segment is the one that a key names.
func describes(s *tier.Segment, n *layout.Name) bool {
	return s.ID == n.ID && s.Partition == n.Partition && s.BaseOffset == n.BaseOffset && s.Topic == n.Topic
}

// touch says that a partition has to be settled again.
func (k *known) touch(id tier.PartitionID) { k.touched[id] = true }

// use says whether an entry can be served.
func (k *known) use(e *entry, usable bool) {
	if e.usable != usable {
		e.usable = usable
		k.touch(e.seg.Partition)
	}
}

// put takes a manifest in, in place of the one that was known under its id.
func (k *known) put(e *entry) {
	k.drop(e.seg.ID)
	k.entries[e.seg.ID] = e
	if e.flaw != nil {
		k.flawed++
		return
	}
	k.dirty = true
}

// drop forgets a manifest.
func (k *known) drop(id segment.UUID) {
	old := k.entries[id]
	if old == nil {
		return
	}
	delete(k.entries, id)
	switch {
	case old.seg == nil:
	case old.flaw != nil:
		k.flawed--
	default:
		k.dirty = true
		k.touch(old.seg.Partition)
	}
}

// lineage is the checkpoint of a partition's newest segment.
type lineage struct {
	of         mark
	checkpoint *layout.Checkpoint // nil when it cannot be used
	why        string             // why not
}

// mark names one version of a manifest.
type mark struct {
	id            segment.UUID
	size, modTime int64
}

func (e *entry) mark() mark { return mark{e.seg.ID, e.size, e.modTime} }

// start is what a partition's start object says.
type start struct {
	topic, cluster string
	offset         int64
	flaw           string // why it cannot be believed
}

// byAge orders entries as their copies began: of two that hold one range the later one is preferred. The modification
// time comes second, because copying a bucket changes it.
func byAge(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.seg.EventTime, b.seg.EventTime), cmp.Compare(a.modTime, b.modTime),
		cmp.Compare(a.seg.BaseOffset, b.seg.BaseOffset), bytes.Compare(a.seg.ID[:], b.seg.ID[:]))
}

// isNewer follows tier's choice of the winner: the log that ends in the greatest (last epoch, end offset) survived.
func isNewer(a, b *entry) bool {
	return cmp.Or(cmp.Compare(lastEpoch(a.seg), lastEpoch(b.seg)), cmp.Compare(a.seg.EndOffset, b.seg.EndOffset), byAge(a, b)) > 0
}

// lastEpoch is the highest epoch that has records in a segment.
func lastEpoch(s *tier.Segment) int32 {
	for _, e := range slices.Backward(s.Epochs) {
		if _, _, ok := s.EndOfEpoch(e.Epoch); ok {
			return e.Epoch
		}
	}
	return -1
}
