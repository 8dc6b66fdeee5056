package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"coldtap/internal/errkind"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind classifies what went wrong between coldtap and the cluster.
type Kind uint8

const (
	Unreachable  Kind = iota + 1 // no broker answered, or the one that had to did not, or it said "try again"
	Unauthorized                 // TLS or SASL: one side did not accept the other's identity
	Denied                       // the principal lacks a right (ACL)
	Answer                       // an answer that cannot be true, or a protocol that is too old
	Canceled                     // the caller's context ended, or the Client was closed
	Option                       // the configuration cannot work
)

// lastKind bounds loops over all kinds.
const lastKind = Option

var kindNames = [...]string{
	Unreachable: "unreachable", Unauthorized: "unauthorized", Denied: "denied", Answer: "bad answer", Canceled: "canceled", Option: "bad option",
}

func (k Kind) String() string { return errkind.Name(kindNames[:], k) }

// Error is the error of everything in this package.
type Error struct {
	Kind Kind
	Op   string // the request (metadata, list offsets, …), refresh, or for Option the option's name
	Err  error  // cause, may be nil
}

func (e *Error) Error() string {
	s := e.Op + ": " + e.Kind.String()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retriable says whether the same may succeed later without a change by an operator.
func (e *Error) Retriable() bool { return e.Kind == Unreachable || e.Kind == Answer }

// KindOf classifies an error of this package or an error code of a broker.
func KindOf(err error) Kind { return asError("", err).Kind }

// asError classifies what kgo or a broker's error code says.
func asError(op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Kind == Option { // a password, token or certificate file that cannot be read when it is needed
			return &Error{Kind: Unauthorized, Op: op, Err: e}
		}
		return e
	}
	return &Error{Kind: kindOf(err), Op: op, Err: err}
}

func kindOf(err error) Kind {
	if code, ok := errors.AsType[*kerr.Error](err); ok {
		switch code {
		case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState:
			return Unauthorized
		case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed:
			return Denied
		case kerr.UnsupportedVersion, kerr.InvalidRequest, kerr.CorruptMessage:
			return Answer
		}
		return Unreachable
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return Canceled
	}
	if errors.Is(err, kbin.ErrNotEnoughData) {
		return Answer
	}
	if isTLS(err) {
		return Unauthorized
	}
	return Unreachable
}

// isTLS says whether a handshake failed because one side did not accept the other's certificate or protocol.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if isAlert(err) {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}
