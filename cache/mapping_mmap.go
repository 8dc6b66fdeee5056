//go:build unix && !race && !invariants

package cache

import "golang.org/x/sys/unix"

// mapping is the arena's memory: anonymous pages outside the Go heap, so that tens of gigabytes of chunks don't count
// in the garbage collector's arithmetic (with GOGC=100 a heap of that size would be allowed to double).
type mapping struct{ mem []byte }

func newMapping(slabs, slabSize int) (mapping, error) {
	mem, err := unix.Mmap(-1, 0, slabs*slabSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return mapping{mem}, err
}

func (m *mapping) slab(n, size int) []byte { return m.mem[n*size : (n+1)*size] }

func (m *mapping) close() {
	if m.mem != nil {
		// The only error is a wrong address, and the address is Mmap's own.
		_ = unix.Munmap(m.mem)
		m.mem = nil
	}
}
