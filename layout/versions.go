package layout

import (
	"container/list"
	"sync"
)

// maxVersions bounds the remembered versions: 16,384 of them, at some 300 bytes each, are 5 MB and cover 16 TiB of
// 1 GiB segments that are read at a time.
const maxVersions = 16384

// Versions remembers the ETag of each object that was read, the least recently used forgotten first, so that all reads
// of an object are of one version. Forgetting only means that the next read may begin with another version. All methods
// may be called concurrently.
type Versions struct {
	mu    sync.Mutex
	max   int
	byKey map[string]*list.Element
	order list.List // front = most recently used; holds version
}

type version struct{ key, etag string }

// NewVersions makes one for a layout.
func NewVersions() *Versions { return newVersions(maxVersions) }

func newVersions(max int) *Versions {
	return &Versions{max: max, byKey: make(map[string]*list.Element)}
}

// Get gives the version to ask for, "" when any will do.
func (v *Versions) Get(key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.byKey[key]
	if e == nil {
		return ""
	}
	v.order.MoveToFront(e)
	return e.Value.(version).etag
}

// Learn records the version that a read got; false when another one is known. The empty version, of a store without
// versions, is not recorded, and fits.
func (v *Versions) Learn(key, etag string) bool {
	if etag == "" {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.byKey[key]; e != nil {
		return e.Value.(version).etag == etag
	}
	v.byKey[key] = v.order.PushFront(version{key, etag})
	if v.order.Len() > v.max {
		oldest := v.order.Back()
		v.order.Remove(oldest)
		delete(v.byKey, oldest.Value.(version).key)
	}
	return true
}

// Forget makes the next read of the object begin with whatever version it finds.
func (v *Versions) Forget(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e := v.byKey[key]; e != nil {
		v.order.Remove(e)
		delete(v.byKey, key)
	}
}
