package native

import (
	"cmp"
	"context"
	"errors"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"
)

// Unknown looks for a segment of a partition that is whole in the store, by its manifest and the size of its log, and
// for whose name known is false; nil when there is none. Unfinished copies and damaged manifests do not count. It lists
// the partition's folder, and reads manifests until one counts. When none does, the error is that of the first object
// that the store withholds (rangeio.Withheld).
func (l *Layout) Unknown(ctx context.Context, topic string, id tier.PartitionID, known func(name layout.Name) bool) (*tier.Segment, error) {
	logs := make(map[layout.Name]int64) // sizes
	var manifests []rangeio.Object
	for _, prefix := range l.PartitionPrefixes(topic, id) {
		err := l.store.List(ctx, prefix, func(o rangeio.Object) error {
			switch part, name := l.Classify(o.Key); {
			case name.Partition != id || known(name):
			case part == layout.LogPart:
				logs[name] = o.Size
			case part == layout.ManifestPart:
				manifests = append(manifests, o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var withheld error
	for _, o := range manifests {
		_, name := l.Classify(o.Key)
		size, ok := logs[name]
		if !ok {
			continue
		}
		d, _, err := l.ReadManifest(ctx, o)
		if _, damaged := errors.AsType[*layout.Error](err); damaged || err == nil && d.LogSize != size {
			continue
		}
		if _, kept := rangeio.Withheld(err); kept {
			withheld = cmp.Or(withheld, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		return &d.Segment, nil
	}
	return nil, withheld
}
