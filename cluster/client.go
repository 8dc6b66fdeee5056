package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/internal/episode"
	"coldtap/internal/refresh"
	"coldtap/segment"
)

const (
	// roundGap is the least time from the start of one round to that of the next: ten a second, however many calls of
	// Refresh there are.
	roundGap = 100 * time.Millisecond
	// roundTimeout bounds a round, so that callers who wait for the next one get an answer.
	roundTimeout = 10 * time.Second
	// electionPatience is how long leaders may not answer before it is logged. A broker that is stopped and started in an
	// orderly way hands its partitions over, and the others know the new leaders, well within it.
	electionPatience = 5 * time.Second
)

// Client keeps a View of a cluster up to date. Its methods may be called concurrently.
type Client struct {
	cfg     Config
	brokers *Brokers
	metrics *metrics
	notify  func(*View)
	opened  time.Time
	view    atomic.Pointer[View]

	stop   context.CancelFunc
	done   chan struct{}                      // closed when the background job has ended
	calls  *refresh.Queue[PartitionID, error] // of Refresh and RefreshOnly
	newIDs chan struct{}                      // holds one: Watch brought ids that were not watched

	mu      sync.Mutex
	watched map[segment.UUID]string // names as far as the caller knows them; replaced, never changed
	full    bool                    // the next round has to be a full one
	lastErr error
}

// everything stands for all partitions among the keys of calls.
var everything = PartitionID{}

// Open starts asking the cluster and returns without waiting for it. notify, if not nil, is called with each new View,
// in order and never concurrently; it must not call Refresh or Close, which wait for it. The Client is the caller's to
// Close. An error is an *Error of Kind Option.
func Open(cfg Config, notify func(*View)) (*Client, error) {
	brokers, err := Dial(cfg)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, brokers: brokers, notify: notify, opened: time.Now(), stop: stop, done: make(chan struct{}),
		calls: refresh.New[PartitionID, error](), newIDs: make(chan struct{}, 1)}
	if c.metrics, err = newMetrics(cfg.Registerer, c); err != nil {
		stop()
		brokers.Close()
		return nil, err
	}
	brokers.reject = c.metrics.reject
	go c.run(ctx)
	return c, nil
}

// Brokers is the way to the cluster that the Client uses itself; it ends with Close.
func (c *Client) Brokers() *Brokers { return c.brokers }

// Watch replaces the set of topics whose bounds and lineage are kept. An id that is new to it makes a round start at
// once. For ids that the cluster does not list, View.Missing says why; all together they cost a request in every tenth
// round.
//
// The names are the last known ones, empty where none is known. They are for logs and errors, and for brokers that
// cannot be asked for an id (Metadata below version 12).
func (c *Client) Watch(topics map[segment.UUID]string) {
	set := maps.Clone(topics)
	delete(set, segment.UUID{})
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.watched
	c.watched = set
	for id := range set {
		if _, ok := before[id]; !ok {
			c.full = true
			select {
			case c.newIDs <- struct{}{}:
			default:
			}
			return
		}
	}
}

// View is the newest one, nil before the first.
func (c *Client) View() *View { return c.view.Load() }

// Refresh waits for a round that starts after the call. nil means that there is a new View whose requests were all sent
// after the call began, and that notify has returned from it. It does not mean that every leader answered: those of
// partitions whose BoundsAt is not before View.At have. Callers that wait together share one round, and at most ten
// start per second. A cluster that is away is tried at once, whatever the pause after failures; ctx ends the wait only.
// Errors are *Error.
func (c *Client) Refresh(ctx context.Context) error { return c.RefreshOnly(ctx, everything) }

// RefreshOnly is Refresh for some partitions of watched topics: one Metadata request that names their topics, and to
// their leaders one request per kind of bound. Where that is not enough, because a topic has another id by now or an
// answer is an error, the round is a full one. Calls that wait together share one round.
func (c *Client) RefreshOnly(ctx context.Context, partitions ...PartitionID) error {
	err, unanswered := c.calls.Ask(ctx, partitions...)
	switch {
	case unanswered == nil:
		return err
	case ctx.Err() != nil:
		return &Error{Kind: Canceled, Op: "refresh", Err: unanswered}
	}
	return unanswered
}

var errClosed = &Error{Kind: Canceled, Op: "refresh", Err: errors.New("the cluster's client is closed")}

// Age is the time since the requests of the newest View were sent; since Open while there is none.
func (c *Client) Age() time.Duration {
	if v := c.view.Load(); v != nil {
		return time.Since(v.At)
	}
	return time.Since(c.opened)
}

