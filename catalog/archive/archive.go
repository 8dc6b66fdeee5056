package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"coldtap/catalog"
	"coldtap/internal/episode"
	"coldtap/internal/refresh"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultParallel = 32
	maxParallel     = 1024

	// After a listing of the bucket failed, Refresh fails for this long without another one.
	failedQuiet = time.Second

	// Until the first listing is complete, a failed one is repeated after a pause between these.
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
	// Snapshot is the path of a file that saves reading the manifests again after a restart; "" = none. Its folder is
	// made.
	Snapshot string
	// Cluster is the one that is served when the bucket holds several; "" = the only one.
	Cluster string

	Refresh  time.Duration // how often the bucket is listed by itself; 0 = only at the start and on demand
	Parallel int           // manifests read at a time, default 32, at most 1,024

	// Progress is called in every listing, with how many manifests are read or were known, and how many are listed so far.
	// Calls come one at a time, and the listing waits for them.
	Progress   func(done, total int64)
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// OnDelete is called after a view was published in which the segment is no more, or its manifest is another one (by
	// the object's modification time): cached bytes of it may be wrong. Calls may be concurrent.
	OnDelete func(*tier.Segment)
}

// Archive is a catalog.Source over a bucket's manifests. All methods may be called concurrently.
type Archive struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics
	tier    *tier.Tier
	cluster atomic.Pointer[string]
	report  atomic.Pointer[Report]

	background context.Context // of the listings; cancel ends it
	cancel     context.CancelFunc
	running    sync.WaitGroup                          // goroutines that list
	bucket     *refresh.Queue[struct{}, error]         // calls for a listing of the bucket
	partitions *refresh.Queue[tier.PartitionID, error] // calls for a listing of a partition

	mu           sync.Mutex
	ready        bool
	trouble      *catalog.Error // of the newest listing, nil when it went well
	done, listed int64          // manifests of the running listing
	quietUntil   time.Time      // until then trouble is the answer

	inventory *inventory
	// Under the lock of inventory:
	names         *names
	bucketTally   *tally // what the newest complete listing of the bucket found, without what resolving partitions did
	listings      uint32 // that ever began, of the bucket or a partition
	bucketListing uint32 // the number of the newest one of the bucket

	// By the goroutine that lists the bucket:
	retry    time.Duration   // until the next try, while there is no view
	failing  episode.Episode // of listings, for the log
	unsaving episode.Episode // of the snapshot file
}

var _ catalog.Source = (*Archive)(nil)

// Open begins to read the archive in the background and returns at once; Ready says when that is done. ctx is not kept.
// The Archive is the caller's to Close.
func Open(_ context.Context, opt Options) (*Archive, error) {
	if opt.Store == nil || opt.Layout == nil || opt.Parallel < 0 || opt.Refresh < 0 {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: op, Err: errors.New("no store, no layout, or a negative option")}
	}
	opt.Parallel = min(cmp.Or(opt.Parallel, defaultParallel), maxParallel)
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	a := &Archive{
		opt: opt, log: opt.Logger, tier: tier.New(),
		bucket: refresh.New[struct{}, error](), partitions: refresh.New[tier.PartitionID, error](),
		inventory: newInventory(), names: new(names), bucketTally: new(tally), retry: minRetry,
	}
	a.cluster.Store(new(string))
	a.report.Store(new(Report))
	var err error
	if a.metrics, err = newMetrics(opt.Registerer, a); err != nil {
		return nil, &catalog.Error{Kind: catalog.Unavailable, Op: op, Err: err}
	}
	a.background, a.cancel = context.WithCancel(context.Background())
	a.running.Go(func() { a.run(a.background) })
	a.running.Go(func() { a.partitions.Run(a.background, maxListings, 1, a.refreshPartition) })
	return a, nil
}

// Close ends the listing and waits for it. What was read by then is in the snapshot file. The last view stays valid.
func (a *Archive) Close() error {
	a.cancel()
	a.bucket.Close(errClosed())
	a.partitions.Close(errClosed())
	a.running.Wait()
	return nil
}

// Snapshot is the newest view; never nil. It is empty until Ready is nil.
func (a *Archive) Snapshot() *tier.Snapshot { return a.tier.Snapshot() }

