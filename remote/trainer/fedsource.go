package trainer

import (
	"context"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// fedSource is the source of a fed job: the trainer's share of what the user feeds, item after item, until the user has no more. An item is a batch to
// train, which takes one round, or a list of variables to read, which takes none: Next answers it at once.
//
// Items are numbered from 0 in each generation. A request for item n says that the trainer has done those before. So the coordinator hands an item out
// again, in the next generation, when a generation ends before all its members have done it.
type fedSource struct {
	*generationRun
	item  uint64   // that is asked for next
	round id.Round // of the next batch
	step  id.Step  // of the last batch, as the user counts
	batch executor.Batch
}

func newFedSource(g *generationRun) *fedSource {
	s := &fedSource{generationRun: g, round: id.Round(g.in.Round)}
	if !g.cfg.Sync {
		s.round = id.Round(g.cfg.Begin.GetSteps())
	}
	return s
}

// Next implements executor.BatchSource.
func (s *fedSource) Next(ctx context.Context) (*executor.Batch, error) {
	for {
		share, err := s.nextShare(ctx)
		if err != nil {
			return nil, err
		}
		if share.End || len(share.Feed) > 0 {
			s.lastFed = fedReport{} // that the user goes on says that the coordinator has answered it; a list to read may be a part of the answer
		}
		s.item++
		switch {
		case share.End:
			return nil, io.EOF
		case len(share.Feed) > 0:
			return s.deliver(share)
		}
		if err := s.answer(ctx, share); err != nil {
			return nil, err
		}
	}
}

// Number implements source.
func (s *fedSource) Number() id.Round { return id.Round(s.step) }

// HandIn implements source. What is fed has no tasks.
func (s *fedSource) HandIn(context.Context) error { return nil }

// Close implements source.
func (s *fedSource) Close() {}

// nextShare waits for the user. There is no deadline, and no entry in the list of waits: the user may think between two steps for as long as they
// like, and the coordinator ends the wait when the job ends.
func (s *fedSource) nextShare(ctx context.Context) (*rpc.FeedShare, error) {
	share := &rpc.FeedShare{}
	c := s.caller
	c.waits = nil
	err := c.call(ctx, callTarget{"coordinator", "the next feed"}, func(ctx context.Context, retry id.Retry) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request := &rpc.NextFeedRequest{Id: s.in.message(s.round, retry), Item: s.item}
		stream, err := s.cfg.Coordinator.NextFeed(ctx, request, grpc.WaitForReady(false))
		if err != nil {
			return err
		}
		return wire.Receive("coordinator", stream, share, wire.MaxStep)
	})
	return share, err
}

// deliver makes a batch of a share. In async mode the step has the number that the user counts, which is what one machine computes with.
func (s *fedSource) deliver(share *rpc.FeedShare) (*executor.Batch, error) {
	feed := executor.Feed{}
	for _, v := range share.Feed {
		value, rest, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil || len(rest) > 0 {
			return nil, fault.E(fault.Corrupt, fault.Var(v.Name), fault.Cause(err))
		}
		feed[v.Name] = value
	}
	step := ops.Step{Round: uint64(s.round), RowOffset: share.RowOffset, Rows: share.Rows}
	if !s.cfg.Sync {
		step.Round, step.Lane = share.Step, uint64(s.cfg.Rank)
	}
	s.step, s.round = id.Step(share.Step), id.Round(step.Round+1)
	s.batch = executor.Batch{Feed: feed, Fetch: share.Fetch, Step: step, GlobalRows: share.GlobalRows}
	return &s.batch, nil
}

// answer reports the variables that an item asks for, as they are now.
func (s *fedSource) answer(ctx context.Context, share *rpc.FeedShare) error {
	report := &rpc.TrainerStep{Id: roundOf(id.Round(share.Step)), Trainers: s.sharing()}
	for _, name := range share.Fetch {
		value, err := s.readVariable(ctx, name)
		if err != nil {
			return err
		}
		report.Fetched = append(report.Fetched, &job.Value{Name: name, Stream: tensor.AppendStream(nil, value)})
	}
	return s.reporter.report(s.in, report)
}

// readVariable returns a variable as it is now: from the servers, or from this trainer where no server holds it.
func (s *fedSource) readVariable(ctx context.Context, name string) (*tensor.Tensor, error) {
	if p, ok := receiving(s.cfg.Save, name); ok {
		s.comm.Receive(asItIs)
		values, err := s.saver.Run(ctx, p, nil, name)
		if err != nil {
			return nil, err
		}
		return values[0], nil
	}
	if value, ok := s.local.Scope().Find(name); ok {
		return value, nil
	}
	return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("a variable that has no value outside of a step"),
		fault.Want("a persistable variable, or a feed to compute it from"))
}

// receiving returns the part of a save program that brings one variable here: the recvs of its pieces, the barrier, and what joins
// them. It reports false when the program does not bring the variable.
func receiving(save *program.Program, name string) (*program.Program, bool) {
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
