package pserver

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
)

// An arrival is the rest of a move: rows of the placement before that arrive when the job has changed its placement already. Trainers compute the first round
// meanwhile, from the parameters that they have:
//
//	coordinator                        server of the next placement                   servers of the placement before
//	  |-- Restore, later ----------->  is as if it applied the round before the move
//	  |<-----------------------------  asks for rows that it has not copied ahead ->  send them. What they have stays as it is
//	  | writes that the job has changed
//	  |-- Freeze, Resume ----------->  takes part in the generation. Trainers read nothing, and contributions wait, as behind any round that is being applied
//	  |-- Arrived ------------------>  |
//	  |                                has all rows: the round before the move is applied
//	  |<-- how many bytes -----------  |
//	  |-- Arrived, all ------------------------------------------------------------>  are not needed any more
//
// If the job does not change, the servers of the placement before go on, and refuse. Then what has arrived is of no use, and the server waits for the next
// Restore. If a server of the placement before is lost when the job has changed, its rows are, and the job goes back to a checkpoint.
type arrival struct {
	who *rpc.Identity // the coordinator's message: it has generation and round

	// The lock of core guards these.
	bytes int64
	took  time.Duration
	err   error         // why it has ended without all rows
	ended bool          // it has
	done  chan struct{} // closed then
}

// arrives lets the rows that the server lacks arrive behind the answer to a Restore. The lock is held, and the machine has taken Moved.
func arrives(c *core, who *rpc.Identity) {
	c.arrival.giveUp(c)
	c.arrival = &arrival{who: who, done: make(chan struct{})}
	c.toFill <- c.arrival // never blocks: giveUp has taken what was there
}

// giveUp ends an arrival that another state takes the place of. The lock is held.
func (a *arrival) giveUp(c *core) {
	if a == nil {
		return
	}
	select {
	case <-c.toFill:
	default:
	}
	if c.giveUp != nil && !a.ended {
		c.giveUp()
	}
	a.end(fault.E(fault.Superseded, fault.At(c.Where), fault.Got("the state of round "+id.Round(a.who.Round).String()), fault.Want("a later one")))
	c.arrival = nil
}

// end notes how an arrival has ended, unless it has. The lock is held.
func (a *arrival) end(err error) {
	if !a.ended {
		a.err, a.ended = err, true
		close(a.done)
	}
}

// take takes the rows. The goroutine that applies rounds calls it. An error is one that ends the server.
func (a *arrival) take(ctx context.Context, s *Server) error {
	c, began := s.core, time.Now()
	running := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Lock()
	current := c.arrival == a && c.restoring == 0
	if current {
		c.giveUp = cancel
	}
	c.Unlock()
	if !current {
		return nil
	}
	bytes, err := a.fill(ctx, s)
	c.Lock()
	defer c.Unlock()
	c.giveUp = nil
	switch {
	case running.Err() != nil: // the server ends
		return nil
	case c.arrival != a || c.restoring > 0: // another state follows
		c.gaveUp = c.gaveUp || c.restoring > 0 && err != nil
		return nil
	case errors.Is(err, fault.Stale) && c.rounds.members == nil: // the job has not changed its placement
		c.rounds.unmoved, c.arrival = true, nil
		a.end(err)
		c.changed()
		return nil
	case err != nil:
		err = fault.E(fault.LostMember, fault.At(c.Where), fault.Got("a move without all rows"), fault.Cause(err))
		a.end(err)
		return err
	}
	a.bytes, a.took = bytes, time.Since(began)
	a.end(nil)
	s.sums.replaced()
	f, _ := c.step(Applied{}) // is never refused
	c.carryOut(f)
	c.changed()
	c.cfg.Log.Info("the rows of the placement before have arrived", "round", a.who.Round, "bytes", bytes, "took", a.took)
	return nil
}

// fill copies what is not here. It returns how many bytes came from other processes.
func (a *arrival) fill(ctx context.Context, s *Server) (int64, error) {
	_, done, err := mover{s}.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	return mover{s}.fill(ctx, a.who)
}

// Arrived implements the rpc for one server.
func (l lender) Arrived(ctx context.Context, m *rpc.ArrivedRequest) (*rpc.ArrivedResponse, error) {
	s := l.from
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	c := s.core
	c.Lock()
	a := c.arrival
	c.Unlock()
	if a == nil {
		return &rpc.ArrivedResponse{}, nil
	}
	select {
	case <-a.done:
	case <-c.ended:
	case <-ctx.Done():
		return nil, waits.GaveUp(ctx, c.Where, waits.Wait{What: "rows of the placement before"})
	}
	c.Lock()
	defer c.Unlock()
	if err := errors.Join(c.Err(), a.err); err != nil {
		return nil, fault.E(fault.Unavailable, fault.At(c.Where), fault.Cause(err))
	}
	return &rpc.ArrivedResponse{Bytes: a.bytes, Nanoseconds: int64(a.took)}, nil
}
