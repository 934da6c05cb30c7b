package coordinator

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// complement adds values that only servers know, such as the learning rate, to the reports of the last round before a generation, if no trainer could
// receive them before it reported. The servers have resumed and do not train before the generation begins, so their values are those of that round. A
// value that no server has is left out.
func (s *steps) complement(ctx context.Context, g generation.Generation) {
	if !s.cfg.Sync || s.cfg.Fed || g.Round == 0 {
		return
	}
	var report *rpc.TrainerStep
	var names []string
	s.locked(func() { report, names = s.collector.lacks(g.Round-1, s.cfg.Fetch) })
	for _, v := range s.fetchFromServers(ctx, g, names) {
		s.locked(func() { report.Fetched = append(report.Fetched, v) })
	}
}

// fetchFromServers asks the servers for variables as they are before the first round of a generation. A value that no server has is left out.
func (s *steps) fetchFromServers(ctx context.Context, g generation.Generation, names []string) (values []*job.Value) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LedgerDeadline)
	defer cancel()
	for _, name := range names {
		value, err := s.fetchFromServer(ctx, g, name)
		if err != nil {
			s.cfg.Log.Warn("a value of a step is not known", "variable", name, "step", g.Round-1, "reason", err.Error())
			continue
		}
		values = append(values, &job.Value{Name: name, Stream: tensor.AppendStream(nil, value)})
	}
	return values
}

// fetchFromServer asks the server that trainers receive a variable from for its value, as the first member of the generation.
func (s *steps) fetchFromServer(ctx context.Context, g generation.Generation, name string) (*tensor.Tensor, error) {
	server, there, err := serverOf(s.cfg.Program, name)
	if err != nil {
		return nil, err
	}
	if _, ok := s.cfg.Program.Global().Find(name); !ok {
		return nil, fault.New(fault.NotFound, "a variable that no server has")
	}
	value, err := s.emptyOf(s.cfg.Program, name)
	if err != nil {
		return nil, err
	}
	err = wire.Retry(ctx, func(retry id.Retry) error { return s.getVariable(ctx, g, g.Round, server, there, value, retry) })
	return value, err
}

// getVariable makes one try to receive a variable from a server, as the first member of a generation. If the server has not applied exactly the rounds
// below round, the error is of kind fault.Unavailable.
func (c *core) getVariable(ctx context.Context, g generation.Generation, round id.Round, server int, there string, into *tensor.Tensor,
	retry id.Retry) error {
	if server >= len(c.cfg.Servers) {
		return fault.New(fault.NotFound, "a variable that no server has")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	who := c.cfg.Identity
	who.Generation, who.Fence = g.Number, c.lead.Fence
	m := &rpc.GetRequest{Id: who.Of(g.Members[0].Rank, round, retry), Name: there, AnyVersion: true}
	stream, err := c.cfg.Servers[server].GetVariable(ctx, m, grpc.WaitForReady(false))
	var header *rpc.VariableChunk
	if err == nil {
		header, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
	}
	if err == nil && header.Version != uint64(round) {
		err = fault.E(fault.Unavailable, fault.Gotf("the value after %d rounds", header.Version), fault.Want(fmt.Sprint(round)))
	}
	return wire.FromStatus(serverName(server), err)
}

// serverOf tells which server a trainer receives a whole variable from, and what it is called there.
func serverOf(p *program.Program, name string) (server int, there string, err error) {
	for _, op := range p.Global().Ops {
		i := slices.Index(op.Outputs["Out"], name)
		servers, _ := op.Strs("epmap")
		if op.Type != "recv" || i < 0 || i >= len(servers) {
			continue
		}
		if names, _ := op.Strs("recv_varnames"); i < len(names) {
			name = names[i]
		}
		server, err = comm.ParseAddress(servers[i])
		return server, name, err
	}
	return 0, "", fault.New(fault.NotFound, "a variable that no server has as a whole")
}
