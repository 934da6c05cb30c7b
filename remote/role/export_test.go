package role

import (
	"context"
	"net"
)

// ListenBy makes a role open its port by f.
func (o Options) ListenBy(f func(ctx context.Context, address string) (net.Listener, error)) Options {
	o.listen = f
	return o
}
