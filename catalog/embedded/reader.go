package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/internal/episode"
	"coldtap/internal/metric"
	"coldtap/internal/refresh"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultPoll = 250 * time.Millisecond
	// maxPause is how long a reader waits between two tries at a file that it cannot read: a full load of a big one that
	// fails at its end shall not keep a core busy.
	maxPause = 5 * time.Second
)

// ReaderOptions may all be left out.
type ReaderOptions struct {
	Poll       time.Duration // how often the database is asked whether something is new; 250 ms when 0
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	OnDelete   func(*tier.Segment) // called when a segment left CopyFinished, after the view without it is out (drop caches)
}

// Reader follows a database that another process may be writing. All methods may be called concurrently.
type Reader struct {
	path     string
	interval time.Duration // of polls
	log      *slog.Logger
	onDelete func(*tier.Segment)
	metrics  *catalog.Metrics

	view    atomic.Pointer[view]
	trouble atomic.Pointer[catalog.Error] // of the newest poll, nil when it went well

	refreshes *refresh.Queue[struct{}, error]
	cancel    context.CancelFunc
	following sync.WaitGroup

	// The rest belongs to the following goroutine.
	file    *file
	failing episode.Episode // for the log
}

// view is what was read of one store. Its tier grows as the store does; another store gets another view.
type view struct {
	tier *tier.Tier
	head head // of the newest read
}

var _ catalog.Source = (*Reader)(nil)

// OpenReader follows the database: it looks for something new every Poll and publishes a new snapshot. The first read
// is done when it returns, if the file is there. A file that is missing or cannot be read is no error: Ready says
// so, and the reader goes on trying. It never writes to the database's tables.
func OpenReader(ctx context.Context, path string, opt ReaderOptions) (*Reader, error) {
	if path == "" {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: opFollow, Err: errors.New("its path is empty")}
	}
	r := &Reader{
		path: path, interval: opt.Poll, log: cmp.Or(opt.Logger, slog.New(slog.DiscardHandler)),
		onDelete: opt.OnDelete, refreshes: refresh.New[struct{}, error](),
	}
	if r.interval <= 0 {
		r.interval = defaultPoll
	}
	r.view.Store(&view{tier: tier.New(), head: head{lastChange: -1}})
	registered := metric.For(opt.Registerer)
	r.metrics = catalog.NewMetrics(registered, r)
	if err := registered.Err(); err != nil {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: opFollow, Err: err}
	}
	r.poll(ctx)
	background, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.following.Go(func() { r.follow(background) })
	return r, nil
}

// Close ends the following and waits for it. The last snapshot stays valid.
func (r *Reader) Close() error {
	r.cancel()
	r.following.Wait()
	return nil
}

// Snapshot is the newest view; never nil.
func (r *Reader) Snapshot() *tier.Snapshot { return r.view.Load().tier.Snapshot() }

// ClusterID is the cluster that the database is bound to, empty while unknown.
func (r *Reader) ClusterID() string { return r.view.Load().head.clusterID }

// Ready is nil once the database was read completely, and stays so: when it cannot be read later, the view is as it
// was, and Refresh says so.
func (r *Reader) Ready() error {
	if r.view.Load().head.storeID != "" {
		return nil
	}
	if e := r.trouble.Load(); e != nil {
		return e
	}
	return notReady(errors.New("it is being loaded"))
}

// Trouble is what the newest poll of the database failed with, nil when it went well.
func (r *Reader) Trouble() error {
	if e := r.trouble.Load(); e != nil {
		return e
	}
	return nil
}

// Refresh looks for something new now; when it returns nil, all that was committed before the call is in Snapshot.
// Calls that wait together share one poll.
func (r *Reader) Refresh(ctx context.Context, _ tier.PartitionID) error {
	err, refused := r.refreshes.Ask(ctx)
	if refused != nil {
		return failure(opFollow, refused)
	}
	return err
}

func errClosed() error {
	return &catalog.Error{Kind: catalog.Unavailable, Op: opFollow, Err: errors.New("the reader is closed")}
}

