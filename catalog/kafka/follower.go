package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/catalog/observe"
	"coldtap/cluster"
	"coldtap/internal/episode"
	"coldtap/internal/refresh"
	"coldtap/segment"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultSnapshotEvery = 5 * time.Minute
	defaultRefresh       = time.Second
	// troublePatience is how long the topic may not be followed before it is logged: a broker that is stopped and started
	// in an orderly way takes less.
	troublePatience = 5 * time.Second

	opFollow = "follow the metadata topic"
)

// Options of a Follower. Brokers and Cluster must be set.
type Options struct {
	Brokers       *cluster.Brokers // outlive the Follower
	Cluster       observe.Cluster
	Topic         string        // Name when empty
	Snapshot      string        // path of the follower's own file; empty = none
	SnapshotEvery time.Duration // the file is written at most so often, and on Close; 5 minutes when 0
	// Refresh is how old an answer may be that says that nothing more is tiered, and how often brokers are asked for one;
	// 1 s when 0. It should be the interval of Cluster.
	Refresh    time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// OnDelete is called when a segment left CopyFinished, after the view without it is out: drop it from every cache.
	// One call at a time, and following waits for it. During a replay it is called for every deletion that is read, since
	// a cache on disk may be older than the snapshot file.
	OnDelete func(*tier.Segment)

	patience time.Duration // with trouble that may pass, before it is logged; 0: troublePatience
}

// Follower is a tier that follows the topic, and the cluster for what is not in the topic. It never writes to the
// cluster: it sends Metadata, ListOffsets and Fetch. All methods may be called concurrently.
//
// It does what brokers do (RemoteLogMetadataCache) with one difference: a broker's consumer stops at a record that it
// cannot read, a Follower counts it and goes on.
type Follower struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics

	view     atomic.Pointer[tier.Tier]       // the published replay
	leaders  atomic.Pointer[cluster.Leaders] // of the metadata topic, as of the newest attempt to follow
	progress *progress

	cancel     context.CancelFunc
	running    sync.WaitGroup
	refreshes  *refresh.Queue[tier.PartitionID, caughtUp]
	largeBatch sync.Mutex // locked while a large batch is open
	deleting   sync.Mutex // locked while OnDelete runs

	published atomic.Bool // the replay is the view
	observer  *observe.Observer

	// By the goroutine that follows:
	located  *cluster.Leaders // the newest answer, also of an attempt that has failed
	replay   *replay
	saving   chan error // of the file that is being written, nil = none
	savedAt  time.Time
	unsaved  int // records since the last file
	reported map[Kind]bool
	trouble  episode.Episode // with following
	unsaving episode.Episode // with the snapshot file
	restarts episode.Episode // of replays, until one is complete
}

// replay is a run through the topic, which goes on as following once it has caught up.
type replay struct {
	clusterID string
	topicID   segment.UUID
	positions []int64   // nil until the cluster was asked
	epochs    []int32   // of the last batch below each position, -1 = unknown
	targets   []int64   // the ends seen at the start; nil until the cluster was asked
	then      time.Time // when that was
	fromFile  bool
	caughtUp  bool
	tier      *tier.Tier
}

var _ catalog.Source = (*Follower)(nil)

// Open starts to follow and returns at once: Ready says when the view is complete. An error means that the options are
// impossible; a cluster that is away is not an error. The Follower is the caller's to Close.
func Open(ctx context.Context, opt Options) (*Follower, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(err)
	}
	if opt.Brokers == nil || opt.Cluster == nil {
		return nil, unavailable(errors.New("no brokers or no view of the cluster were given"))
	}
	opt.Topic = cmp.Or(opt.Topic, Name)
	if opt.SnapshotEvery <= 0 {
		opt.SnapshotEvery = defaultSnapshotEvery
	}
	if opt.Refresh <= 0 {
		opt.Refresh = defaultRefresh
	}
	f := &Follower{
		opt: opt, log: cmp.Or(opt.Logger, slog.New(slog.DiscardHandler)), progress: newProgress(),
		refreshes: refresh.New[tier.PartitionID, caughtUp](), reported: map[Kind]bool{},
		trouble: episode.Episode{Patience: cmp.Or(opt.patience, troublePatience)},
	}
	f.observer = observe.New(observe.Options{
		Cluster: opt.Cluster, Op: opFollow, Refresh: opt.Refresh, Withdrawn: f.deleted,
		Applied: func(changes int, rejected []tier.Rejected) { f.metrics.Applied(changes, rejected) },
	})
	f.view.Store(f.observer.Empty())
	var err error
	if f.metrics, err = newMetrics(opt.Registerer, f); err != nil {
		return nil, unavailable(err)
	}
	background, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.running.Go(func() { f.run(background) })
	f.running.Go(func() { f.observer.Run(background) })
	f.running.Go(func() { f.refreshes.Run(background, 1, math.MaxInt, f.answer) })
	return f, nil
}

