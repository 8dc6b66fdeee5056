package archive

import (
	"bytes"
	"log/slog"
	"testing"

	"coldtap/bench/simstore"
	"coldtap/internal/testing/faultstore"
	"coldtap/layout"
	"coldtap/rangeio"
	"coldtap/tier"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is a store in memory with faults, and the layout of what is in it.
type bucket struct {
	*simstore.Memory
	faults *faultstore.Store
	store  *rangeio.Client
	layout layout.Manifests
}

func newBucket(over func(*rangeio.Client) layout.Manifests) *bucket {
	b := &bucket{Memory: simstore.NewMemory()}
	b.faults = faultstore.New(b.Memory)
	b.store = rangeio.NewClient(b.faults, rangeio.Config{Attempts: 1})
	b.layout = over(b.store)
	return b
}

// open opens an archive and waits until its first listing went well.
func (b *bucket) open(t *testing.T, o Options) *Archive {
	t.Helper()
	a := b.start(t, o)
	waitReady(t, a)
	return a
}

func (b *bucket) start(t *testing.T, o Options) *Archive {
	t.Helper()
	o.Store, o.Layout = b.store, b.layout
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	a, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func waitReady(t *testing.T, a *Archive) {
	t.Helper()
	if err := a.awaitListing(t.Context()); err != nil || a.Ready() != nil {
		t.Fatal(err, a.Ready())
	}
}

// relist lists again, whatever the last listing found.
func relist(t *testing.T, a *Archive) {
	t.Helper()
	if err := a.awaitListing(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spoil changes an object's bytes.
func (b *bucket) spoil(key, old, with string) {
	was := b.Bytes(key)
	is := bytes.Replace(was, []byte(old), []byte(with), 1)
	if bytes.Equal(was, is) {
		panic(key + " does not hold " + old)
	}
	b.Set(key, is)
}

// chain is the segments that a reader from the start to the end goes through.
func chain(p *tier.Partition) (all []*tier.Segment) {
	for at := p.Bounds().Start; ; {
		s, ok := p.Find(at)
		if !ok {
			return all
		}
		all = append(all, s)
		at = s.EndOffset + 1
	}
}
