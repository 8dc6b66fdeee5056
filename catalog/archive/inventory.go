package archive

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sync"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/segment"
	"coldtap/tier"
)

// inventory is what is known of the bucket's manifests. It outlives a listing that fails, so that the next one goes on
// where that ended. The listing of a partition works on an inventory of its own (copyOf), which takes the partition's
// place here when the listing is complete (replace).
type inventory struct {
	mu         sync.Mutex // guards all of it, and all that it points to
	entries    index
	partitions map[tier.PartitionID]*partition
	flaws      map[segment.UUID]*Finding // of entries that are flawed
	everNamed  map[segment.UUID]string   // names of every topic that ever was in the view, by id
	origins    *origins
	dirty      bool // something is known that the snapshot file does not have
}

// maxFlawed bounds the flawed manifests that are remembered; those beyond are read again in each listing.
const maxFlawed = 1 << 16

func newInventory() *inventory {
	return &inventory{
		entries: newIndex(), partitions: make(map[tier.PartitionID]*partition), flaws: make(map[segment.UUID]*Finding),
		everNamed: make(map[segment.UUID]string), origins: &origins{at: make(map[origin]uint32)},
	}
}

// partition is what is known of a partition.
type partition struct {
	entries *entry // the first of its manifests
	lineage *lineage
	start   *start // nil when there is no start object
	topic   string // its name when it was resolved last

	touched     bool           // something changed since it was resolved
	rewritten   []segment.UUID // of manifests that went, or came back with another modification time, since it was resolved
	resolved    uint32         // how often it was
	listedAlone uint32         // the number of the newest listing of this partition alone; 0 = none
	tally       *tally         // what resolving it found; nil = nothing
}

// partition gives the state of a partition, made when there is none.
func (k *inventory) partition(id tier.PartitionID) *partition {
	p := k.partitions[id]
	if p == nil {
		p = new(partition)
		k.partitions[id] = p
	}
	return p
}

// origin is where segments come from; there are few of them, and millions of segments.
type origin struct {
	prefix  string // of the key
	cluster string // "" where the layout has none
}

// origins numbers them. All methods may be called concurrently.
type origins struct {
	mu   sync.RWMutex
	list []origin
	at   map[origin]uint32
}

func (o *origins) number(prefix, cluster string) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := origin{prefix, cluster}
	n, ok := o.at[x]
	if !ok {
		n = uint32(len(o.list))
		o.at[x] = n
		o.list = append(o.list, x)
	}
	return n
}

// all lists them; the list is not written to any more, only behind its end.
func (o *origins) all() []origin {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.list
}

func (o *origins) get(n uint32) origin {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.list[n]
}

// entry is one manifest. At 48 bytes it is one allocation class below what int64 sizes would take.
type entry struct {
	seg       *tier.Segment // while it is pending, and of a flawed one, only what its key says
	next      *entry        // of its partition, in no order
	modTime   int64         // ns, of the manifest's object
	size      uint32        // of the manifest's object, capped
	logSize   uint32        // as the manifest says
	filesSize uint32        // as the manifest says; 0 = there need be none
	seen      uint32        // the listing in which it was seen last
	from      uint32        // of the origins
	usable    bool          // the manifest is fine, and so was all else in that listing
	flawed    bool
	pending   bool // the manifest is being read
}

// capped is a size as entries hold it: none that is believed is that large (a Kafka log has at most 2 GiB).
func capped(size int64) uint32 { return uint32(min(max(size, 0), math.MaxUint32)) }

// isUnchanged says whether the entry is of the manifest that a listing has.
func (k *inventory) isUnchanged(e *entry, n *layout.Name, manifest *rangeio.Object) bool {
	return !e.pending && e.size == capped(manifest.Size) && e.modTime == manifest.ModTime.UnixNano() &&
		describes(e.seg, n) && k.origins.get(e.from).prefix == n.Prefix
}

// describes says whether a segment is the one that a key names.
func describes(s *tier.Segment, n *layout.Name) bool {
	return s.ID == n.ID && s.Partition == n.Partition && s.BaseOffset == n.BaseOffset && s.Topic == n.Topic
}

// touch says that a partition has to be resolved again.
func (k *inventory) touch(id tier.PartitionID) { k.partition(id).touched = true }

// setUsable says whether an entry can be served.
func (k *inventory) setUsable(e *entry, usable bool) {
	if e.usable != usable {
		e.usable = usable
		k.touch(e.seg.Partition)
	}
}

