package trainer

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	machine "github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// A conductor is a coordinator whose generations a test begins. What it decides, the pure machines of the coordinator decide: queue.Queue and
// generation.Decide.
type conductor struct {
	rpc.UnimplementedCoordinatorServer
	policy  queue.Policy
	servers []rpc.ParameterServerClient

	changing sync.Mutex // one change at a time
	mu       sync.Mutex
	changed  chan struct{}
	current  machine.Generation
	began    []machine.Generation
	ended    uint64 // generations up to this one have ended
	waiting  map[uint32]*rpc.JoinRequest
	told     map[uint32]uint64 // the last generation that each rank was told of
	data     *rpc.Dataset
	queue    *queue.Queue
	gets     int // requests for tasks
	failed   []*rpc.TaskFailedRequest
	reports  []*rpc.TrainerStep
	asked    map[uint32]uint64  // the generation after which each rank has asked for another
	late     []*rpc.TrainerStep // reports of a generation by a process that had asked for another: they are not counted
	saver    *uint32
	left     map[uint32]*rpc.LeaveRequest
	deaf     bool                    // it hears nobody leave
	hold     chan struct{}           // until it is closed no report is taken; nil: reports are taken at once
	known    int                     // reports that had been taken when somebody left last
	over     bool                    // all members have left: nobody else is wanted
	failing  func(generation uint64) // is told of a failed task in sync mode, after its generation has ended
}

const fence = 5

func newConductor(p queue.Policy, servers ...rpc.ParameterServerClient) *conductor {
	p.Epoch = time.Now()
	return &conductor{policy: p, servers: servers, changed: make(chan struct{}), waiting: map[uint32]*rpc.JoinRequest{}, told: map[uint32]uint64{},
		asked: map[uint32]uint64{}, left: map[uint32]*rpc.LeaveRequest{}}
}

// change changes the state under the lock and tells those who wait.
func (c *conductor) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until ok, which is called with the lock held.
func (c *conductor) await(ctx context.Context, ok func() (bool, error)) error {
	for {
		c.mu.Lock()
		done, err := ok()
		changed := c.changed
		c.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *conductor) id(generation uint64) *rpc.Identity {
	return wire.Identity{Job: rig.Identity.Job, Program: rig.Identity.Program, Generation: generation, Fence: fence}.Of(0, 0, 0)
}

// end ends the current generation as far as the conductor itself is concerned, and reports whether it had not ended before.
func (c *conductor) end() (first bool) {
	c.change(func() {
		first = c.ended < c.current.Number
		c.ended = c.current.Number
	})
	return first
}

// errOver is what a trainer is told that waits when all others have ended.
var errOver = fault.New(fault.Canceled, "the job has ended")

// freeze ends the current generation at one server.
func (c *conductor) freeze(ctx context.Context, server int) error {
	c.mu.Lock()
	id := c.id(c.current.Number)
	c.mu.Unlock()
	_, err := c.servers[server].Freeze(ctx, &rpc.FreezeRequest{Id: id})
	return err
}

// admit refuses messages of generations that have ended, in sync mode.
func (c *conductor) admit(id *rpc.Identity) error {
	if c.policy.Sync && (id.Generation <= c.ended || id.Generation != c.current.Number) {
		return fault.New(fault.Superseded, "a generation that has ended")
	}
	return nil
}
