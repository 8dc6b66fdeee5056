package rangeio

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 50 * time.Millisecond
	// A store that says "slow down" wants fewer requests, not the same ones a little later: four times the pause of a
	// broken connection.
	firstThrottledBackoff = 200 * time.Millisecond
)

// backoff is how long to wait before attempt n+1, n ≥ 1: full jitter below a bound that doubles, so that readers that
// failed together do not come back together.
func backoff(n int, kind Kind, limit time.Duration) time.Duration {
	bound := firstBackoff
	if kind == Throttled {
		bound = firstThrottledBackoff
	}
	for ; n > 1 && bound < limit; n-- {
		bound *= 2
	}
	return rand.N(min(bound, limit)) + 1
}

// pause waits for d or the end of ctx, and reports whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
