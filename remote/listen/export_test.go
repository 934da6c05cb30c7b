package listen

import (
	"context"

	"github.com/edl-go/edl/proto/rpc"
)

// LostFirst is for tests.
var LostFirst = lostFirst

// CarryOver links the variables of one state into another one.
func CarryOver(dir, base string) error { return carryOver(dir, base) }

// Upload is what WriteState does with a whole message.
func Upload(ctx context.Context, m *Manager, values *rpc.StateValues) (id string, err error) {
	return m.states.write(ctx, values)
}

// LoseClient lets the time pass for which a job waits for its client.
func (j *Job) LoseClient() {
	j.withLock(func() { j.followers.seen = j.followers.seen.Add(-j.limits.Follower) })
	j.followers.wake()
}
