package main

import (
	"log/slog"
	"math"

	"coldtap/gateway"
)

const (
	// otherDescriptors are for what is open besides clients and reads of the store: listeners, the admin plane's
	// clients, connections to brokers, the metadata's files, connections that are being turned away.
	otherDescriptors = 256
	// readDescriptors are for each reader thread: a connection to the store or an open file, and one that is being
	// replaced.
	readDescriptors = 2
	// leastConnections are had however few descriptors there are.
	leastConnections = 16
)

// connections is how many clients may be connected at a time, so that they never take the file descriptors that reading
// the store and looking at the metadata need. A limit that allows for less than the usual number is a warning.
func connections(limit uint64, threads int, log *slog.Logger) int {
	reserved := uint64(otherDescriptors + readDescriptors*threads)
	if limit >= reserved+gateway.DefaultConcurrency {
		return gateway.DefaultConcurrency
	}
	n := leastConnections
	if limit > reserved+leastConnections {
		n = int(limit - reserved)
	}
	log.Warn("the limit of open files (ulimit -n) is too small for the usual number of clients, fewer can be connected at a time",
		"limit", limit, "wanted", reserved+gateway.DefaultConcurrency, "connections", n)
	return n
}

// unlimited is the limit where there is none.
const unlimited = math.MaxUint64
