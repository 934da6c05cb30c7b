package trainer

import (
	"context"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/grpc"
)

// trainFeeds trains what a user feeds, until the session is closed.
func (l *life) trainFeeds(ctx context.Context) error {
	round := l.of.Round
	for n := uint64(0); ; n++ {
		share, err := l.nextShare(ctx, n)
		if err != nil {
			return err
		}
		if share.End {
			return nil
		}
		report := &rpc.TrainerStep{Id: l.id(share.Step, 0), Rows: share.Rows, GlobalRows: share.GlobalRows, Trainers: l.sharing()}
		if len(share.Feed) == 0 {
			report.Fetched, err = l.read(ctx, share.Fetch)
		} else {
			step := ops.Step{Round: round, RowOffset: share.RowOffset, Rows: share.Rows}
			if !l.cfg.Sync {
				step.Lane = uint64(l.cfg.Rank)
			}
			report.Fetched, err = l.trainShare(ctx, step, share)
			round++
		}
		if err != nil {
			return err
		}
		if err := l.reporter.report(report); err != nil {
			return err
		}
	}
}

// nextShare waits for the user. There is no deadline: how long a user thinks between two steps is not the job's affair, and the
// coordinator ends the wait when the session or the job does.
func (l *life) nextShare(ctx context.Context, n uint64) (*rpc.FeedShare, error) {
	share := &rpc.FeedShare{}
	ctx, cancel := l.ask.untilDrain(ctx)
	defer cancel()
	ask := l.ask
	ask.log = nil
	err := ask.call(ctx, question{"coordinator", "the next feed"}, func(ctx context.Context, attempt uint32) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := l.cfg.Coordinator.NextFeed(ctx, &rpc.NextFeedRequest{Id: l.id(n, attempt), Item: n}, grpc.WaitForReady(false))
		if err != nil {
			return err
		}
		return wire.Receive("coordinator", stream, share, wire.MaxStep)
	})
	return share, err
}

func (l *life) trainShare(ctx context.Context, step ops.Step, share *rpc.FeedShare) ([]*job.Value, error) {
	feed := executor.Feed{}
	for _, v := range share.Feed {
		value, rest, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil || len(rest) > 0 {
			return nil, fault.E(fault.Corrupt, fault.Var(v.Name), fault.Cause(err))
		}
		feed[v.Name] = value
	}
	l.comm.Begin(step, 0, nil)
	fetched, err := l.local.RunStep(ctx, l.cfg.Program, step, feed, share.Fetch...)
	if err == nil {
		err = l.comm.Over()
	}
	if err != nil {
		return nil, err
	}
	return encode(share.Fetch, fetched), nil
}

// read returns variables as they are now: what servers hold comes from there, the rest from this trainer.
func (l *life) read(ctx context.Context, names []string) ([]*job.Value, error) {
	out := make([]*job.Value, 0, len(names))
	for _, name := range names {
		value, err := l.readOne(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, &job.Value{Name: name, Stream: tensor.AppendStream(nil, value)})
	}
	return out, nil
}

func (l *life) readOne(ctx context.Context, name string) (*tensor.Tensor, error) {
	if p, ok := reading(l.cfg.Save, name); ok {
		l.comm.Want(latest)
		values, err := l.saver.Run(ctx, p, nil, name)
		if err != nil {
			return nil, err
		}
		return values[0], nil
	}
	if value, ok := l.local.Scope().Find(name); ok {
		return value, nil
	}
	return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("a variable that has no value outside of a step"),
		fault.Want("a persistable variable, or a feed to compute it from"))
}

// reading returns the part of a save program that brings one variable here: the recvs of its pieces, the barrier, and what joins
// them. It reports false when the program does not bring the variable.
func reading(save *program.Program, name string) (*program.Program, bool) {
	p := save.Clone()
	b := p.Global()
	needed := map[string]bool{name: true}
	var kept []*program.Op
	for i := len(b.Ops) - 1; i >= 0; i-- {
		op := b.Ops[i]
		switch {
		case op.Type == "save":
		case op.Type == "fetch_barrier":
			kept = append(kept, op)
		case op.Type == "recv":
			if keepOutputs(op, needed) {
				kept = append(kept, op)
			}
		case slices.ContainsFunc(op.OutputNames(), func(n string) bool { return needed[n] }):
			for _, n := range op.InputNames() {
				needed[n] = true
			}
			kept = append(kept, op)
		}
	}
	slices.Reverse(kept)
	written := map[string]bool{}
	for _, op := range kept {
		for slot, names := range op.Inputs {
			if op.Type == "fetch_barrier" {
				op.Inputs[slot] = slices.DeleteFunc(names, func(n string) bool { return !written[n] })
			}
		}
		for _, n := range op.OutputNames() {
			written[n] = true
		}
	}
	b.Ops = kept
	return p, written[name]
}

// keepOutputs cuts a recv down to the outputs that are needed, and reports whether any are.
func keepOutputs(op *program.Op, needed map[string]bool) bool {
	outs := op.Outputs["Out"]
	servers, _ := op.Strs("epmap")
	names, _ := op.Strs("recv_varnames")
	var keptOuts, keptServers, keptNames []string
	for i, out := range outs {
		if !needed[out] || i >= len(servers) {
			continue
		}
		keptOuts, keptServers = append(keptOuts, out), append(keptServers, servers[i])
		if i < len(names) {
			keptNames = append(keptNames, names[i])
		}
	}
	op.Outputs["Out"] = keptOuts
	op.SetAttr("epmap", keptServers)
	if names != nil {
		op.SetAttr("recv_varnames", keptNames)
	}
	return len(keptOuts) > 0
}
