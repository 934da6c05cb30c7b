package remote_test

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/remote/launch"
)

// later is a role that is launched when it is released, unless it is stopped before. It implements launch.Handle.
type later struct {
	stop    chan struct{}
	once    sync.Once
	started chan struct{}
	inner   launch.Handle // set when started is closed; nil when it was stopped before
	err     error
}

// startLater calls start when released is closed.
func startLater(ctx context.Context, released <-chan struct{}, start func() (launch.Handle, error)) launch.Handle {
	h := &later{stop: make(chan struct{}), started: make(chan struct{})}
	go func() {
		defer close(h.started)
		select {
		case <-released:
			h.inner, h.err = start()
		case <-h.stop:
		case <-ctx.Done():
		}
	}()
	return h
}

func (h *later) Wait() error {
	<-h.started
	if h.inner == nil {
		return h.err
	}
	return h.inner.Wait()
}

func (h *later) Stop(grace time.Duration) {
	h.once.Do(func() { close(h.stop) })
	<-h.started
	if h.inner != nil {
		h.inner.Stop(grace)
	}
}

func (h *later) Kill() {
	h.once.Do(func() { close(h.stop) })
	<-h.started
	if h.inner != nil {
		h.inner.Kill()
	}
}

func (h *later) Node() string { return "" }

func (h *later) Pid() int {
	select {
	case <-h.started:
	default:
		return 0
	}
	if h.inner == nil {
		return 0
	}
	return h.inner.Pid()
}
