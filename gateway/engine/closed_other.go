//go:build !unix

package engine

import "net"

// closedByClient cannot be asked here: that a client has gone shows with the next write to it.
func closedByClient(net.Conn) bool { return false }
