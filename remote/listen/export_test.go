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

// EndIsSettled returns whether the coordinator of a job knows after which step somebody wants it to end.
func EndIsSettled(j *Job) (settled bool) {
	j.withLock(func() { settled = j.finishing.wishes > 0 && j.finishing.told == j.finishing.wishes })
	return settled
}

// LoseClient lets the time pass for which a job waits for its client.
func LoseClient(j *Job) {
	j.withLock(func() { j.followers.seen = j.followers.seen.Add(-j.limits.Follower) })
	j.followers.wake()
}
