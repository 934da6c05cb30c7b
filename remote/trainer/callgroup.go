package trainer

import (
	"context"
	"errors"
	"sync"

	"github.com/edl-go/edl/fault"
)

// A callGroup is the calls of one kind that a step has under way. The first that fails ends the others. It is safe for concurrent use.
type callGroup struct {
	mu      sync.Mutex
	ended   sync.Cond // L is mu
	pending int
	ctx     context.Context // of all calls since the last end, nil when there is none
	cancel  context.CancelFunc
	err     error
	failed  func() // called when a call has failed; may be nil
}

// start runs f on a goroutine of its own as soon as one of slots is free. The goroutine ends soon after ctx.
func (g *callGroup) start(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil {
		g.ended.L = &g.mu
		g.ctx, g.cancel = context.WithCancel(ctx)
	}
	g.pending++
	go g.run(g.ctx, slots, f)
}

func (g *callGroup) run(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	var err error
	select {
	case slots <- struct{}{}:
		err = f(ctx)
		<-slots
	case <-ctx.Done():
		err = fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.err = moreTelling(g.err, err)
		g.cancel()
		if g.failed != nil {
			g.failed()
		}
	}
	if g.pending--; g.pending == 0 {
		g.ended.Broadcast()
	}
}

// end waits for all calls and returns their first error.
func (g *callGroup) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.pending > 0 {
		g.ended.Wait()
	}
	err := g.err
	if g.ctx != nil {
		g.cancel()
	}
	g.ctx, g.cancel, g.err = nil, nil, nil
	return err
}

// abort ends all calls, and waits until they no longer touch their tensors.
func (g *callGroup) abort() {
	g.mu.Lock()
	if g.ctx != nil {
		g.cancel()
	}
	g.mu.Unlock()
	_ = g.end()
}

// moreTelling keeps the error that says more: a call that was given up because another failed says least.
func moreTelling(a, b error) error {
	if a == nil || b != nil && errors.Is(a, fault.Canceled) && !errors.Is(b, fault.Canceled) {
		return b
	}
	return a
}

// forEach runs f once for each number below n, at the same time, and waits for all.
func forEach(ctx context.Context, n int, slots chan struct{}, f func(ctx context.Context, i int) error) error {
	var group callGroup
	for i := range n {
		group.start(ctx, slots, func(ctx context.Context) error { return f(ctx, i) })
	}
	return group.end()
}
