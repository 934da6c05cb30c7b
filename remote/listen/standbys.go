package listen

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/listen/supervise"
	"github.com/edl-go/edl/remote/wire"
)

// askToTakeOver lets the standby of a pserver that is lost take its place. The listener alone asks, and it asks only the process that it has started last:
// a pserver goes on without a standby in step only when it has heard of a later one.
func askToTakeOver(ctx context.Context, c *jobRun, t supervise.TakeOver) {
	ctx, cancel := context.WithTimeout(ctx, c.job.limits.Start)
	defer cancel()
	c.group.Go(func() { // the job may end meanwhile
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	})
	m := &rpc.TakeOverRequest{Id: identityOf(c.job)}
	c.job.withLock(func() { m.History = c.watcher.history })
	var answer *rpc.TakeOverResponse
	err := wire.RetrySoon(ctx, retryPause, func(id.Retry) (err error) {
		if err := gone(c, t); err != nil {
			return err
		}
		client, err := c.peers.of.Standby(t.Index)
		if err != nil {
			return err
		}
		answer, err = client.TakeOver(ctx, m)
		return wire.FromStatus(standby(t.Index).String(), err)
	})
	log := c.job.manager.cfg.Log.With("job", c.job.ID, "pserver", t.Index)
	if err == nil {
		log.Warn("a pserver is lost, and its standby has taken its place", "round", answer.Round)
		if err := c.registry.RevokeLease(ctx, standby(t.Index), 0); err != nil && ctx.Err() == nil { // the next standby has the place
			log.Warn("the place of the standby is not free yet", "error", err)
		}
	} else {
		log.Warn("a pserver is lost, and its standby has not taken its place", "error", err)
	}
	c.happen(func() supervise.Event { return supervise.TookOver{TakeOver: t, Err: err} })
}

// gone is why a standby need not be asked any more: it has ended.
func gone(c *jobRun, t supervise.TakeOver) (err error) {
	c.job.withLock(func() {
		if !c.machine.TakesOver(t.Index) {
			err = fault.E(fault.LostMember, fault.At(standby(t.Index).String()), fault.Cause(errors.New("it has ended")))
		}
	})
	return err
}

func standby(index int) cluster.Member { return cluster.Member{Role: job.Role_STANDBY, Index: index} }

// replace makes the process of a standby that of its pserver.
func replace(c *jobRun, index int) {
	of := cluster.Member{Role: job.Role_PSERVER, Index: index}
	c.job.withLock(func() {
		l := c.running[standby(index)]
		if l == nil {
			return
		}
		delete(c.running, standby(index))
		c.running[of], l.member = l, of
		c.job.replace(of, standby(index))
	})
}

// takenOver removes the key of a pserver that a standby may have taken before it ended: the process of the pserver itself is known to have ended.
func takenOver(ctx context.Context, c *jobRun, m cluster.Member) {
	may := false
	c.job.withLock(func() { may = m.Role == job.Role_STANDBY && c.machine.TakesOver(m.Index) })
	if !may {
		return
	}
	if err := c.registry.RevokeLease(ctx, cluster.Member{Role: job.Role_PSERVER, Index: m.Index}, 0); err != nil && ctx.Err() == nil {
		c.job.manager.cfg.Log.Warn("the end of a standby is not known to the others yet", "job", c.job.ID, "error", err)
	}
}
