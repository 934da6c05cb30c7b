package pserver

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Follows tells a server that it begins as the standby of the server with its index: see mirror.go.
type Follows struct {
	Start     uint32      // rises from one process of the standby to the next
	Placement uint64      // number of the placement whose program it has
	TLS       *tls.Config // of the data connection to the server; nil: in clear text
	// TakeOver lets others find this process in the place of the server. It may be called again.
	TakeOver func(ctx context.Context) error
}

// standby is what a server knows while it follows another one. The lock of core guards it.
type standby struct {
	following bool               // it has not taken over
	synced    bool               // it is in step: it may take over
	stop      context.CancelFunc // ends the connection to the server; nil before the first
	over      bool               // the job has ended
}

// follows reports whether the server is a standby. The lock of core is held.
func (b *standby) follows() bool { return b != nil && b.following }

// standbyName is how waits and errors name the standby of a server.
func standbyName(index int) string { return "standby of " + serverName(index) }

// errTookOver ends what a standby does for its server.
var errTookOver = errors.New("the standby follows its server no more")

// followServer follows a server until this standby takes over, or the job has ended.
func followServer(ctx context.Context, s *Server, by *stepper) error {
	c := s.core
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Lock()
	c.standby.stop = cancel
	still := c.standby.following
	c.Unlock()
	if !still {
		return nil
	}
	room, err := roomOf(s, by.service)
	if err != nil {
		return err
	}
	err = wire.Retry(following, func(retry id.Retry) error {
		conn, err := dialServer(following, s, retry)
		if err != nil {
			return err
		}
		defer conn.Free()
		return takeMessages(ctx, s, by, conn, room)
	})
	c.Lock()
	defer c.Unlock()
	switch {
	case c.standby.over:
		c.end(nil)
		c.release()
		return nil
	case !c.standby.following:
		return nil
	}
	return err
}

// roomOf returns where the slices of the table go. State of the forward pass that is merged has room of its own: it replaces the variable when its round is
// applied.
func roomOf(s *Server, service *comm.Service) ([]*tensor.Tensor, error) {
	room := make([]*tensor.Tensor, len(s.core.mirror.table))
	for i, slice := range s.core.mirror.table {
		t, ok := s.values.Variable(slice.Name)
		if !ok {
			return nil, noTensor(slice.Name)
		}
		if room[i] = t; i >= len(service.Grads) && i < len(s.core.mirror.targets) {
			room[i] = t.Clone()
		}
	}
	return room, nil
}

// dialServer opens a connection to the server.
func dialServer(ctx context.Context, s *Server, retry id.Retry) (*dataplane.Conn, error) {
	c := s.core
	peer, err := c.cfg.Peer(c.cfg.Index)
	if err != nil {
		return nil, err
	}
	answer, err := peer.Follow(ctx, &rpc.FollowRequest{Id: c.cfg.Identity.Of(0, 0, retry), Start: c.cfg.Follows.Start, Placement: c.cfg.Follows.Placement})
	if err = wire.FromStatus(standbyName(c.cfg.Index), err); err != nil {
		if errors.Is(err, fault.Canceled) && ctx.Err() == nil { // its end
			err = fault.E(fault.Unavailable, fault.Cause(err))
		}
		return nil, err
	}
	table := make(dataplane.Table, len(answer.Slices))
	for i, info := range answer.Slices {
		table[i] = dataplane.Slice{DType: tensor.DType(info.GetDtype()), Dims: info.GetDims(), Bytes: int(info.GetBytes()), Rows: info.GetRows()}
		if i < len(s.core.mirror.table) {
			table[i].Name = s.core.mirror.table[i].Name
		}
	}
	if !table.Equal(s.core.mirror.table) {
		return nil, fault.E(fault.Foreign, fault.At(c.Where), fault.Got("a server with other slices"), fault.Want("one with the same program"))
	}
	d := dataplane.Dialer{Carrier: dataplane.TCP, TLS: c.cfg.Follows.TLS}
	if c.cfg.Data != nil {
		d.Silence = c.cfg.Data.Silence
	}
	return d.Dial(ctx, dataplane.Place{Address: answer.Address, Token: answer.Token}, dataplane.Layout{Receive: table})
}

