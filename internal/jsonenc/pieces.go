package jsonenc

import (
	"encoding/base64"
	"unicode/utf8"

	"coldtap/segment"
)

const (
	// pieceSize is how many bytes of a key, value or header are encoded at a time by AppendInPieces: a multiple of 3, so
	// that base64 goes on where the last piece ended.
	pieceSize = 3 << 10
	// PieceRoom is the least capacity of a buffer for AppendInPieces: a piece of which each byte takes six, and what
	// stands around it.
	PieceRoom = 6*pieceSize + slack + fixedSize
)

// AppendInPieces appends what AppendRecord does, in a buffer that need not hold the whole record: where the next piece
// has no room, flush is given what there is and gives back a buffer to go on in, of a capacity of at least PieceRoom
// and mostly empty. An error of flush ends it. For the encodings Text, Base64 and JSON.
func (e *Encoder) AppendInPieces(dst []byte, r *segment.Record, flush func([]byte) ([]byte, error)) ([]byte, error) {
	p := pieces{e: e, dst: dst, flush: flush}
	p.add(fixedSize+len(e.prefix), func(dst []byte) []byte { return e.appendHead(dst, r) })
	p.bytes(r.Key)
	p.text(`,"value":`)
	p.bytes(r.Value)
	p.text(`,"headers":[`)
	for i := range r.Headers {
		if i > 0 {
			p.text(`,`)
		}
		p.text(`{"key":`)
		p.shown(textForm(r.Headers[i].Key), r.Headers[i].Key)
		p.text(`,"value":`)
		p.bytes(r.Headers[i].Value)
		p.text(`}`)
	}
	p.text(`]`)
	p.add(fixedSize, func(dst []byte) []byte { return e.appendTail(dst, r) })
	return p.dst, p.err
}

// pieces is a record that is being written in pieces.
type pieces struct {
	e     *Encoder
	dst   []byte
	flush func([]byte) ([]byte, error)
	err   error
}

// add appends what fn appends, at most n bytes.
func (p *pieces) add(n int, fn func(dst []byte) []byte) {
	if p.err == nil && cap(p.dst)-len(p.dst) < n {
		p.dst, p.err = p.flush(p.dst)
	}
	if p.err == nil {
		p.dst = fn(p.dst)
	}
}

func (p *pieces) text(s string) {
	p.add(len(s), func(dst []byte) []byte { return append(dst, s...) })
}

// bytes adds what appendBytes does.
func (p *pieces) bytes(b []byte) {
	switch {
	case b == nil:
		p.text("null")
	case p.e.encoding == Base64:
		p.shown(base64Form, b)
	case p.e.encoding == JSON:
		p.shown(mixedForm(b), b)
	default:
		p.shown(textForm(b), b)
	}
}

// shown adds bytes in a form that can show them.
func (p *pieces) shown(f form, b []byte) {
	p.text(forms[f].open)
	for len(b) > 0 && p.err == nil {
		n := min(len(b), pieceSize)
		for f == stringForm && n < len(b) && !utf8.RuneStart(b[n]) {
			n--
		}
		piece := b[:n]
		b = b[n:]
		p.add(6*pieceSize+slack, func(dst []byte) []byte {
			switch f {
			case stringForm:
				return appendUnquoted(dst, piece)
			case verbatimForm:
				return append(dst, piece...)
			default:
				return base64.StdEncoding.AppendEncode(dst, piece)
			}
		})
	}
	p.text(forms[f].close)
}
