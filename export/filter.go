package export

import (
	"slices"

	"coldtap/segment"
)

// filter says which records are wanted. The zero value wants all.
type filter struct {
	from, before int64 // timestamps, before exclusive; only when the flags say so
	hasFrom      bool
	hasBefore    bool
	key          []byte // when hasKey
	hasKey       bool
	headers      []Header
}

func newFilter(o *Options) filter {
	f := filter{
		from: o.From.value, hasFrom: o.From.kind == atTime,
		before: o.To.value, hasBefore: o.To.kind == atTime,
		headers: o.Headers,
	}
	if o.Key != nil {
		f.key, f.hasKey = []byte(*o.Key), true
	}
	return f
}

func (f *filter) matches(r *segment.Record) bool {
	if f.hasFrom && r.Timestamp < f.from || f.hasBefore && r.Timestamp >= f.before {
		return false
	}
	if f.hasKey && (r.Key == nil || string(r.Key) != string(f.key)) {
		return false
	}
	for _, want := range f.headers {
		found := slices.ContainsFunc(r.Headers, func(h segment.RecordHeader) bool {
			return h.Value != nil && string(h.Key) == want.Key && string(h.Value) == want.Value
		})
		if !found {
			return false
		}
	}
	return true
}
