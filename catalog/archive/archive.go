package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultParallel = 32
	maxParallel     = 1024

	// After a listing that found nothing new, the next one begins no sooner than this, nor than ten times as long as it
	// took: whoever asks above the end of a huge bucket must not have it listed for himself alone.
	minQuiet    = 5 * time.Second
	quietFactor = 10
	// After one that failed, Refresh tells so for this long without another try.
	failedQuiet = time.Second

	// Until the first listing is complete it is tried again by itself.
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

const op = "read the archive"

// Options say which bucket, and how it is read. Store and Layout must be set.
type Options struct {
	Store  *rangeio.Client
	Layout layout.Manifests

	// Identity names store, prefix and layout: a snapshot file of another identity is ignored.
	Identity string
	// Snapshot is the path of a file that saves reading the manifests again after a restart; "" = none. Its folder is made.
	Snapshot string
	// Cluster is the one that is served when the bucket holds several; "" = the only one.
	Cluster string

	Refresh  time.Duration // how often the bucket is listed by itself; 0 = only at the start and on demand
	Parallel int           // manifests read at a time, default 32

	// Progress is told, in every listing, how many manifests are settled of those listed so far. Calls come one at a time,
	// and the listing waits for them.
	Progress   func(done, total int64)
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	OnDelete   func(*tier.Segment) // called when a segment left the view, or came back with other bytes, after the new view is out
}

// Archive is a catalog.Source over a bucket's manifests. All methods may be called concurrently.
type Archive struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics
	tier    *tier.Tier
	cluster atomic.Pointer[string]
	report  atomic.Pointer[Report]

	cancel context.CancelFunc
	done   chan struct{}
	kick   chan struct{}

	mu           sync.Mutex
	ready        bool
	closed       bool
	trouble      *catalog.Error // of the newest listing, nil when it went well
	settled, all int64          // manifests, of the running listing
	waiting      []chan error   // Refresh calls that the next listing answers
	verdict      error          // what Refresh says until quiet is over
	quiet        time.Time

	// The rest belongs to the listing goroutine.
	known    *known
	census   *census
	findings map[tier.PartitionID]*tally
	listings uint32
	retry    time.Duration // until the next try, while there is no view
}

var _ catalog.Source = (*Archive)(nil)

// Open begins to read the archive in the background, and returns before it has; Ready tells when it is done. ctx is not
// kept. Close ends it.
func Open(_ context.Context, opt Options) (*Archive, error) {
	if opt.Store == nil || opt.Layout == nil || opt.Parallel < 0 || opt.Parallel > maxParallel || opt.Refresh < 0 {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: op, Err: errors.New("no store, no layout, or an option out of its range")}
	}
	if opt.Parallel == 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Archive{
		opt: opt, log: opt.Logger, tier: tier.New(), done: make(chan struct{}), kick: make(chan struct{}, 1),
		known: newKnown(), census: new(census), findings: make(map[tier.PartitionID]*tally), retry: minRetry,
	}
	a.cluster.Store(new(string))
	a.report.Store(new(Report))
	var err error
	if a.metrics, err = newMetrics(opt.Registerer, a); err != nil {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: op, Err: err}
	}
	background, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go a.follow(background)
	return a, nil
}

// Close ends the listing and waits for it. What was read by then is in the snapshot file. The last view stays valid.
func (a *Archive) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	<-a.done
	return nil
}

// Snapshot is the newest view; never nil. It is empty until Ready is nil.
func (a *Archive) Snapshot() *tier.Snapshot { return a.tier.Snapshot() }

// ClusterID is what the manifests say, empty while unknown and in layouts whose manifests do not.
func (a *Archive) ClusterID() string { return *a.cluster.Load() }

// Report is what the newest complete listing found; of none, all is zero. It must not be changed.
func (a *Archive) Report() *Report { return a.report.Load() }

// Ready is nil once the bucket was listed and its manifests read, and stays so: when a later listing fails, the view is as
// it was, and Refresh tells. Until then it is NotReady and says how far it is, or WrongCluster when the bucket holds
// several clusters and none was chosen.
func (a *Archive) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.readyLocked()
}

func (a *Archive) readyLocked() error {
	switch {
	case a.ready:
		return nil
	case a.trouble != nil && a.trouble.Kind == catalog.WrongCluster:
		return a.trouble
	}
	err := fmt.Errorf("read %s of %s manifests that are listed so far", grouped(a.settled), grouped(a.all))
	if a.trouble != nil {
		err = fmt.Errorf("%w (the try before this one: %w)", err, a.trouble.Err)
	}
	return &catalog.Error{Kind: catalog.NotReady, Op: op, Err: err}
}

// grouped writes a number with commas.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Refresh lists the bucket now, and once it returns nil, what was there before the call is in Snapshot: with the
// exception that the last listing found nothing new, and ended less than 5 seconds ago or than ten times as long as it
// took. Then the view is as old as that and Refresh returns at once. Calls that come together share one listing; those
// that come during one are answered by the next, or by this one if it finds nothing new. It never waits for the first
// listing, but returns what Ready does.
func (a *Archive) Refresh(ctx context.Context, _ tier.PartitionID) error {
	a.mu.Lock()
	switch {
	case !a.ready && !a.closed:
		defer a.mu.Unlock()
		return a.readyLocked()
	case time.Now().Before(a.quiet) && !a.closed:
		defer a.mu.Unlock()
		return a.verdict
	}
	a.mu.Unlock()
	return a.ask(ctx)
}

