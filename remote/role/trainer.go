package role

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/trainer"
	"github.com/edl-go/edl/remote/wire"
)

func (r *runner) train(ctx context.Context) error {
	spec := r.spec.Spec
	p, err := r.program(r.spec.Program, program.StageTrainer)
	if err != nil {
		return err
	}
	save, err := r.program(r.spec.SaveProgram, program.StageSave)
	if err != nil {
		return err
	}
	member, err := r.registry.JoinTrainer(ctx, int(r.spec.Index))
	if err != nil {
		return err
	}
	run, cancel := whileMember(ctx, member)
	defer cancel()
	err = fenced(run, r.trainWith(run, p, save, spec))
	return errors.Join(err, r.leave(ctx, member))
}

// trainWith finds the others, connects, and trains.
func (r *runner) trainWith(ctx context.Context, p, save *program.Program, spec *job.JobSpec) error {
	start, cancel := context.WithTimeout(ctx, spec.StartDeadline.AsDuration()+patience)
	defer cancel()
	address, err := r.registry.Coordinator(start)
	if err != nil {
		return err
	}
	desired, err := r.registry.Desired(start)
	if err != nil {
		return err
	}
	addresses, err := r.registry.Servers(start, desired)
	if err != nil {
		return err
	}
	var conns []*grpc.ClientConn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for _, a := range append([]string{address}, addresses...) {
		conn, err := wire.Dial(a)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	servers := make([]rpc.ParameterServerClient, desired)
	for i := range servers {
		servers[i] = rpc.NewParameterServerClient(conns[i+1])
	}
	var constants func(*executor.Scope) error
	if spec.Params != "" {
		constants = func(scope *executor.Scope) error { return loadConstants(scope, spec.Params, p) }
	}
	return trainer.Run(ctx, trainer.Config{
		Constants: constants,
		Identity:  r.identity, Rank: r.spec.Index, Trainers: int(spec.Trainers), Sync: spec.Mode == job.Mode_SYNC, Program: p, Save: save, Spec: spec,
		RoundDeadline: spec.RoundDeadline.AsDuration() + patience, Servers: servers, Coordinator: rpc.NewCoordinatorClient(conns[0]), Log: r.log,
	})
}
