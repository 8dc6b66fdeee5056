package cache

import "coldtap/tier"

// list is an order of chunks by warmth. Cache.mu guards it and the links.
type list struct {
	warmest, coldest *Chunk
	n                int
	bytes            int64
}

func (l *list) add(ch *Chunk, size int64) {
	l.link(ch)
	l.n++
	l.bytes += size
}

func (l *list) remove(ch *Chunk, size int64) {
	l.unlink(ch)
	l.n--
	l.bytes -= size
}

func (l *list) warm(ch *Chunk) {
	l.unlink(ch)
	l.link(ch)
}

func (l *list) link(ch *Chunk) {
	ch.warmer, ch.colder = nil, l.warmest
	if l.warmest != nil {
		l.warmest.warmer = ch
	} else {
		l.coldest = ch
	}
	l.warmest = ch
}

func (l *list) unlink(ch *Chunk) {
	if ch.warmer != nil {
		ch.warmer.colder = ch.colder
	} else {
		l.warmest = ch.colder
	}
	if ch.colder != nil {
		ch.colder.warmer = ch.warmer
	} else {
		l.coldest = ch.warmer
	}
	ch.warmer, ch.colder = nil, nil
}

// segments finds the cached chunks of a segment, as linked lists. Cache.mu guards it.
type segments map[tier.SegmentKey]*Chunk

func (s segments) add(ch *Chunk) {
	k := ch.key.Segment
	ch.elder, ch.sibling = nil, s[k]
	if ch.sibling != nil {
		ch.sibling.elder = ch
	}
	s[k] = ch
}

func (s segments) remove(ch *Chunk) {
	if ch.sibling != nil {
		ch.sibling.elder = ch.elder
	}
	switch {
	case ch.elder != nil:
		ch.elder.sibling = ch.sibling
	case ch.sibling != nil:
		s[ch.key.Segment] = ch.sibling
	default:
		delete(s, ch.key.Segment)
	}
	ch.elder, ch.sibling = nil, nil
}
