package role

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/tensor"
)

func (r *runner) coordinate(ctx context.Context) error {
	known := newPlacements(r)
	for {
		err := lead(ctx, r, known)
		if !leadsAgain(err) || ctx.Err() != nil {
			return err
		}
	}
}

// leadsAgain reports whether a coordinator has ended so that the next one of the job is this process again.
func leadsAgain(err error) bool {
	return errors.Is(err, coordinator.ErrWentBack) || errors.Is(err, coordinator.ErrMoved)
}

// lead coordinates from the taking of the lock on.
func lead(ctx context.Context, r *runner, known *placements) error {
	began := time.Now()
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := r.registry.Desired(ctx); err != nil { // an etcd without it has lost its data, and the listener is about to say so
		return err
	}
	member, err := r.registry.LeadCoordinator(ctx, l.Addr().String())
	if err != nil {
		return err
	}
	leased, cancel := whileMember(ctx, member)
	defer cancel()
	peers := cluster.NewPeers(leased, r.registry, r.side)
	defer peers.Close()
	run := peers.Context()
	var server *coordinator.Server
	lock := coordinator.Lead{Fence: member.Fence(), State: r.registry.State(member)}
	back, err := coordinator.LastBack(run, lock.State)
	var placed *state.Placed
	if err == nil {
		placed, err = coordinator.LastPlaced(run, lock.State)
	}
	if err == nil {
		server, err = r.newCoordinator(known, peers, placed, back)
	}
	if err == nil {
		r.log.Info("leads the job", "fence", member.Fence(), "took", time.Since(began))
	}
	if err == nil && r.spec.Spec.TrainersMax > r.spec.Spec.Trainers {
		err = r.wantTrainers(run, server)
	}
	if err == nil {
		err = r.runCoordinator(run, server, l, lock)
	}
	err = reasonOf(run, err)
	return errors.Join(err, r.leave(ctx, member))
}

func (r *runner) newCoordinator(known *placements, peers *cluster.Peers, placed *state.Placed, back *state.Back) (*coordinator.Server, error) {
	spec := r.spec.Spec
	placement, err := known.of(placed)
	if err != nil {
		return nil, err
	}
	p, err := r.program(placement.Program, program.StageTrainer)
	if err != nil {
		return nil, err
	}
	servers, err := peers.Servers(int(placement.Pservers))
	if err != nil {
		return nil, err
	}
	passes, err := passesOf(p, spec)
	if err != nil {
		return nil, err
	}
	loss, err := lossMerge(p)
	if err != nil {
		return nil, err
	}
	same, fetches := received(p), ops.NewFetches(p, loss)
	var save *program.Program
	if (spec.MaxAhead > 0 || spec.Evaluation.GetWaits()) && !spec.Fed {
		if save, err = r.program(placement.SaveProgram, program.StageSave); err != nil {
			return nil, err
		}
	}
	before := &state.Datasets{}
	if err := proto.Unmarshal(r.spec.Datasets, before); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "the files that the job has read", err)
	}
	return coordinator.New(coordinator.Config{
		Datasets: before.Datasets,
		Identity: r.identity, Program: p, Trainers: int(spec.Trainers), TrainersMax: int(spec.TrainersMax), Sync: spec.Mode == job.Mode_SYNC,
		MergeHosts: spec.MergeHosts, Backup: jobspec.Backups(spec), Standby: spec.Standby > 0,
		Fed: spec.Fed, Passes: passes, Begin: r.spec.Begin,
		MaxAhead: int(spec.MaxAhead), Evaluation: spec.Evaluation, Fetch: spec.Fetch, RecordsPerTask: spec.RecordsPerTask,
		MaxFailures: int(spec.MaxTaskFailures), TaskTimeout: [2]time.Duration{r.deadlines.TaskMin, r.deadlines.TaskMax},
		StartDeadline: r.deadlines.Gather, RejoinDeadline: r.deadlines.Rejoin, FollowEvery: r.deadlines.Follow, TellEvery: r.deadlines.Tell,
		LedgerDeadline: r.deadlines.Ledger,
		Servers:        servers, Save: save, Constant: r.start().constant(p), Constants: constantNames(p), Checkpoints: checkpointsOf(r),
		Awaits: r.spec.History, Back: back, Placement: placement, Placed: placed, Offer: known.add, Peer: peers.Server,
		Live: r.registry.Live, Follow: following(spec), Log: r.log, Times: r.recording.times,
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) { return mergeReports(p, fetches, same, reports) },
	}), nil
}

