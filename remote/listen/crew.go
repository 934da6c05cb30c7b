package listen

import (
	"context"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// A crew is the roles of a job that runs: it carries out what the supervision policy decides, and tells it what happens. All decisions are made by
// the goroutine of run.
type crew struct {
	job      *Job
	registry cluster.Registry
	peers    *peers
	watcher  *watcher // with lasts, set before run is called
	lasts    *lasts
	began    time.Time
	events   chan func(now time.Duration) []supervise.Effect
	over     chan struct{} // closed when no event matters any more
	group    sync.WaitGroup
	lives    map[cluster.Member]*life // that have not ended; of run
	failures []failure                // of roles that were not started again, in order; of run

	machine *supervise.Machine // guarded by job.mu
}

// A failure is how a role has ended.
type failure struct {
	of  cluster.Member
	err error
}

func newCrew(j *Job, registry cluster.Registry, peers *peers, trainers int) *crew {
	policy := supervise.Policy{PServers: int(j.spec.Pservers), MaxRestarts: int(max(j.spec.MaxRestarts, 0)),
		DrainTime: j.spec.RoundDeadline.AsDuration()}
	if j.spec.Fed {
		policy.MaxRestarts = 0 // what was fed is not kept
	}
	return &crew{job: j, registry: registry, peers: peers, began: time.Now(), events: make(chan func(time.Duration) []supervise.Effect),
		over: make(chan struct{}), lives: map[cluster.Member]*life{}, machine: supervise.New(policy, trainers)}
}

// run starts the roles and returns when the job has ended and no role is left: nil when it has ended well.
func (c *crew) run(ctx context.Context) error {
	watching, unwatch := context.WithCancel(ctx)
	defer c.group.Wait()
	defer unwatch()
	defer c.stopAll(ctx)
	defer close(c.over)
	c.group.Go(func() { c.watchLeases(watching) })
	c.group.Go(func() {
		hear(watching, c.job, "the number of trainers that are wanted", c.registry.WatchTrainers, func(n int) {
			c.happen(func(now time.Duration) []supervise.Effect { return c.machine.Wanted(now, n) })
		})
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	effects := c.step(c.machine.Begin)
	for {
		if ended, err := c.carryOut(ctx, effects); ended {
			return c.cause(err)
		}
		c.arm(timer)
		select {
		case event := <-c.events:
			effects = c.step(event)
		case <-timer.C:
			effects = c.step(c.machine.Tick)
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.At("job "+c.job.ID), fault.Cause(context.Cause(ctx)))
		}
	}
}

// now is the machine's clock.
func (c *crew) now() time.Duration { return time.Since(c.began) }

// at is the time of a machine's clock.
func (c *crew) at(d time.Duration) time.Time { return c.began.Add(d) }

// step makes one decision.
func (c *crew) step(event func(now time.Duration) []supervise.Effect) []supervise.Effect {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	effects := event(c.now())
	c.job.status.Trainers = int32(c.machine.Trainers())
	return effects
}

// arm sets the timer to when the machine has something to do.
func (c *crew) arm(timer *time.Timer) {
	c.job.mu.Lock()
	at, ok := c.machine.Next()
	c.job.mu.Unlock()
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(max(0, at-c.now()))
}

// happen passes an event on to run, unless the job is over.
func (c *crew) happen(event func(now time.Duration) []supervise.Effect) {
	select {
	case c.events <- event:
	case <-c.over:
	}
}

// carryOut does what was decided, in order, and reports whether the job has ended.
func (c *crew) carryOut(ctx context.Context, effects []supervise.Effect) (ended bool, err error) {
	for _, e := range effects {
		switch e.Do {
		case supervise.Start:
			c.start(ctx, e.Member, e.Start)
		case supervise.Drain:
			c.drain(e.Member)
		case supervise.Kill:
			c.kill(e.Member)
		case supervise.Forget:
			if err := c.forget(ctx); err != nil {
				return true, err
			}
		case supervise.End:
			return true, e.Err
		}
	}
	return false, nil
}

// forget ends a history: every role of it has ended.
func (c *crew) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	if err := c.registry.Forget(ctx); err != nil {
		return err
	}
	c.job.mu.Lock()
	cause := c.machine.Cause()
	c.job.mu.Unlock()
	c.job.beginAnew(cause, c.watcher, c.lasts)
	return nil
}
