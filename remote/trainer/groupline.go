package trainer

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A groupLine is the leader's end of the connection of one led trainer in one generation. One goroutine serves it, and reads nothing while it waits
// for a round.
type groupLine struct {
	group   *group
	rank    id.Rank
	offer   *dataplane.Offer
	arrived *dataplane.Progress // of round
	round   id.Round
	// answering says that the led trainer has declared a round and has no answer yet. The lock of group guards it.
	answering bool
	values    []*tensor.Tensor // of the contribution that arrives; the merge reads them when it is whole, and nothing arrives until the round has ended
}

// serve answers the frames of the connection until it ends. It tells the led trainer why, unless the connection itself is broken.
func (l *groupLine) serve(ctx context.Context, conn *dataplane.Conn) {
	defer l.group.forget(l)
	for {
		h, err := conn.ReadHead()
		if err != nil {
			if !errors.Is(err, fault.Unavailable) {
				conn.Fail(err)
			}
			return
		}
		if err = l.check(h); err == nil {
			switch h.Kind {
			case dataplane.Data:
				err = l.data(conn, h)
			case dataplane.Declare:
				err = l.declare(ctx, conn, h)
			default:
				err = fault.E(fault.Corrupt, fault.Gotf("a frame %s", h.Kind), fault.Want("data or declare"))
			}
		}
		if err != nil {
			conn.Fail(err)
			return
		}
	}
}

// check refuses a frame that is not of this led trainer and generation.
func (l *groupLine) check(h dataplane.Head) error {
	if generation := l.group.generation; h.Rank != l.rank || h.Generation != generation {
		return fault.E(fault.Foreign, fault.Gotf("a frame of trainer %d in generation %d", h.Rank, h.Generation),
			fault.Wantf("trainer %d in generation %d", l.rank, generation))
	}
	if h.Round != l.round {
		l.arrived.Reset()
		l.round = h.Round
	}
	return nil
}

// data receives the slices of one frame. When a frame completes the contribution, it is acknowledged.
func (l *groupLine) data(conn *dataplane.Conn, h dataplane.Head) error {
	parts, err := conn.ReadParts(h, l.arrived)
	if err != nil {
		return err
	}
	known, err := l.group.tell(contributing{l.rank, h.Round})
	if err != nil {
		return err
	}
	if l.values == nil {
		if l.values, err = tensorsOf(l.group.send); err != nil {
			return err
		}
	}
	for _, p := range parts {
		var into []byte
		if !known {
			b, err := wire.Memory(l.values[p.Slice])
			if err != nil {
				return err
			}
			into = b[p.Offset : p.Offset+p.Length]
		}
		if err := conn.ReadPart(p, into); err != nil {
			return err
		}
	}
	if err := conn.End(h); err != nil || !l.arrived.Complete() {
		return err
	}
	if err := l.group.take(l.rank, h.Round, l.values); err != nil {
		return err
	}
	return conn.WriteMessage(l.answer(dataplane.Ack, h.Round), nil)
}

// declare takes a declaration, waits until the leader has the parameters of the next round, and sends them.
func (l *groupLine) declare(ctx context.Context, conn *dataplane.Conn, h dataplane.Head) error {
	m := &rpc.BarrierRequest{}
	if err := conn.ReadMessage(h, m); err != nil {
		return err
	}
	if err := l.checkDeclaration(m); err != nil {
		return err
	}
	g := l.group
	g.Lock()
	l.answering = true
	g.Unlock()
	e := declaring{h.Round, &rpc.Declared{Rank: uint32(l.rank), Rows: m.Rows, Weight: m.Weight, Void: m.Void, Pass: m.Pass, Records: m.Records, Hour: m.Hour}}
	if _, err := g.tell(e); err != nil {
		return err
	}
	reason := func() waits.Wait {
		return waits.Wait{Who: trainerName(l.rank), What: "the parameters of round " + (h.Round + 1).String(), By: []string{trainerName(g.comm.Rank)}}
	}
	err := g.Await(ctx, reason, func() (bool, error) {
		f, err := g.rounds.Step(0, fetching{l.rank, h.Round + 1})
		return !f.hold, err
	})
	if err != nil {
		return err
	}
	// The values stay as they are until this led trainer has declared the next round. One that has opened another connection meanwhile reads this one
	// no more: it is closed, and writing to it ends.
	g.reading.RLock()
	err = conn.WriteSlices(l.answer(dataplane.Params, h.Round+1), g.all, func(slice int) ([]byte, error) { return wire.Memory(g.params[slice]) })
	g.reading.RUnlock()
	if err != nil {
		return err
	}
	g.Lock()
	defer g.Unlock()
	l.answering = false
	return g.Err()
}

// checkDeclaration refuses what a server would refuse in the declaration of the group.
func (l *groupLine) checkDeclaration(m *rpc.BarrierRequest) error {
	variables := 0
	if m.Rows > 0 {
		variables = len(l.group.send)
	}
	ok := m.Pass >= 0 && m.Weight >= 0 && int(m.Variables) == variables && len(m.Group) == 0
	for _, r := range m.Records {
		ok = ok && r.GetFrom() >= 0 && r.GetFrom() < r.GetTo()
	}
	if ok {
		return nil
	}
	return fault.E(fault.InvalidArgument,
		fault.Gotf("a declaration of trainer %d of %d rows and %d variables in pass %d", l.rank, m.Rows, m.Variables, m.Pass),
		fault.Wantf("%d variables, or none for 0 rows, and records from 0 on", len(l.group.send)))
}

// answer is the head of a frame to the led trainer.
func (l *groupLine) answer(k dataplane.Kind, round id.Round) dataplane.Head {
	return dataplane.Head{Kind: k, Generation: l.group.generation, Round: round, Rank: l.rank}
}

// tensorsOf makes a tensor for each slice.
func tensorsOf(t dataplane.Table) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(t))
	for i, s := range t {
		var err error
		if out[i], err = tensor.New(s.DType, s.Dims...); err != nil {
			return nil, err
		}
	}
	return out, nil
}
