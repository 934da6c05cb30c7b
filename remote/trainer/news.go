package trainer

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// news is what the coordinator tells a sync trainer while it computes. Without it a trainer would compute the whole step of a generation that has ended before a
// server refuses its contribution, and would ask for the programs of another placement while the job pauses.
//
//	News: the generation has ended       a step that computes is given up; one that has come to its barrier hears of the end from the servers
//	News: the placement may change       asks for its programs, so that they are here when it does
//
// The zero value hears nothing.
type news struct {
	end     context.CancelFunc // of the call; nil: there is none
	hearing sync.WaitGroup

	mu        sync.Mutex
	computing bool                    // a step has not come to its barrier
	giveUp    context.CancelCauseFunc // ends the steps of the generation
	over      error                   // why they are to end; nil: they are not
	next      uint64                  // number of the placement that the job may change to; 0: none
	placed    Placed                  // of next
}

// hear begins to ask the coordinator, in a generation. forget ends it.
func (n *news) hear(ctx context.Context, t *Trainer, in *generation) {
	if !t.cfg.Sync {
		return
	}
	ctx, n.end = context.WithCancel(ctx)
	n.mu.Lock()
	n.computing, n.giveUp, n.over = false, nil, nil
	n.mu.Unlock()
	n.hearing.Go(func() {
		for last := t.cfg.Placement; ; {
			var answer *rpc.NewsResponse
			err := wire.Retry(ctx, func(retry id.Retry) (err error) {
				answer, err = t.cfg.Coordinator.News(ctx, &rpc.NewsRequest{Id: in.message(0, retry), Placement: last}, grpc.WaitForReady(false))
				return wire.FromStatus("coordinator", err)
			})
			if err != nil { // of the end of the job, or of this trainer: others tell it, too
				return
			}
			if last = answer.Placement; last == 0 {
				n.stop(fault.E(fault.Superseded, fault.At("coordinator"), fault.Gotf("the end of generation %d", in.Generation), fault.Want("the next generation")))
				return
			}
			n.prepare(ctx, t, in, last)
		}
	})
}

// stop gives up a step that computes, and the steps after it.
func (n *news) stop(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over = why; n.computing {
		n.giveUp(why)
	}
}

// prepare asks for the programs of a placement. Where that fails they are asked for again when a generation has the placement.
func (n *news) prepare(ctx context.Context, t *Trainer, in *generation, number uint64) {
	if t.cfg.Placed == nil {
		return
	}
	p, err := t.cfg.Placed(ctx, in.message(0, 0), number)
	if err != nil {
		t.cfg.Log.Info("the programs of the next placement are not here yet", "number", number, "reason", err.Error())
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next, n.placed = number, p
}

// take returns what was prepared of a placement. Nothing of it stays.
func (n *news) take(number uint64) (p Placed, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ok = n.next == number; ok {
		p = n.placed
	}
	n.next, n.placed = 0, Placed{}
	return p, ok
}

// begin begins a step, which giveUp ends.
func (n *news) begin(giveUp context.CancelCauseFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.computing, n.giveUp = true, giveUp
	if n.over != nil {
		giveUp(n.over)
	}
}

// computed says that nothing of the step is left to compute. It may commit from here on, so only the servers can end it.
func (n *news) computed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.computing = false
}

// forget ends the call.
func (n *news) forget() {
	if n.end != nil {
		n.end()
		n.hearing.Wait()
		n.end = nil
	}
}
