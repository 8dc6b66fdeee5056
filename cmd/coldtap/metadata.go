package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"coldtap/catalog"
	"coldtap/catalog/embedded"
	"coldtap/internal/config"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
)

// metadata is an open catalog of any kind.
type metadata interface {
	catalog.Source
	// Status is what /ready says of a view that may be served: how old it is, when it is not current.
	Status() string
	// Trouble is what keeps the view from getting complete or newer, nil while nothing does.
	Trouble() error
	Close() error
}

// metadataOptions is what a catalog needs besides the configuration.
type metadataOptions struct {
	store      *rangeio.Client
	onDelete   func(*tier.Segment)
	progress   func(done, all int64) // of reading an archive's manifests
	log        *slog.Logger
	registerer prometheus.Registerer
}

// openMetadata opens the configured catalog. It does not wait until the catalog is complete.
func openMetadata(ctx context.Context, cfg config.Config, o metadataOptions) (m metadata, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("metadata: %w", err)
		}
	}()
	switch cfg.Metadata.Kind {
	case "kafka":
		return openKafkaMetadata(ctx, cfg, o)
	case "archive":
		return openArchive(ctx, cfg, o)
	}
	reader, err := embedded.OpenReader(ctx, cfg.Metadata.Embedded.Path, embedded.ReaderOptions{
		Logger: o.log, Registerer: o.registerer, OnDelete: o.onDelete,
	})
	if err != nil {
		return nil, err
	}
	return embeddedMetadata{reader}, nil
}

// embeddedMetadata is the database of coldtap's own offloader.
type embeddedMetadata struct{ *embedded.Reader }

// Status reports a database that cannot be read any more; its last view is served. Otherwise it is empty, since the
// database is read again whenever it has changed.
func (d embeddedMetadata) Status() string {
	if err := d.Trouble(); err != nil {
		return "the metadata is no longer followed: " + err.Error()
	}
	return ""
}

// troubleLimit is how long a catalog may fail before waitComplete gives up: longer than the first round of requests to
// a cluster takes whose first broker is down.
const troubleLimit = 15 * time.Second

// waitComplete waits until a catalog is complete: an archive is scanned and a topic replayed in the background, for as
// long as that takes while it goes on. The database of coldtap's own offloader is complete at once, or missing.
func waitComplete(ctx context.Context, cfg config.Config, m metadata) error {
	const poll = 50 * time.Millisecond
	lastGood := time.Now()
	for {
		err := m.Ready()
		if err == nil {
			return nil
		}
		if m.Trouble() == nil {
			lastGood = time.Now()
		}
		e, ok := errors.AsType[*catalog.Error](err)
		if cfg.Metadata.Kind == "embedded" || ok && !e.Retriable() || time.Since(lastGood) > troubleLimit {
			return fmt.Errorf("metadata: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("metadata: %w", err)
		case <-time.After(poll):
		}
	}
}

// withSnapshotCopy gives a configuration whose catalog starts from a copy of its snapshot file, so that looking at a
// tier changes nothing of what a server uses. A file that is not there, or that only the server may read, costs a start
// from nothing. end removes the copy.
func withSnapshotCopy(cfg config.Config) (config.Config, func(), error) {
	var file *string
	switch cfg.Metadata.Kind {
	case "kafka":
		file = &cfg.Metadata.Kafka.Snapshot
	case "archive":
		file = &cfg.Metadata.Archive.Snapshot
	default:
		return cfg, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "coldtap-inspect-")
	if err != nil {
		return cfg, nil, err
	}
	end := func() { os.RemoveAll(dir) }
	copied := filepath.Join(dir, "snapshot")
	if *file != "" {
		if err := copyFile(copied, *file); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			end()
			return cfg, nil, err
		}
	}
	*file = copied
	return cfg, end, nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