// LastError is why the last round gave no View, an *Error; nil when it gave one, and before the first round.
func (c *Client) LastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastErr
}

// Close ends the background job and the connections, and waits for both. Callers that wait in Refresh get an error of
// Kind Canceled. The last View stays readable. More calls do nothing.
func (c *Client) Close() {
	c.stop()
	<-c.done
}

// run is the background job.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	defer c.brokers.Close()
	defer c.calls.Close(errClosed)
	rounds := newRounds(c.brokers, c.metrics, c.cfg.logger())
	outage := newOutage(c.cfg)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var started, due time.Time // when the last round started, and when the next full one is due
	for {
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-c.calls.Wanted():
		case <-c.newIDs:
		case <-ctx.Done():
			return
		}
		if gap := roundGap - time.Since(started); gap > 0 {
			timer.Reset(gap)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		started = time.Now()
		calls, watched, full := c.startRound(started.Before(due))
		if !full {
			if view := rounds.ofPartitions(ctx, c.view.Load(), watched, calls.Keys); view != nil {
				c.metrics.partitionRounds.Inc()
				c.publish(calls, view)
				continue
			}
		}
		view, more, err := rounds.full(ctx, c.view.Load(), watched)
		if ctx.Err() != nil {
			c.endRound(calls, errClosed)
			return
		}
		took := time.Since(started)
		c.metrics.unanswered.Set(float64(rounds.unanswered))
		if err != nil {
			c.metrics.round(took, resultOf(err.Kind))
			outage.failed(err)
			c.endRound(calls, err)
		} else {
			outage.answered(view, rounds.unanswered-rounds.refused, rounds.firstFailure)
			result := resultOK
			if rounds.unanswered > 0 {
				result = resultPartial
			}
			c.metrics.round(took, result)
			c.publish(calls, view)
		}
		pause := c.cfg.pause(outage.failures)
		if more {
			pause = roundGap
		}
		due = time.Now().Add(pause)
	}
}

// startRound gives the calls that the round answers, nil for none, and what is watched. early says that no full round
// is due yet: then the round is about the partitions of the calls only, unless one of them asks for more.
func (c *Client) startRound(early bool) (calls *refresh.Look[PartitionID, error], watched map[segment.UUID]string, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, _ = c.calls.Take(math.MaxInt)
	full = !early || c.full || calls == nil || slices.Contains(calls.Keys, everything)
	if full {
		c.full = false
		select {
		case <-c.newIDs:
		default:
		}
	}
	return calls, c.watched, full
}

// publish makes a View the newest one, notifies of it, and answers the calls of its round.
func (c *Client) publish(calls *refresh.Look[PartitionID, error], v *View) {
	c.view.Store(v)
	if c.notify != nil {
		c.notify(v)
	}
	c.endRound(calls, nil)
}

func (c *Client) endRound(calls *refresh.Look[PartitionID, error], err error) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
	calls.End(err)
}

// outage logs when the cluster, or some of its leaders, stop answering and when they are back.
type outage struct {
	log       *slog.Logger
	failures  int             // rounds in a row without a View
	unanswers episode.Episode // rounds without a View
	partials  episode.Episode // rounds with a View but without some leaders' answers
}

func newOutage(cfg Config) outage {
	patience := cmp.Or(cfg.patience, electionPatience)
	return outage{log: cfg.logger(), unanswers: episode.Episode{Patience: patience}, partials: episode.Episode{Patience: patience}}
}

func (o *outage) failed(err *Error) {
	o.failures++
	if o.unanswers.Failed(time.Now(), err.Kind.String(), err.Retriable()) {
		o.log.Warn("the cluster does not answer", "error", err)
	}
}

// answered is for a round with a View, in which some partitions may have no answer.
func (o *outage) answered(v *View, unanswered int, why error) {
	now := time.Now()
	o.failures = 0
	if lasted, logged := o.unanswers.Over(now); logged {
		o.log.Info("the cluster answers again", "after", lasted.Round(time.Millisecond), "topics", len(v.Topics))
	}
	if unanswered == 0 {
		if lasted, logged := o.partials.Over(now); logged {
			o.log.Info("all leaders of watched partitions answer again", "after", lasted.Round(time.Millisecond))
		}
	} else if o.partials.Failed(now, "", true) {
		o.log.Warn("leaders of watched partitions do not answer", "partitions", unanswered, "error", why)
	}
}
