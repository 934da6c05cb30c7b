package role

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/wire"
)

// patience is how much longer than a deadline a role waits whose error would tell less than that of another, which knows who is missing.
const patience = 2 * time.Second

func (r *runner) coordinate(ctx context.Context) error {
	p, err := r.program(r.spec.Program, program.StageTrainer)
	if err != nil {
		return err
	}
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	member, err := r.registry.LeadCoordinator(ctx, l.Addr().String())
	if err != nil {
		return err
	}
	leased, cancel := whileMember(ctx, member)
	defer cancel()
	peers := cluster.NewPeers(leased, r.registry)
	defer peers.Close()
	run := peers.Context()
	servers, err := peers.Servers(int(r.spec.Spec.Pservers))
	var server *coordinator.Server
	if err == nil {
		server, err = r.newCoordinator(p, servers)
	}
	if err == nil && r.spec.Spec.TrainersMax > r.spec.Spec.Trainers {
		err = r.wantTrainers(run, server)
	}
	if err == nil {
		err = r.runCoordinator(run, server, l, coordinator.Lead{Fence: member.Fence(), State: r.registry.State(member)})
	}
	err = whyEnded(run, err)
	return errors.Join(err, r.leave(ctx, member))
}

func (r *runner) newCoordinator(p *program.Program, servers []rpc.ParameterServerClient) (*coordinator.Server, error) {
	spec := r.spec.Spec
	passes, err := passesOf(p, spec)
	if err != nil {
		return nil, err
	}
	loss, err := lossMerge(p)
	if err != nil {
		return nil, err
	}
	same := received(p)
	return coordinator.New(coordinator.Config{
		Identity: r.identity, Program: p, Trainers: int(spec.Trainers), TrainersMax: int(spec.TrainersMax), Sync: spec.Mode == job.Mode_SYNC,
		Fed: spec.Fed, Passes: passes, Fetch: spec.Fetch, RecordsPerTask: spec.RecordsPerTask,
		MaxFailures: int(spec.MaxTaskFailures), TaskTimeout: [2]time.Duration{spec.MinTaskTimeout.AsDuration(), spec.MaxTaskTimeout.AsDuration()},
		StartDeadline: spec.StartDeadline.AsDuration() + patience, RejoinDeadline: spec.RoundDeadline.AsDuration(),
		Servers: servers, Live: r.registry.Live, Follow: following(spec), Log: r.log,
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) { return mergeReports(p, loss, same, reports) },
	}), nil
}

// runCoordinator serves until the job has ended.
func (r *runner) runCoordinator(ctx context.Context, server *coordinator.Server, l net.Listener, lead coordinator.Lead) (err error) {
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, server)
	ctx, end := serving(ctx, service, l)
	defer func() { err = end(err) }()

	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := r.watchMembers(watch, server)
	if err != nil {
		return err
	}
	defer watching.Wait()
	defer cancel()
	err = server.Run(ctx, lead)
	r.linger(ctx, server.Heard())
	return err
}

// lingerTime is how long a coordinator whose job has ended waits for somebody to hear of it.
const lingerTime = time.Second

// linger returns when somebody has heard everything that a coordinator told. A job may be over before its listener has found the coordinator.
func (r *runner) linger(ctx context.Context, heard <-chan struct{}) {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-heard:
	case <-ctx.Done():
	case <-timer.C:
		r.log.Warn("the job has ended and nobody has heard all that the coordinator had to tell", "waited", lingerTime)
	}
}

// following lists the datasets that grow while the job runs.
func following(spec *job.JobSpec) map[string][]string {
	globs := map[string][]string{}
	for _, d := range spec.Data {
		if d.Follow {
			globs[d.Dataset] = d.Globs
		}
	}
	return globs
}

// passesOf is how often the data is read: the job's word, else the program's.
func passesOf(p *program.Program, spec *job.JobSpec) (int, error) {
	if spec.Passes > 0 || spec.Fed {
		return int(spec.Passes), nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return 0, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	return pipeline.Passes, err
}
