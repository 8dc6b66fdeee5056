package main

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"coldtap/catalog/archive"
	"coldtap/internal/config"
	"coldtap/layout"
	"coldtap/layout/native"
	"coldtap/rangeio"

	"github.com/prometheus/client_golang/prometheus"
)

// archiveMetadata comes from the manifests of a bucket alone.
type archiveMetadata struct{ *archive.Archive }

func openArchive(ctx context.Context, cfg config.Config, o metadataOptions) (metadata, error) {
	scanner, identity, err := openScanner(cfg, o.store)
	if err != nil {
		return nil, err
	}
	// Later listings read what is new in silence.
	var first atomic.Pointer[archive.Archive]
	progress := func(done, all int64) {
		if a := first.Load(); o.progress != nil && (a == nil || a.Ready() != nil) {
			o.progress(done, all)
		}
	}
	a, err := archive.Open(ctx, archive.Options{
		Store: o.store, Layout: scanner, Identity: identity,
		Snapshot: cfg.Metadata.Archive.Snapshot, Cluster: cfg.Metadata.Archive.ClusterID,
		Refresh: time.Duration(cfg.Metadata.Archive.Refresh), Parallel: cfg.Reader.Threads,
		Progress: progress, Logger: o.log, Registerer: o.registerer, OnDelete: o.onDelete,
	})
	if err != nil {
		return nil, err
	}
	first.Store(a)
	return archiveMetadata{a}, nil
}

// openScanner makes what finds segments in the configured bucket, and the name of what it finds them in. It has a
// layout of its own, so that scanning does not push manifests out that reads have at hand.
func openScanner(cfg config.Config, store *rangeio.Client) (layout.Manifests, string, error) {
	identity := store.String() + " " + cfg.Layout.Kind
	if cfg.Layout.Kind != "aiven" {
		return native.New(store, ""), identity, nil
	}
	l, err := openAiven(cfg, store, 0, prometheus.Registerer(nil))
	if err != nil {
		return nil, "", err
	}
	return l, identity + " " + strings.Join(cfg.Layout.Aiven.Prefixes(), "\x00"), nil
}

// Status is empty: a bucket's manifests are as current as the last listing, which metadata.archive.refresh decides.
func (archiveMetadata) Status() string { return "" }
