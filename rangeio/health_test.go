package rangeio_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coldtap/bench/simstore"
	"coldtap/internal/testing/faultstore"
	"coldtap/rangeio"
)

// watched is a store whose objects are a, b and c, under watch.
func watched(t *testing.T, log *bytes.Buffer, rules ...faultstore.Rule) (*rangeio.Client, *faultstore.Store) {
	mem := simstore.NewMemory()
	for _, key := range []string{"a", "b", "c"} {
		mem.Set(key, []byte(key))
	}
	store := faultstore.New(mem)
	for _, r := range rules {
		store.Inject(r)
	}
	c := rangeio.NewClient(store, rangeio.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Watch(ctx, func(ctx context.Context) error { return c.ReadProbe(ctx, []string{"a", "b", "c"}) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c, store
}

func read(t *testing.T, c *rangeio.Client, key string) error {
	_, _, err := c.ReadRange(t.Context(), key, make([]byte, 1), 0, "", -1)
	return err
}

// A store that refuses everything is in trouble until the first object can be read again; that is logged once each.
func TestWatchFindsAStoreInTrouble(t *testing.T) {
	for _, kind := range []rangeio.Kind{rangeio.Forbidden, rangeio.BadCredentials, rangeio.NoBucket, rangeio.Unavailable, rangeio.BadAnswer} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c, store := watched(t, &log)
			synctest.Wait()
			if trouble, asked := c.Trouble(); trouble != nil || !asked {
				t.Fatalf("%v, %v", trouble, asked)
			}
			heal := store.Inject(faultstore.Rule{Fault: faultstore.Fault{Kind: kind}})
			for range 20 {
				read(t, c, "a")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			trouble, _ := c.Trouble()
			if trouble == nil || trouble.Err.Kind != kind || trouble.FromStart || trouble.Lasting() != (kind.Remedy() != "") {
				t.Fatalf("%v: %+v", kind, trouble)
			}
			if r := kind.Remedy(); !strings.Contains(trouble.String(), r) {
				t.Errorf("%s does not say %q", trouble, r)
			}
			heal()
			time.Sleep(time.Minute)
			synctest.Wait()
			if trouble, _ := c.Trouble(); trouble != nil {
				t.Errorf("%v: %s although it can be read", kind, trouble)
			}
			for line, want := range map[string]int{"an operation of the object store failed": 1, "cannot be read\"": 1, "can be read again": 1} {
				if n := strings.Count(log.String(), line); n != want {
					t.Errorf("%v: %q is logged %d times, want %d\n%s", kind, line, n, want, &log)
				}
			}
		})
	}
}

func TestWatchAtTheStart(t *testing.T) {
	for _, kind := range []rangeio.Kind{rangeio.Forbidden, rangeio.NotFound, rangeio.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c, store := watched(t, &log, faultstore.Rule{Fault: faultstore.Fault{Kind: kind}})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			trouble, asked := c.Trouble()
			if !asked || trouble == nil || !trouble.FromStart || trouble.Err.Kind != kind {
				t.Errorf("%v: %+v", kind, trouble)
			}
			n := store.Count(faultstore.Get, nil)
			time.Sleep(10 * time.Minute)
			if asked := store.Count(faultstore.Get, nil) - n; asked > 200 {
				t.Errorf("%v: %d requests in ten minutes", kind, asked)
			}
		})
	}
}

// Trouble is over when everything was deleted that could not be read.
func TestTroubleWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faultstore.New(simstore.NewMemory())
		store.Inject(faultstore.Rule{Fault: faultstore.Fault{Kind: rangeio.Forbidden}})
		c := rangeio.NewClient(store, rangeio.Config{Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var deleted atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Watch(ctx, func(ctx context.Context) error {
				if deleted.Load() {
					return c.ReadProbe(ctx, nil)
				}
				return c.ReadProbe(ctx, []string{"a"})
			})
		}()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		if trouble, _ := c.Trouble(); trouble == nil {
			t.Error("no trouble")
		}
		deleted.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if trouble, _ := c.Trouble(); trouble != nil {
			t.Error(trouble)
		}
	})
}

// One object that is denied or in an archive is no trouble of the store's: others can be read.
func TestWatchTellsObjectsFromTheStore(t *testing.T) {
	for _, kind := range []rangeio.Kind{rangeio.Forbidden, rangeio.Archived, rangeio.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			c, store := watched(t, &log, faultstore.Rule{Key: faultstore.Exactly("a"), Fault: faultstore.Fault{Kind: kind}})
			for range 100 {
				if err := read(t, c, "a"); err == nil {
					t.Fatal("it was read")
				}
				synctest.Wait()
				if trouble, _ := c.Trouble(); trouble != nil {
					t.Fatalf("%v: %s", kind, trouble)
				}
			}
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%v: %d lines\n%s", kind, n, &log)
			}
			if n := store.Count(faultstore.Get, faultstore.Exactly("b")); n > 2+int(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))/time.Second) {
				t.Errorf("%v: %d probes", kind, n)
			}
		})
	}
}
