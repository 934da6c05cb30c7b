package pserver

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// queueLength bounds the contributions to one update that wait to be applied. A trainer that is further ahead waits in its SendVariable, or its
// connection is not read.
const queueLength = 8

// updaters apply the contributions of an async job. Each updater has a goroutine, so that updates of different parameters run at the same time.
type updaters struct {
	core   *core
	values *values
	all    []*updater
	byName map[string]*updater // by contribution
	// arriving is held from the decision on a contribution until the learning-rate block that it asks for has ended.
	arriving     sync.Mutex
	learningRate func(from Sender) error
	schedule     func(ctx context.Context, from Sender) error // runs the learning-rate block; the lock of values is held by nobody
}

// An updater applies the contributions that one optimize block reads, or one state, in the order of their arrival. What a block reads of one
// trainer's step is applied together, when all of it has arrived.
type updater struct {
	place   int // among all
	block   program.BlockIndex
	names   []string // of the contributions
	targets []int    // by name: its place among all contributions, gradients before states
	queue   chan delivery
	parts   map[id.Rank]delivery // steps of which not all has arrived. The lock of core guards it
}

// A delivery is what one trainer's step contributes to one update.
type delivery struct {
	from   Sender
	values map[string]*tensor.Tensor
}

// of reports whether a contribution belongs to the delivery.
func (d delivery) of(from Sender) bool {
	return d.from.Round == from.Round && d.from.Generation == from.Generation
}

// newUpdaters returns the updaters of a server. Blocks run with ctx, whoever has sent what they read.
func newUpdaters(ctx context.Context, c *core, v *values, service *comm.Service) *updaters {
	us := &updaters{core: c, values: v, byName: map[string]*updater{}}
	byBlock := map[program.BlockIndex]*updater{}
	for i, c := range slices.Concat(service.Grads, service.States) {
		u := byBlock[c.Block]
		if u == nil || c.Block == comm.NoBlock {
			u = &updater{place: len(us.all), block: c.Block, queue: make(chan delivery, queueLength), parts: map[id.Rank]delivery{}}
			byBlock[c.Block] = u
			us.all = append(us.all, u)
		}
		u.names, u.targets = append(u.names, c.Name), append(u.targets, i)
		us.byName[c.Name] = u
	}
	us.learningRate = func(from Sender) error {
		if service.LRDecay == comm.NoBlock {
			return nil
		}
		v.Lock()
		defer v.Unlock()
		if us.over(from) {
			return nil
		}
		asyncMirror{us.core.mirror}.learningRate(from)
		return v.RunBlock(ctx, service.LRDecay, stepOf(from, 0))
	}
	us.schedule = func(ctx context.Context, from Sender) error {
		v.Lock()
		defer v.Unlock()
		return v.RunBlock(ctx, service.LRDecay, stepOf(from, 0))
	}
	return us
}

// start starts the goroutines, which end with ctx. A standby has applied all that its server has told it. In sync mode there are no updaters.
func (us *updaters) start(ctx context.Context, group *sync.WaitGroup) {
	if us == nil {
		return
	}
	for _, u := range us.all {
		group.Go(func() { us.run(ctx, u) })
	}
}

// over reports whether a contribution belongs to a history that has ended. While the lock of values is held none ends.
func (us *updaters) over(from Sender) bool {
	us.core.Lock()
	defer us.core.Unlock()
	return us.core.updates.over(from.Generation)
}

// stepOf tells a block which step of which trainer it runs for, and the hour of the update, which blocks of the learning rate do not read.
func stepOf(from Sender, hour int64) ops.Step {
	return ops.Step{Round: uint64(from.Round), Lane: uint64(from.Rank), Hour: hour}
}

// run applies what is in the queue of an updater until ctx ends.
func (us *updaters) run(ctx context.Context, u *updater) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-u.queue:
			err := us.apply(ctx, u, d)
			us.core.Lock()
			if err != nil {
				us.core.end(err)
			} else {
				us.core.applied++
				us.release(d)
			}
			us.core.Unlock()
			if err != nil {
				return
			}
		}
	}
}

