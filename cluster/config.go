package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// Config says which cluster, and how to connect to it.
type Config struct {
	Bootstrap []string       // host:port, at least one
	TLS       *TLS           // nil = plaintext; see TLSOptions
	SASL      sasl.Mechanism // nil = none; see SASLOptions
	ClientID  string         // our name in the brokers' quotas and logs; default "coldtap"

	// Interval is the time from one round to the next; default 1 s. After failures it doubles, to at most ten times as
	// long and at most 10 s (or Interval, if that is longer).
	Interval time.Duration

	Logger     *slog.Logger          // nil = slog.Default
	Registerer prometheus.Registerer // nil = metrics are kept but not registered

	patience time.Duration // with trouble that may pass, before it is logged; 0: electionPatience
}

const (
	defaultInterval = time.Second
	maxBackoff      = 10 * time.Second
)

// kgoOptions are for the client of this cluster: addresses, TLS, SASL, the client id, time-outs that notice a dead
// broker within 5 s and give up within 10 s, bounded answers, and no client metrics (KIP-714), which would be the one
// thing that is sent to brokers to keep. Topic creation stays off. What kgo logs goes to Logger at debug level only,
// since the callers report failures.
func (c Config) kgoOptions() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ClientID(cmp.Or(c.ClientID, "coldtap")),
		kgo.WithLogger(kgoLogger{c.logger()}),
		kgo.Dialer(dialer{c.TLS}.dial),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.RetryTimeout(10 * time.Second),
		kgo.RequestRetries(5),
		kgo.RetryBackoffFn(retryBackoff),
		kgo.DisableClientMetrics(),
		kgo.BrokerMaxReadBytes(readBytes),
		kgo.FetchMaxBytes(1 << 20), // of kgo's own consumer, which is not used: at most BrokerMaxReadBytes is allowed
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL))
	}
	return opts
}

// retryBackoff gives 50, 100, 200, 400, 800 ms: five retries end within 2 s when every broker refuses connections.
func retryBackoff(tries int) time.Duration {
	return 50 * time.Millisecond << min(max(tries-1, 0), 4)
}

func (c Config) logger() *slog.Logger {
	return cmp.Or(c.Logger, slog.Default())
}

func (c Config) interval() time.Duration {
	if c.Interval <= 0 {
		return defaultInterval
	}
	return c.Interval
}

// pause is the time to the next round after so many failures in a row.
func (c Config) pause(failures int) time.Duration {
	d := c.interval()
	longest := max(d, min(10*d, maxBackoff))
	return min(d<<min(failures, 4), longest)
}

var errNoBootstrap = errors.New("at least one host:port is needed")

// kgoLogger passes kgo's log lines on at debug level.
type kgoLogger struct{ log *slog.Logger }

func (l kgoLogger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

func (l kgoLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Debug(msg, append(keyvals, "kgo_level", level.String())...)
}
