package trainer

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// members returns how many trainers the round that was committed had.
func (c *conductor) members(round uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range slices.Backward(c.began) {
		if g.Round <= round {
			return len(g.Members)
		}
	}
	return 0
}

func (c *conductor) Join(ctx context.Context, m *rpc.JoinRequest) (*rpc.JoinResponse, error) {
	c.change(func() {
		if last := c.waiting[m.Id.Rank]; last == nil || last.Incarnation <= m.Incarnation { // else it was overtaken by the process that took its place
			c.waiting[m.Id.Rank], c.asked[m.Id.Rank] = m, m.Id.Generation
		}
	})
	var r *rpc.JoinResponse
	err := c.await(ctx, func() (bool, error) {
		position := c.current.Position(m.Id.Rank)
		if c.over {
			return false, errOver
		}
		if c.current.Number <= max(c.ended, m.Id.Generation) || position < 0 {
			return false, nil
		}
		c.answered(m)
		c.told[m.Id.Rank] = c.current.Number
		close(c.changed)
		c.changed = make(chan struct{})
		r = &rpc.JoinResponse{Trainers: uint32(len(c.current.Members)), Generation: c.current.Number, Position: uint32(position), Round: c.current.Round,
			Fence: fence}
		if c.policy.Sync {
			r.Segment = &rpc.Segment{}
			if c.queue != nil {
				r.Segment = c.queue.Segment(id.Round(c.current.Round))
			}
		}
		return true, nil
	})
	if err != nil {
		c.change(func() { c.answered(m) })
	}
	return r, err
}

// answered forgets a call of Join, unless the rank has made another. The lock is held.
func (c *conductor) answered(m *rpc.JoinRequest) {
	if c.waiting[m.Id.Rank] == m {
		delete(c.waiting, m.Id.Rank)
	}
}

func (c *conductor) Leave(_ context.Context, m *rpc.LeaveRequest) (*rpc.LeaveResponse, error) {
	if c.deaf {
		return nil, fault.New(fault.Unavailable, "gone")
	}
	c.change(func() {
		c.left[m.Id.Rank], c.known = m, len(c.reports)
		c.over = c.over || len(c.left) == len(c.current.Members)
	})
	return &rpc.LeaveResponse{}, nil
}
