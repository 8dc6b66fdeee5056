package fetch

import (
	"time"

	"coldtap/segment"
)

// unseenSpan is how far before a segment's largest timestamp its others are taken to lie: brokers roll a segment after
// a week by default, and nothing tells its smallest timestamp without a read.
const unseenSpan = int64(365 * 24 * time.Hour / time.Millisecond)

// TimeSpan estimates between which timestamps (ms, both included) the partition's records lie, from metadata alone:
// from a year before the smallest of its segments' largest timestamps up to the largest of them, or to now where the
// brokers hold records that the tier does not. known is false when nothing is known of the partition's times.
func (s *Service) TimeSpan(topic string, id segment.UUID, partition int32) (from, to int64, known bool) {
	_, _, p, err := s.find(topic, id, partition)
	if err != nil {
		return 0, 0, false
	}
	for _, seg := range p.Segments(false) {
		switch t := seg.MaxTimestamp; {
		case t < 0: // no record of it has a timestamp
		case !known:
			from, to, known = t, t, true
		default:
			from, to = min(from, t), max(to, t)
		}
	}
	if b := p.Bounds(); known && max(b.HighWatermark, b.LastStable) > p.TieredEnd() {
		to = max(to, time.Now().UnixMilli())
	}
	return from - unseenSpan, to, known
}
