package pserver

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// lines are the connections of the data plane: at most one for each rank. The lock of core guards them.
type lines map[id.Rank]*line

// A line is the connection of one trainer in one generation. What arrives on it means the same as the calls SendVariable, SendBarrier and GetVariable:
// the machine is told the same events. One goroutine serves it, and reads nothing while it waits for a round, or for room in a queue.
type line struct {
	server  *Server
	sender  Sender // its Round is that of the last frame
	offer   *dataplane.Offer
	send    dataplane.Table // what the trainer sends
	receive dataplane.Table
	all     []int // slices of receive

	arrived  *dataplane.Progress // of round sender.Round
	buffers  []*tensor.Tensor    // of slices that are arriving; nil: the bytes are thrown away, or are not expected
	lent     []*tensor.Tensor    // over shared memory, by slice of send; nil: slices arrive in buffers of the inbox
	finished []int               // slices that the frame has completed
	copies   [][]byte            // of the parameters, by slice; nil before the first that is needed
}

// OpenData implements the rpc. The trainer's earlier connection ends.
func (s *Server) OpenData(ctx context.Context, m *rpc.OpenDataRequest) (*rpc.OpenDataResponse, error) {
	from, err := admitTrainer(ctx, s, m.Id)
	if err != nil {
		return nil, err
	}
	c := s.core
	if c.cfg.Data == nil {
		return nil, fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a request for a data connection"), fault.Want("calls over gRPC"))
	}
	l := &line{server: s, sender: from}
	if l.send, err = c.inbox.tableOf(m.Send, c.inbox.form); err == nil {
		l.receive, err = c.inbox.tableOf(m.Receive, c.inbox.received(s.values))
	}
	if err != nil {
		return nil, c.refuse(err)
	}
	l.arrived, l.buffers = dataplane.NewProgress(l.send), make([]*tensor.Tensor, len(l.send))
	for i := range l.receive {
		l.all = append(l.all, i)
	}
	if l.offer, err = c.cfg.Data.Offer(dataplane.Layout{Send: l.send, Receive: l.receive}, l.serve); err != nil {
		return nil, err
	}
	c.Lock()
	if err = c.machine.checkRank(from.Rank); err == nil {
		err = c.lines.enter(l)
	}
	c.Unlock()
	if err != nil {
		l.offer.Close()
		return nil, c.refuse(err)
	}
	at := c.cfg.Data.Place(l.offer.Token)
	return &rpc.OpenDataResponse{Token: at.Token, Address: at.Address, Host: at.Host, Local: at.Local,
		Send: c.inbox.mergeInfos(l.send), Receive: infos(l.receive), Process: c.process}, nil
}

// enter enters a line in place of an earlier one of its rank. The lock is held.
func (ls lines) enter(l *line) error {
	if old := ls[l.sender.Rank]; old != nil {
		if old.sender.Generation > l.sender.Generation {
			return fault.E(fault.Superseded, fault.Gotf("a connection of trainer %d in generation %d", l.sender.Rank, l.sender.Generation),
				fault.Wantf("one in generation %d", old.sender.Generation))
		}
		old.offer.Close()
	}
	ls[l.sender.Rank] = l
	return nil
}

// cut ends the connections of generations before one. The lock is held.
func (ls lines) cut(before id.Generation) {
	for rank, l := range ls {
		if l.sender.Generation < before {
			l.offer.Close()
			delete(ls, rank)
		}
	}
}

// tableOf describes variables of a server.
func (b *inbox) tableOf(names []string, find func(string) (*tensor.Tensor, bool)) (dataplane.Table, error) {
	if len(names) > dataplane.MaxSlices {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d slices", len(names)), fault.Wantf("at most %d", dataplane.MaxSlices))
	}
	t := make(dataplane.Table, len(names))
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		v, ok := find(name)
		if !ok || seen[name] {
			return nil, fault.E(fault.Foreign, fault.Var(name), fault.Got("a slice that is not here, or is named twice"),
				fault.Want("slices of this server, each once"))
		}
		seen[name] = true
		if _, err := wire.Memory(v); err != nil {
			return nil, err
		}
		t[i] = dataplane.SliceOf(name, v)
		t[i].Rows = b.rows[name]
	}
	return t, t.Check()
}

