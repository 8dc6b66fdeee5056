package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"coldtap/fetch"
	"coldtap/internal/jsonenc"
	"coldtap/segment"
)

// problem is an answer that says why there is no other one: a five-digit code (HTTP status × 100 + n), a message for
// people, and members for programs.
type problem struct {
	code       int
	message    string
	parameter  string        // 40001
	bounds     *fetch.Bounds // 41601
	segment    segment.UUID  // zero: none
	position   int64         // in the segment's log, -1: none
	nextOffset int64         // -1: none
	size       int64         // 41602: the file's size, for Content-Range
	retryAfter time.Duration // > 0: Retry-After
	offset     int64         // 42203: of the record that has no form in the format, -1: none
	supported  []offer       // 40601: what can be given
	requestID  bool          // 50001: give the request's id
	gone       bool          // the client has gone, or is cut: no answer is read
}

func (p *problem) Error() string { return strconv.Itoa(p.code) + ": " + p.message }

func (p *problem) status() int { return p.code / 100 }

const (
	codeNoRoute         = 40400
	codeBadParameter    = 40001
	codeNotAllowed      = 40301
	codeNoTopic         = 40401
	codeNoPartition     = 40402
	codeNoCluster       = 40403
	codeNoSegment       = 40404
	codeMethod          = 40501
	codeNotAcceptable   = 40601
	codeRequestTime     = 40801
	codePrecondition    = 41201
	codeBodyTooLarge    = 41301
	codeOutOfRange      = 41601
	codeNoSuchBytes     = 41602
	codeExpectation     = 41701
	codeMisdirected     = 42101
	codeContradiction   = 42201
	codeUnrepresentable = 42203
	codeHeaderSize      = 43101
	codeInternal        = 50001
	codeDamaged         = 50002
	codeTooLarge        = 50003
	codeMissing         = 50201
	codeBusy            = 50301
	codeNotReady        = 50302
	codeUnreachable     = 50303
	codeTimedOut        = 50401
	codeVersion         = 50501
)

func newProblem(code int, format string, args ...any) *problem {
	return &problem{code: code, message: fmt.Sprintf(format, args...), position: -1, nextOffset: -1, offset: -1, size: -1}
}

func badParameter(name, format string, args ...any) *problem {
	p := newProblem(codeBadParameter, "parameter %s: "+format, append([]any{name}, args...)...)
	p.parameter = name
	return p
}

// memoryBusy refuses a request whose answer has no room in the decode budget now.
func memoryBusy() *problem {
	p := newProblem(codeBusy, "the memory for decoded answers is in use (limits.decode_memory); try again, or ask for fewer bytes")
	p.retryAfter = time.Second
	return p
}

func internalProblem() *problem {
	p := newProblem(codeInternal, "internal error; the log has the details under this request id")
	p.requestID = true
	return p
}

// problemOf translates any error into what the client may know. What it may not (causes, hosts, keys) is logged.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var fe *fetch.Error
	if errors.As(err, &fe) {
		return fetchProblem(fe)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return goneProblem()
	case errors.Is(err, context.DeadlineExceeded):
		return newProblem(codeTimedOut, "nothing could be read in time; try again, or give a longer timeout")
	}
	return internalProblem()
}

func goneProblem() *problem {
	p := newProblem(codeBusy, "the request was ended")
	p.gone = true
	return p
}

func fetchProblem(fe *fetch.Error) *problem {
	p := newProblem(codeInternal, "")
	say := func(code int, otherwise, hint string) {
		p.code = code
		p.message = cmp.Or(fe.Detail, otherwise) + hint
	}
	retry := func() { p.retryAfter = max(fe.RetryAfter, time.Second) }
	p.segment = fe.Segment
	switch fe.Kind {
	case fetch.TopicUnknown:
		say(codeNoTopic, "no such topic in the tier", "")
	case fetch.PartitionUnknown:
		say(codeNoPartition, "no such partition in the tier", "")
	case fetch.SegmentUnknown:
		say(codeNoSegment, "no such segment, or file of it, in the tier", "")
	case fetch.BadRequest:
		say(codeContradiction, "the request contradicts itself", "")
	case fetch.OutOfRange:
		say(codeOutOfRange, "offset out of range", "; offset=earliest starts with what there is")
		p.bounds = &fe.Bounds
	case fetch.Damaged:
		say(codeDamaged, "stored bytes are damaged", "; damaged bytes are never served, next_offset is where to go on")
		p.position, p.nextOffset = fe.Position, fe.NextOffset
	case fetch.TooLarge:
		say(codeTooLarge, "a batch is too large to be decoded", "; next_offset is behind it")
		p.position, p.nextOffset = fe.Position, fe.NextOffset
	case fetch.Missing:
		say(codeMissing, "the store does not have what the metadata promises", "")
	case fetch.Refused:
		say(codeMissing, "the object store does not let itself be read", "")
	case fetch.Busy:
		say(codeBusy, "too much is being read at the moment", "; try again")
		retry()
	case fetch.NotReady:
		say(codeNotReady, "the metadata is not ready", "; try again")
		retry()
	case fetch.Unreachable:
		say(codeUnreachable, "the object store cannot be reached or throttles", "; try again")
		retry()
	case fetch.TimedOut:
		say(codeTimedOut, "nothing could be read in time", "; try again, or give a longer timeout")
		p.nextOffset = fe.NextOffset
	case fetch.Canceled:
		return goneProblem()
	default:
		return internalProblem()
	}
	return p
}

// appendBody appends the error as a JSON document on a line.
func (p *problem) appendBody(dst []byte, requestID string) []byte {
	return append(p.appendFields(append(dst, '{'), requestID), '}', '\n')
}

// appendFields appends the error's members without the braces around them, so that ndjson can add to the line.
func (p *problem) appendFields(dst []byte, requestID string) []byte {
	dst = strconv.AppendInt(append(dst, `"error_code":`...), int64(p.code), 10)
	dst = jsonenc.AppendString(append(dst, `,"message":`...), p.message)
	if p.parameter != "" {
		dst = jsonenc.AppendString(append(dst, `,"parameter":`...), p.parameter)
	}
	if p.supported != nil {
		dst = append(dst, `,"supported":[`...)
		for i := range p.supported {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsonenc.AppendString(dst, p.supported[i].mediaType)
		}
		dst = append(dst, ']')
	}
	if b := p.bounds; b != nil {
		dst = appendOffset(append(dst, `,"log_start_offset":`...), b.Start)
		dst = appendOffset(append(dst, `,"local_log_start_offset":`...), b.LocalStart)
		dst = appendOffset(append(dst, `,"tiered_end_offset":`...), b.TieredEnd)
	}
	if !p.segment.IsZero() {
		dst = jsonenc.AppendString(append(dst, `,"segment":`...), p.segment.String())
	}
	for _, f := range [...]struct {
		name  string
		value int64
	}{{"position", p.position}, {"offset", p.offset}, {"next_offset", p.nextOffset}} {
		if f.value >= 0 {
			dst = append(append(append(dst, `,"`...), f.name...), `":`...)
			dst = strconv.AppendInt(dst, f.value, 10)
		}
	}
	if p.requestID {
		dst = jsonenc.AppendString(append(dst, `,"request_id":`...), requestID)
	}
	return dst
}

// appendOffset appends an offset, or null for -1, which stands for unknown everywhere in fetch.
func appendOffset(dst []byte, offset int64) []byte {
	if offset < 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, offset, 10)
}

func (p *problem) retrySeconds() int {
	return max(1, int((p.retryAfter+time.Second-1)/time.Second))
}
