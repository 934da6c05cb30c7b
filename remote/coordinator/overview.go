package coordinator

import (
	"context"
	"maps"
	"slices"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/waits"
)

// overview tells people, and the listener, how far the job is.
type overview struct {
	*core
	store   *store
	members *members
	cuts    *cuts
	steps   *steps

	evaluations *evaluations
}

// queues tells how far the job is and what it waits for; when the final state is asked for, it waits for the end of the job itself.
func (o *overview) queues(ctx context.Context, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	if err := o.checkJob(m.Job); err != nil {
		return nil, err
	}
	if m.Final {
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, gaveUp(ctx, "the end of the job")
		}
	}
	entries, err := o.entries(ctx, m.Entries)
	if err != nil {
		return nil, err
	}
	o.monitor.Lock()
	defer o.monitor.Unlock()
	r := &rpc.QueuesResponse{Entries: entries, Waits: o.waits(), Phase: o.phase(), Fence: uint64(o.lead.Fence), Checkpoint: o.cuts.status(), Evaluating: o.evaluations.text()}
	for rank, rounds := range o.steps.debts.drops {
		if r.Dropped == nil {
			r.Dropped = map[uint32]uint64{}
		}
		r.Dropped[uint32(rank)] = rounds
	}
	if m.Files {
		r.Datasets = o.cuts.ending.datasets(false)
	}
	for _, name := range sortedNames(o.store.queues) {
		r.Queues = append(r.Queues, o.store.queues[name].Status())
	}
	if o.ready {
		g := o.members.machine.Generation()
		r.Generation, r.Round = uint64(g.Number), uint64(g.Round)
		for _, member := range g.Members {
			r.Members = append(r.Members, uint32(member.Rank))
			if o.cfg.MergeHosts {
				r.Leaders = append(r.Leaders, uint32(g.Leader(member.Rank)))
			}
		}
	}
	return r, nil
}

// entries reads what is durable, when it is wanted.
func (o *overview) entries(ctx context.Context, wanted bool) (map[string][]byte, error) {
	var state cluster.State
	o.locked(func() { state = o.lead.State })
	if !wanted || state == nil {
		return nil, nil
	}
	return state.Load(ctx)
}

// waits lists what is waited for: first by the job, then by callers. The monitor is held.
func (o *overview) waits() (out []*job.Wait) {
	if o.ended || !o.ready {
		return nil
	}
	if w, ok := o.members.machine.Wait(); ok && !o.members.halted() {
		out = append(out, waits.Wait{Who: "coordinator", What: w.What, By: w.By, Since: o.epoch.Add(w.Since), Until: o.epoch.Add(w.Until),
			LastError: w.LastError}.Message())
	}
	if w, ok := o.cuts.wait(); ok {
		out = append(out, w.Message())
	}
	return append(out, o.monitor.List()...)
}

// phase names what the membership does now. The monitor is held.
func (o *overview) phase() string {
	m := o.members
	switch {
	case !o.ready:
		return "starting"
	case m.machine.Generation().Number == 0:
		return "forming"
	case o.ended || m.machine.Ending():
		return "ending"
	case m.machine.Paused() || len(m.lostServers) > 0 || m.halted():
		return "paused"
	case m.machine.Phase() != generation.Running:
		return "regrouping"
	}
	return "running"
}

func sortedNames(queues map[string]*queue.Queue) []string { return slices.Sorted(maps.Keys(queues)) }