func infos(t dataplane.Table) []*rpc.SliceInfo {
	out := make([]*rpc.SliceInfo, len(t))
	for i, s := range t {
		out[i] = &rpc.SliceInfo{Dtype: int32(s.DType), Dims: s.Dims, Bytes: int64(s.Bytes), Rows: s.Rows}
	}
	return out
}

// serve answers the frames of a connection until it ends. It tells the trainer why, unless the connection itself is broken.
func (l *line) serve(ctx context.Context, conn *dataplane.Conn) {
	defer l.forget()
	if err := l.lend(conn); err != nil {
		conn.Fail(l.server.core.refuse(err))
		return
	}
	for {
		h, err := conn.ReadHead()
		if err != nil {
			if !errors.Is(err, fault.Unavailable) {
				conn.Fail(l.server.core.refuse(err))
			}
			return
		}
		if err = l.check(h); err == nil {
			switch h.Kind {
			case dataplane.Data:
				err = l.data(ctx, conn, h)
			case dataplane.Declare:
				err = l.declare(ctx, conn, h)
			case dataplane.Get:
				err = l.get(ctx, conn, h)
			default:
				err = l.server.core.refuse(fault.E(fault.Corrupt, fault.Gotf("a frame %s", h.Kind), fault.Want("data, declare or get")))
			}
		}
		if err != nil {
			conn.Fail(err)
			return
		}
	}
}

// check refuses a frame that is not of this connection's trainer and generation, and notes that the trainer was heard.
func (l *line) check(h dataplane.Head) error {
	c := l.server.core
	if h.Rank != l.sender.Rank || h.Generation != l.sender.Generation {
		return c.refuse(fault.E(fault.Foreign, fault.Gotf("a frame of trainer %d in generation %d", h.Rank, h.Generation),
			fault.Wantf("trainer %d in generation %d", l.sender.Rank, l.sender.Generation)))
	}
	c.Lock()
	defer c.Unlock()
	c.heard.note(l.sender.Rank)
	if h.Round != l.sender.Round {
		l.reset()
		l.sender.Round = h.Round
	}
	return c.Err()
}

// data receives the slices of one frame. When a frame completes a contribution, it is acknowledged.
func (l *line) data(ctx context.Context, conn *dataplane.Conn, h dataplane.Head) error {
	parts, err := conn.ReadParts(h, l.arrived)
	if err != nil {
		return l.server.core.refuse(err)
	}
	l.finished = l.finished[:0]
	for _, p := range parts {
		if p.Offset == 0 {
			if err := l.offered(ctx, p.Slice); err != nil {
				return err
			}
		}
		if l.arrived.Has(p.Slice) {
			l.finished = append(l.finished, p.Slice)
		}
	}
	for _, p := range parts {
		if err := l.take(conn, p); err != nil {
			return err
		}
	}
	if err := conn.End(h); err != nil {
		return err
	}
	for _, slice := range l.finished {
		if err := l.received(slice); err != nil {
			return err
		}
	}
	if !l.arrived.Complete() || l.acknowledgedByParams() {
		return nil
	}
	if c := l.server.core; c.updates != nil && c.mirror != nil { // a trainer that went on could not send it again to a standby that takes over
		if _, err := c.decide(ctx, Read{l.sender}); err != nil {
			return err
		}
	}
	return conn.WriteMessage(l.answer(dataplane.Ack, h.Round), nil)
}

// offered makes room for a slice, unless the machine says that it has arrived before: then it is counted as a duplicate. It waits while the machine holds
// the slice.
func (l *line) offered(ctx context.Context, slice int) error {
	c, e := l.server.core, Offered{Sender: l.sender, Variable: l.send[slice].Name}
	c.Lock()
	f, err := c.step(e)
	c.Unlock()
	if f.Hold {
		f.Ignore, err = c.decide(ctx, e)
	} else if err != nil {
		err = c.refuse(err)
	}
	if err != nil {
		return err
	}
	if f.Ignore {
		c.duplicate("contribution", e.Variable, e.Sender)
		return nil
	}
	if l.lent != nil {
		l.buffers[slice] = l.lent[slice]
		return nil
	}
	c.Lock()
	defer c.Unlock()
	l.buffers[slice], err = c.inbox.take(e.Variable)
	return err
}

