package dataplane

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacknowledged ends a connection on which bytes were written and not acknowledged for so long. A kernel does not probe it meanwhile. Bytes
// count, too, for which a peer that does not read has no room.
func boundUnacknowledged(c *net.TCPConn, limit time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
