package reference

import (
	"context"
	"maps"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// On a cluster trainers share totals in the middle of a step (ops.ShareTotals). Here ranks run one after the other. So each first runs the ops before a share_totals for
// what that reads. The totals of all, and the scales of each rank, are then fed to what comes after.

// sharesTotals reports whether trainers of the job share totals: not with backup trainers.
func sharesTotals(e *Executor) bool { return e.drops == nil }

// withTotals returns a program like p in which trainers share totals. It refuses one that needs them where they share none.
func withTotals(p *program.Program, shares bool) (*program.Program, error) {
	if shares {
		return ops.ShareTotals(p)
	}
	op, err := ops.NeedsTotals(p)
	if op != nil {
		err = fault.E(fault.Unsupported, fault.On(op), fault.Got("a loss for which trainers share sums and means over the batch"), fault.Want("a job without backup trainers"))
	}
	return p, err
}

// A totalsStage is what ranks run before they share totals at one place.
type totalsStage struct {
	half         *program.Program // the ops before, without those that share
	parts, over  []string
	outs, scales []string
	means        []bool
}

// wanted is what a rank computes at the stage.
func (s *totalsStage) wanted() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.parts, s.over))))
}

// splitTotals takes the ops that share totals out of the forward half.
func (s *split) splitTotals() {
	b := s.forward.Global()
	var before []*program.Op
	for _, op := range b.Ops {
		if op.Type != "share_totals" {
			before = append(before, op)
			continue
		}
		stage := totalsStage{half: s.forward.Clone(), parts: op.Inputs["X"], over: op.Inputs["Over"], outs: op.Outputs["Out"], scales: op.Outputs["Scale"]}
		means, _ := op.Ints("means")
		for _, mean := range means {
			stage.means = append(stage.means, mean == 1)
		}
		own := stage.half.Global()
		own.Ops = nil
		for _, op := range before {
			own.Append(op.Clone())
		}
		stage.half.DropUnreachable()
		s.stages = append(s.stages, stage)
	}
	b.Ops = before
}

// A rankPart is what one rank has of a round.
type rankPart struct {
	trainer  int
	from, to int64 // rows of the batch
	feed     executor.Feed
}

// shareTotals adds the totals of all stages to what ranks are fed. begin gives the state that a rank begins with.
func shareTotals(ctx context.Context, r *round, ranks []rankPart, begin func() error) error {
	for i := range r.stages {
		stage := &r.stages[i]
		wanted := stage.wanted()
		shared, first := make([]ops.Totals, len(ranks)), []*tensor.Tensor(nil)
		for k, rank := range ranks {
			half, err := r.prepared.of(ctx, r.local, stage.half, rank.feed, wanted)
			if err != nil {
				return err
			}
			if err := begin(); err != nil {
				return err
			}
			out, err := half.RunStep(ctx, ops.Step{Round: r.number, RowOffset: rank.from, Rows: rank.to - rank.from}, rank.feed)
			if err != nil {
				return err
			}
			value := func(name string) *tensor.Tensor { return out[slices.Index(wanted, name)] }
			shared[k].Rows = rank.to - rank.from
			for i, name := range stage.parts {
				shared[k].Over = append(shared[k].Over, merge.Reduced(value(stage.over[i])))
				if shared[k].Values, err = merge.AppendNumbers(shared[k].Values, value(name)); err != nil {
					return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
				}
				if k == 0 {
					first = append(first, value(name).Clone())
				}
			}
		}
		joined, err := stage.join(ranks, first, shared)
		if err != nil {
			return err
		}
		for k := range ranks {
			if err := stage.give(&ranks[k], first, shared[k], joined); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes the totals of each trainer of those of its devices. They are like those of the first rank.
func (s *totalsStage) join(ranks []rankPart, like []*tensor.Tensor, shared []ops.Totals) (joined []ops.Totals, err error) {
	totals, scales, err := s.blank(like)
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(ranks); {
		to := from + 1
		for to < len(ranks) && ranks[to].trainer == ranks[from].trainer {
			to++
		}
		one, err := merge.JoinTotals(totals, scales, s.means, shared[from:to])
		if err != nil {
			return nil, err
		}
		joined, from = append(joined, one), to
	}
	return joined, nil
}

// blank returns tensors for totals that are like others, and for their scales.
func (s *totalsStage) blank(like []*tensor.Tensor) (totals, scales []*tensor.Tensor, err error) {
	for _, t := range like {
		scale, err := tensor.New(t.DType(), 1)
		if err != nil {
			return nil, nil, err
		}
		totals, scales = append(totals, t.Clone()), append(scales, scale)
	}
	return totals, scales, nil
}

// give feeds a rank the totals of all trainers, which are like those of the first, and its scales. own is what the rank has made of its rows.
func (s *totalsStage) give(rank *rankPart, like []*tensor.Tensor, own ops.Totals, all []ops.Totals) error {
	totals, scales, err := s.blank(like)
	if err != nil {
		return err
	}
	if err := merge.Totals(totals, scales, s.means, own, all); err != nil {
		return err
	}
	rank.feed = maps.Clone(rank.feed)
	for i := range like {
		rank.feed[s.outs[i]], rank.feed[s.scales[i]] = totals[i], scales[i]
	}
	return nil
}
