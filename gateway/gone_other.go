//go:build !unix

package gateway

import "net"

// clientGone cannot be asked here: that a client has gone shows with the next write to it.
func clientGone(net.Conn) bool { return false }
