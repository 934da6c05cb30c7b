package launch

import (
	"time"

	"github.com/edl-go/edl/proto/rpc"
)

// Kill tells the node to kill the role. A node that does not say soon that it has is left to itself: the broken stream makes it end the role.
func (h *remoteRole) Kill() {
	h.endWithin(killTime, func() {
		if h.stream != nil && !h.asked {
			_ = h.stream.Send(&rpc.StartRoleChunk{}) // fails only when the stream has ended
		}
	})
}

// Stop asks the node to end the role. After grace the stream is broken, so that the node makes the role end; then nothing more is heard of it.
func (h *remoteRole) Stop(grace time.Duration) {
	h.stopped.Store(true)
	h.endWithin(grace, func() {
		if !h.asked && h.stream != nil {
			_ = h.stream.CloseSend() // fails only when the stream has ended
		}
		h.asked = true
	})
}

// endWithin calls ask with h.mu held, and waits for the end of the role. When grace has passed, also while ask cannot reach the node, the stream is
// broken.
func (h *remoteRole) endWithin(grace time.Duration, ask func()) {
	giveUp := time.AfterFunc(grace, h.cancel)
	defer giveUp.Stop()
	h.mu.Lock()
	ask()
	h.mu.Unlock()
	<-h.done
}
