package role

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

func (r *runner) serve(ctx context.Context) error {
	spec := r.spec.Spec
	p, err := r.program(r.spec.Program, program.StagePServer)
	if err != nil {
		return err
	}
	peers := cluster.NewPeers(context.WithoutCancel(ctx), r.registry)
	defer peers.Close()
	data, endData, err := r.listenForData(ctx)
	if err != nil {
		return err
	}
	defer endData()
	var ledger *pserver.Ledger
	if len(r.spec.Ledger) > 0 {
		if ledger, err = pserver.DecodeLedger(r.spec.Ledger); err != nil {
			return err
		}
	}
	server := pserver.New(pserver.Config{
		Identity: r.identity, Index: int(r.spec.Index), Servers: int(spec.Pservers), MaxTrainers: int(max(spec.Trainers, spec.TrainersMax)),
		Start: id.Round(r.spec.Begin.GetSteps()), History: r.spec.History, StartDeadline: r.deadlines.Idle, RoundDeadline: r.deadlines.Round,
		Workers: min(runtime.GOMAXPROCS(0), int(spec.Workers)), Peer: peers.Server, Ledger: ledger, Data: data, Times: r.recording.times, Log: r.log,
	})
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	service := wire.NewServer()
	rpc.RegisterParameterServerServer(service, server)
	work, end := serving(ctx, service, l, r.deadlines.ServerGrace)
	member, err := r.registry.JoinServer(work, int(r.spec.Index), l.Addr().String())
	if err != nil {
		return end(err)
	}
	run, cancel := whileMember(work, member)
	defer cancel()
	local := executor.New(r.recording.options(executor.WithServer(server), executor.WithStage(program.StagePServer), executor.WithLogger(r.log))...)
	if err = r.start().loadPieces(local.Scope(), p); err == nil {
		_, err = local.Run(run, p, nil)
	}
	if err != nil {
		server.Fail(err) // calls that wait for the program fail with this error
		err = fenced(run, err)
	} else {
		select {
		case <-server.Released():
		case <-run.Done(): // it has done all that it had to do
		}
	}
	err = errors.Join(err, local.Close())
	err = end(err) // before the address is gone: clients that follow it hang up then, also where an answer is under way
	return errors.Join(err, r.leave(ctx, member))
}

// listenForData opens the port of the data plane, unless the job has none. end closes it and every connection; nothing serves them then.
func (r *runner) listenForData(ctx context.Context) (a *dataplane.Acceptor, end func(), err error) {
	if r.spec.Spec.Transport == job.Transport_GRPC {
		return nil, func() {}, nil
	}
	if a, err = dataplane.Listen(ctx, r.host()); err != nil {
		return nil, nil, err
	}
	a.Silence = r.deadlines.DataSilence
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Serve(ctx); err != nil {
			r.log.Warn("no more data connections", "error", err)
		}
	}()
	return a, func() { cancel(); <-ended }, nil
}

// serving runs a server until end is called. The context that it returns ends with ctx, and also when the server has stopped before: a role that
// nobody can reach must not go on. end waits until no handler runs, and returns how the role has ended, given how its work has: for want of its
// server, where that is why. It may be called again.
func serving(ctx context.Context, service *grpc.Server, l net.Listener, grace time.Duration) (work context.Context, end func(error) error) {
	work, cancel := context.WithCancelCause(ctx)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		err := wire.Serve(serve, service, l, grace)
		cancel(err)
		served <- err
	}()
	stopped := sync.OnceValue(func() error { stop(); return <-served })
	return work, func(err error) error {
		if cause := stopped(); cause != nil && (err == nil || errors.Is(err, fault.Canceled) || errors.Is(err, cause)) {
			return cause
		}
		return err
	}
}
