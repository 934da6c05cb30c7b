package coordinator

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// ErrMoved is why a coordinator has ended that has changed the placement of its job: the same process leads the job again, as the next coordinator.
var ErrMoved = errors.New("the placement of the job has changed")

// mover changes the placement of a job: the state moves to other pservers while the trainers' processes stay.
//
//	listener        coordinator                                                    pservers of the next placement
//	  |-- Move -----> tells trainers of the placement (News), so that they have its programs; waits for the end of a step
//	  |               begins a generation with the same members
//	  |               when it has begun, and before anybody trains in it: Restore --> each takes its rows from those of the placement before
//	  |               one transaction: Placed. A pserver may lack rows, which arrive while trainers compute the first round (remote/pserver/arrival.go)
//	  |               ends, and leads again: freezes the pservers of the next placement, begins the next generation, and tells
//	  |               trainers which placement it has
//	  |-- Move again -> answers that it is done
//
// Before the transaction the pservers of the placement before have the state, as they do after every start of a generation. After it those of the next one
// have the same state. A failure before it is told to the listener, and the generation trains where it began.
type mover struct {
	*core
	store   *store
	members *members
	steps   *steps
	feeds   *feeds
	ending  *ending

	// The monitor guards these.
	wanted  *job.Placement    // that the state is to move to; nil: none
	arrived *rpc.MoveResponse // what is told of the move to the placement that the job has; nil: pservers lack rows
	refused uint64            // number of the last placement that it will not move to
	reason  error             // why
}

// LastPlaced returns the placement that a job has changed to last; nil where it has that of its start.
func LastPlaced(ctx context.Context, s cluster.State) (*state.Placed, error) {
	entries, err := s.Load(ctx)
	if err != nil {
		return nil, err
	}
	b, ok := entries[placementKey]
	if !ok {
		return nil, nil
	}
	p := &state.Placed{}
	if err := proto.Unmarshal(b, p); err != nil || p.Number == 0 || p.Pservers < 1 {
		return nil, fault.E(fault.Corrupt, fault.At("entry "+placementKey), fault.Gotf("%d bytes that say no placement", len(b)), fault.Cause(err))
	}
	return p, nil
}

// ask begins a move, unless it has begun, and returns what has become of it. This coordinator answers fault.Unavailable when it is done.
func (m *mover) ask(ctx context.Context, to *job.Placement) (r *rpc.MoveResponse, err error) {
	if err := m.await(ctx, waitFor("the listener", "the coordinator's start"), func() (bool, error) { return m.ready, nil }); err != nil {
		return nil, err
	}
	have := m.cfg.Placement.GetNumber()
	switch {
	case to.GetNumber() == have && have > 0:
		w := waits.Wait{Who: "coordinator", What: "rows of the placement before", By: []string{"the pservers"}}
		err := m.await(ctx, func() waits.Wait { return w }, func() (bool, error) { return m.arrived != nil, nil })
		return m.arrived, err
	case to.GetNumber() < have || to.GetPservers() < 1 || !m.cfg.Sync || m.cfg.Peer == nil:
		return nil, fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Gotf("a move to placement %d of %d pservers", to.GetNumber(), to.GetPservers()),
			fault.Wantf("one after placement %d, of a sync job", have))
	}
	m.locked(func() {
		if m.refused != to.Number && (m.wanted == nil || m.wanted.Number < to.Number) {
			m.cfg.Offer(to)
			m.wanted = to
			m.monitor.Broadcast() // News
			m.spawn(func() { m.begin(to) })
		}
	})
	w := waits.Wait{Who: "coordinator", What: "the state on the pservers of the next placement"}
	err = m.await(ctx, func() waits.Wait { return w }, func() (bool, error) {
		if m.refused == to.Number {
			r = &rpc.MoveResponse{Failure: wire.FailureOf(m.reason)}
		}
		return r != nil, nil
	})
	return r, err
}

// stepWait is how long a move waits at most for the end of a step.
const stepWait = 10 * time.Second

