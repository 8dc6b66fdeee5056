package rangeio

import (
	"context"
	"net"
	"time"
)

// S3Tuning is what tests change about the transport.
type S3Tuning struct {
	Header time.Duration
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// OpenS3Tuned is OpenS3 with other limits.
func OpenS3Tuned(ctx context.Context, cfg S3Config, o S3Tuning) (Backend, error) {
	tune := func(base func(int) transportTuning) func(int) transportTuning {
		return func(connections int) transportTuning {
			t := base(connections)
			if o.Header > 0 {
				t.header = o.Header
			}
			t.dialContext = o.Dial
			return t
		}
	}
	return openS3(ctx, cfg, tune(readTuning), tune(writeTuning))
}