// ask waits for a listing that begins now, or for the running one if it finds nothing new.
func (a *Archive) ask(ctx context.Context) error {
	answer := make(chan error, 1)
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return errClosed()
	}
	a.waiting = append(a.waiting, answer)
	a.mu.Unlock()
	select {
	case a.kick <- struct{}{}:
	default:
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return failure(ctx.Err())
	}
}

func errClosed() error {
	return &catalog.Error{Kind: catalog.Unavailable, Op: op, Err: errors.New("it is closed")}
}

// failure makes an error of the catalog of the store's.
func failure(err error) *catalog.Error {
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		return e
	}
	kind := catalog.Unavailable
	if _, ok := errors.AsType[*severalClusters](err); ok {
		kind = catalog.WrongCluster
	}
	return &catalog.Error{Kind: kind, Op: op, Err: err}
}

// follow lists the bucket at the start, every Refresh, and on demand.
func (a *Archive) follow(ctx context.Context) {
	defer close(a.done)
	a.loadFile()
	timer := time.NewTimer(a.pause(a.look(ctx)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			a.saveFile()
			a.answer(a.takeWaiting(), errClosed())
			return
		case <-timer.C:
		case <-a.kick:
			if !a.isWanted() {
				continue // the listing before has answered it
			}
		}
		timer.Reset(a.pause(a.look(ctx)))
	}
}

// pause is how long to wait after a listing, if nobody asks for the next.
func (a *Archive) pause(err error) time.Duration {
	switch {
	case err != nil && !a.isReady():
		pause := a.retry
		a.retry = min(2*a.retry, maxRetry)
		return pause
	case a.opt.Refresh > 0:
		return a.opt.Refresh
	}
	return math.MaxInt64
}

func (a *Archive) isWanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) > 0
}

func (a *Archive) isReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

func (a *Archive) takeWaiting() []chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting
	a.waiting = nil
	return w
}

func (a *Archive) answer(waiting []chan error, err error) {
	for _, w := range waiting {
		w <- err
	}
}

// look lists the bucket once, and answers those who wait for it.
func (a *Archive) look(ctx context.Context) error {
	waiting := a.takeWaiting()
	began := time.Now()
	news, err := a.list(ctx, began)
	took := time.Since(began)
	a.mu.Lock()
	before := a.trouble
	if err == nil {
		a.ready, a.trouble, a.verdict = true, nil, nil
		a.quiet = time.Now().Add(max(minQuiet, quietFactor*took))
	} else {
		a.trouble = failure(err)
		a.verdict = a.trouble
		a.quiet = time.Now().Add(failedQuiet)
	}
	if news {
		a.quiet = time.Time{}
	} else {
		waiting = append(waiting, a.waiting...)
		a.waiting = nil
	}
	verdict := a.verdict
	now := a.trouble
	a.mu.Unlock()
	a.answer(waiting, verdict)
	a.metrics.looked(now)
	if now != nil && ctx.Err() == nil && (before == nil || before.Error() != now.Error()) {
		a.log.Warn("the archive cannot be read", "store", a.opt.Store.String(), "error", now)
	}
	return err
}

// list lists the bucket and settles what changed. news says that the view did.
func (a *Archive) list(ctx context.Context, began time.Time) (news bool, err error) {
	a.listings++
	s := &scan{
		store: a.opt.Store, layout: a.opt.Layout, parallel: a.opt.Parallel, number: a.listings, known: a.known,
		starts: make(map[tier.PartitionID]start), progress: a.advance,
	}
	a.setProgress(0, 0)
	err = s.run(ctx)
	a.metrics.manifestsRead(s.read)
	if err != nil {
		s.abandon()
		return false, err
	}
	if s.manifests == 0 && len(s.starts) == 0 {
		// A mistaken prefix, a folder that is not mounted: to say that no topic is there would be a guess.
		return false, fmt.Errorf("%s holds no segment of the layout, but %s other objects", a.opt.Store, grouped(s.objects))
	}
	s.finish()
	if news, err = a.settle(ctx, s); err != nil {
		return false, err
	}
	r := &Report{
		At: time.Now(), Took: time.Since(began), Objects: s.objects, Foreign: s.foreign, Manifests: s.manifests, Read: s.read,
		Segments: a.Snapshot().Segments(),
	}
	for _, t := range a.findings {
		s.tally.merge(t)
	}
	s.tally.fill(r)
	a.tell(r, news)
	if news || a.known.dirty {
		a.saveFile()
	}
	return news, nil
}

func (a *Archive) setProgress(settled, all int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settled, a.all = settled, all
}

func (a *Archive) advance(settled, all int64) {
	a.setProgress(settled, all)
	if a.opt.Progress != nil {
		a.opt.Progress(settled, all)
	}
}

// tell publishes a report, and logs it when it is news.
func (a *Archive) tell(r *Report, news bool) {
	before := a.report.Swap(r)
	a.metrics.reported(r)
	if news || before.At.IsZero() {
		a.log.Info("the archive is read", "store", a.opt.Store.String(), "segments", r.Segments, "manifests", r.Manifests,
			"manifests_read", r.Read, "other_objects", r.Foreign, "took", r.Took)
	}
	told := make(map[Problem]bool)
	for _, f := range r.Findings {
		if n := r.Problems[f.Problem]; !told[f.Problem] && n != before.Problems[f.Problem] {
			a.log.Warn("not all of the archive is served", "problem", f.Problem, "count", n, "example", f.Object, "detail", f.Detail)
		}
		told[f.Problem] = true
	}
}
