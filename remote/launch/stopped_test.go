package launch

import (
	"context"
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
)

// The stream to a role may be broken for want of patience before the node could be asked, as long as another call holds it: the role was stopped, and
// not lost.
func TestStopWhileTheStreamIsHeld(t *testing.T) {
	h := &remoteRole{where: "trainer 0 on node a", started: make(chan struct{}), done: make(chan struct{})}
	close(h.started)
	h.cancel = func() {
		h.err = h.outcome(nil, context.Canceled)
		close(h.done)
	}
	h.mu.Lock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		h.Stop(0)
	}()
	if err := h.Wait(); !errors.Is(err, fault.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	h.mu.Unlock()
	<-stopped
}
