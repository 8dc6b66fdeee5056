//go:build !unix || race || invariants

package cache

// mapping is the arena's memory on the Go heap: the race detector watches only that, and each slab is an object of its
// own so that a slice that runs out of its slab is caught.
type mapping struct{ mem [][]byte }

func newMapping(slabs, slabSize int) (mapping, error) {
	mem := make([][]byte, slabs)
	for i := range mem {
		mem[i] = make([]byte, slabSize)
	}
	return mapping{mem}, nil
}

func (m *mapping) slab(n, _ int) []byte { return m.mem[n] }

func (m *mapping) close() { m.mem = nil }
