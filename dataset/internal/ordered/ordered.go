// Package ordered works on items side by side and takes them in their order.
package ordered

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/edl-go/edl/dataset/internal/interrupt"
)

// An item is a value on its way, and done when it was worked on.
type item[T any] struct {
	value T
	done  chan struct{}
}

// Run calls produce, work and take for a stream of values. produce puts one value after another, and ends when put fails. Workers of the given number call work, each for one value at a
// time; take gets the values in the order of produce, after work. At most four values for each worker are on their way.
//
// It returns the first error of produce or take, or that of ctx, which names what was interrupted. Values before one that take fails for were taken.
func Run[T any](ctx context.Context, what string, workers int, produce func(put func(T) error) error, work func(T), take func(T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	todo, inOrder := make(chan *item[T], workers), make(chan *item[T], 2*workers)
	g.Go(func() error {
		defer close(todo)
		defer close(inOrder)
		return produce(func(value T) error {
			i := &item[T]{value, make(chan struct{})}
			for _, to := range []chan *item[T]{inOrder, todo} {
				select {
				case to <- i:
				case <-ctx.Done():
					return interrupt.Check(ctx, what)
				}
			}
			return nil
		})
	})
	for range workers {
		g.Go(func() error {
			for i := range todo {
				work(i.value)
				close(i.done)
			}
			return nil
		})
	}
	g.Go(func() error {
		for i := range inOrder {
			select {
			case <-i.done:
			case <-ctx.Done():
				return interrupt.Check(ctx, what)
			}
			if err := take(i.value); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
