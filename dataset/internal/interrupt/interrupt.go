// Package interrupt turns the end of a context into a fault, for loops that look at their context now and then.
package interrupt

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
)

// Check returns nil while ctx goes on, and then a fault of kind Canceled or DeadlineExceeded whose cause is the
// context's. where names the loop.
func Check(ctx context.Context, where string) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	kind := fault.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		kind = fault.DeadlineExceeded
	}
	return fault.Wrap(kind, where, context.Cause(ctx))
}
