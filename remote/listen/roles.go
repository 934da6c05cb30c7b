package listen

import (
	"context"
	"errors"
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
	member cluster.Member     // that it is; a standby may become a pserver; guarded by job.mu
	cancel context.CancelFunc // of a start that has not succeeded yet
	ready  chan struct{}      // closed when handle is known
	handle launch.Handle      // nil when the role could not be started
}

// with gives up a start that is under way, and calls do with the handle of a role that was started.
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
	c.job.roleStarts(m)
	if before > 0 {
		c.job.manager.cfg.Log.Info("role starts again", "job", c.job.ID, "role", m.ID(), "starts", before+1)
	}
	follow(ctx, c, m, supervise.Start{Member: m, Before: before}, false)
}

// follow starts the process of a role, unless an earlier listener has started it, and follows it to its end. The process may be that of a standby. earlier says that
// it may have been an earlier listener.
func follow(ctx context.Context, c *jobRun, m cluster.Member, process supervise.Start, earlier bool) {
	spec := c.job.roleSpec(process.Member, process.Before)
	c.job.withLock(func() {
		if (m.Role == job.Role_PSERVER || m.Role == job.Role_COORDINATOR) && c.machine.GoesBack() != nil {
			spec.History = c.watcher.history + 1
		}
	})
	// The end of ctx does not end the role: stopAll ends roles in an order.
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &roleRun{member: m, cancel: cancel, ready: make(chan struct{})}
	beside := c.running[cluster.Member{Role: job.Role_PSERVER, Index: m.Index}] // of a standby
	c.running[m] = l
	c.failures = slices.DeleteFunc(c.failures, func(f failure) bool { return f.of == m })
	c.finals.starts(m)
	c.group.Go(func() {
		defer cancel()
		cfg := c.job.manager.cfg
		own, err := credentialsOf(cfg, spec)
		if err != nil {
			close(l.ready)
			c.ended(ctx, l, err)
			return
		}
		spec.Credentials, spec.EtcdCredentials = own.Credentials, own.EtcdCredentials
		if m.Role == job.Role_STANDBY && beside != nil {
			spec.Avoid = nodeOf(starting, beside)
		}
		h, err := cfg.Launcher.Start(starting, spec, lineWriter{c.job.logs, role.Name(spec), uint32(spec.Start)})
		l.handle = h
		close(l.ready)
		if err == nil {
			c.job.roleRuns(m, h)
			running, over := context.WithCancel(starting)
			c.group.Go(func() { renew(running, cfg, spec, h, earlier) })
			err = h.Wait()
			over()
		}
		c.ended(ctx, l, err)
	})
}

// nodeOf waits for the start of a role, and tells on which node it is; empty: here, or nowhere.
func nodeOf(ctx context.Context, l *roleRun) string {
	select {
	case <-l.ready:
		if l.handle != nil {
			return l.handle.Node()
		}
	case <-ctx.Done():
	}
	return ""
}

// memberOf tells which role a process is now.
func memberOf(c *jobRun, l *roleRun) (m cluster.Member) {
	c.job.withLock(func() { m = l.member })
	return m
}

// ended removes the keys of a role that has failed, and tells the policy of the end. Without that, the others would take the role for alive until its
// lease ends.
func (c *jobRun) ended(ctx context.Context, l *roleRun, err error) {
	if errors.Is(err, launch.ErrLeft) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Registry)
	defer cancel()
	m := memberOf(c, l)
	if err != nil {
		takenOver(ctx, c, m)
		if wrong := c.registry.RevokeLease(ctx, m, 0); wrong != nil && ctx.Err() == nil {
			c.job.manager.cfg.Log.Warn("the end of a role is not known to the others yet", "job", c.job.ID, "role", m.ID(), "error", wrong)
		}
		c.job.manager.cfg.Log.Info("role has ended", "job", c.job.ID, "role", m.ID(), "error", err)
	}
	trained := m.Role == job.Role_PSERVER && err != nil && c.mayHaveTrained(ctx)
	c.job.roleEnds(m, err)
	c.happen(func() supervise.Event { // job.mu is held
		m := l.member
		delete(c.running, m)
		if err != nil {
			c.failures = append(c.failures, failure{m, err})
		}
		return supervise.Exited{Member: m, Err: err, Trained: trained}
	})
}

// mayHaveTrained reports whether pservers may have changed their parameters. They have not before the first generation. A coordinator that is
// starting does not know whether there was one, so the answer is yes. The pserver that has ended is gone already: no first generation begins
// meanwhile. When the job is over nobody needs the answer, and the coordinator may be gone: mayHaveTrained does not wait for it.
func (c *jobRun) mayHaveTrained(ctx context.Context) bool {
	c.job.mu.Lock()
	_, again := c.machine.Restarting()
	c.job.mu.Unlock()
	if again != nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Probe)
	defer cancel()
	c.group.Go(func() {
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	})
	q, err := wire.Queues(ctx, c.peers.coordinator, queuesRequest(c.job.ID, false))
	return err != nil || q.Generation > 0 || q.Phase == "starting"
}

// drain asks a trainer to end. If it does not end within limits.Drain, the policy kills it.
func (c *jobRun) drain(m cluster.Member) {
	l, grace := c.running[m], c.job.limits.DrainGrace
	if l == nil { // it has ended
		return
	}
	c.group.Go(func() { l.stop(grace) })
}

func (c *jobRun) kill(m cluster.Member) {
	l := c.running[m]
	if l == nil { // it has ended
		return
	}
	c.group.Go(func() { l.with(launch.Handle.Kill) })
}

// watchLeases tells the policy of roles whose lease is gone while their process runs. The registry may report the lease of an earlier process of the
// role. So the report counts only if this is the first start, or if this start was seen with a lease that is gone now.
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
	seen := map[cluster.Member]int{} // number of the last start that was seen with a lease
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
		asking, cancel := context.WithTimeout(ctx, c.job.limits.Lease) // while etcd is away an answer never comes
		live, err := c.registry.Live(asking)
		cancel()
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

// startsOf returns how often each role that runs was started.
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

// stopAll ends the roles that are left. When the job is stopped, trainers end first: they can finish their round only while the servers run. When the
// job has failed, they are killed.
func (c *jobRun) stopAll(ctx context.Context) {
	if handedOver(ctx) {
		letGo(c)
		return
	}
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