// takeMessages takes what the server sends, and applies its rounds, until the connection ends.
func takeMessages(ctx context.Context, s *Server, by *stepper, conn *dataplane.Conn, room []*tensor.Tensor) error {
	arrived := dataplane.NewProgress(s.core.mirror.table)
	for number := id.Round(1); ; {
		h, err := conn.ReadHead()
		switch {
		case err != nil:
			return err
		case h.Kind == dataplane.Params:
			err = takeSlices(conn, h, arrived, room)
		case h.Kind == dataplane.Declare:
			if err = takeStanding(ctx, s, by, conn, h, number, room); err == nil {
				number++
			}
		default:
			err = fault.E(fault.Corrupt, fault.Gotf("a frame %s", h.Kind), fault.Want("what a standby is told"))
		}
		if err != nil {
			return err
		}
	}
}

// takeSlices takes the slices of one frame.
func takeSlices(conn *dataplane.Conn, h dataplane.Head, arrived *dataplane.Progress, room []*tensor.Tensor) error {
	parts, err := conn.ReadParts(h, arrived)
	if err != nil {
		return err
	}
	for _, p := range parts {
		b, err := wire.Memory(room[p.Slice])
		if err == nil {
			err = conn.ReadPart(p, b[p.Offset:p.Offset+p.Length])
		}
		if err != nil {
			return err
		}
	}
	if err := conn.End(h); err != nil {
		return err
	}
	for _, p := range parts {
		b, err := wire.Memory(room[p.Slice])
		if err == nil && p.End {
			err = arrived.Check(p.Slice, b)
		}
		if err != nil {
			return err
		}
	}
	if h.Flags&dataplane.Last != 0 {
		arrived.Reset()
	}
	return nil
}

// takeStanding takes a message, acknowledges it, and applies its round.
func takeStanding(ctx context.Context, s *Server, by *stepper, conn *dataplane.Conn, h dataplane.Head, number id.Round, room []*tensor.Tensor) error {
	m := &rpc.Standing{}
	if err := conn.ReadMessage(h, m); err != nil {
		return err
	}
	c := s.core
	async := m.Kind == rpc.Standing_UPDATE || m.Kind == rpc.Standing_LEARNING_RATE
	applies := async || m.Kind == rpc.Standing_ROUND
	if async && c.updates == nil || m.Kind == rpc.Standing_ROUND && c.rounds == nil || m.Kind == rpc.Standing_ENTERED && c.updates == nil {
		return fault.E(fault.Corrupt, fault.Gotf("the message %s", m.Kind), fault.Want("one of a server in the same mode"))
	}
	update := mirrored{s.updaters, room, m}
	c.Lock()
	err := c.standby.take(c, m, update)
	c.Unlock()
	if err != nil {
		return err
	}
	if err := conn.WriteMessage(dataplane.Head{Kind: dataplane.Ack, Round: number}, nil); err != nil && !applies {
		return err
	}
	switch { // the machine knows of it
	case async:
		return update.apply(ctx)
	case applies:
		return applyMerged(ctx, s, by, room, m)
	}
	return nil
}

// take tells the machine what the server stands at. The lock of core is held. From its return on the server may tell others of a round.
func (b *standby) take(c *core, m *rpc.Standing, update mirrored) error {
	if !b.following {
		return errTookOver
	}
	applied, err := declarationsOf(m.Applied)
	if err != nil {
		return err
	}
	switch m.Kind {
	case rpc.Standing_BEGIN:
		b.synced = false
		return nil
	case rpc.Standing_OVER:
		b.over = true
		return errTookOver
	case rpc.Standing_UPDATE, rpc.Standing_LEARNING_RATE:
		return update.take()
	}
	if m.Kind != rpc.Standing_ENTERED {
		if _, err := c.step(Followed{standingIn(m)}); err != nil {
			return err
		}
	}
	if m.Kind == rpc.Standing_SYNCED && c.ledger != nil {
		if c.ledger, err = DecodeLedger(m.Ledger); err != nil {
			return err
		}
	}
	switch {
	case c.updates != nil:
		err = takePushed(c, m)
	case m.Kind == rpc.Standing_SYNCED:
		_, err = c.step(Synced{id.Round(m.Round), applied})
	case m.Kind == rpc.Standing_ROUND:
		if !b.synced { // its parameters are those of no round: only its numbers matter, until the last slice is here
			_, _ = c.step(Synced{Round: id.Round(m.Round)})
		}
		_, err = c.step(Merged{id.Round(m.Round), applied})
	}
	if m.Kind == rpc.Standing_SYNCED && err == nil {
		b.synced = true
		c.cfg.Log.Info("in step with the server", "round", m.Round)
	}
	c.Broadcast()
	return err
}

