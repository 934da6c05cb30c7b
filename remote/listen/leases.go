package listen

import (
	"context"
	"time"

	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// watchLeases tells the policy of roles whose lease is gone while their process runs. A report may be old: of a process that has ended, and that
// another has followed. So it counts only for the first start, and for a later one whose lease was seen, and is gone.
func (c *crew) watchLeases(ctx context.Context) {
	lost := make(chan cluster.Member)
	c.group.Go(func() {
		hear(ctx, c.job, "the roles that are lost", c.registry.Lost, func(m cluster.Member) {
			select {
			case lost <- m:
			case <-ctx.Done():
			}
		})
	})
	refused := ""                    // why the registry did not answer the last time
	seen := map[cluster.Member]int{} // number of the start that held a lease
	reported := map[cluster.Member]bool{}
	every := time.NewTicker(max(100*time.Millisecond, c.job.spec.Lease.AsDuration()/8))
	defer every.Stop()
	for {
		select {
		case m := <-lost:
			reported[m] = true
		case <-every.C:
		case <-ctx.Done():
			return
		}
		starts := c.starts()
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
				c.happen(func(now time.Duration) []supervise.Effect {
					if c.machine.StartsOf(m) == start {
						c.machine.LeaseLost(now, m)
					}
					return nil
				})
			}
		}
	}
}

// starts returns how often each role that runs was started.
func (c *crew) starts() map[cluster.Member]int {
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