// apply applies what one step contributes, as an update of its own. It returns when the standby has it, if there is one.
func (us *updaters) apply(ctx context.Context, u *updater, d delivery) error {
	told, err := us.update(ctx, u, d)
	if told != nil {
		if wrong := told(ctx); err == nil {
			err = wrong
		}
	}
	return err
}

// update is apply without the wait for the standby, which it returns.
func (us *updaters) update(ctx context.Context, u *updater, d delivery) (told func(context.Context) error, err error) {
	us.values.RLock()
	defer us.values.RUnlock()
	if us.over(d.from) {
		return nil, nil
	}
	for name, value := range d.values {
		us.values.freezer.changing(name)
		alone := []merge.Share{{Value: value, Rows: 1}}
		if err := merge.Gradients(us.core.inbox.targets[name], alone, ops.MergeFirst); err != nil {
			return nil, err
		}
	}
	hour := ops.HourOf(uint64(d.from.Round), us.core.cfg.DayRounds)
	told = asyncMirror{us.core.mirror}.update(u, d.from, hour)
	return told, us.runBlock(ctx, u, d.from, hour)
}

// runBlock runs the block of an update. Contributions are in their targets, and the lock of values is held shared.
func (us *updaters) runBlock(ctx context.Context, u *updater, from Sender, hour int64) error {
	if u.block == comm.NoBlock {
		return nil
	}
	return us.values.RunBlock(ctx, u.block, stepOf(from, hour))
}

// deliver enters a contribution that has arrived. It waits while the queue is full.
func (us *updaters) deliver(e Received, value *tensor.Tensor) (taken bool, err error) {
	u, d, taken, err := us.arrive(e, value)
	if u == nil {
		return taken, err
	}
	select {
	case u.queue <- d:
		return true, nil
	case <-us.core.ended:
		us.core.Lock()
		defer us.core.Unlock()
		return true, us.core.Err()
	}
}

// arrive decides on a contribution, runs the learning-rate block where the contribution begins a step, and adds it to that step. It returns the
// updater for which the step is now whole, if there is one.
func (us *updaters) arrive(e Received, value *tensor.Tensor) (u *updater, d delivery, taken bool, err error) {
	us.arriving.Lock()
	defer us.arriving.Unlock()
	c := us.core
	c.Lock()
	defer c.Unlock()
	f, err := c.step(e)
	if err != nil || f.Ignore || f.Hold {
		return nil, delivery{}, false, err
	}
	if f.LearningRate {
		c.Unlock() // the server answers while the block runs
		err := us.learningRate(e.Sender)
		c.Lock()
		if err != nil {
			c.end(err)
			return nil, delivery{}, true, err
		}
	}
	u = us.byName[e.Variable]
	d, whole := us.gather(u, e, value)
	if !whole {
		u = nil
	}
	return u, d, true, nil
}

// gather adds a contribution to what its update has of the trainer's step, and reports whether that is all. The lock is held.
func (us *updaters) gather(u *updater, e Received, value *tensor.Tensor) (delivery, bool) {
	d, ok := u.parts[e.Rank]
	if ok && !d.of(e.Sender) {
		us.release(d)
		ok = false
	}
	if !ok {
		d = delivery{from: e.Sender, values: map[string]*tensor.Tensor{}}
	}
	d.values[e.Variable] = value
	delete(u.parts, e.Rank)
	switch {
	case len(d.values) == len(u.names):
		return d, true
	case us.core.updates.expects(e.Rank, e.Generation):
		u.parts[e.Rank] = d
	default: // it has completed, or lost its place, since its contribution was taken
		us.release(d)
	}
	return d, false
}

// release counts the contributions of a step as applied and frees them. The lock is held.
func (us *updaters) release(d delivery) {
	for name, value := range d.values {
		us.core.inbox.give(name, value)
		f, _ := us.core.step(Applied{Rank: d.from.Rank}) // is never refused
		us.core.carryOut(f)
		us.core.changed()
	}
}

// abandon gives up the parts of steps whose trainers will send nothing more. In sync mode there are no updaters and nothing to do. The lock is held.
func (us *updaters) abandon() {
	if us == nil {
		return
	}
	for _, u := range us.all {
		for rank, d := range u.parts {
			if !us.core.updates.expects(rank, d.from.Generation) {
				delete(u.parts, rank)
				us.release(d)
			}
		}
	}
}
