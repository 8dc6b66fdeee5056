package export

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// export is one run.
type export struct {
	options  Options
	client   *client
	folder   *folder // nil: to a stream
	journal  *journal
	filter   filter
	progress progress
}

// Run exports, or goes on with the export that the folder holds. The manifest says whether it is complete, and is there
// also beside an error that came on the way. A wrong option is an *OptionError. Ending ctx ends the run in order.
func Run(ctx context.Context, options Options) (m *Manifest, err error) {
	if err := options.fill(); err != nil {
		return nil, err
	}
	e := &export{options: options, filter: newFilter(&options)}
	if e.client, err = newClient(&options); err != nil {
		return nil, err
	}
	defer e.client.close()
	if options.Out == nil {
		if e.folder, err = openFolder(options.Dir); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, e.folder.close()) }()
	}
	if err := e.openManifest(ctx); err != nil {
		return nil, err
	}
	return e.journal.manifest, e.readAll(ctx)
}

// openManifest loads the folder's manifest, or makes one.
func (e *export) openManifest(ctx context.Context) error {
	e.journal = &journal{folder: e.folder, every: e.options.tuning.checkpointEvery}
	var found *Manifest
	if e.folder != nil {
		var err error
		if found, err = loadManifest(e.folder); err != nil {
			return err
		}
	}
	if found == nil {
		if e.folder != nil {
			if err := e.folder.empty(e.options.Dir); err != nil {
				return err
			}
		}
		var err error
		if found, err = e.plan(ctx); err != nil {
			return err
		}
	} else {
		if err := found.fits(&e.options); err != nil {
			return err
		}
		if err := e.folder.verify(found, e.options.Format == Parquet); err != nil {
			return err
		}
		if e.options.Format == Parquet {
			if err := e.folder.sweepParts(found); err != nil {
				return err
			}
		}
		if !found.Complete {
			if err := e.sameTopic(ctx, found); err != nil {
				return err
			}
		}
	}
	e.journal.manifest = found
	e.progress.start(found, e.options.Progress)
	return e.journal.save()
}

// readAll reads the partitions that are not done, so many at a time.
func (e *export) readAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(e.options.Parallel)
	if e.folder == nil {
		group.SetLimit(1)
	}
	for _, p := range e.journal.manifest.Partitions {
		if !p.done() {
			group.Go(func() error { return e.readPartition(ctx, p) })
		}
	}
	return group.Wait()
}

// progress adds up how far the partitions are. For concurrent use.
type progress struct {
	mu     sync.Mutex
	report func(Progress)
	sum    Progress
	at     map[int32]*Progress
}

func (s *progress) start(m *Manifest, report func(Progress)) {
	s.report, s.at = report, make(map[int32]*Progress)
	for _, p := range m.Partitions {
		one := &Progress{Done: p.NextOffset - p.StartOffset, Records: p.Records}
		if p.EndOffset != nil {
			one.Total = *p.EndOffset - p.StartOffset
		}
		s.at[p.Partition] = one
		s.sum.Done, s.sum.Total, s.sum.Records = s.sum.Done+one.Done, s.sum.Total+one.Total, s.sum.Records+one.Records
	}
}

// advance notes that a partition has come so many offsets from its start.
func (s *progress) advance(partition int32, done, records int64) {
	if s.report == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.at[partition]
	s.sum.Done += done - one.Done
	s.sum.Records += records - one.Records
	one.Done, one.Records = done, records
	if one.Done > one.Total { // a range whose end was not known
		s.sum.Total += one.Done - one.Total
		one.Total = one.Done
	}
	s.report(s.sum)
}