// Close ends the following, waits for it, and writes the snapshot file if anything is new; a file that cannot be
// written is the error. The last Snapshot stays valid.
func (f *Follower) Close() error {
	f.cancel()
	f.running.Wait()
	f.refreshes.Close(errClosed)
	return f.saveAtEnd()
}

// Snapshot is the newest view; never nil. It is empty until the first replay has caught up.
func (f *Follower) Snapshot() *tier.Snapshot { return f.view.Load().Snapshot() }

// ClusterID is the cluster's id, empty while unknown.
func (f *Follower) ClusterID() string {
	if at := f.leaders.Load(); at != nil && at.ClusterID != "" {
		return at.ClusterID
	}
	if v := f.opt.Cluster.View(); v != nil {
		return v.ClusterID
	}
	return ""
}

// Ready is nil once the view holds all that the topic held when the replay began, and the bounds are known. It stays so
// while brokers are away, with the view as it was: Status says how old it is. When the topic was created again or lost
// records that were not read, the replay begins again and Ready waits for it.
func (f *Follower) Ready() error {
	published := f.published.Load()
	if published && f.observer.Answered(f.view.Load()) {
		return nil
	}
	s := f.Status()
	switch {
	case s.Trouble != nil:
		return notReady(fmt.Errorf("the cluster cannot be followed: %w", s.Trouble))
	case published:
		return notReady(errors.New("the cluster has not told the partitions' bounds yet"))
	case s.Partitions == 0:
		return notReady(errors.New("the cluster has not been reached yet"))
	}
	return notReady(fmt.Errorf("%d records of the metadata topic are read, %d are known to be left", s.Records, s.Lag))
}

// Status says how current the view is, and why it is no newer.
func (f *Follower) Status() Status {
	s := f.progress.status()
	if v := f.observer.View(); v != nil {
		s.ClusterAt = v.At
	}
	denied := f.observer.Denied()
	s.Denied, s.DeniedTopics = denied[:min(len(denied), deniedShown)], len(denied)
	return s
}

// Observe takes over what the cluster says. See observe.Observer.
func (f *Follower) Observe(v *cluster.View) { f.observer.Observe(v) }

// Include brings a topic of the cluster that no record names into the view, by its name or else its id. See
// observe.Observer.
func (f *Follower) Include(ctx context.Context, name string, id segment.UUID) error {
	return f.observer.Include(ctx, name, id, func() error { return f.Refresh(ctx, tier.PartitionID{}) })
}

func unavailable(err error) *catalog.Error {
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		return e
	}
	return &catalog.Error{Kind: catalog.Unavailable, Op: opFollow, Err: err}
}

func notReady(err error) *catalog.Error {
	return &catalog.Error{Kind: catalog.NotReady, Op: opFollow, Err: err}
}

