package role

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
)

// drainTime bounds how long a role goes on that is to end in order. A launcher that stops a role because its context has ended waits for longer; a
// listener that stops a whole job does not, for then no round counts any more.
const drainTime = 4 * time.Second

// drainable separates the request to end in order, which is the end of ctx for the cause fault.Drained, from the order to end at once. The context
// that it returns ends when ctx ends for any other cause, or drainTime after drain was closed.
func drainable(ctx context.Context) (work context.Context, drain <-chan struct{}, stop context.CancelFunc) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	asked := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-work.Done():
			return
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, fault.Drained) {
			close(asked)
			timer := time.NewTimer(drainTime)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-work.Done():
			}
		}
		cancel(cause)
	}()
	return work, asked, func() { cancel(nil); <-ended }
}
