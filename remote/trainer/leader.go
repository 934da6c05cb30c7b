package trainer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// A Leader is where a trainer answers the led trainers of its group: OpenData, and no other call. The trainer may lead a group in one generation and
// be led in the next. It is safe for concurrent use.
type Leader struct {
	rpc.UnimplementedParameterServerServer

	identity wire.Identity
	side     *wire.Side
	rank     id.Rank
	data     *dataplane.Acceptor
	calls    net.Listener

	changes waits.Monitor // of what follows
	last    id.Generation // that has begun here
	group   *group        // of that generation; nil: it has ended
	why     error         // it has ended
}

// NewLeader opens the ports of a Leader on a host: open opens one for calls. A data connection that is silent for longer than silence has ended; 0: the
// system decides. Serve must follow.
func NewLeader(ctx context.Context, identity wire.Identity, side *wire.Side, rank id.Rank, host string, silence time.Duration,
	open func(ctx context.Context, address string) (net.Listener, error)) (*Leader, error) {
	data, err := dataplane.Listen(ctx, host)
	if err != nil {
		return nil, err
	}
	data.Silence, data.TLS = silence, side.DataServer()
	calls, err := open(ctx, net.JoinHostPort(host, "0"))
	if err != nil {
		data.Close()
		return nil, err
	}
	return &Leader{changes: waits.Monitor{Where: trainerName(rank)}, identity: identity, side: side, rank: rank, data: data, calls: calls}, nil
}

// Serve answers led trainers until ctx ends. Then it ends every connection.
func (l *Leader) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		defer cancel()
		failed = l.data.Serve(ctx)
	})
	service := wire.NewServer(l.side)
	rpc.RegisterParameterServerServer(service, l)
	err := wire.Serve(ctx, service, l.calls, 0)
	cancel()
	group.Wait()
	return errors.Join(err, failed)
}

// OpenData implements the rpc. It waits until the generation of the caller has begun here.
func (l *Leader) OpenData(ctx context.Context, m *rpc.OpenDataRequest) (*rpc.OpenDataResponse, error) {
	if err := l.identity.Check(m.Id); err != nil {
		return nil, err
	}
	from := wire.SenderOf(m.Id)
	var g *group
	reason := func() waits.Wait {
		return waits.Wait{Who: trainerName(from.Rank), What: fmt.Sprintf("generation %d", from.Generation), By: []string{trainerName(l.rank)}}
	}
	if err := l.changes.Await(ctx, reason, func() (bool, error) {
		switch {
		case from.Generation < l.last:
			return false, groupEnded(l.rank, from.Generation)
		case from.Generation == l.last && l.group == nil:
			return false, l.why
		}
		g = l.group
		return from.Generation == l.last, nil
	}); err != nil {
		return nil, err
	}
	return g.open(from.Rank, m)
}

// groupEnded is the error of a led trainer whose leader has ended the generation.
func groupEnded(leader id.Rank, generation id.Generation) error {
	return fault.E(fault.Superseded, fault.Gotf("the end of generation %d at trainer %d, which merges for its host", generation, leader),
		fault.Want("a member of the next generation"))
}

// groupLeft is the error of a led trainer whose leader has completed: the servers have what the leader had.
func groupLeft(leader id.Rank) error {
	return fault.E(fault.Unavailable, fault.Gotf("the end of the data at trainer %d, which has merged for its host", leader))
}

// begin begins a generation that the trainer leads.
func (l *Leader) begin(generation id.Generation, g *group) { l.set(generation, g, nil) }

// end ends a generation, or notes one that the trainer does not lead. why is what led trainers are told.
func (l *Leader) end(generation id.Generation, why error) { l.set(generation, nil, why) }

func (l *Leader) set(generation id.Generation, g *group, why error) {
	l.changes.Lock()
	defer l.changes.Unlock()
	l.last, l.group, l.why = generation, g, why
	l.changes.Broadcast()
}
