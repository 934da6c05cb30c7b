package role

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

func (r *runner) serve(ctx context.Context) error {
	spec := r.spec.Spec
	p, err := r.program(r.spec.Program, program.StagePServer)
	if err != nil {
		return err
	}
	peers := &peers{registry: r.registry}
	defer peers.close()
	server := pserver.New(pserver.Config{
		Identity: r.identity, Index: int(r.spec.Index), Servers: int(spec.Pservers), MaxTrainers: int(max(spec.Trainers, spec.TrainersMax)),
		StartDeadline: spec.StartDeadline.AsDuration() + 2*patience, RoundDeadline: spec.RoundDeadline.AsDuration(),
		Workers: min(runtime.GOMAXPROCS(0), max(1, int(spec.Workers))), Peer: peers.client, Log: r.log,
	})
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	service := wire.NewServer()
	rpc.RegisterParameterServerServer(service, server)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- wire.Serve(serving, service, l, grace) }()
	end := sync.OnceFunc(func() { stop(); <-served })
	defer end()

	member, err := r.registry.ClaimServer(ctx, int(r.spec.Index), l.Addr().String())
	if err != nil {
		return err
	}
	run, cancel := whileMember(ctx, member)
	defer cancel()
	local := executor.New(executor.WithServer(server), executor.WithStage(program.StagePServer), executor.WithLogger(r.log))
	if spec.Params != "" {
		err = loadPieces(local.Scope(), spec.Params, p)
	}
	if err == nil {
		_, err = local.Run(run, p, nil)
	}
	if err != nil {
		server.Fail(err) // a call that still waits for the program learns why there is none
		err = fenced(run, err)
	} else {
		select {
		case <-server.Released():
		case <-run.Done(): // it has done all that it had to do
		}
	}
	err = errors.Join(err, local.Close())
	end() // first, because whoever follows the address hangs up when it is gone, also where an answer is under way
	return errors.Join(err, r.leave(ctx, member))
}

// leave gives a membership up in order when the role has ended well or was told to end; a lost one is beyond that.
func (r *runner) leave(ctx context.Context, m cluster.Membership) error {
	select {
	case <-m.Done():
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return m.Leave(ctx)
}

// peers keeps a connection to every pserver that was asked for, wherever it moves.
type peers struct {
	registry cluster.Registry
	mu       sync.Mutex
	conns    map[int]*grpc.ClientConn
	unfollow []context.CancelFunc
}

// client does not wait: a call to a server that is not there does.
func (p *peers) client(_ context.Context, index int) (rpc.ParameterServerClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn := p.conns[index]; conn != nil {
		return rpc.NewParameterServerClient(conn), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.unfollow = append(p.unfollow, cancel)
	addresses, err := p.registry.Follow(ctx, cluster.Member{Role: job.Role_PSERVER, Index: index})
	if err != nil {
		return nil, err
	}
	conn, err := wire.DialFollow(ctx, addresses)
	if err != nil {
		return nil, err
	}
	if p.conns == nil {
		p.conns = map[int]*grpc.ClientConn{}
	}
	p.conns[index] = conn
	return rpc.NewParameterServerClient(conn), nil
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	for _, cancel := range p.unfollow {
		cancel()
	}
}