// begin ends the generation, so that the state moves in the next one. It does so when a step has just ended: trainers have the parameters of the open round then,
// and little that they have computed of it is lost. Where steps take long, it does not wait for the end of one.
func (m *mover) begin(to *job.Placement) {
	ctx, cancel := context.WithTimeout(m.ctx, stepWait)
	defer cancel()
	var before uint64
	m.locked(func() { before = m.steps.written(); m.awaitsStep++ })
	_ = m.await(ctx, waitFor("coordinator", "the end of a step"), func() (bool, error) {
		idle := m.cfg.Fed && len(m.feeds.items) == 0
		held := m.ending.permitted > 0 && m.steps.written() >= uint64(m.ending.permitted) // until the user acknowledges steps
		return idle || held || m.steps.written() > before || m.wanted != to || m.members.machine.Phase() != generation.Running, nil
	})
	m.locked(func() {
		m.awaitsStep--
		if m.wanted == to {
			_ = m.members.step(generation.Moving{})
		}
	})
}

// settle moves the state, if it is to move, when a generation has begun. It returns an error if it has, or does not know whether it has: then nobody trains in
// this generation. ctx ends with the change of members that has begun the generation.
func (m *mover) settle(ctx context.Context, g generation.Generation) error {
	var to *job.Placement
	m.locked(func() { to = m.wanted })
	if to == nil {
		return nil
	}
	began := time.Now()
	bytes, err := int64(0), m.mayMove()
	if err == nil {
		bytes, err = m.tellServers(ctx, to, g)
	}
	if ctx.Err() != nil {
		return fault.E(fault.Canceled, fault.At("coordinator"), fault.Cause(context.Cause(ctx)))
	}
	if err != nil {
		m.cfg.Log.Warn("the placement of the job stays as it is", "pservers", len(m.cfg.Servers), "wanted", to.Pservers, "reason", err)
		m.locked(func() {
			m.wanted, m.refused, m.reason = nil, to.Number, err
			m.monitor.Broadcast()
		})
		return nil
	}
	placed := &state.Placed{Number: to.Number, Pservers: to.Pservers, Generation: uint64(g.Number), Round: uint64(g.Round), Bytes: bytes,
		Nanoseconds: int64(time.Since(began))}
	if err := m.store.transactAlone(ctx, func(t *txn) error { return t.put(placementKey, placed) }); err != nil {
		return err
	}
	var laps []any
	m.locked(func() {
		m.members.changes.laps.Lap("move")
		laps = m.members.changes.laps.Attrs()
	})
	m.cfg.Log.Info("the placement of the job has changed", append([]any{"pservers", to.Pservers, "round", g.Round, "bytes", bytes}, laps...)...)
	err = fault.E(fault.Canceled, fault.At("coordinator"), fault.Cause(ErrMoved))
	m.Fail(err)
	return err
}

