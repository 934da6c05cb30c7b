package role

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/trainer"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

func (r *runner) train(ctx context.Context) error {
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
	work, drain, stop := drainable(ctx, r.deadlines.RoleDrain)
	defer stop()
	leased, cancel := whileMember(work, member)
	defer cancel()
	peers := cluster.NewPeers(context.WithoutCancel(leased), r.registry, r.side) // with a lost lease the trainer still reports its last steps
	defer peers.Close()
	run, end := context.WithCancelCause(leased)
	defer end(nil)
	defer context.AfterFunc(peers.Context(), func() { end(context.Cause(peers.Context())) })()
	servers, coordinator, err := r.connect(ctx, run, peers)
	if err == nil {
		var data *dataplane.Dialer
		if r.spec.Spec.Transport != job.Transport_GRPC {
			data = &dataplane.Dialer{Carrier: carriers[r.spec.Spec.Transport], Silence: r.deadlines.DataSilence, TLS: r.side.DataClient()}
		}
		err = r.leading(run, func(leader *trainer.Leader, host string) error {
			return trainer.Run(run, trainer.Config{
				Identity: r.identity, Rank: id.Rank(r.spec.Index), Incarnation: member.Incarnation(), Sync: r.spec.Spec.Mode == job.Mode_SYNC,
				Spec: r.spec.Spec, Begin: r.spec.Begin, KeepDir: r.spec.KeepDir, Program: p, Save: save, Constants: r.start().constants(p),
				Deadlines: r.deadlines, Servers: servers, Placement: placed(r.spec).Number, Placed: placedBy(r, coordinator, peers),
				Coordinator: coordinator, Data: data, Host: host, Leader: leader, Drain: drain, Waits: &r.waits, Times: r.recording.times,
				Kernels: r.recording.kernels, Log: r.log,
			})
		})
	}
	err = reasonOf(run, err)
	switch {
	case err == trainer.ErrNoCoordinator: // the coordinator that misses it asks the servers
		return nil
	case errors.Is(err, trainer.ErrNoCoordinator):
		return err
	}
	return errors.Join(err, r.leave(work, member))
}

// placedBy returns how a trainer learns of another placement: from its coordinator.
func placedBy(r *runner, c rpc.CoordinatorClient, peers *cluster.Peers) func(context.Context, *rpc.Identity, uint64) (trainer.Placed, error) {
	return func(ctx context.Context, in *rpc.Identity, number uint64) (out trainer.Placed, err error) {
		placement, err := wire.Placement(ctx, c, &rpc.PlacementRequest{Id: in, Number: number})
		if err != nil {
			return out, err
		}
		if out.Program, err = r.program(placement.Program, program.StageTrainer); err != nil {
			return out, err
		}
		if out.Save, err = r.program(placement.SaveProgram, program.StageSave); err != nil {
			return out, err
		}
		if placement.Pservers < 1 || placement.Pservers > jobspec.MaxPServers {
			return out, fault.E(fault.Corrupt, fault.At("coordinator"), fault.Gotf("a placement of %d pservers", placement.Pservers))
		}
		out.Servers, err = peers.Servers(int(placement.Pservers))
		return out, err
	}
}

// leading runs a trainer that may lead others of its host, if the job has trainers merge by host. host is what the trainer calls it.
func (r *runner) leading(ctx context.Context, run func(leader *trainer.Leader, host string) error) error {
	if !r.spec.Spec.MergeHosts {
		return run(nil, "")
	}
	host := dataplane.HostID()
	if host == "" {
		return fault.E(fault.Unsupported, fault.Got("merge_hosts on a system that does not tell one host from another"), fault.Want("Linux"))
	}
	leader, err := trainer.NewLeader(ctx, r.identity, r.side, id.Rank(r.spec.Index), r.host(), r.deadlines.DataSilence, r.open)
	if err != nil {
		return err
	}
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := leader.Serve(serve); err != nil {
			r.log.Warn("no trainer of this host can connect any more", "error", err)
		}
	}()
	defer func() { stop(); <-served }()
	return run(leader, host)
}

// carriers has the carrier of each transport that uses the data plane.
var carriers = map[job.Transport]dataplane.Carrier{job.Transport_AUTO: dataplane.Auto, job.Transport_TCP: dataplane.TCP, job.Transport_UNIX: dataplane.Unix,
	job.Transport_SHM: dataplane.Shared}

// connect waits until the coordinator is there, and connects to it and the pservers for as long as run lasts, wherever they move. ctx ends the waiting.
// It does not wait for the pservers: those of the placement that this role was started with may have gone. The coordinator, which knows the placement of
// the job, answers when they serve.
func (r *runner) connect(ctx, run context.Context,
	peers *cluster.Peers) (servers []rpc.ParameterServerClient, coordinator rpc.CoordinatorClient, err error) {
	start, cancel := context.WithTimeout(ctx, r.deadlines.Connect)
	defer cancel()
	defer context.AfterFunc(run, cancel)() // it may end while this waits
	wait := r.waits.Begin(waits.Wait{What: "its address", By: []string{"coordinator"}, Limit: r.deadlines.Connect})
	_, err = r.registry.Coordinator(start)
	wait.End()
	if err != nil {
		return nil, nil, err
	}
	if coordinator, err = peers.Coordinator(); err != nil {
		return nil, nil, err
	}
	servers, err = peers.Servers(int(placed(r.spec).Pservers))
	return servers, coordinator, err
}
