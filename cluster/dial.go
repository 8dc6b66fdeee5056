package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
)

// dialTimeout bounds a dial, TLS handshake included.
const dialTimeout = 5 * time.Second

// dialer opens connections to brokers; its errors name the broker. Safe for concurrent use.
type dialer struct{ tls *TLS }

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	tcp := &net.Dialer{Timeout: dialTimeout}
	if d.tls == nil {
		return tcp.DialContext(ctx, network, addr) // its errors name the address
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cfg, err := d.tls.config(host)
	if err != nil {
		return nil, ofBroker(addr, err)
	}
	conn, err := (&tls.Dialer{NetDialer: tcp, Config: cfg}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, ofBroker(addr, err)
	}
	return &encrypted{conn, addr}, nil
}

// encrypted is a TLS connection whose broker may still refuse us: in TLS 1.3 our handshake is over before the broker
// has checked our certificate, and the first read gets its alert.
type encrypted struct {
	net.Conn
	addr string
}

func (e *encrypted) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if isAlert(err) {
		err = ofBroker(e.addr, err)
	}
	return n, err
}

// ofBroker names the broker with which TLS failed, and says whether the broker ended it.
func ofBroker(addr string, err error) error {
	switch {
	case isAlert(err) && strings.Contains(err.Error(), "certificate"):
		err = fmt.Errorf("the broker refused our certificate: %w", err)
	case isAlert(err):
		err = fmt.Errorf("the broker broke off: %w", err)
	}
	return asError("TLS with "+addr, err)
}

// isAlert says whether the other side ended TLS. crypto/tls has no type for that.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// trackedSASL is a mechanism that remembers at which broker it was used last, since neither kgo nor a refusal says so.
type trackedSASL struct {
	sasl.Mechanism
	last atomic.Pointer[string]
}

func (t *trackedSASL) Authenticate(ctx context.Context, addr string) (sasl.Session, []byte, error) {
	t.last.Store(&addr)
	return t.Mechanism.Authenticate(ctx, addr)
}

// nameBroker puts that broker into the text of a refusal, unless TLS has named it already.
func (t *trackedSASL) nameBroker(err *Error) *Error {
	if t == nil || err.Kind != Unauthorized || err.Op != opMetadata {
		return err
	}
	addr := t.last.Load()
	if addr == nil {
		return err
	}
	return &Error{Kind: err.Kind, Op: err.Op, Err: fmt.Errorf("SASL with %s: %w", *addr, err.Err)}
}
