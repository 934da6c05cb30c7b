package dataset

import (
	"context"
	"iter"

	"github.com/edl-go/edl/dataset/internal/interrupt"
)

type prefetched[T any] struct {
	value T
	err   error
}

// Prefetch runs seq in a goroutine of its own, up to depth values ahead of the loop (at least 1, which is Fluid's double buffer).
// The goroutine ends with the loop: leaving it waits until seq has returned. When ctx ends, the loop gets its error at
// once instead of the next value; seq should watch ctx too, lest leaving has to wait for it.
//
// At any time depth + 2 values exist; see BatchOptions.Slots.
func Prefetch[T any](ctx context.Context, seq iter.Seq2[T, error], depth int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		values := make(chan prefetched[T], max(1, depth))
		go func() {
			defer close(values)
			for value, err := range seq {
				if ctx.Err() != nil {
					return
				}
				select {
				case values <- prefetched[T]{value, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() {
			cancel()
			for range values { // until the goroutine closes it
			}
		}()
		for {
			value, more, err := receive(ctx, values)
			if !more || !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// receive returns the next value; more is false behind the last one. An ended context comes first: its error must not be
// mistaken for the end of the values.
func receive[T any](ctx context.Context, values <-chan prefetched[T]) (value T, more bool, err error) {
	select {
	case v, ok := <-values:
		if err := interrupt.Check(ctx, "dataset"); err != nil {
			return value, true, err
		}
		return v.value, ok, v.err
	case <-ctx.Done():
		return value, true, interrupt.Check(ctx, "dataset")
	}
}
