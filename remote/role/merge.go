package role

import (
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// lossMerge finds in the send ops of a trainer program how contributions merge: as the loss does.
func lossMerge(p *program.Program) (ops.Merge, error) {
	for _, op := range p.Global().Ops {
		if op.Type == "send" && len(op.RoleVars()) > 0 {
			merge, _ := op.Int("merge")
			return ops.Merge(merge), nil
		}
	}
	return ops.MergeMean, nil
}

// mergeReports makes one list of values of what the trainers fetched in one step.
func mergeReports(p *program.Program, loss ops.Merge, reports []*rpc.TrainerStep) ([]*job.Value, error) {
	out := make([]*job.Value, len(reports[0].Fetched))
	for i, value := range reports[0].Fetched {
		if len(reports) == 1 {
			out[i] = value
			continue
		}
		declared, ok := p.Global().Find(value.Name)
		if !ok {
			return nil, &fault.Fault{Kind: fault.NotFound, Variable: value.Name, Got: "a fetched variable that the program does not declare"}
		}
		parts := make([]executor.Part, len(reports))
		for rank, report := range reports {
			if i >= len(report.Fetched) || report.Fetched[i].Name != value.Name {
				return nil, &fault.Fault{Kind: fault.Internal, Variable: value.Name, Got: "trainers that fetch different variables"}
			}
			t, _, err := tensor.DecodeStream(report.Fetched[i].Stream, tensor.Limits{})
			if err != nil {
				return nil, err
			}
			parts[rank] = executor.Part{Value: t, Rows: report.Rows}
		}
		merged, err := executor.MergeFetch(declared, loss, parts)
		if err != nil {
			return nil, err
		}
		out[i] = &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, merged)}
	}
	return out, nil
}