// take reads the bytes of one part.
func (l *line) take(conn *dataplane.Conn, p dataplane.Part) error {
	t := l.buffers[p.Slice]
	if t == nil || l.lent != nil {
		return conn.ReadPart(p, nil)
	}
	b, err := wire.Memory(t)
	if err != nil {
		return err
	}
	return conn.ReadPart(p, b[p.Offset:p.Offset+p.Length])
}

// received enters a slice that is complete.
func (l *line) received(slice int) error {
	t := l.buffers[slice]
	if t == nil {
		return nil
	}
	b, err := wire.Memory(t)
	if err == nil {
		err = l.arrived.Check(slice, b)
	}
	if err != nil {
		return l.server.core.refuse(err)
	}
	l.buffers[slice] = nil
	_, err = deliver(l.server, Received{Sender: l.sender, Variable: l.send[slice].Name}, t)
	return err
}

// declare takes a declaration. In a sync job it waits until the round is applied, and pushes the parameters.
func (l *line) declare(ctx context.Context, conn *dataplane.Conn, h dataplane.Head) error {
	m := &rpc.BarrierRequest{}
	if err := conn.ReadMessage(h, m); err != nil {
		return l.server.core.refuse(err)
	}
	if err := declare(ctx, l.server.core, l.sender, m); err != nil {
		return err
	}
	if l.server.core.updates != nil || len(l.receive) == 0 && !l.server.core.cfg.Standby { // the trainer may go on before the round is applied
		return conn.WriteMessage(l.answer(dataplane.Ack, h.Round), nil)
	}
	next := l.sender
	next.Round++
	if l.server.core.cfg.Backup > 0 && len(l.receive) > 0 {
		return l.give(ctx, conn, next.Round, false)
	}
	if _, err := l.server.core.decide(ctx, Read{next}); err != nil {
		return err
	}
	if len(l.receive) == 0 { // a trainer that went on could not send the round again to a standby that takes over
		return conn.WriteMessage(l.answer(dataplane.Ack, h.Round), nil)
	}
	return l.push(conn, next.Round)
}

// push writes the parameters of a round as they are. They stay so until this trainer has declared the next round, or until its generation has ended;
// see GetVariable.
func (l *line) push(conn *dataplane.Conn, round id.Round) error {
	defer l.server.core.cfg.Times.Mark()
	return conn.WriteSlices(l.answer(dataplane.Params, round), l.all, l.value)
}

// value returns the elements of a parameter that travel.
func (l *line) value(slice int) ([]byte, error) {
	t, ok := l.server.values.Variable(l.receive[slice].Name)
	if !ok || int(t.Bytes()) != l.receive[slice].Bytes {
		return nil, fault.E(fault.Internal, fault.Var(l.receive[slice].Name), fault.Gotf("%v", t), fault.Want("the variable as it was at first"))
	}
	b, err := wire.Memory(t)
	if err != nil {
		return nil, err
	}
	used, err := l.receive[slice].Used(b)
	return b[:used], err
}

// answer is the head of a frame to the trainer.
func (l *line) answer(k dataplane.Kind, round id.Round) dataplane.Head {
	return dataplane.Head{Kind: k, Generation: l.sender.Generation, Round: round, Rank: l.sender.Rank}
}

// reset forgets what has arrived in part. The lock of core is held.
func (l *line) reset() {
	l.arrived.Reset()
	for i, t := range l.buffers {
		if t != nil {
			l.server.core.inbox.give(l.send[i].Name, t)
			l.buffers[i] = nil
		}
	}
}

// forget ends what the line has on the server. The connection may be freed afterwards.
func (l *line) forget() {
	c := l.server.core
	c.Lock()
	l.reset()
	c.Unlock()
	l.withdraw()
	c.Lock()
	defer c.Unlock()
	if c.lines[l.sender.Rank] == l {
		delete(c.lines, l.sender.Rank)
	}
}