// checkpointsOf says how often the job is saved while it runs.
func checkpointsOf(r *runner) coordinator.Checkpoints {
	c := r.spec.Spec.Checkpoints
	return coordinator.Checkpoints{Store: c.GetStore(), Run: r.spec.CheckpointRun, Rounds: c.GetRounds(), Every: c.GetEvery().AsDuration(),
		Passes: c.GetPasses(), Idle: r.deadlines.Round, Keep: int(c.GetKeep()), FirstPass: r.spec.FirstPass, Origins: r.spec.CheckpointOrigins}
}

// runCoordinator serves until the job has ended.
func (r *runner) runCoordinator(ctx context.Context, server *coordinator.Server, l net.Listener, lead coordinator.Lead) (err error) {
	service := newServer(r)
	rpc.RegisterCoordinatorServer(service, server)
	ctx, end := serving(ctx, service, l, r.deadlines.ServerGrace)
	defer func() { err = end(err) }()

	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	watching, err := r.watchMembers(watch, server)
	if err != nil {
		return err
	}
	defer watching.Wait()
	defer cancel()
	if err = server.Run(ctx, lead); !leadsAgain(err) {
		r.linger(ctx, server.Heard())
		lastReport(ctx, server.Told(), r.deadlines.Linger)
	}
	return err
}

// linger returns when a watcher has received all events, or after Deadlines.Linger. A job may be over before its listener has found the coordinator.
// If the listener may be away, it has as long to come back as a role to start.
func (r *runner) linger(ctx context.Context, heard <-chan struct{}) {
	limit := r.deadlines.Linger
	if r.spec.GetLingers() {
		limit = r.deadlines.Start
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-heard:
	case <-ctx.Done():
	case <-timer.C:
		r.log.Warn("the job has ended, and no watcher has received all events", "waited", limit)
	}
}

// lastReport returns when the listener has been told the last queues, or the last ledger, or after limit.
func lastReport(ctx context.Context, told <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-told:
	case <-ctx.Done():
	case <-timer.C:
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

// passesOf is how often the data is read: as the job says, else as the program says.
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

// wantTrainers tells the coordinator of an elastic job how many trainers it is to begin with.
func (r *runner) wantTrainers(ctx context.Context, server *coordinator.Server) error {
	ctx, cancel := context.WithTimeout(ctx, r.deadlines.Start)
	defer cancel()
	n, err := r.registry.Trainers(ctx)
	if err == nil {
		server.Want(n)
	}
	return err
}

// watchMembers reports lost leases, and how many trainers are wanted, to the coordinator until ctx ends. The group ends after that.
func (r *runner) watchMembers(ctx context.Context, server *coordinator.Server) (*sync.WaitGroup, error) {
	lost, err := r.registry.WatchLost(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := r.registry.WatchTrainers(ctx)
	if err != nil {
		return nil, err
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for m := range lost {
			if err := server.Lost(ctx, m); err != nil && ctx.Err() == nil {
				server.Fail(err)
			}
		}
		failUnlessDone(ctx, server, "members that are lost")
	})
	watching.Go(func() {
		for n := range wanted {
			server.Want(n)
		}
		failUnlessDone(ctx, server, "how many trainers are wanted")
	})
	return &watching, nil
}

// failUnlessDone ends a coordinator whose registry has stopped reporting what: else the job would hang without a reason when a member is lost, and
// would not change its size.
func failUnlessDone(ctx context.Context, server *coordinator.Server, what string) {
	if ctx.Err() == nil {
		server.Fail(fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("no more reports of "+what),
			fault.Hint("look at the rights of the user in etcd")))
	}
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

// received lists what a trainer program receives from servers, and what it computes from that alone once a round is over: all trainers have the same values.
func received(p *program.Program) map[string]bool {
	names, over := map[string]bool{}, false
	for _, op := range p.Global().Ops {
		over = over || op.Type == "recv"
		alike := op.Type == "recv" || over && !slices.ContainsFunc(op.InputNames(), func(name string) bool { return !names[name] })
		for _, name := range op.OutputNames() {
			names[name] = alike || names[name] && !over
		}
	}
	return names
}

// mergeReports makes one list of values of what the trainers fetched in one step. same are the variables that have one value for all. A pending report
// may lack values that servers hold; then another report has them, or none.
func mergeReports(p *program.Program, fetches *ops.Fetches, same map[string]bool, reports []*rpc.TrainerStep) ([]*job.Value, error) {
	rows := reports[0].GlobalRows
	if one := reports[0]; len(reports) == 1 && (one.Rows == rows || one.Rows == 0) {
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
			parts = append(parts, executor.Part{Value: t, Rows: report.Rows, Weight: report.Weight})
		}
		merged, err := executor.MergeFetch(declared, fetches.Of(value.Name), fetches.Along(value.Name), rows, parts)
		if err != nil {
			return nil, err
		}
		out[i] = &job.Value{Name: value.Name, Stream: tensor.AppendStream(nil, merged)}
	}
	return out, nil
}
