package local

import (
	"errors"
	"fmt"
	"strconv"

	"coldtap/layout"
	"coldtap/segment"
	"coldtap/tier"
)

// stem is the key of a segment's objects without the suffix. It fails with *layout.Error for a segment that cannot have
// one: names come from a metadata topic, and must not lead out of the folder that they should name.
func (l *Layout) stem(seg *tier.Segment) (string, error) {
	id := seg.Partition
	folder := seg.Topic + "-" + strconv.Itoa(int(id.Partition))
	topic, partition, ok := segment.ParsePartitionDir(folder)
	var err error
	switch {
	case !ok || topic != seg.Topic || partition != id.Partition:
		err = fmt.Errorf("%.300q is no partition", folder)
	case id.Topic.IsZero():
		err = errors.New("no topic id")
	case seg.ID.IsZero():
		err = errors.New("no segment id")
	case seg.BaseOffset < 0:
		err = fmt.Errorf("base offset %d", seg.BaseOffset)
	case seg.Size < 0:
		err = fmt.Errorf("a log of %d bytes", seg.Size)
	}
	if err != nil {
		return "", &layout.Error{Object: "segment " + seg.ID.String(), Err: err}
	}
	return l.prefix + folder + "-" + id.Topic.String() + "/" + segment.FileName(seg.BaseOffset, "-"+seg.ID.String()), nil
}