// restore starts a replay with what the snapshot file holds, or with nothing.
func (f *Follower) restore() *replay {
	fresh := &replay{tier: tier.New()}
	if f.opt.Snapshot == "" {
		return fresh
	}
	if err := removeStale(f.opt.Snapshot); err != nil {
		f.log.Warn("what a crash left of metadata snapshots cannot be removed", "path", f.opt.Snapshot, "error", err)
	}
	start := time.Now()
	file, err := loadSnapshot(f.opt.Snapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.metrics.loaded("missing")
		return fresh
	case err != nil:
		f.log.Warn("the metadata snapshot cannot be used, the whole topic is read", "path", f.opt.Snapshot, "error", err)
		f.metrics.loaded("damaged")
		return fresh
	}
	f.log.Info("the metadata snapshot is read", "path", f.opt.Snapshot, "segments", file.view.Segments(), "took", time.Since(start))
	f.observer.Restart(file.topics)
	f.savedAt = time.Now()
	return &replay{
		clusterID: file.clusterID, topicID: file.topicID, positions: file.positions, epochs: file.epochs, fromFile: true,
		tier: file.tier,
	}
}

// restartReplay drops what was replayed. The view stays until the new replay has caught up, but Ready fails.
func (f *Follower) restartReplay(why error) {
	if f.restarts.Failed(time.Now(), "", true) {
		f.log.Warn("the whole metadata topic is read again", "reason", why)
	}
	if f.replay.fromFile && !f.replay.caughtUp {
		f.metrics.loaded("refused")
	}
	f.replay = &replay{tier: tier.New()}
	f.published.Store(false)
	f.observer.Restart(nil)
	f.progress.restart(nil, nil, time.Time{})
}

// publish makes the replay the view: bounds and segments together.
func (f *Follower) publish() {
	r := f.replay
	r.caughtUp = true
	f.restarts.Over(time.Now()) // the line below is its log
	f.progress.complete(r.then)
	f.metrics.fullLoad(!r.fromFile)
	var old *tier.Tier
	f.observer.Publish(r.tier, func() {
		old = f.view.Swap(r.tier)
		f.published.Store(true)
	})
	f.log.Info("the metadata topic is read to the end seen at the start", "segments", r.tier.Snapshot().Segments())
	f.deleted(tier.Withdrawn(old.Snapshot(), r.tier.Snapshot())...)
}

// deleted calls OnDelete for segments that left the view, for those of one change at a time.
func (f *Follower) deleted(list ...*tier.Segment) {
	if f.opt.OnDelete == nil || len(list) == 0 {
		return
	}
	f.deleting.Lock()
	defer f.deleting.Unlock()
	for _, s := range list {
		f.opt.OnDelete(s)
	}
}

// save writes the snapshot file in the background when it is due.
func (f *Follower) save(now time.Time) {
	if f.saving != nil {
		select {
		case err := <-f.saving:
			f.saving = nil
			f.saved(err)
		default:
			return
		}
	}
	if f.opt.Snapshot == "" || !f.replay.caughtUp || f.unsaved == 0 || now.Sub(f.savedAt) < f.opt.SnapshotEvery {
		return
	}
	f.savedAt, f.unsaved = now, 0
	state := f.state()
	done := make(chan error, 1)
	f.saving = done
	f.running.Go(func() { done <- saveSnapshot(f.opt.Snapshot, state) })
}

// saveAtEnd runs when nothing else does.
func (f *Follower) saveAtEnd() error {
	if f.saving != nil {
		f.saved(<-f.saving)
		f.saving = nil
	}
	if f.opt.Snapshot == "" || !f.replay.caughtUp || f.unsaved == 0 {
		return nil
	}
	err := saveSnapshot(f.opt.Snapshot, f.state())
	f.saved(err)
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// state is one moment: the following goroutine is the only one that moves segments and positions.
func (f *Follower) state() *replayed {
	r := f.replay
	return &replayed{r.clusterID, r.topicID, slices.Clone(r.positions), slices.Clone(r.epochs), f.observer.Topics(), r.tier.Snapshot()}
}

func (f *Follower) saved(err error) {
	f.metrics.saved(err)
	if err == nil {
		if _, logged := f.unsaving.Over(time.Now()); logged {
			f.log.Info("the metadata snapshot is written again", "path", f.opt.Snapshot)
		}
		return
	}
	f.unsaved++ // it has to be tried again
	if f.unsaving.Failed(time.Now(), "", true) {
		f.log.Warn("the metadata snapshot cannot be written", "path", f.opt.Snapshot, "error", err)
	}
}