// news implements the rpc.
func (m *mover) news(ctx context.Context, r *rpc.NewsRequest) (*rpc.NewsResponse, error) {
	answer := &rpc.NewsResponse{}
	who := trainerName(r.Id.Rank)
	err := m.await(ctx, waitFor(who, "the end of its generation"), func() (bool, error) {
		if m.members.isMember(r.Id) != nil {
			return true, nil
		}
		if m.wanted.GetNumber() > r.Placement {
			answer.Placement = m.wanted.Number
		}
		return answer.Placement > 0, nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// mayMove refuses where a trainer has left: pservers of another placement would not know that it has completed.
func (m *mover) mayMove() error {
	m.monitor.Lock()
	defer m.monitor.Unlock()
	if left := m.members.machine.State().Left; len(left) > 0 || m.members.saver != nil {
		return fault.E(fault.Unsupported, fault.At("job "+m.cfg.Identity.Job), fault.Gotf("a job whose trainers %v have trained all data", left),
			fault.Want("one in which all train"))
	}
	return nil
}

// tellServers lets every server of a placement take the state that generation g begins with, and returns how many bytes came from other servers.
func (m *mover) tellServers(ctx context.Context, to *job.Placement, g generation.Generation) (int64, error) {
	var bytes atomic.Int64
	err := wire.EachServer(ctx, int(to.Pservers), func(ctx context.Context, i int) error {
		server, err := m.cfg.Peer(i)
		if err != nil {
			return err
		}
		return wire.RetryWithin(ctx, m.cfg.RejoinDeadline, func(retry id.Retry) error {
			who := m.identity(g.Number, retry)
			who.Round = uint64(g.Round)
			a, err := server.Restore(ctx, &rpc.RestoreRequest{Id: who, History: m.cfg.Back.GetHistory(), Placement: to.Number, Later: true}, grpc.WaitForReady(false))
			if err = ofServer(ctx, serverName(i), err); err == nil {
				bytes.Add(a.Bytes)
			}
			return err
		})
	})
	return bytes.Load(), err
}

// arrive waits until every pserver has all rows of the placement that the job has, and tells them so: those of the placement before are not needed any more.
func (m *mover) arrive() {
	var bytes atomic.Int64
	bytes.Add(m.cfg.Placed.GetBytes())
	number := m.cfg.Placement.GetNumber()
	for _, all := range []bool{false, true} {
		err := wire.EachServer(m.ctx, len(m.cfg.Servers), func(ctx context.Context, i int) error {
			return wire.Retry(ctx, func(retry id.Retry) error {
				a, err := m.cfg.Servers[i].Arrived(ctx, &rpc.ArrivedRequest{Id: m.identity(0, retry), Placement: number, All: all}, grpc.WaitForReady(false))
				if err = ofServer(ctx, serverName(i), err); err == nil {
					bytes.Add(a.Bytes)
				}
				return err
			})
		})
		if err != nil {
			if m.ctx.Err() == nil {
				m.cfg.Log.Warn("it is not known whether pservers have all rows of the placement", "reason", err)
			}
			return
		}
	}
	m.locked(func() {
		m.arrived = &rpc.MoveResponse{Bytes: bytes.Load(), Nanoseconds: m.cfg.Placed.GetNanoseconds()}
		m.monitor.Broadcast()
	})
}

// A stateServer answers what the listener asks of the state of the job as a whole.
type stateServer struct {
	*core
	cuts *cuts
	back *goBack
	move *mover
}

// answerTime is how long before the deadline of a pserver that ends it is told why there is no checkpoint: its log has the reason then.
const answerTime = time.Second

// Checkpoint makes a checkpoint.
func (s *stateServer) Checkpoint(ctx context.Context, m *rpc.CheckpointRequest) (*job.CheckpointStatus, error) {
	if err := s.checkJob(m.Job); err != nil {
		return nil, err
	}
	w := waits.Wait{Who: cmp.Or(m.Who, "the user"), What: "a checkpoint"}
	if m.Ends {
		if have := s.cfg.Placement.GetNumber(); m.Placement < have {
			return nil, fault.E(fault.Superseded, fault.At("coordinator"), fault.Gotf("a pserver of placement %d that ends", m.Placement),
				fault.Wantf("one of placement %d, whose state the job has", have))
		}
		w.What = "a checkpoint, after which it ends as it was told"
	}
	if limit, ok := ctx.Deadline(); ok && m.Ends {
		w.Until = limit.Add(-answerTime)
	}
	return s.cuts.make(ctx, w)
}

// GoBack makes the job go back to its last checkpoint, because a pserver is lost.
func (s *stateServer) GoBack(ctx context.Context, m *rpc.GoBackRequest) (*rpc.GoBackResponse, error) {
	if err := s.cfg.Identity.Check(m.Id); err != nil {
		return nil, err
	}
	return s.back.ask(ctx, m.History)
}

// Move changes the placement of the job.
func (s *stateServer) Move(stream grpc.ClientStreamingServer[rpc.Piece, rpc.MoveResponse]) error {
	m := &rpc.MoveRequest{}
	if err := wire.ReceiveFrom("the listener", stream, m, wire.MaxPlacement, s.cfg.Identity.Check); err != nil {
		return err
	}
	r, err := s.move.ask(stream.Context(), m.To)
	if err != nil {
		return err
	}
	return stream.SendAndClose(r)
}

// Placement returns the programs of the placement that the job has, or that it is about to change to.
func (s *stateServer) Placement(m *rpc.PlacementRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	if err := s.cfg.Identity.Check(m.Id); err != nil {
		return err
	}
	var next *job.Placement
	s.locked(func() { next = s.move.wanted })
	switch have := s.cfg.Placement.GetNumber(); m.Number {
	case have:
		return wire.Send(stream, s.cfg.Placement)
	case next.GetNumber():
		return wire.Send(stream, next)
	default:
		return fault.E(fault.Superseded, fault.At("coordinator"), fault.Gotf("a request for placement %d", m.Number), fault.Wantf("placement %d", have))
	}
}
