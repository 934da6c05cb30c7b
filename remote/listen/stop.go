package listen

import (
	"context"
	"sync"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// stopAll ends the roles that are left. When the job is stopped, trainers end first, because one can finish its round only while the others serve it.
// When it has failed there may be no round to finish.
func (c *crew) stopAll(ctx context.Context) {
	var group sync.WaitGroup
	isTrainer := func(m cluster.Member) bool { return m.Role == job.Role_TRAINER }
	for m, l := range c.lives {
		switch {
		case !isTrainer(m):
		case ctx.Err() != nil:
			group.Go(func() { l.stop(stopGrace) })
		default:
			group.Go(func() { l.with(launch.Handle.Kill) })
		}
	}
	if ctx.Err() != nil {
		group.Wait()
	}
	for m, l := range c.lives {
		if !isTrainer(m) {
			group.Go(func() { l.stop(stopGrace) })
		}
	}
	group.Wait()
}