// ClusterID is that of the manifests, empty while unknown and in layouts whose manifests have none.
func (a *Archive) ClusterID() string { return *a.cluster.Load() }

// Trouble is what the newest listing failed with, nil when it went well or the first one is under way.
func (a *Archive) Trouble() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trouble == nil {
		return nil
	}
	return a.trouble
}

// Report is what the newest complete listing found, zero before the first. It must not be changed.
func (a *Archive) Report() *Report { return a.report.Load() }

// Ready is nil once the bucket was listed and its manifests read, and stays so: when a later listing fails, the view
// stays, and Refresh fails. Until then it is NotReady and says how far the listing is, or WrongCluster when the bucket
// holds several clusters and none was chosen.
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
	err := fmt.Errorf("read %s of %s manifests that are listed so far", grouped(a.done), grouped(a.listed))
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

// Refresh lists a partition's objects now (the bucket, for the zero id and for a topic that never was in the view).
// When it returns nil, the view of the partition is from after the call. Calls that come together share one listing. A
// partition is listed at most once a second, and at most 4 at a time: callers wait for theirs as long as ctx allows.
// Refresh does not wait for the first listing of the bucket, but returns what Ready does. Errors are *catalog.Error.
func (a *Archive) Refresh(ctx context.Context, partition tier.PartitionID) error {
	if a.background.Err() != nil {
		return errClosed()
	}
	if err := a.Ready(); err != nil {
		return err
	}
	if !partition.Topic.IsZero() {
		return outcome(a.partitions.Ask(ctx, partition))
	}
	a.mu.Lock()
	if time.Now().Before(a.quietUntil) {
		defer a.mu.Unlock()
		return a.trouble
	}
	a.mu.Unlock()
	return a.awaitListing(ctx)
}

// awaitListing waits for a listing of the bucket that begins now.
func (a *Archive) awaitListing(ctx context.Context) error {
	return outcome(a.bucket.Ask(ctx, struct{}{}))
}

