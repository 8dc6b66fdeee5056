package rangeio

import (
	"context"
	"net"
	"net/http"
	"time"
)

// S3Tuning is what tests change about the transport.
type S3Tuning struct {
	Header time.Duration
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// OpenS3Tuned is OpenS3 with other limits.
func OpenS3Tuned(ctx context.Context, cfg S3Config, o S3Tuning) (Backend, error) {
	tuned := func(t transportTuning) *http.Transport {
		if o.Header > 0 {
			t.header = o.Header
		}
		t.dialContext = o.Dial
		return newTransport(t)
	}
	return openS3(ctx, cfg, pools{tuned(readTuning(defaultConnections)), tuned(writeTuning(defaultConnections / 2))})
}
