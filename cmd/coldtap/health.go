package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"
)

const (
	// probed is of how many partitions an object is asked for before the store as a whole counts as one that cannot be
	// read.
	probed = 3
	// unreadyAfter is how long a store that could be read may be away before /ready tells load balancers: a store that
	// throttles or breaks off for a moment does so to every gateway.
	unreadyAfter = 10 * time.Second
)

// watchStore asks the store for objects that the metadata names, now and whenever it seems to fail.
func (s *server) watchStore(names layout.Names) {
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		s.store.Watch(ctx, func(ctx context.Context) error {
			err := s.store.ReadProbe(ctx, someLogs(s.catalog.Snapshot(), names))
			if e, ok := errors.AsType[*rangeio.Error](s.catalog.Trouble()); ok && errors.Is(err, rangeio.ErrNothing) {
				return e // the archive that would name objects cannot be listed
			}
			return err
		})
	})
	s.unwatch = func() {
		cancel()
		watch.Wait()
	}
}

// someLogs gives the keys of a few partitions' newest logs, drawn anew each time.
func someLogs(view *tier.Snapshot, names layout.Names) (keys []string) {
	var also []string // where they may be besides
	var drawn []*tier.Partition
	seen := 0
	for p := range view.Partitions() {
		seen++
		if len(drawn) < probed {
			drawn = append(drawn, p)
		} else if i := rand.IntN(seen); i < probed {
			drawn[i] = p
		}
	}
	for _, p := range drawn {
		segments := p.Segments(false)
		for i := len(segments) - 1; i >= 0; i-- {
			seg := *segments[i]
			if seg.Size == 0 {
				continue // need not have an object
			}
			if t, ok := view.TopicByID(seg.Partition.Topic); ok && seg.Topic == "" {
				seg.Topic = t.Name
			}
			if objects := names.Objects(&seg); len(objects) > 0 {
				keys = append(keys, objects[0].Key)
				also = append(also, objects[0].Also...)
				break
			}
		}
	}
	return append(keys, also...)
}

// ready says why the data plane should get no requests now: what the gateway says, or a store that cannot be read.
func (s *server) ready() error {
	if err := s.gateway.Ready(); err != nil {
		return err
	}
	t, asked := s.store.Trouble()
	switch {
	case !asked:
		return errors.New("the object store is being asked for the first time")
	case t == nil, t.Err.Kind == rangeio.Throttled:
		return nil
	case t.FromStart, t.Lasting(), time.Since(t.Since) >= unreadyAfter:
		return errors.New(t.String())
	}
	return nil
}

// status is what /ready says besides.
func (s *server) status() string {
	var text []string
	for _, t := range []string{s.catalog.Status(), s.storeTrouble()} {
		if t != "" {
			text = append(text, t)
		}
	}
	return strings.Join(text, "; ")
}

func (s *server) storeTrouble() string {
	if t, _ := s.store.Trouble(); t != nil {
		return t.String()
	}
	return ""
}
