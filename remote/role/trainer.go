package role

import (
	"context"
	"errors"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/trainer"
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
	work, drain, stop := drainable(ctx)
	defer stop()
	leased, cancel := whileMember(work, member)
	defer cancel()
	peers := cluster.NewPeers(leased, r.registry)
	defer peers.Close()
	run := peers.Context()
	servers, coordinator, err := r.connect(ctx, run, peers)
	if err == nil {
		err = trainer.Run(run, trainer.Config{
			Identity: r.identity, Rank: r.spec.Index, Incarnation: member.Fence(), Sync: spec.Mode == job.Mode_SYNC, Spec: spec,
			Program: p, Save: save, Constants: r.constants(p), Servers: servers, Coordinator: coordinator, Drain: drain, Log: r.log, Waits: &r.waits,
			RoundDeadline: spec.RoundDeadline.AsDuration() + patience, Patience: spec.RoundDeadline.AsDuration() + spec.StartDeadline.AsDuration(),
		})
	}
	err = whyEnded(run, err)
	switch {
	case err == trainer.ErrUnheard: // the coordinator that misses it asks the servers
		return nil
	case errors.Is(err, trainer.ErrUnheard):
		return err
	}
	return errors.Join(err, r.leave(work, member))
}

// constants returns what loads the variables that no server holds, nil when the startup program makes them.
func (r *runner) constants(p *program.Program) func(*executor.Scope) error {
	if r.spec.Spec.Params == "" {
		return nil
	}
	return func(scope *executor.Scope) error { return loadConstants(scope, r.spec.Spec.Params, p) }
}

// connect waits until the coordinator and the pservers are there, and connects to them for as long as run lasts, wherever they move. ctx ends the
// waiting.
func (r *runner) connect(ctx, run context.Context,
	peers *cluster.Peers) (servers []rpc.ParameterServerClient, coordinator rpc.CoordinatorClient, err error) {
	start, cancel := context.WithTimeout(ctx, r.spec.Spec.StartDeadline.AsDuration()+patience)
	defer cancel()
	defer context.AfterFunc(run, cancel)() // it may end while this waits
	end := trainer.Wait(r.log, &r.waits, "coordinator", "its address")
	_, err = r.registry.Coordinator(start)
	end()
	if err != nil {
		return nil, nil, err
	}
	defer trainer.Wait(r.log, &r.waits, "the pservers", "their addresses")()
	desired, err := r.registry.Desired(start)
	if err != nil {
		return nil, nil, err
	}
	if _, err = r.registry.Servers(start, desired); err != nil {
		return nil, nil, err
	}
	if coordinator, err = peers.Coordinator(); err != nil {
		return nil, nil, err
	}
	servers, err = peers.Servers(desired)
	return servers, coordinator, err
}
