package trainer

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	machine "github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// regroup ends the current generation and begins the next one, of the ranks that are given, when all of them have joined.
func (c *conductor) regroup(ctx context.Context, ranks ...uint32) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.end()
	next := machine.Generation{Number: c.current.Number + 1, Round: c.current.Round}
	if c.policy.Sync && c.current.Number > 0 {
		answers := make([]*rpc.FreezeResponse, len(c.servers))
		err := rig.Each(len(c.servers), func(i int) (err error) {
			answers[i], err = c.servers[i].Freeze(ctx, &rpc.FreezeRequest{Id: c.id(c.current.Number)})
			return err
		})
		if err != nil {
			return err
		}
		if next.Round, next.Commit, err = machine.Decide(0, c.current, answers); err != nil {
			return err
		}
	}
	err := c.await(ctx, func() (bool, error) {
		next.Members = nil
		for _, rank := range ranks {
			if m := c.waiting[rank]; m != nil {
				next.Members = append(next.Members, machine.Member{Rank: rank, Since: next.Number, Incarnation: m.Incarnation})
			}
		}
		return len(next.Members) == len(ranks), nil
	})
	if err != nil {
		return fmt.Errorf("generation %d of trainers %v has only %v: %w", next.Number, ranks, next.Members, err)
	}
	if c.queue != nil && c.queue.Regrouping() {
		if err := c.cut(ctx, next.Round); err != nil {
			return err
		}
	}
	resume := &rpc.ResumeRequest{Id: c.id(next.Number), Round: next.Round, Commit: next.Commit}
	for _, m := range next.Members {
		resume.Members = append(resume.Members, &rpc.Member{Rank: m.Rank, Since: m.Since})
	}
	err = rig.Each(len(c.servers), func(i int) error {
		_, err := c.servers[i].Resume(ctx, resume)
		return err
	})
	c.change(func() {
		c.current = next
		c.began = append(c.began, next)
	})
	if err != nil {
		return err
	}
	return c.await(ctx, func() (bool, error) { // as the coordinator does: who has not been told of a generation cannot know what became of the last one
		for _, rank := range ranks {
			if c.told[rank] != next.Number {
				return false, nil
			}
		}
		return true, nil
	})
}

// cut begins a segment after a task has failed.
func (c *conductor) cut(ctx context.Context, round uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pass := c.queue.Segment(id.Round(round)).GetPass()
	ledger, err := wire.Ledger(ctx, "pserver 0", c.servers[0], &rpc.LedgerRequest{Job: rig.Identity.Job, Ranges: true, Pass: pass})
	if err != nil {
		return err
	}
	e := queue.Regrouped{Round: id.Round(round), Pass: pass}
	for _, p := range ledger.Passes {
		if p.Pass == pass {
			e.Committed = ranges.Of(wire.RangesOf(p.Committed)...)
		}
	}
	_, err = c.queue.Step(0, e)
	return err
}

// committed returns the reports but those of rounds that have not committed in their generation, which their trainers could not know.
func (c *conductor) committed() (reports []*rpc.TrainerStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.reports {
		next := slices.IndexFunc(c.began, func(g machine.Generation) bool { return g.Number == m.Id.Generation+1 })
		if !m.Pending || next >= 0 && m.Id.Round < c.began[next].Round {
			reports = append(reports, m)
		}
	}
	return reports
}
