package trainer

import (
	"context"
	"errors"
	"sync"

	"github.com/edl-go/edl/fault"
)

// calls are the calls of one kind that a step has under way. The first that fails ends the others. It is safe for concurrent use.
type calls struct {
	mu      sync.Mutex
	ended   sync.Cond // L is mu
	pending int
	ctx     context.Context // of all calls since the last end, nil when there is none
	cancel  context.CancelFunc
	err     error
}

// start runs f on a goroutine of its own as soon as one of slots is free. The goroutine ends soon after ctx.
func (c *calls) start(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ended.L = &c.mu
		c.ctx, c.cancel = context.WithCancel(ctx)
	}
	c.pending++
	go c.run(c.ctx, slots, f)
}

func (c *calls) run(ctx context.Context, slots chan struct{}, f func(ctx context.Context) error) {
	var err error
	select {
	case slots <- struct{}{}:
		err = f(ctx)
		<-slots
	case <-ctx.Done():
		err = fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = worse(c.err, err)
		c.cancel()
	}
	if c.pending--; c.pending == 0 {
		c.ended.Broadcast()
	}
}

// end waits for all calls and returns their first error.
func (c *calls) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending > 0 {
		c.ended.Wait()
	}
	err := c.err
	if c.ctx != nil {
		c.cancel()
	}
	c.ctx, c.cancel, c.err = nil, nil, nil
	return err
}

// abort ends all calls, and waits until they no longer touch their tensors.
func (c *calls) abort() {
	c.mu.Lock()
	if c.ctx != nil {
		c.cancel()
	}
	c.mu.Unlock()
	_ = c.end()
}

// worse keeps the error that tells more: a call that was merely given up because another failed tells least.
func worse(a, b error) error {
	if a == nil || errors.Is(a, fault.Canceled) && !errors.Is(b, fault.Canceled) {
		return b
	}
	return a
}
