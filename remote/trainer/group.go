package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/tensor"
)

// A group is the trainers of one host in one generation, at their leader. The leader adds its own contribution, waits for those of its led trainers,
// and sends the merge to all servers. Its lock is that of the Monitor; what says so belongs to the leader's step.
type group struct {
	waits.Monitor
	comm       *Comm
	leader     *Leader
	generation id.Generation

	rounds  *groupRounds
	arrived map[id.Rank][]*tensor.Tensor // whole contributions, by slice
	lines   map[id.Rank]*groupLine

	traffic comm.Traffic // of all servers together
	send    dataplane.Table
	receive dataplane.Table
	all     []int // slices of receive
	servers []int // by slice of send
	merges  []ops.Merge
	places  map[string]int // in send, by name
	targets map[string]int // in receive, by name

	completed bool // the leader has told the servers that it contributes no more

	params  []*tensor.Tensor // what led trainers are sent: written by the leader while all of them wait
	reading sync.RWMutex     // of params: a connection that another has followed may still send them
	own     []*tensor.Tensor // of the leader's step
	values  []*tensor.Tensor // likewise: where parameters are received
	merged  []*tensor.Tensor // likewise
	rows    int64            // likewise: of the group
	weight  int64            // likewise
	void    bool             // of some of its members: see rpc.Declared
	parts   []*rpc.Declared  // likewise: the declarations of the group
}

// joined is the traffic of all servers in one list. Names must differ, so that a led trainer knows slices by their names.
func joined(all []comm.Traffic) (t comm.Traffic, err error) {
	for _, one := range all {
		t.Send, t.Receive = append(t.Send, one.Send...), append(t.Receive, one.Receive...)
	}
	for _, names := range [][]string{t.Send, t.Receive} {
		if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
			return t, fault.E(fault.Unsupported, fault.Got("a slice that two servers have"),
				fault.Want("each slice on one server, where trainers merge by host"),
				fault.Hint("run without merge_hosts"))
		}
	}
	return t, nil
}

// lead makes the trainer of c lead a group. The links to all servers are open.
func lead(c *Comm, p *program.Program, ranks []id.Rank) error {
	traffic, err := comm.TrafficOf(p, len(c.Servers))
	if err != nil {
		return err
	}
	g := &group{Monitor: waits.Monitor{Where: trainerName(c.Rank)}, comm: c, leader: c.Leader, generation: c.identity.Generation,
		rounds: newGroupRounds(ranks, c.first), arrived: map[id.Rank][]*tensor.Tensor{}, lines: map[id.Rank]*groupLine{}, places: map[string]int{},
		targets: map[string]int{}}
	if g.traffic, err = joined(traffic); err != nil {
		return err
	}
	for server := range c.Servers {
		l := c.links.to(server)
		if l == nil {
			return fault.E(fault.Unsupported, fault.At(serverName(server)), fault.Got("no data connection"),
				fault.Want("one to each server, where trainers merge by host"),
				fault.Hint("run without merge_hosts"))
		}
		for i, s := range l.send {
			if l.merges[i] == ops.MergeNone {
				return fault.E(fault.Unsupported, fault.At(serverName(server)), fault.Var(s.Name), fault.Got("a contribution that groups cannot merge"),
					fault.Hint("run without merge_hosts"))
			}
			g.places[s.Name] = len(g.send)
			g.send, g.servers, g.merges = append(g.send, s), append(g.servers, server), append(g.merges, l.merges[i])
		}
		for _, s := range l.receive {
			g.targets[s.Name] = len(g.receive)
			g.all = append(g.all, len(g.receive))
			g.receive = append(g.receive, s)
		}
	}
	g.own, g.values = make([]*tensor.Tensor, len(g.send)), make([]*tensor.Tensor, len(g.receive))
	if g.merged, err = tensorsOf(g.send); err == nil {
		g.params, err = tensorsOf(g.receive)
	}
	if err != nil {
		return err
	}
	c.group = g
	c.Leader.begin(g.generation, g)
	return nil
}

