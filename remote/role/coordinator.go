package role

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// grace is how long a server lets calls in flight finish when its role has ended.
const grace = 2 * time.Second

// patience is how much longer than a deadline a role waits whose error would tell less than that of another, which knows who is missing.
const patience = 2 * time.Second

// maxTaskFailures is how often a task may fail before it is discarded.
const maxTaskFailures = 3

func (r *runner) coordinate(ctx context.Context) error {
	spec := r.spec.Spec
	p, err := r.program(r.spec.Program, program.StageTrainer)
	if err != nil {
		return err
	}
	passes, err := passesOf(p, spec)
	if err != nil {
		return err
	}
	loss, err := lossMerge(p)
	if err != nil {
		return err
	}
	server := coordinator.New(coordinator.Config{
		Identity: r.identity, Program: p, Trainers: int(spec.Trainers), Sync: spec.Mode == job.Mode_SYNC, Interactive: spec.Interactive,
		Passes: passes, RecordsPerTask: spec.RecordsPerTask, MaxFailures: maxTaskFailures, StartDeadline: spec.StartDeadline.AsDuration() + patience,
		TaskTimeout: [2]time.Duration{spec.RoundDeadline.AsDuration(), 20 * spec.RoundDeadline.AsDuration()},
		Merge:       func(reports []*rpc.TrainerStep) ([]*job.Value, error) { return mergeReports(p, loss, reports) }, Log: r.log,
	})
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, server)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- wire.Serve(serving, service, l, grace) }()
	defer func() { stop(); <-served }()

	member, err := r.registry.LeadCoordinator(ctx, l.Addr().String())
	if err != nil {
		return err
	}
	run, cancel := whileMember(ctx, member)
	defer cancel()
	watching, err := r.watchMembers(run, server)
	if err != nil {
		return err
	}
	err = fenced(run, server.Run(run))
	cancel()
	watching.Wait()
	return errors.Join(err, r.leave(ctx, member))
}

// watchMembers tells the coordinator which servers do not start in time and who has lost his lease, until ctx ends. The group ends after that.
func (r *runner) watchMembers(ctx context.Context, server *coordinator.Server) (*sync.WaitGroup, error) {
	lost, err := r.registry.Lost(ctx)
	if err != nil {
		return nil, err
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for m := range lost {
			switch m.Role {
			case job.Role_TRAINER:
				server.Lost(uint32(m.Index))
			case job.Role_PSERVER:
				server.Fail(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Got: "no sign of life of " + m.String(), Want: "a living server", Hint: "look at its log"})
			}
		}
	})
	watching.Go(func() {
		start, cancel := context.WithTimeout(ctx, r.spec.Spec.StartDeadline.AsDuration())
		defer cancel()
		if _, err := r.registry.Servers(start, int(r.spec.Spec.Pservers)); err != nil && ctx.Err() == nil {
			server.Fail(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Err: err, Hint: "look at their logs, or raise start_deadline"})
		}
	})
	return &watching, nil
}

// passesOf is how often the data is read: the job's word, else the program's.
func passesOf(p *program.Program, spec *job.JobSpec) (int, error) {
	if spec.Passes > 0 || spec.Interactive {
		return int(spec.Passes), nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return 0, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	return pipeline.Passes, err
}

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
