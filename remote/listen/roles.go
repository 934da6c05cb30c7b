package listen

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// A roleRun is one start of a role, to its end.
type roleRun struct {
	cancel context.CancelFunc // of a start that has not succeeded yet
	ready  chan struct{}      // closed when handle is known
	handle launch.Handle      // nil when the role could not be started
}

// with calls do with the handle of the role. A start that is under way is given up.
func (l *roleRun) with(do func(launch.Handle)) {
	select {
	case <-l.ready:
	default:
		l.cancel()
		<-l.ready
	}
	if l.handle != nil {
		do(l.handle)
	}
}

func (l *roleRun) stop(grace time.Duration) { l.with(func(h launch.Handle) { h.Stop(grace) }) }

// start starts a role and follows it to its end.
func (c *jobRun) start(ctx context.Context, m cluster.Member, before int) {
	spec := c.job.roleSpec(m, before)
	// A role ends when the jobRun says so, not with the job: roles end in an order.
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &roleRun{cancel: cancel, ready: make(chan struct{})}
	c.running[m] = l
	c.failures = slices.DeleteFunc(c.failures, func(f failure) bool { return f.of == m })
	c.job.roleStarts(m)
	c.finals.starts(m)
	if before > 0 {
		c.job.manager.cfg.Log.Info("role starts again", "job", c.job.ID, "role", m.ID(), "starts", before+1)
	}
	c.group.Go(func() {
		defer cancel()
		h, err := c.job.manager.cfg.Launcher.Start(starting, spec, lineWriter{c.job.logs, role.Name(spec)})
		l.handle = h
		close(l.ready)
		if err == nil {
			c.job.roleRuns(m, h)
			err = h.Wait()
		}
		c.ended(ctx, m, err)
	})
}

// ended tells the policy of the end of a role, when others can know of it: its keys are
// removed at once, or they would believe in it as long as its lease.
func (c *jobRun) ended(ctx context.Context, m cluster.Member, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Registry)
	defer cancel()
	if err != nil {
		if wrong := c.registry.RevokeLease(ctx, m, 0); wrong != nil && ctx.Err() == nil {
			c.job.manager.cfg.Log.Warn("the end of a role is not known to the others yet", "job", c.job.ID, "role", m.ID(), "error", wrong)
		}
		c.job.manager.cfg.Log.Info("role has ended", "job", c.job.ID, "role", m.ID(), "error", err)
	}
	trained := m.Role == job.Role_PSERVER && err != nil && c.mayHaveTrained(ctx)
	c.job.roleEnds(m, err)
	c.happen(func() supervise.Event {
		delete(c.running, m)
		if err != nil {
			c.failures = append(c.failures, failure{m, err})
		}
		return supervise.Exited{Member: m, Err: err, Trained: trained}
	})
}

// mayHaveTrained reports whether pservers may have changed their parameters: not before there is a generation, which a coordinator that is
// starting does not know. A pserver is gone when this is called, and no first generation begins without it.
func (c *jobRun) mayHaveTrained(ctx context.Context) bool {
	c.job.mu.Lock()
	_, again := c.machine.Restarting()
	c.job.mu.Unlock()
	if again != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Probe)
	defer cancel()
	q, err := wire.Queues(ctx, c.peers.coordinator, queuesRequest(c.job.ID, false))
	return err != nil || q.Generation > 0 || q.Phase == "starting"
}

// drain asks a trainer to end. The policy kills one that does not in time.
func (c *jobRun) drain(m cluster.Member) {
	l, grace := c.running[m], c.job.limits.DrainGrace
	c.group.Go(func() { l.stop(grace) })
}

func (c *jobRun) kill(m cluster.Member) {
	l := c.running[m]
	c.group.Go(func() { l.with(launch.Handle.Kill) })
}

// watchLeases tells the policy of roles whose lease is gone while their process runs. A report may be old: of a process that has ended, and that
// another has followed. So it counts only for the first start, and for a later one whose lease was seen, and is gone.
func watchLeases(ctx context.Context, c *jobRun) {
	lost := make(chan cluster.Member)
	c.group.Go(func() {
		subscribe(ctx, c.job, "the roles that are lost", c.registry.WatchLost, func(m cluster.Member) {
			select {
			case lost <- m:
			case <-ctx.Done():
			}
		})
	})
	refused := ""                    // why the registry did not answer the last time
	seen := map[cluster.Member]int{} // number of the start that held a lease
	reported := map[cluster.Member]bool{}
	every := time.NewTicker(c.job.limits.LeaseCheck)
	defer every.Stop()
	for {
		select {
		case m := <-lost:
			reported[m] = true
		case <-every.C:
		case <-ctx.Done():
			return
		}
		starts := startsOf(c)
		live, err := c.registry.Live(ctx)
		if err != nil {
			if ctx.Err() == nil && err.Error() != refused {
				refused = err.Error()
				c.job.manager.cfg.Log.Warn("it is not known which roles hold their leases", "job", c.job.ID, "error", err)
			}
			continue
		}
		refused = ""
		for m, start := range starts {
			if _, ok := live[m]; ok {
				seen[m] = start
				delete(reported, m)
			} else if reported[m] && (seen[m] == start || start == 1) {
				delete(reported, m)
				c.happen(func() supervise.Event { return supervise.LeaseLost{Member: m, Starts: start} })
			}
		}
	}
}

// starts returns how often each role that runs was started.
func startsOf(c *jobRun) map[cluster.Member]int {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	starts := map[cluster.Member]int{}
	for _, r := range c.machine.Roles() {
		if r.State == supervise.Running || r.State == supervise.Draining {
			starts[r.Member] = r.Starts
		}
	}
	return starts
}

// stopAll ends the roles that are left. When the job is stopped, trainers end first, because one can finish its round only while the others serve it.
// When it has failed there may be no round to finish.
func (c *jobRun) stopAll(ctx context.Context) {
	var group sync.WaitGroup
	isTrainer := func(m cluster.Member) bool { return m.Role == job.Role_TRAINER }
	for m, l := range c.running {
		switch {
		case !isTrainer(m):
		case ctx.Err() != nil:
			group.Go(func() { l.stop(c.job.limits.StopGrace) })
		default:
			group.Go(func() { l.with(launch.Handle.Kill) })
		}
	}
	if ctx.Err() != nil {
		group.Wait()
	}
	for m, l := range c.running {
		if !isTrainer(m) {
			group.Go(func() { l.stop(c.job.limits.StopGrace) })
		}
	}
	group.Wait()
}