// open admits the connection of a led trainer. An earlier one ends.
func (g *group) open(rank id.Rank, m *rpc.OpenDataRequest) (*rpc.OpenDataResponse, error) {
	if !slices.Equal(m.Send, g.traffic.Send) || !slices.Equal(m.Receive, g.traffic.Receive) {
		return nil, fault.E(fault.Foreign, fault.Gotf("a connection for %d and %d slices", len(m.Send), len(m.Receive)),
			fault.Wantf("the %d and %d of all servers, in their order", len(g.send), len(g.receive)))
	}
	l := &groupLine{group: g, rank: rank, arrived: dataplane.NewProgress(g.send)}
	var err error
	if l.offer, err = g.leader.data.Offer(dataplane.Layout{Send: g.send, Receive: g.receive}, l.serve); err != nil {
		return nil, err
	}
	g.Lock()
	defer g.Unlock()
	if _, err = g.rounds.member(rank); err == nil && rank == g.comm.Rank {
		err = fault.E(fault.Foreign, fault.Gotf("a connection of trainer %d to itself", rank))
	}
	if err = errors.Join(err, g.Err()); err != nil {
		l.offer.Close()
		return nil, err
	}
	if old := g.lines[rank]; old != nil {
		old.offer.Close()
	}
	g.lines[rank] = l
	at := g.leader.data.Place(l.offer.Token)
	return &rpc.OpenDataResponse{Token: at.Token, Address: at.Address, Host: at.Host, Local: at.Local,
		Send: infosOf(g.send), Receive: infosOf(g.receive)}, nil
}

func infosOf(t dataplane.Table) []*rpc.SliceInfo {
	out := make([]*rpc.SliceInfo, len(t))
	for i, s := range t {
		out[i] = &rpc.SliceInfo{Dtype: int32(s.DType), Dims: s.Dims, Bytes: int64(s.Bytes), Rows: s.Rows}
	}
	return out
}

// forget ends what a line has here.
func (g *group) forget(l *groupLine) {
	g.Lock()
	defer g.Unlock()
	if g.lines[l.rank] == l {
		delete(g.lines, l.rank)
	}
}

// tell tells the machine an event, and wakes who waits. known reports that it was told before.
func (g *group) tell(e groupEvent) (known bool, err error) {
	g.Lock()
	defer g.Unlock()
	f, err := g.rounds.Step(0, e)
	if _, more := e.(contributing); err == nil && !f.ignore && !more {
		g.Broadcast()
	}
	return f.ignore, err
}

// take enters a contribution that is whole.
func (g *group) take(rank id.Rank, round id.Round, values []*tensor.Tensor) error {
	g.Lock()
	defer g.Unlock()
	f, err := g.rounds.Step(0, contributed{rank, round})
	if err == nil && !f.ignore {
		g.arrived[rank] = values
	}
	return err
}

// add enters a slice of the leader's own contribution.
func (g *group) add(name string, t *tensor.Tensor) error {
	i, _, err := find(name, t, g.places, g.send, true)
	if err != nil {
		return err
	}
	g.Lock()
	defer g.Unlock()
	if g.own[i] != nil {
		return fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("a variable that is sent twice in a step"), fault.Want("once"))
	}
	g.own[i] = t
	return nil
}

// expect says where a slice of the parameters is received.
func (g *group) expect(name string, t *tensor.Tensor) error {
	i, _, err := find(name, t, g.targets, g.receive, false)
	if err == nil {
		g.Lock()
		defer g.Unlock()
		g.values[i] = t
	}
	return err
}

// begin begins a step of the leader.
func (g *group) begin() {
	g.Lock()
	defer g.Unlock()
	clear(g.own)
	clear(g.values)
}

