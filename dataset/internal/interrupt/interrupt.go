// Package interrupt turns the end of a context into a fault, for loops that check their context from time to time.
package interrupt

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
)

// Check returns nil while ctx has not ended. Then it returns a fault of kind Canceled or DeadlineExceeded with the cause of the context. where
// names the loop.
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
