package aiven

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"coldtap/internal/budget"
	"coldtap/internal/readcost"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// store is what a Layout needs of a *rangeio.Client.
type store interface {
	ReadRange(ctx context.Context, key string, dst []byte, off int64, etag string, size int64) (
		rangeio.Info, readcost.Cost, error)
	ReadObject(ctx context.Context, key string, limit int64) ([]byte, rangeio.Info, readcost.Cost, error)
}

// Options say how the plugin wrote, and bound what reading takes. Zero values take the defaults.
type Options struct {
	// Prefixes are the present and the former values of the plugin's key.prefix, byte for byte, the present one first.
	// None is one empty prefix. A segment is looked for under the prefix that it was found under before, then under that
	// of the segment found last, then under the others.
	Prefixes []string
	Keys     []PrivateKey
	// Reload, if not nil, gives all keys as they are now. It is called when no known key opens a segment, at most once a
	// second.
	Reload func() ([]PrivateKey, error)

	// Memory bounds stored and open chunks together, in bytes; default 256 MiB. A stored chunk that is compressed or
	// sealed needs about twice its length: up to 100 MiB fit the default.
	Memory int64
	// Parallel is how many chunks are opened at a time, over all reads; default GOMAXPROCS. 0.4 MiB each.
	Parallel int
	// ManifestMemory bounds the manifests kept, in bytes; default 16 MiB, some 3,500 segments.
	ManifestMemory int64

	Registerer prometheus.Registerer // nil = no metrics
}

const (
	defaultMemory         = 256 << 20
	defaultManifestMemory = 16 << 20
	maxPrefixes           = 16
)

// Layout implements layout.Reader, layout.Manifests and layout.Names. All methods may be called concurrently. It has no
// goroutines of its own.
type Layout struct {
	store        store
	prefixes     []string // the present one first
	longestFirst []string // the prefixes, for cutting keys: "ts" is a beginning of "ts-old"
	keys         *keys
	manifests    *manifestCache
	geometries   geometries
	space        *workspace
	memory       *budget.Budget // of manifests that are read without metadata
	opener       *opener
	metrics      *metrics
}

var (
	_ layout.Manifests = (*Layout)(nil)
	_ layout.Names     = (*Layout)(nil)
)

// New makes a layout over a store. It fails when a private key cannot be used.
func New(client *rangeio.Client, o Options) (*Layout, error) { return newLayout(client, o) }

func newLayout(s store, o Options) (*Layout, error) {
	if len(o.Prefixes) == 0 {
		o.Prefixes = []string{""}
	}
	if len(o.Prefixes) > maxPrefixes {
		return nil, fmt.Errorf("%d key prefixes, at most %d are allowed", len(o.Prefixes), maxPrefixes)
	}
	if o.Memory < 0 || o.Parallel < 0 || o.ManifestMemory < 0 {
		return nil, errors.New("a negative bound")
	}
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.Parallel = cmp.Or(o.Parallel, runtime.GOMAXPROCS(0))
	o.ManifestMemory = cmp.Or(o.ManifestMemory, defaultManifestMemory)
	ring, err := newKeyring(o.Keys)
	if err != nil {
		return nil, err
	}
	l := &Layout{
		store: s, prefixes: o.Prefixes, longestFirst: slices.Clone(o.Prefixes), space: newWorkspace(o.Memory),
		memory: budget.New(scanMemory), keys: newKeys(ring, o.Reload),
	}
	slices.SortStableFunc(l.longestFirst, func(a, b string) int { return len(b) - len(a) })
	if l.opener, err = newOpener(o.Parallel); err != nil {
		return nil, err
	}
	l.manifests = newManifestCache(o.ManifestMemory, l.loadManifest)
	l.metrics = newMetrics(o.Registerer, l.space)
	return l, nil
}

// ChunkSize is a multiple of the segment's stored chunk when that is at most max. When it is larger, the pieces are
// equal parts of a stored chunk, so that each lies in one of them: the largest divisor that is at most max, if one is
// not much smaller. A log that is neither compressed nor sealed is read like a file, in pieces of a power of two.
//
// It sends no request. The stored chunk's length is in the manifest, which ReadFiles and ReadLog read; before that, the
// segment is assumed to be like the one whose manifest was read last (the plugin has one chunk.size for all), or to be
// stored like a file. The first answer stays, also when the manifest says otherwise, because callers cache pieces by
// their number. A segment with a wrong first answer is readable, with some chunks read in two parts.
func (l *Layout) ChunkSize(seg *tier.Segment, max int64) int64 {
	if checkSegment(seg) != nil {
		return layout.PlainChunk(max)
	}
	return pieceSize(l.geometries.of(seg.Key()), max)
}

// prefixesOf are the prefixes under which a segment may be, the likeliest first.
func (l *Layout) prefixesOf(seg *tier.Segment) []string {
	if len(l.prefixes) == 1 {
		return l.prefixes
	}
	first := l.geometries.prefixOf(seg.Key())
	list := append(make([]string, 0, len(l.prefixes)), l.prefixes[first])
	list = append(list, l.prefixes[:first]...)
	return append(list, l.prefixes[first+1:]...)
}

// learnPrefix remembers where a segment was found.
func (l *Layout) learnPrefix(seg *tier.Segment, stem string) {
	if i := slices.Index(l.prefixes, strings.TrimSuffix(stem, mainPath(seg))); len(l.prefixes) > 1 && i >= 0 {
		l.geometries.learnPrefix(seg.Key(), i)
	}
}

// pieceSize is ChunkSize for a segment with stored chunks of so many log bytes; 0: any range can be read.
func pieceSize(chunk, max int64) int64 {
	switch {
	case chunk == 0 || max < 1:
		return layout.PlainChunk(max)
	case chunk <= max:
		return max / chunk * chunk
	}
	// Parts of less than a quarter of max would make requests for memory, though not for the store, that many more.
	least := (chunk + max - 1) / max
	for parts := least; parts <= 4*least && parts < least+4096; parts++ {
		if chunk%parts == 0 {
			return chunk / parts
		}
	}
	return (chunk + least - 1) / least
}
