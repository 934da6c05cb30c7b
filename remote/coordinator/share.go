package coordinator

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// split cuts a fed batch into one share per trainer: rows [rows*t/N, rows*(t+1)/N) of every variable whose first dim the program leaves open,
// and all of the others.
func split(p *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	for t := range shares {
		shares[t] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	}
	feed := map[string]*tensor.Tensor{}
	for _, value := range run.Feed {
		if feed[value.Name] != nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(value.Name), fault.Got("two feeds of one variable"), fault.Want("one"))
		}
		var err error
		if feed[value.Name], err = decode(value); err != nil {
			return nil, err
		}
	}
	if err := checkStep(p, run, feed); err != nil {
		return nil, err
	}
	rows := int64(-1)
	for _, value := range run.Feed {
		v, _ := p.Global().Var(value.Name)
		if len(v.Dims) == 0 || v.Dims[0] != program.Unknown {
			for _, s := range shares {
				s.Feed = append(s.Feed, value)
			}
			continue
		}
		whole := feed[value.Name]
		if rows >= 0 && whole.Dims()[0] != rows {
			return nil, fault.E(fault.ShapeMismatch, fault.Var(value.Name), fault.Got(whole.String()),
				fault.Wantf("%d rows, as the other feeds have", rows))
		}
		rows = whole.Dims()[0]
		for t, s := range shares {
			from, to := rows*int64(t)/int64(trainers), rows*int64(t+1)/int64(trainers)
			part, err := whole.Rows(from, to)
			if err != nil {
				return nil, err
			}
			s.Feed = append(s.Feed, &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, part)})
			s.RowOffset, s.Rows, s.GlobalRows = from, to-from, rows
		}
	}
	if rows < 0 {
		for t, s := range shares { // nothing is batched: every trainer would do the same, so one does it
			if s.GlobalRows = 1; t == 0 {
				s.Rows = 1
			}
		}
	}
	return shares, nil
}

func decode(v *job.Value) (*tensor.Tensor, error) {
	t, rest, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
	if err == nil && len(rest) > 0 {
		err = fault.E(fault.Corrupt, fault.Gotf("%d bytes behind the tensor", len(rest)))
	}
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(v.Name), fault.Cause(err))
	}
	return t, nil
}

// whole gives a fed batch to one trainer, as async mode does, in turn.
func whole(p *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	one, err := split(p, run, 1)
	if err != nil {
		return nil, err
	}
	shares := make([]*rpc.FeedShare, trainers)
	shares[run.Step%uint64(trainers)] = one[0]
	return shares, nil
}

// readOnly asks the first trainer for values of variables without training.
func readOnly(_ *program.Program, run *rpc.StepRun, trainers int) ([]*rpc.FeedShare, error) {
	shares := make([]*rpc.FeedShare, trainers)
	shares[0] = &rpc.FeedShare{Step: run.Step, Fetch: run.Fetch}
	return shares, nil
}
