package role

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
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
	peers := cluster.NewPeers(context.WithoutCancel(ctx), r.registry, r.side)
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
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	at := &place{role: r, address: l.Addr().String()}
	config := pserver.Config{
		Identity: r.identity, Index: int(r.spec.Index), MaxTrainers: int(max(spec.Trainers, spec.TrainersMax)),
		Start: id.Round(r.spec.Begin.GetSteps()), History: r.spec.History, StartDeadline: r.deadlines.Idle, RoundDeadline: r.deadlines.Round,
		Workers: min(runtime.GOMAXPROCS(0), int(spec.Workers)), Peer: peers.Server, Backup: jobspec.Backups(spec), DayRounds: spec.DayRounds, Standby: spec.Standby > 0, Ledger: ledger, Data: data,
		Times: r.recording.times, Log: r.log,
	}
	if r.spec.Role == job.Role_STANDBY {
		config.Follows = &pserver.Follows{Start: r.spec.Start + 1, Placement: placed(r.spec).Number, TLS: r.side.DataClient(), TakeOver: at.takeOver}
	}
	h := newHost(r, config)
	service := newServer(r)
	rpc.RegisterParameterServerServer(service, h)
	alive, stop := outliving(ctx, func(ctx context.Context) { lastCheckpoint(ctx, r, h.serving(), peers) })
	defer stop()
	work, end := serving(alive, service, l, r.deadlines.ServerGrace)
	if err := at.take(work); err != nil {
		return end(err)
	}
	run, cancel := at.while(work)
	defer cancel()
	h.begin(run, p)
	if err = h.wait(); err == nil && r.spec.Index == 0 && at.membership().Member().Role == job.Role_PSERVER {
		lastReport(work, pserver.Told(h.serving().Server), r.deadlines.Linger)
	}
	h.end()
	err = end(err) // before the address is gone: clients that follow it hang up then, also where an answer is under way
	return errors.Join(err, r.leave(ctx, at.membership()))
}

// A place is where others find a pserver or a standby. A standby that takes over takes the place of its server.
type place struct {
	role    *runner
	address string

	mu     sync.Mutex
	held   cluster.Membership
	lost   func(error)   // ends what runs in the place
	ended  chan struct{} // closed when the role ends
	taking sync.Mutex    // held while the place changes
}

// take takes the first place.
func (p *place) take(ctx context.Context) (err error) {
	index, registry := int(p.role.spec.Index), p.role.registry
	if p.role.spec.Role == job.Role_STANDBY {
		p.held, err = registry.JoinStandby(ctx, index, p.address)
	} else {
		p.held, err = registry.JoinServer(ctx, index, p.address)
	}
	return err
}

// while returns a context that ends when the place is lost, whichever it is then.
func (p *place) while(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost, p.ended = cancel, make(chan struct{})
	p.watch(p.held)
	return ctx, sync.OnceFunc(func() { close(p.ended); cancel(nil) })
}

// watch ends the role when a membership is lost. The lock is held.
func (p *place) watch(m cluster.Membership) {
	lost, ended := p.lost, p.ended
	go func() {
		select {
		case <-m.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.held == m {
				lost(lostLease(m))
			}
		case <-ended:
		}
	}()
}

// takeOver takes the place of the server that this standby follows, which is lost. It waits until the registry knows the loss. The place of the standby stays
// until the listener has the answer: it asks there.
func (p *place) takeOver(ctx context.Context) error {
	p.taking.Lock()
	defer p.taking.Unlock()
	if p.membership().Member().Role == job.Role_PSERVER {
		return nil
	}
	var now cluster.Membership
	err := wire.Retry(ctx, func(id.Retry) (err error) {
		now, err = p.role.registry.JoinServer(ctx, int(p.role.spec.Index), p.address)
		if errors.Is(err, fault.Fenced) {
			err = fault.E(fault.Unavailable, fault.Got(err.Error()), fault.Want("the end of its lease"))
		}
		return err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.held = now
	p.watch(now)
	p.mu.Unlock()
	return nil
}

// membership is the place that the role has now.
func (p *place) membership() cluster.Membership {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// listenForData opens the port of the data plane, unless the job has none. end closes it and every connection; nothing serves them then.
func (r *runner) listenForData(ctx context.Context) (a *dataplane.Acceptor, end func(), err error) {
	if r.spec.Spec.Transport == job.Transport_GRPC {
		return nil, func() {}, nil
	}
	if a, err = dataplane.Listen(ctx, r.host()); err != nil {
		return nil, nil, err
	}
	a.Silence, a.TLS = r.deadlines.DataSilence, r.side.DataServer()
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