// standingIn reads what a message says that the server stands at.
func standingIn(m *rpc.Standing) Standing {
	s := Standing{Generation: id.Generation(m.Generation), Ended: id.Generation(m.Ended), Fence: id.Fence(m.Fence), First: id.Round(m.First),
		History: m.History, Back: id.Generation(m.Back)}
	for _, member := range m.Members {
		s.Members = append(s.Members, memberOf(member))
	}
	for _, rank := range m.Completed {
		s.Completed = append(s.Completed, id.Rank(rank))
	}
	for _, c := range m.Clocks {
		s.Clocks = append(s.Clocks, Clock{id.Rank(c.GetRank()),
			clock{since: id.Generation(c.GetSince()), counts: c.GetCounts(), pushes: c.GetPushes(), told: id.Round(c.GetTold())}})
	}
	return s
}

// applyMerged applies a round whose merges are here.
func applyMerged(ctx context.Context, s *Server, by *stepper, room []*tensor.Tensor, m *rpc.Standing) error {
	made, err := declarationsOf(m.Applied)
	if err != nil {
		return err
	}
	step := ops.Step{Round: m.Round, Hour: hourOf(made)}
	for _, d := range made {
		step.Rows += d.Rows
	}
	if step.Rows > 0 {
		for i := len(by.service.Grads); i < len(s.core.mirror.targets); i++ {
			if t, ok := s.values.Variable(s.core.mirror.targets[i]); ok {
				if err := t.CopyFrom(room[i]); err != nil {
					return err
				}
			}
		}
		if err := by.update(ctx, step); err != nil {
			return err
		}
	}
	c := s.core
	c.Lock()
	defer c.Unlock()
	f, _ := c.step(Applied{}) // is never refused
	if c.standby.following {
		f.Finished = false
	}
	c.carryOut(f)
	c.changed()
	return nil
}

// TakeOver implements the rpc.
func (s *Server) TakeOver(ctx context.Context, m *rpc.TakeOverRequest) (*rpc.TakeOverResponse, error) {
	c := s.core
	if err := c.cfg.Identity.Check(m.Id); err != nil {
		return nil, c.refuse(err)
	}
	c.Lock()
	round, err := c.standby.takeOver(c, m.History)
	if c.Err() != nil {
		err = c.Err()
	}
	c.Unlock()
	if err != nil {
		return nil, c.refuse(err)
	}
	if err := c.cfg.Follows.TakeOver(ctx); err != nil {
		return nil, err
	}
	return &rpc.TakeOverResponse{Round: uint64(round)}, nil
}

// takeOver makes a standby the server, unless it is the server already. The lock of core is held.
func (b *standby) takeOver(c *core, history uint64) (id.Round, error) {
	switch {
	case b == nil || c.machine == nil:
		return 0, fault.E(fault.LostMember, fault.At(c.Where), fault.Got("no standby that follows its server"), fault.Want("one in step"))
	case !b.following:
		return c.version(), nil
	case !b.synced || standingNow(c).History != history:
		return 0, fault.E(fault.LostMember, fault.At(c.Where), fault.Gotf("a standby that is not in step, of history %d", standingNow(c).History),
			fault.Wantf("one in step, of history %d", history))
	}
	f, err := c.step(TookOver{})
	if err != nil {
		return 0, err
	}
	b.following, c.name = false, serverName(c.cfg.Index)
	if b.stop != nil {
		b.stop()
	}
	round := c.version()
	asyncMirror{c.mirror}.succeed()
	c.cfg.Log.Warn("the standby takes the place of its server, which is lost", "round", round)
	c.carryOut(f)
	c.changed()
	return round, nil
}