// gather declares the leader's own contribution, waits for the others of the group, and begins to send the merge to all servers.
func (g *group) gather(ctx context.Context) error {
	c := g.comm
	if rank, round := c.Rank, c.round(); c.step.Rows > 0 {
		if i := slices.Index(g.own, nil); i >= 0 {
			return fault.E(fault.InvalidProgram, fault.Var(g.send[i].Name), fault.Got("a step that does not send it"), fault.Want("all slices"))
		}
		if err := g.take(rank, round, g.own); err != nil {
			return err
		}
	}
	own := &rpc.Declared{Rank: uint32(c.Rank), Rows: c.step.Rows, Weight: c.step.Weight, Void: c.step.Void && c.CheckFinite, Pass: c.pass, Records: c.records, Hour: c.step.Hour}
	if _, err := g.tell(declaring{c.round(), own}); err != nil {
		return err
	}
	if err := c.probe.whileGenerationLasts(ctx, c, g.await); err != nil {
		return err
	}
	c.Times.Enter(timing.Send)
	g.Lock()
	g.parts, g.rows, g.weight, g.void = g.rounds.declarations(), 0, 0, false
	for _, d := range g.parts {
		g.rows, g.weight, g.void = g.rows+d.Rows, g.weight+d.Weight, g.void || d.Void
	}
	g.Unlock()
	if g.rows == 0 {
		return nil
	}
	for i, s := range g.send {
		value, err := g.merge(i)
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(s.Name), fault.Cause(err))
		}
		if err := c.write(ctx, c.links[g.servers[i]], s.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// await waits until all members of the group have declared the round.
func (g *group) await(ctx context.Context) error {
	c := g.comm
	began := time.Now()
	reason := func() waits.Wait {
		w := waits.Wait{Who: trainerName(c.Rank), What: "contributions of its host to round " + c.round().String(), Since: began, Limit: c.Deadline}
		for _, rank := range g.rounds.missing() {
			w.By = append(w.By, trainerName(rank))
		}
		return w
	}
	var entry *waits.Entry // of the list of waits
	var named []string
	err := g.Await(ctx, reason, func() (bool, error) {
		if g.rounds.merging {
			return true, nil
		}
		switch now := reason(); {
		case entry == nil:
			c.Times.Enter(timing.Await)
			entry, named = c.caller.waits.Begin(now), now.By
		case !slices.Equal(now.By, named):
			named = now.By
			entry.Update(func(w *waits.Wait) { w.By = named })
		}
		return false, nil
	})
	if entry != nil {
		entry.End()
	}
	return err
}

// merge merges slice i of the contributions that have rows, in rank order. One alone is taken as it is. The result stays as it is until the next
// round.
func (g *group) merge(i int) (*tensor.Tensor, error) {
	var shares []merge.Share
	for _, d := range g.parts {
		if d.Rows > 0 {
			shares = append(shares, merge.Share{Value: g.arrived[id.Rank(d.Rank)][i], Rows: d.Rows, Weight: d.Weight})
		}
	}
	if len(shares) == 1 {
		return shares[0].Value, nil
	}
	return g.merged[i], merge.Gradients(g.merged[i], shares, g.merges[i])
}

// declaration is the barrier of the group for one server, but for its identity. Its records are in its parts.
func (g *group) declaration(server int) *rpc.BarrierRequest {
	m := &rpc.BarrierRequest{Rows: g.rows, Weight: g.weight, Void: g.void && g.weight == 0, Pass: g.comm.pass, Group: g.parts}
	if server == 0 {
		m.Totals = g.comm.known
	}
	if g.rows > 0 {
		m.Variables = int32(len(g.comm.links[server].send))
	}
	return m
}

// publish gives the led trainers the parameters that the leader has received.
func (g *group) publish() error {
	g.reading.Lock()
	err := g.copyParams()
	g.reading.Unlock()
	if err == nil {
		_, err = g.tell(fetched{})
	}
	return err
}

// copyParams copies what the leader has received. g.reading is locked: nobody sends the parameters of the round before any more.
func (g *group) copyParams() error {
	for i, t := range g.values {
		if t == nil {
			return fault.E(fault.InvalidProgram, fault.Var(g.receive[i].Name), fault.Got("a step that does not receive it"), fault.Want("all slices"))
		}
		if err := g.params[i].CopyFrom(t); err != nil {
			return err
		}
	}
	return nil
}

// end ends the group: led trainers are told that the generation has ended, or that the leader has completed.
func (g *group) end() {
	g.Lock()
	defer g.Unlock()
	why := groupEnded(g.comm.Rank, g.generation)
	if g.completed {
		why = groupLeft(g.comm.Rank)
	}
	g.leader.end(g.generation, why)
	g.End(why)
	for _, l := range g.lines {
		if !l.answering {
			l.offer.Close()
		}
	}
}

func trainerName(rank id.Rank) string { return fmt.Sprintf("trainer %d", rank) }