// follow polls until ctx ends.
func (r *Reader) follow(ctx context.Context) {
	defer func() {
		if r.file != nil {
			r.file.close()
		}
		r.refreshes.Close(errClosed())
	}()
	timer := time.NewTimer(r.interval)
	defer timer.Stop()
	pause := r.interval
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.refreshes.Wanted():
		}
		l, _ := r.refreshes.Take(math.MaxInt)
		l.End(r.poll(ctx))
		switch e := r.trouble.Load(); {
		case e == nil || e.Kind == catalog.NotReady:
			pause = r.interval
		default:
			pause = min(2*pause, max(maxPause, r.interval))
		}
		timer.Reset(pause)
	}
}

// look asks the database once, and keeps and logs how it went.
func (r *Reader) poll(ctx context.Context) error {
	err := r.catchUp(ctx)
	if err == nil {
		r.failing.Over(time.Now())
		if r.trouble.Swap(nil) != nil {
			r.log.Info("the metadata database is read", "path", r.path, "segments", r.Snapshot().Segments())
		}
		r.metrics.Polled(nil)
		return nil
	}
	if ctx.Err() != nil {
		return failure(opFollow, err)
	}
	if r.file != nil {
		r.file.close()
		r.file = nil
	}
	e := failure(opFollow, err)
	r.trouble.Store(e)
	if r.failing.Failed(time.Now(), e.Kind.String(), true) {
		r.log.Warn("the metadata database cannot be read", "error", e)
	}
	r.metrics.Polled(e)
	return e
}

func (r *Reader) catchUp(ctx context.Context) error {
	info, err := statFile(r.path)
	if err != nil {
		return err
	}
	if r.file != nil && (!os.SameFile(r.file.info, info) || r.file.isStale(r.path, info)) {
		r.file.close()
		r.file = nil
	}
	if r.file == nil {
		f, err := openFile(ctx, r.path, info)
		if err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		r.file = f
		if now, err := statFile(r.path); err != nil || !os.SameFile(now, info) {
			return notReady(fmt.Errorf("%s is being replaced", r.path))
		}
	}
	err = r.file.read(ctx, func(q querier) error { return r.readNew(ctx, q) })
	if errors.Is(err, errBlank) {
		return notReady(fmt.Errorf("%s: %w", r.path, err))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return nil
}

// readNew reads what is new, or everything when the store is another one, or an older state of the same (a restored
// copy).
func (r *Reader) readNew(ctx context.Context, q querier) error {
	h, err := readHead(ctx, q)
	if err != nil {
		return err
	}
	now := r.view.Load()
	if h.storeID != now.head.storeID || h.lastChange < now.head.lastChange {
		return r.readAll(ctx, q, h)
	}
	if h.lastChange == now.head.lastChange {
		return nil
	}
	var batch []tier.Change
	if err := load(ctx, q, now.head.lastChange, func(c []tier.Change) { batch = c }); err != nil {
		return err
	}
	outcome := now.tier.ApplyAll(batch)
	r.view.Store(&view{now.tier, h})
	r.metrics.Applied(len(batch), outcome.Rejected)
	r.metrics.Changed(h.at, time.Now())
	r.deleted(outcome.Withdrawn)
	return nil
}

func (r *Reader) readAll(ctx context.Context, q querier, h head) error {
	t := tier.New()
	err := load(ctx, q, -1, func(c []tier.Change) {
		r.metrics.Applied(len(c), t.Apply(c...))
	})
	if err != nil {
		return err
	}
	old := r.view.Swap(&view{t, h})
	r.metrics.Changed(h.at, time.Now())
	r.metrics.Loaded()
	r.deleted(tier.Withdrawn(old.tier.Snapshot(), t.Snapshot()))
	return nil
}

func (r *Reader) deleted(gone []*tier.Segment) {
	if r.onDelete == nil {
		return
	}
	for _, s := range gone {
		r.onDelete(s)
	}
}
