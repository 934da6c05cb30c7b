package role

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

// grace is how long a server lets calls in flight finish when its role has ended.
const grace = 2 * time.Second

// serving runs a server until end is called. The context that it returns ends with ctx, and also when the server has stopped before: a role that
// nobody can reach must not go on. end waits until no handler runs, and returns how the role has ended, given how its work has: for want of its
// server, where that is why. It may be called again.
func serving(ctx context.Context, service *grpc.Server, l net.Listener) (work context.Context, end func(error) error) {
	work, cancel := context.WithCancelCause(ctx)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		err := wire.Serve(serve, service, l, grace)
		cancel(err)
		served <- err
	}()
	stopped := sync.OnceValue(func() error { stop(); return <-served })
	return work, func(err error) error {
		if cause := stopped(); cause != nil && (err == nil || errors.Is(err, fault.Canceled) || errors.Is(err, cause)) {
			return cause
		}
		return err
	}
}
