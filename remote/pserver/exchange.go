package pserver

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// partialSums are what the servers of a job exchange in the middle of a round, such as the sums of squares that a global norm is made of. The lock of
// core guards them.
type partialSums struct {
	published map[string]publication
	awaited   map[int]int // exchanges under way, by the server whose sums are awaited
}

// A publication is what this server has published under a name: the values of the last two rounds, by round modulo 2. Two are enough: a server
// publishes for round r+2 only after every server has finished round r.
type publication [2]struct {
	round id.Round
	value *tensor.Tensor // nil: none yet
}

func newPartialSums() partialSums {
	return partialSums{published: map[string]publication{}, awaited: map[int]int{}}
}

func (p *partialSums) publish(name string, round id.Round, value *tensor.Tensor) {
	last := p.published[name]
	last[round%2].round, last[round%2].value = round, value
	p.published[name] = last
}

// find returns what was published for a round, nil when nothing was yet, or an error when the round is long past.
func (p *partialSums) find(name string, round id.Round) (*tensor.Tensor, error) {
	switch have := p.published[name][round%2]; {
	case have.value == nil || have.round < round:
		return nil, nil
	case have.round > round:
		return nil, fault.E(fault.Stale, fault.Var(name), fault.Gotf("a request for partial sums of round %d", round), fault.Wantf("round %d", have.round))
	default:
		return have.value, nil
	}
}

// servers names those whose sums are awaited.
func (p *partialSums) servers() []string {
	var list []string
	for _, server := range slices.Sorted(maps.Keys(p.awaited)) {
		list = append(list, serverName(server))
	}
	return list
}

// An exchange gives every server of a job the partial sums of all.
type exchange struct {
	core   *core
	values *values
}

// run publishes own for the round that is being applied, and collects what every server publishes under the same name, in the order of servers.
func (x *exchange) run(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	if len(all) != x.core.cfg.Servers {
		return fault.E(fault.InvalidProgram, fault.Op("exchange_partials"), fault.Var(name), fault.Gotf("%d outputs", len(all)),
			fault.Wantf("one for each of %d servers", x.core.cfg.Servers))
	}
	if x.core.rounds == nil {
		return fault.E(fault.InvalidProgram, fault.Op("exchange_partials"), fault.Var(name), fault.Got("an exchange in async mode"))
	}
	x.core.Lock()
	round := x.core.rounds.Round()
	x.core.sums.publish(name, round, own.Clone())
	x.core.changed()
	x.core.Unlock()
	// The round holds the lock of values shared. It changes nothing while it waits, so others may copy values meanwhile: the wait may be long.
	x.values.RUnlock()
	defer x.values.RLock()
	tasks := make([]func() error, len(all))
	for i := range all {
		tasks[i] = func() error {
			if i == x.core.cfg.Index {
				return all[i].CopyFrom(own)
			}
			x.awaits(i, 1)
			defer x.awaits(i, -1)
			return x.fetch(ctx, i, name, round, all[i])
		}
	}
	return inParallel(ctx, len(tasks), tasks)
}

// awaits counts the exchanges that wait for a server. While a generation is under way, the wait has a deadline.
func (x *exchange) awaits(server, more int) {
	x.core.Lock()
	defer x.core.Unlock()
	if x.core.sums.awaited[server] += more; x.core.sums.awaited[server] == 0 {
		delete(x.core.sums.awaited, server)
	}
	x.core.changed()
}

// fetch asks another server for its sums until it answers.
func (x *exchange) fetch(ctx context.Context, server int, name string, round id.Round, into *tensor.Tensor) error {
	client, err := x.core.cfg.Peer(server)
	if err != nil {
		return err
	}
	return wire.Retry(ctx, func(retry id.Retry) error {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := client.GetVariable(call, &rpc.GetRequest{Id: x.identity(round, retry), Name: name, Exchange: true})
		if err != nil {
			return wire.FromStatus(serverName(server), err)
		}
		_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
		return wire.FromStatus(serverName(server), err)
	})
}

// identity is that of a message of this server.
func (x *exchange) identity(round id.Round, retry id.Retry) *rpc.Identity {
	x.core.Lock()
	defer x.core.Unlock()
	i := x.core.cfg.Identity
	i.Generation, i.Fence = x.core.machine.Generation(), x.core.machine.Fence()
	return i.Of(id.Rank(x.core.cfg.Index), round, retry)
}

// answer sends another server the sums of a round, when they are there.
func (x *exchange) answer(ctx context.Context, m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	c, from := x.core, wire.SenderOf(m.Id)
	round := from.Round
	if c.rounds == nil {
		return c.refuse(fault.E(fault.InvalidArgument, fault.At(c.Where), fault.Got("a request for partial sums in async mode")))
	}
	var value *tensor.Tensor
	var refused error
	err := c.Await(ctx, func() waits.Wait { return x.unpublished(round) }, func() (bool, error) {
		value, refused = c.sums.find(m.Name, round)
		return value != nil || refused != nil, nil
	})
	if err != nil {
		return err
	}
	if refused != nil {
		return c.refuse(refused)
	}
	return wire.SendVariable(stream, &rpc.VariableChunk{Name: m.Name}, value, wire.Keep)
}

// unpublished says what the partial sums wait for that another server asks for. That server is applying the round, so all contributions are here.
// What this server lacks is barriers: of trainers that are about to send them, or, when those are lost, from the coordinator, as a round to commit.
// So the other server goes on waiting while this one is frozen. The lock is held.
func (x *exchange) unpublished(round id.Round) waits.Wait {
	if c := x.core; !c.rounds.idle() {
		return c.forRound(round)
	}
	own := x.core.own()
	return waits.Wait{Who: own.Who, What: own.What, By: own.By}
}
