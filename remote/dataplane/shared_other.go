//go:build !linux

package dataplane

import (
	"context"
	"net"

	"github.com/edl-go/edl/fault"
)

// Memory is shared on Linux only: there a file can be sealed, and a unix socket needs no file.

type region struct{ bytes []byte }

func (*region) free() {}

func (*region) grow(int, int) error { return nil }

func (*Conn) offerMemory(Layout) error {
	return fault.E(fault.Unsupported, fault.Got("a request to share memory"), fault.Want("a connection over TCP"))
}

func (*Conn) takeMemory([]byte, Layout) error {
	return fault.E(fault.Unsupported, fault.Got("shared memory"), fault.Want("a connection over TCP"))
}

func listenLocal(context.Context) net.Listener { return nil }

func hostID() string { return "" }

func sameUser(net.Conn) bool { return true }