// outcome is what a call comes to: the listing's error, or why the call did not wait for one.
func outcome(err, unanswered error) error {
	if unanswered != nil {
		return failure(unanswered)
	}
	return err
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

// run lists the bucket at the start, every Options.Refresh, and on demand.
func (a *Archive) run(ctx context.Context) {
	a.loadFile()
	timer := time.NewTimer(a.pause(a.refreshBucket(ctx)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			a.saveFile()
			return
		case <-timer.C:
		case <-a.bucket.Wanted():
		}
		timer.Reset(a.pause(a.refreshBucket(ctx)))
	}
}

// pause is how long to wait after a listing, if no call asks for the next one.
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

func (a *Archive) isReady() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

// refreshBucket lists the bucket once, and answers the calls that waited when it began. A failure also answers the
// calls that came since. A success does not: the listing may already have passed what they are about.
func (a *Archive) refreshBucket(ctx context.Context) error {
	calls, _ := a.bucket.Take(1)
	err := a.listBucket(ctx)
	var trouble *catalog.Error
	var answer error
	if err != nil {
		trouble = failure(err)
		answer = trouble
	}
	a.mu.Lock()
	a.trouble = trouble
	if err == nil {
		a.ready = true
	} else {
		a.quietUntil = time.Now().Add(failedQuiet)
	}
	a.mu.Unlock()
	calls.End(answer)
	if err != nil {
		later, _ := a.bucket.Take(1)
		later.End(answer)
	}
	a.metrics.Polled(answer)
	switch {
	case trouble == nil:
		if lasted, logged := a.failing.Over(time.Now()); logged {
			a.log.Info("the archive can be read again", "store", a.opt.Store.String(), "after", lasted.Round(time.Millisecond))
		}
	case ctx.Err() == nil && a.failing.Failed(time.Now(), troubleKind(trouble), true):
		a.log.Warn("the archive cannot be read", "store", a.opt.Store.String(), "error", trouble)
	}
	return err
}

// troubleKind is the same for the same trouble, whatever object or address had it.
func troubleKind(e *catalog.Error) string {
	kind := e.Kind.String()
	if store, ok := errors.AsType[*rangeio.Error](e); ok {
		kind += " " + store.Kind.String()
	}
	return kind
}

// numberListing numbers a listing that begins: what one of a greater number has is newer.
func (a *Archive) numberListing(ofBucket bool) (number uint32) {
	a.listings++
	if ofBucket {
		a.bucketListing = a.listings
	}
	return a.listings
}

// listBucket lists the bucket and publishes what changed.
func (a *Archive) listBucket(ctx context.Context) error {
	k := a.inventory
	began := time.Now()
	k.mu.Lock()
	number := a.numberListing(true)
	k.mu.Unlock()
	s := &scan{
		store: a.opt.Store, layout: a.opt.Layout, prefixes: a.opt.Layout.Prefixes(), parallel: a.opt.Parallel, number: number,
		inventory: k, starts: make(map[tier.PartitionID]start), progress: a.reportProgress,
	}
	a.setProgress(0, 0)
	err := s.run(ctx)
	a.metrics.manifestsRead(s.read)
	switch {
	case err != nil:
	case s.manifests == 0 && len(s.starts) == 0:
		err = emptyError(&a.opt, s.objects)
	case s.withheld != nil && !k.isUsed():
		why, _ := rangeio.Withheld(s.withheld)
		err = errors.New(why) // nothing can be read: to say that no topic is there would be wrong
	}
	if err != nil {
		k.mu.Lock()
		s.abandon()
		k.mu.Unlock()
		return err
	}
	news, err := a.publishListing(ctx, s)
	if err != nil {
		return err
	}
	k.mu.Lock()
	a.bucketTally = &s.tally
	r := a.sumReport(&Report{
		At: time.Now(), Took: time.Since(began), Objects: s.objects, Foreign: s.foreign, Manifests: s.manifests, Read: s.read,
	})
	a.publishReport(r, news)
	k.mu.Unlock()
	a.saveFile()
	return nil
}

// emptyError refuses a listing without a segment. The prefix may be wrong, or a folder not mounted: to say that no
// topic is there would be a guess.
func emptyError(o *Options, objects int64) error {
	where := o.Store.String()
	if prefixes := o.Layout.Prefixes(); len(prefixes) != 1 || prefixes[0] != "" {
		return fmt.Errorf("%s holds no segment of the layout under %q, but %s other objects: layout.aiven.key_prefix has to be the brokers' key.prefix, byte for byte",
			where, prefixes, grouped(objects))
	}
	return fmt.Errorf("%s holds no segment of the layout, but %s other objects: compare bucket and prefix of the store, layout.kind, and with the plugin's layout layout.aiven.key_prefix",
		where, grouped(objects))
}

func (a *Archive) setProgress(done, listed int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done, a.listed = done, listed
}

func (a *Archive) reportProgress(done, listed int64) {
	a.setProgress(done, listed)
	if a.opt.Progress != nil {
		a.opt.Progress(done, listed)
	}
}

// sumReport fills in what is found now; the caller holds the inventory's lock, as for publishReport.
func (a *Archive) sumReport(r *Report) *Report {
	var all tally
	all.merge(a.bucketTally)
	for _, p := range a.inventory.partitions {
		if p.tally != nil {
			all.merge(p.tally)
		}
	}
	all.fill(r)
	r.Segments = a.Snapshot().Segments()
	return r
}

// publishReport publishes a report, and logs it when there is news.
func (a *Archive) publishReport(r *Report, news bool) {
	before := a.report.Swap(r)
	a.metrics.reported(r)
	if news || before.At.IsZero() {
		a.log.Info("the archive is read", "store", a.opt.Store.String(), "segments", r.Segments, "manifests", r.Manifests,
			"manifests_read", r.Read, "other_objects", r.Foreign, "took", r.Took)
	}
	logged := make(map[Problem]bool)
	for _, f := range r.Findings {
		if n := r.Problems[f.Problem]; !logged[f.Problem] && n != before.Problems[f.Problem] {
			a.log.Warn("not all of the archive is served", "problem", f.Problem, "count", n, "example", f.Object, "detail", f.Detail)
		}
		logged[f.Problem] = true
	}
}
