//go:build !linux

package dataplane

import (
	"net"
	"time"
)

// boundUnacknowledged is for Linux: other systems end such a connection when they give up sending the bytes again.
func boundUnacknowledged(*net.TCPConn, time.Duration) {}
