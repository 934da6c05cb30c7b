package dataplane

import (
	"net"
	"time"
)

// socketBuffer is the size that the buffers of a connection are asked to have, so that a round of a small model needs no wait for the peer to read. A
// kernel may give less.
const socketBuffer = 2 << 20

// probeEvery is how often a kernel asks a peer that says nothing, and probes how often it does before the connection ends.
const (
	probeEvery = time.Second
	probes     = 3
)

// tune sets what a data connection needs of its socket. silence is how long the machine of the peer may leave it without an answer; 0 leaves that to the
// system. Both ends may wait for each other with nothing under way, so a connection that a firewall has forgotten must be probed: no write would fail.
func tune(c net.Conn, silence time.Duration) {
	if sized, ok := c.(interface { // also a unix socket, whose buffers are a tenth of it otherwise
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
	}); ok {
		_, _ = sized.SetReadBuffer(socketBuffer), sized.SetWriteBuffer(socketBuffer)
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	if silence > 0 {
		idle := max(time.Second, silence-probes*probeEvery)
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: probeEvery, Count: max(1, int((silence-idle)/probeEvery))})
		boundUnacknowledged(tcp, silence)
	}
}
