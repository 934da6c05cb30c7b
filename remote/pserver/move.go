package pserver

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// The state of a job moves from the servers of one placement to those of the next while a generation has begun that nobody trains in yet:
//
//	coordinator            server of the next placement                  servers of the placement before
//	  |-- Restore ---------> asks for the rows of its slices -------------> wait until the rounds below the first of the generation are applied
//	  |                      copies rows that this process has already      send what it has not copied ahead. What they have stays as it is
//	  |<-- how many bytes -- is as if it had taken part in the generation
//
// The coordinator decides afterwards, in one transaction, which placement the job has. Until then the servers of both have the state.

// moveStreams is how many slices a server asks for at the same time.
const moveStreams = 4

// moved makes the machine that of a server that has taken part in all rounds below the first one of a generation. A server in which trainers have a generation
// has a state of its own.
func moved(r *Rounds, e Moved) error {
	if r.members != nil {
		return fault.E(fault.Stale, fault.Gotf("the state of round %d for a server that is in use", e.Round), fault.Want("a server of the next placement"))
	}
	if err := r.freeze(Frozen{Generation: e.Generation, Fence: e.Fence}); err != nil {
		return err
	}
	r.begun, r.ended = e.Generation, max(r.ended, e.Generation)
	r.round, r.first, r.history, r.unmoved = e.Round, e.Round, e.History, false
	if r.applying, r.arriving, r.lastApplied = e.Later, e.Later, nil; e.Later {
		r.round--
	}
	return nil
}

// A mover is the end of a move at a server of the next placement.
type mover struct{ *Server }

// ForgetBefore lets a server forget the one of the placement before, in the same process: every server has all rows of its placement. Else each would keep the rows of all
// placements before.
func ForgetBefore(ctx context.Context, s *Server) {
	select {
	case s.core.moving <- struct{}{}:
		s.core.cfg.Same, s.stretches = nil, nil
		<-s.core.moving
	case <-ctx.Done(): // it is told again
	}
}

// begin takes the token of core.moving, until done is called. used says that trainers have a generation here: the state has moved before.
func (s mover) begin(ctx context.Context) (used bool, done func(), err error) {
	c := s.core
	if c.rounds == nil || c.cfg.Before == nil {
		return false, nil, c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a move to a server that is of no next placement"),
			fault.Want("one that is prepared, of a sync job")))
	}
	select {
	case c.moving <- struct{}{}:
	case <-ctx.Done():
		return false, nil, waits.GaveUp(ctx, c.Where, waits.Wait{What: "the end of an earlier move"})
	}
	c.Lock()
	defer c.Unlock()
	return c.rounds.members != nil, func() { <-c.moving }, nil
}

// move is Restore from the servers of the placement before.
func (s mover) move(ctx context.Context, m *rpc.RestoreRequest) (*rpc.RestoreResponse, error) {
	c, from, began := s.core, wire.SenderOf(m.Id), time.Now()
	c.Lock()
	if c.rounds != nil && c.rounds.members == nil { // rows that arrive for an earlier message
		c.arrival.giveUp(c)
	}
	c.Unlock()
	used, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := freeze(s.Server, m.Id, true); err != nil {
		return nil, err
	}
	c.Lock()
	c.rounds.unmoved = c.rounds.unmoved || !used // what it has now is about to be overwritten
	c.Unlock()
	// A standby, and trainers that are late, hear of each round that is applied. There is none before round 0.
	later := m.Later && !used && from.Round > 0 && !c.cfg.Standby && c.cfg.Backup == 0
	var bytes int64
	switch {
	case used:
	case later:
		if same := c.cfg.Same; same != nil { // its ledger has the rounds that are applied
			if err := reaches(ctx, same, m.Id); err != nil {
				return nil, err
			}
		}
	default:
		if bytes, err = s.fill(ctx, m.Id); err != nil {
			return nil, fault.E(fault.KindOf(err), fault.At(c.Where), fault.Cause(err))
		}
	}
	ledger, err := ledgerOf(c.cfg.Same)
	if err != nil {
		return nil, err
	}
	s.sums.replaced()
	c.Lock()
	_, err = c.step(Moved{Generation: from.Generation, Fence: from.Fence, Round: from.Round, History: m.History, Later: later})
	if err == nil && later {
		arrives(c, m.Id)
	}
	if err == nil && c.ledger != nil && ledger != nil {
		c.ledger = ledger
	}
	c.changed()
	c.Unlock()
	if err != nil {
		return nil, c.refuse(err)
	}
	c.cfg.Log.Info("state of the placement before", "round", from.Round, "bytes", bytes, "took", time.Since(began), "arrives_later", later)
	return &rpc.RestoreResponse{Bytes: bytes}, nil
}

// ledgerOf copies the ledger of a server; nil where it has none.
func ledgerOf(s *Server) (*Ledger, error) {
	if s == nil {
		return nil, nil
	}
	s.core.Lock()
	defer s.core.Unlock()
	if s.core.ledger == nil {
		return nil, nil
	}
	return DecodeLedger(s.core.ledger.Encode())
}

