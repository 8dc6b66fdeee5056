package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"coldtap/gateway"
	"coldtap/internal/assembly"
	"coldtap/internal/config"
	"coldtap/rangeio"
	"coldtap/tier"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// server is a running gateway with everything under it. Close order is the reverse of the fields' order.
type server struct {
	cfg     config.Config
	log     *slog.Logger
	store   *rangeio.Client
	backend rangeio.Backend
	catalog metadata
	path    *assembly.ReadPath
	gateway *gateway.Server
	admin   *gateway.Admin
	unwatch func() // ends the watch over the store

	data, adminListener net.Listener
}

// newServer builds a gateway and listens on its ports; nothing is answered before run. progress is called while an
// archive's manifests are read for the first time; it may be nil.
func newServer(ctx context.Context, cfg config.Config, progress func(done, all int64), log *slog.Logger) (s *server, err error) {
	s = &server{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(0))
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if s.data, err = net.Listen("tcp", cfg.Listen); err != nil {
		return s, fmt.Errorf("listen: %w", err)
	}
	if s.adminListener, err = net.Listen("tcp", cfg.Admin); err != nil {
		return s, fmt.Errorf("admin: %w", err)
	}
	if s.backend, err = openStore(ctx, cfg, false); err != nil {
		return s, fmt.Errorf("store: %w", err)
	}
	s.store = rangeio.NewClient(s.backend, rangeio.Config{Logger: log, Registerer: registry})

	// The catalog reports deletions before the read path exists, and the cache may wait for memory before the gateway
	// exists; both reach the later part through a pointer that is set once it is there.
	var path atomic.Pointer[assembly.ReadPath]
	var front atomic.Pointer[gateway.Server]
	s.catalog, err = openMetadata(ctx, cfg, metadataOptions{
		store: s.store, progress: progress, log: log, registerer: registry,
		onDelete: func(seg *tier.Segment) {
			if p := path.Load(); p != nil {
				p.Drop(seg)
			}
		},
	})
	if err != nil {
		return s, err
	}
	objects, err := openLayout(cfg, s.store, openingMemory(cfg), registry)
	if err != nil {
		return s, err
	}
	s.path, err = assembly.New(assembly.Options{
		Source: s.catalog,
		Layout: objects,

		ChunkMemory:  int64(cfg.Cache.Memory),
		Chunk:        int64(cfg.Cache.Chunk),
		IndexMemory:  int64(cfg.Cache.IndexMemory),
		DecodeMemory: int64(cfg.Limits.DecodeMemory) - openingMemory(cfg),

		Threads:      cfg.Reader.Threads,
		MaxPending:   cfg.Reader.MaxPending,
		QueueTimeout: time.Duration(cfg.Reader.QueueTimeout),
		Ahead:        aheadChunks(cfg),
		Pressure: func() {
			if g := front.Load(); g != nil {
				g.CutLongestStalled()
			}
		},
		Logger: log, Registerer: registry,
	})
	if err != nil {
		return s, err
	}
	path.Store(s.path)
	s.gateway = gateway.New(gateway.Config{
		Service:          s.path.Service,
		Decode:           s.path.Decode,
		MaxResponseBytes: int64(cfg.Limits.MaxResponseBytes),
		LookAhead:        lookAhead * int64(cfg.Cache.Chunk),
		StallTimeout:     time.Duration(cfg.Limits.StallTimeout),
		Hosts:            cfg.Hosts,
		Concurrency:      connections(descriptors(), cfg.Reader.Threads, log),
		GetPrice:         cfg.Store.Price.Per1000Gets,
		TransferPrice:    cfg.Store.Price.PerGiB,
		Logger:           log,
		Registerer:       registry,
	})
	front.Store(s.gateway)
	s.watchStore(objects)
	s.admin = gateway.NewAdmin(gateway.AdminConfig{
		Metrics: registry, Ready: s.ready, Status: s.status, Health: s.storeTrouble, Hosts: cfg.Hosts, Logger: log, Registerer: registry,
	})
	return s, nil
}

// memoryLook is how often the heap's limit follows the number of live segments.
const memoryLook = 10 * time.Second

// lookAhead is how many chunks of an answer may be pinned before the status line to learn its length.
const lookAhead = 2

// maxAhead is how many chunks a reader is kept ahead of: enough to hide one round trip behind the next.
const maxAhead = 2

// aheadChunks is the read-ahead window in chunks: at most a quarter of the arena, so that a reader does not evict what
// it is about to read.
func aheadChunks(cfg config.Config) int {
	chunks := min(cfg.Reader.ReadAhead, cfg.Cache.Memory/4) / cfg.Cache.Chunk
	return int(min(chunks, maxAhead))
}

// run answers requests until ctx ends, then lets running answers finish within drain.
func (s *server) run(ctx context.Context, drain time.Duration) error {
	failed := make(chan error, 2)
	go func() { failed <- s.admin.Serve(s.adminListener) }()
	go func() { failed <- s.gateway.Serve(s.data) }()
	s.log.Info("serving", "listen", s.data.Addr().String(), "admin", s.adminListener.Addr().String(),
		"store", s.store.String(), "chunk_memory", s.cfg.Cache.Memory.String(), "chunk", s.cfg.Cache.Chunk.String())
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	var err error
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case err = <-failed:
			running = false
		case <-look.C:
			s.cfg.SetMemoryLimit(s.catalog.Snapshot().Segments())
		}
	}
	s.log.Info("draining", "limit", drain.String())
	return errors.Join(err, s.close(drain))
}

// What is ended after the drain has a share of its own, so that nothing uses up another's.
const (
	adminShare    = 2 * time.Second
	readPathShare = 5 * time.Second
	metadataShare = 10 * time.Second // a snapshot file may be written
	storeShare    = 2 * time.Second
	// lateness is how much later than its share something may end that has ended because of it: answers are cut.
	lateness = 2 * time.Second
)

// close ends everything that was started, in reverse order; running answers have drain to finish. What does not end
// within its share is an error and left behind: the process ends anyway.
func (s *server) close(drain time.Duration) error {
	var errs []error
	end := func(what string, share time.Duration, f func(ctx context.Context) error) {
		if err := within(share, f); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	closed := func(c io.Closer) func(context.Context) error {
		return func(context.Context) error { return c.Close() }
	}
	if s.gateway != nil {
		end("drain", drain, s.gateway.Shutdown)
	}
	if s.data != nil {
		end("listener", storeShare, closed(s.data))
	}
	if s.admin != nil {
		end("admin", adminShare, s.admin.Shutdown)
	}
	if s.adminListener != nil {
		end("admin listener", storeShare, closed(s.adminListener))
	}
	if s.path != nil {
		end("read path", readPathShare, s.path.Close)
	}
	if s.unwatch != nil {
		end("watch of the store", storeShare, func(context.Context) error { s.unwatch(); return nil })
	}
	if s.catalog != nil {
		end("metadata", metadataShare, closed(s.catalog))
	}
	if s.backend != nil {
		end("store", storeShare, closed(s.backend))
	}
	return errors.Join(errs...)
}

// within gives f's error, or one of its own when f goes on after its share, whose end is that of f's context.
func within(share time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), share)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	late := time.NewTimer(share + lateness)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("not ended within %s", share)
	}
}
