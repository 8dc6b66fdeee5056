package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// brokerTimeout bounds what one broker may take for its offsets, so that one that hangs does not use up the time of
	// the others. Callers of Client.Refresh may wait for two rounds, and should get an answer within 5 s.
	brokerTimeout = 2 * time.Second
	// fetchTimeout bounds a Fetch: a connection that went silent is given up.
	fetchTimeout = 30 * time.Second
	// readBytes bounds one answer. Metadata takes some 50 bytes a partition at three replicas, so this is for 600,000.
	readBytes = 32 << 20

	opMetadata = "metadata"
)

// Brokers is the way to a cluster: the one kgo client through which this process asks it for anything. All methods may
// be called concurrently. Errors are *Error.
type Brokers struct {
	kafka  *kgo.Client
	sasl   *trackedSASL // nil = none
	reject func(reason string)
}

// Dial makes Brokers; connections are opened when they are needed. The Brokers are the caller's to Close. An error is
// of Kind Option.
func Dial(cfg Config) (*Brokers, error) {
	if len(cfg.Bootstrap) == 0 {
		return nil, &Error{Kind: Option, Op: "bootstrap", Err: errNoBootstrap}
	}
	b := &Brokers{reject: func(string) {}}
	if cfg.SASL != nil {
		b.sasl = &trackedSASL{Mechanism: cfg.SASL}
		cfg.SASL = b.sasl
	}
	var err error
	if b.kafka, err = kgo.NewClient(cfg.kgoOptions()...); err != nil {
		return nil, &Error{Kind: Option, Op: "cluster", Err: err}
	}
	return b, nil
}

// Close closes the connections. Requests that are under way fail with Kind Canceled.
func (b *Brokers) Close() { b.kafka.Close() }

// Fetch sends a Fetch request to one broker. The answer is at most 32 MiB; errors of partitions are in it.
func (b *Brokers) Fetch(ctx context.Context, broker int32, req *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	op := fmt.Sprintf("fetch from broker %d", broker)
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	resp, err := send[*kmsg.FetchResponse](ctx, b.kafka.Broker(int(broker)), req)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, asError(op, err)
	}
	return resp, nil
}

// metadata sends a Metadata request to any broker. It never lets one create a topic.
func (b *Brokers) metadata(ctx context.Context, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, *Error) {
	req.AllowAutoTopicCreation = false
	resp, err := req.RequestWith(ctx, b.kafka)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, b.sasl.nameBroker(asError(opMetadata, err))
	}
	if len(resp.Brokers) == 0 {
		return nil, &Error{Kind: Answer, Op: opMetadata, Err: errors.New("no broker in the answer")}
	}
	return resp, nil
}

// ask sends a request to one broker, and once more when the connection breaks, as one does that was opened before the
// broker was started anew.
func ask[R kmsg.Response](ctx context.Context, b *Brokers, broker int32, req kmsg.Request) (resp R, err error) {
	to := b.kafka.Broker(int(broker))
	if resp, err = send[R](ctx, to, req); err != nil && ctx.Err() == nil {
		resp, err = send[R](ctx, to, req)
	}
	return resp, err
}

func send[R kmsg.Response](ctx context.Context, to *kgo.Broker, req kmsg.Request) (resp R, err error) {
	raw, err := to.Request(ctx, req)
	if err != nil {
		return resp, err
	}
	resp, ok := raw.(R)
	if !ok {
		return resp, &Error{Kind: Answer, Op: kmsg.NameForKey(req.Key()), Err: fmt.Errorf("a %s was answered", kmsg.NameForKey(raw.Key()))}
	}
	return resp, nil
}

// perBroker runs ask for all brokers at once, and waits for them.
func perBroker[P any](brokers map[int32][]P, ask func(broker int32, parts []P)) {
	var wg sync.WaitGroup
	for broker, parts := range brokers {
		wg.Go(func() { ask(broker, parts) })
	}
	wg.Wait()
}
