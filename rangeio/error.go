package rangeio

import (
	"errors"
	"slices"
	"strconv"

	"coldtap/internal/errkind"
)

// Kind classifies what went wrong with a store operation.
type Kind uint8

const (
	NotFound       Kind = iota + 1 // the object is not there
	NoBucket                       // the bucket or root folder is not there, or lies in another region
	Forbidden                      // access denied, to this object or to all; S3 says so of a missing object too when listing is not allowed
	BadCredentials                 // credentials missing, unknown, expired, or a signature that does not match
	Archived                       // the object is in a storage class that has to be restored before it is read
	Changed                        // another version than asked for (412)
	BadRange                       // 416: the object is shorter than asked
	BadAnswer                      // the store answered nonsense: wrong range, length, checksum
	Throttled                      // 503 SlowDown, 429
	Unavailable                    // unreachable, 5xx, broken or stalled body
	Full                           // no space left, quota
	BadKey                         // a key that the store cannot hold or that would leave its root
	Canceled                       // the caller's context ended
	BadContent                     // the content to be put could not be read, or ended before its size
)

// lastKind bounds loops over all kinds.
const lastKind = BadContent

var kindNames = [...]string{
	NotFound: "not found", NoBucket: "no such bucket", Forbidden: "forbidden",
	BadCredentials: "bad credentials", Archived: "archived", Changed: "changed", BadRange: "bad range",
	BadAnswer: "bad answer", Throttled: "throttled", Unavailable: "unavailable", Full: "store full", BadKey: "bad key", Canceled: "canceled",
	BadContent: "source unreadable", // also the value of a metric's label, hence the old word
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Remedy says what a person has to do before errors of the kind stop; "" where nothing is known, or waiting helps.
func (k Kind) Remedy() string {
	switch k {
	case NoBucket:
		return "the bucket, container or folder is not there, or the bucket lies in another region: compare store.kind's bucket, region, endpoint and folder"
	case Forbidden:
		return "access is denied: the credentials need the permission to read objects of this bucket and prefix"
	case BadCredentials:
		return "the store does not take the credentials, or there are none: set them, renew them if they have expired, and compare the clock"
	case Archived:
		return "the object is in an archive storage class: restore it, or copy it to a class that can be read at once"
	}
	return ""
}

// Withheld says that a store does not give this one object, which is in an archive storage class or denied; why names
// the remedy. Other objects may be read, so a caller that reads many skips this one and reports it.
func Withheld(err error) (why string, ok bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != Archived && e.Kind != Forbidden {
		return "", false
	}
	return e.Kind.Remedy() + ": " + e.Error(), true
}

// Error is the error of every store operation.
type Error struct {
	Kind Kind
	Op   string // get, put, stat, delete, list
	Key  string // as the caller gave it; the prefix for list
	Err  error  // cause, may be nil

	exhausted bool // a BadAnswer that came again after its one retry, or that a retry cannot cure
}

func (e *Error) Error() string {
	s := e.Op + " " + strconv.Quote(e.Key) + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause; for Canceled it is the context's error.
func (e *Error) Unwrap() error { return e.Err }

// Remedy says what a person has to do before the operation can succeed, see Kind.Remedy.
func (e *Error) Remedy() string { return e.Kind.Remedy() }

// Retriable says whether the same operation may succeed later by itself: Throttled and Unavailable always, BadAnswer
// once (Client uses that up, so a BadAnswer from it is final).
func (e *Error) Retriable() bool {
	switch e.Kind {
	case Throttled, Unavailable:
		return true
	case BadAnswer:
		return !e.exhausted
	}
	return false
}

// IsKind says that err is, or wraps, an *Error of one of the kinds.
func IsKind(err error, kinds ...Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.Kind)
}
