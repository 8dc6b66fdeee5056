package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestErrorsHaveTheirKind(t *testing.T) {
	for _, tt := range []struct {
		err       error
		kind      Kind
		retriable bool
	}{
		{io.EOF, Unreachable, true},
		{context.DeadlineExceeded, Unreachable, true},
		{kerr.NotLeaderForPartition, Unreachable, true},
		{kerr.FencedLeaderEpoch, Unreachable, true},
		{kerr.SaslAuthenticationFailed, Unauthorized, false},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Unauthorized, false},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(42)}, Unauthorized, false},
		{tls.RecordHeaderError{Msg: "no TLS"}, Unauthorized, false},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, Unauthorized, false},
		{&Error{Kind: Option, Op: "password_file", Err: os.ErrNotExist}, Unauthorized, false},
		{kerr.TopicAuthorizationFailed, Denied, false},
		{kerr.ClusterAuthorizationFailed, Denied, false},
		{kerr.UnsupportedVersion, Answer, true},
		{kbin.ErrNotEnoughData, Answer, true},
		{context.Canceled, Canceled, false},
		{kgo.ErrClientClosed, Canceled, false},
	} {
		e := asError("metadata", fmt.Errorf("wrapped: %w", tt.err))
		if e.Kind != tt.kind || e.Retriable() != tt.retriable || !errors.Is(e, tt.err) && !errors.Is(e, os.ErrNotExist) {
			t.Errorf("%v: kind %v, retriable %v", tt.err, e.Kind, e.Retriable())
		}
		if !strings.HasPrefix(e.Error(), "metadata: "+tt.kind.String()) {
			t.Errorf("reads %q", e)
		}
	}
	names := map[string]bool{}
	for k := Unreachable; k <= lastKind; k++ {
		names[k.String()] = true
	}
	if len(names) != int(lastKind) || strings.HasPrefix(lastKind.String(), "kind ") {
		t.Errorf("names of kinds: %v", names)
	}
}
