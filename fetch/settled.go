package fetch

import (
	"context"

	"coldtap/segment"
)

// maxSettled bounds the segments whose indexes Settled reads before the first byte is served.
const maxSettled = 8

// Settled says whether the stream's answer can never become another one, because its end is given and lies within
// finished segments that are decided for its isolation level. Then it appends to ids those of the segments, which
// together with the request stand for the answer. Only for a stream of which nothing was read yet. With read_committed
// it may read indexes, which the answer needs as well; what goes wrong there shows when the stream gets to it.
func (st *Stream) Settled(ctx context.Context, ids []segment.UUID) (all []segment.UUID, settled bool) {
	if st.end != 0 || st.err != nil || !st.placed || st.rangeEnd > st.bounds.TieredEnd {
		return ids, false
	}
	seg, decidedEnd := st.cur.seg, st.decidedEnd
	for n := 1; ; n++ {
		ids = append(ids, seg.ID)
		if min(st.rangeEnd, seg.EndOffset+1) > decidedEnd {
			return ids, false
		}
		if st.rangeEnd <= seg.EndOffset+1 {
			return ids, true
		}
		next, ok := st.part.Next(seg)
		if !ok || n == maxSettled {
			return ids, false
		}
		seg = next
		if st.req.Isolation != ReadCommitted {
			continue
		}
		entry, err := st.index(ctx, seg)
		if err == nil {
			_, decidedEnd, err = st.abortedIn(ctx, seg, entry)
		}
		if err != nil {
			return ids, false
		}
	}
}