// fill gives every slice of this server its rows, and returns how many bytes came from other processes. who says of which round.
func (s mover) fill(ctx context.Context, who *rpc.Identity) (int64, error) {
	if same := s.core.cfg.Same; same != nil {
		if err := reaches(ctx, same, who); err != nil {
			return 0, err
		}
	}
	all, err := s.plan()
	if err != nil {
		return 0, err
	}
	return s.copyAll(ctx, who, all, false)
}

// A part is rows of a slice that one server of the placement before has.
type part struct {
	of   *job.Held
	from int64 // first row within what that server has
	to   int64 // within the slice
	rows int64
}

// partsOf finds who has the rows of a slice. Where several servers have the whole variable, this one is the first choice.
func partsOf(slice comm.Slice, held []*job.Held, index int) (parts []part, err error) {
	missing := slice.Rows
	for _, h := range held {
		from, to := max(h.FirstRow, slice.FirstRow), min(h.FirstRow+h.Rows, slice.FirstRow+slice.Rows)
		if from >= to {
			continue
		}
		p := part{h, from - h.FirstRow, from - slice.FirstRow, to - from}
		if h.Rows == h.TotalRows && len(parts) > 0 { // another copy
			if int(h.Server) == index {
				parts[0] = p
			}
			continue
		}
		parts = append(parts, p)
		missing -= p.rows
	}
	if missing != 0 {
		return nil, fault.E(fault.Internal, fault.Var(slice.Origin), fault.Gotf("%d of %d rows that no pserver has", missing, slice.Rows),
			fault.Want("pservers that have all"))
	}
	return parts, nil
}

// viewOf is a view of rows of a tensor. All rows are the tensor itself, which may have no dims.
func viewOf(t *tensor.Tensor, first, rows int64) (*tensor.Tensor, error) {
	dims := t.Dims()
	if first == 0 && (len(dims) == 0 || rows == dims[0]) {
		return t, nil
	}
	return t.Rows(first, first+rows)
}

// take copies rows, from this process or from another one. It returns how many bytes came from another.
func (s mover) take(ctx context.Context, who *rpc.Identity, p part, into *tensor.Tensor) (int64, error) {
	index, cfg := int(p.of.Server), &s.core.cfg
	if cfg.Same != nil && index == cfg.Index {
		from, err := rowsHere(cfg.Same, p.of.Name, p.from, p.rows)
		if err == nil {
			err = into.CopyFrom(from)
		}
		return 0, err
	}
	client, err := cfg.Peer(index)
	if err != nil {
		return 0, err
	}
	ctx, cancel := s.bounded(ctx, index)
	defer cancel()
	err = wire.Retry(ctx, func(retry id.Retry) error {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		from := wire.SenderOf(who)
		own := cfg.Identity
		own.Generation, own.Fence = from.Generation, from.Fence
		stream, err := client.GetVariable(call, &rpc.GetRequest{Id: own.Of(0, from.Round, retry), Name: p.of.Name, Moves: true, Zeros: true, FirstRow: p.from, Rows: p.rows,
			Placement: cfg.After})
		if err == nil {
			_, err = wire.ReceiveVariable(stream, func(*rpc.VariableChunk) (*tensor.Tensor, error) { return into, nil })
		}
		return wire.FromStatus(serverName(index), err)
	})
	return into.Bytes(), err
}

// rowsHere is a view of rows of a variable of a server.
func rowsHere(s *Server, name string, first, n int64) (*tensor.Tensor, error) {
	t, ok := s.values.Variable(name)
	if !ok {
		return nil, fault.E(fault.NotFound, fault.Var(name), fault.At(s.core.Where), fault.Got("a request for a variable that is not here"))
	}
	return viewOf(t, first, n)
}

// hand sends rows of a slice to a server of the next placement. They change only when a generation after that of the asking server trains. Then the job has
// not changed its placement, and nobody reads what was sent.
func hand(s *Server, m *rpc.GetRequest, stream grpc.ServerStreamingServer[rpc.VariableChunk]) error {
	if err := reaches(stream.Context(), s, m.Id); err != nil {
		return err
	}
	t, err := rowsHere(s, m.Name, m.FirstRow, m.Rows)
	if err != nil {
		return s.core.refuse(err)
	}
	return wire.SendVariable(stream, &rpc.VariableChunk{Name: m.Name}, t, wire.Zeros(m.Zeros))
}

// reaches waits until the rounds below one are applied here. It fails where later ones are.
func reaches(ctx context.Context, s *Server, who *rpc.Identity) error {
	c, from := s.core, wire.SenderOf(who)
	if c.rounds == nil {
		return c.refuse(fault.E(fault.Unsupported, fault.At(c.Where), fault.Got("a move of an async job"), fault.Want("a sync job")))
	}
	var refused error
	err := c.Await(ctx, func() waits.Wait { return c.forRound(c.rounds.Round()) }, func() (bool, error) {
		if have := c.rounds.Round(); have > from.Round {
			refused = fault.E(fault.Stale, fault.At(c.Where), fault.Gotf("a request for the state of round %d", from.Round), fault.Wantf("round %d", have))
		}
		return refused != nil || c.rounds.Round() == from.Round && !c.rounds.applying, nil
	})
	if err == nil && refused != nil {
		err = c.refuse(refused)
	}
	return err
}