// put stores a manifest, in place of the one that was known under its id, and gives the entry that it has from now on.
// flaw is nil when it has none.
func (k *inventory) put(e *entry, flaw *Finding) *entry {
	old := k.entries.get(e.seg.ID)
	if old != nil && old.seg.Partition == e.seg.Partition {
		// It takes the old one's place in the list without a search: in a bucket that was copied all manifests are new.
		k.noteChange(old)
		e.next = old.next
		*old = *e
		e = old
	} else {
		k.drop(e.seg.ID)
		k.link(e)
	}
	e.flawed = flaw != nil
	if e.flawed {
		k.flaws[e.seg.ID] = flaw
	} else {
		k.dirty = true
	}
	return e
}

func (k *inventory) link(e *entry) {
	k.entries.add(e)
	p := k.partition(e.seg.Partition)
	e.next, p.entries = p.entries, e
}

// drop removes a manifest, if it is known.
func (k *inventory) drop(id segment.UUID) {
	e := k.entries.get(id)
	if e == nil {
		return
	}
	at := &k.partition(e.seg.Partition).entries
	for *at != e {
		at = &(*at).next
	}
	*at = e.next
	k.entries.remove(id)
	k.noteChange(e)
}

// noteChange keeps track of a manifest that is removed or replaced.
func (k *inventory) noteChange(e *entry) {
	switch {
	case e.pending:
	case e.flawed:
		delete(k.flaws, e.seg.ID)
	default:
		k.dirty = true
		p := k.partition(e.seg.Partition)
		p.touched = true
		p.rewritten = append(p.rewritten, e.seg.ID)
	}
}

// sweep drops entries of a partition.
func (k *inventory) sweep(p *partition, stale func(*entry) bool) {
	for at := &p.entries; *at != nil; {
		if e := *at; stale(e) {
			*at = e.next
			k.entries.remove(e.seg.ID)
			k.noteChange(e)
		} else {
			at = &e.next
		}
	}
}

// all yields the entries of a partition.
func (p *partition) all(yield func(*entry) bool) {
	for e := p.entries; e != nil; e = e.next {
		if !yield(e) {
			return
		}
	}
}

// isUsed says whether anything that is known can be served.
func (k *inventory) isUsed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for e := range k.entries.all {
		if e.usable {
			return true
		}
	}
	return false
}

// copyOf gives an inventory with a copy of one partition, and the topic names under which keys of it are known.
func (k *inventory) copyOf(id tier.PartitionID) (own *inventory, topics []string) {
	own = newInventory()
	own.origins = k.origins
	name := func(topic string) {
		if topic != "" && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	name(k.everNamed[id.Topic])
	p := k.partitions[id]
	if p == nil {
		return own, topics
	}
	q := own.partition(id)
	q.lineage, q.start, q.topic = p.lineage, p.start, p.topic
	name(p.topic)
	if p.start != nil {
		name(p.start.topic)
	}
	for e := range p.all {
		name(e.seg.Topic)
		if e.pending {
			continue
		}
		c := *e
		c.seen = 0
		own.link(&c)
		if e.flawed {
			own.flaws[e.seg.ID] = k.flaws[e.seg.ID]
		}
	}
	own.dirty = false
	return own, topics
}

// conflicts lists the entries of a partition's own inventory whose ids other partitions have.
func (k *inventory) conflicts(own *partition, id tier.PartitionID) (list []*entry) {
	for e := range own.all {
		if o := k.entries.get(e.seg.ID); o != nil && o.seg.Partition != id {
			list = append(list, e)
		}
	}
	return list
}

// replace puts a partition's own inventory in the place of what was known of it. No other partition has one of its ids.
func (k *inventory) replace(id tier.PartitionID, own *inventory) *partition {
	p, q := k.partition(id), own.partition(id)
	for e := range p.all {
		k.entries.remove(e.seg.ID)
		delete(k.flaws, e.seg.ID)
	}
	p.entries = nil
	for e := q.entries; e != nil; {
		next := e.next
		k.link(e)
		if e.flawed {
			k.flaws[e.seg.ID] = own.flaws[e.seg.ID]
		}
		e = next
	}
	p.lineage, p.start = q.lineage, q.start
	p.rewritten = append(p.rewritten, q.rewritten...)
	p.touched, k.dirty = true, true
	return p
}

// lineage is the checkpoint of a partition's newest segment.
type lineage struct {
	of         mark
	checkpoint *layout.Checkpoint // nil when it cannot be used
	why        string             // why not
}

// mark identifies one version of a manifest.
type mark struct {
	id            segment.UUID
	size, modTime int64
}

func (e *entry) mark() mark { return mark{e.seg.ID, int64(e.size), e.modTime} }

// start is the content of a partition's start object.
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
