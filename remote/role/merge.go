package role

import (
	"cmp"
	"slices"

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

// received lists what a trainer program receives from servers: all trainers have the same of it.
func received(p *program.Program) map[string]bool {
	names := map[string]bool{}
	for _, op := range p.Global().Ops {
		for _, name := range op.Outputs["Out"] {
			names[name] = names[name] || op.Type == "recv"
		}
	}
	return names
}

// mergeReports makes one list of values of what the trainers fetched in one step. same is what all have alike. A pending report may lack what servers
// hold, which the others then have, or nobody.
func mergeReports(p *program.Program, loss ops.Merge, same map[string]bool, reports []*rpc.TrainerStep) ([]*job.Value, error) {
	if len(reports) == 1 {
		return reports[0].Fetched, nil
	}
	most := slices.MaxFunc(reports, func(a, b *rpc.TrainerStep) int { return cmp.Compare(len(a.Fetched), len(b.Fetched)) })
	out := make([]*job.Value, len(most.Fetched))
	for i, value := range most.Fetched {
		if same[value.Name] {
			out[i] = value
			continue
		}
		declared, ok := p.Global().Find(value.Name)
		if !ok {
			return nil, fault.E(fault.NotFound, fault.Var(value.Name), fault.Got("a fetched variable that the program does not declare"))
		}
		parts := make([]executor.Part, 0, len(reports))
		for _, report := range reports {
			at := slices.IndexFunc(report.Fetched, func(v *job.Value) bool { return v.Name == value.Name })
			if at < 0 && report.Pending {
				continue
			}
			if at < 0 {
				return nil, fault.E(fault.Internal, fault.Var(value.Name), fault.Got("trainers that fetch different variables"))
			}
			t, _, err := tensor.DecodeStream(report.Fetched[at].Stream, tensor.Limits{})
			if err != nil {
				return nil, err
			}
			parts = append(parts, executor.Part{Value: t, Rows: report.Rows})
		}
		merged, err := executor.MergeFetch(declared, loss, parts)
		if err != nil {
			return nil, err
		}
		out[i] = &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, merged)}
	}
	return out, nil
}
