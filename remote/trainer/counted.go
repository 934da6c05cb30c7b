package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// verdicts is what a trainer of a job with backup trainers knows of the decisions of server 0: which contributions count in a round. The zero value is
// that of a job without backup trainers.
//
//	begin        asks server 0 what the round is made of. The answer comes when that is decided
//	             While the step computes, an answer without this trainer ends the step: what it computes counts no more
//	barrier      all servers have the contribution: declares it to server 0, waits for the answer, and hands it to the other servers
//	fetch        receives the parameters of the next round. If a server has later ones, the trainer is late
//
// A trainer that is late trains none of the rounds that it has missed: it receives the parameters of the round that is open, and goes on with that. See
// Trainer.runGeneration.
type verdicts struct {
	on bool

	mu        sync.Mutex
	answer    *rpc.CountedResponse // nil: not known
	err       error                // why it will not be known
	known     chan struct{}        // closed when answer or err is there
	computing bool                 // the step has not come to its barrier
	giveUp    context.CancelCauseFunc
	end       context.CancelFunc // of the call; nil: there is none
	again     chan struct{}      // has a token when server 0 was lost, or another process may have taken its place
	call      sync.WaitGroup
}

// begin begins a step. giveUp ends it.
func (v *verdicts) begin(ctx context.Context, c *Comm, giveUp context.CancelCauseFunc) {
	if !v.on {
		return
	}
	v.forget()
	ctx, end := context.WithCancel(ctx)
	known, again := make(chan struct{}), make(chan struct{}, 1)
	v.mu.Lock()
	v.answer, v.err, v.known, v.computing, v.giveUp, v.end, v.again = nil, nil, known, true, giveUp, end, again
	v.mu.Unlock()
	identity, round := c.identity, c.round()
	v.call.Go(func() {
		answer, err := askCounted(ctx, c, identity, round, again)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.answer, v.err = answer, err
		close(known)
		switch {
		case !v.computing:
		case err != nil && errors.Is(err, fault.Superseded):
			giveUp(err)
		case err == nil && !countsIn(answer, c.Rank, round):
			giveUp(lateIn(round))
		}
	})
}

// checkLinks refuses servers without a connection of the data plane: a call gives no copy of one version.
func (v *verdicts) checkLinks(all links) error {
	if !v.on || all != nil && !slices.Contains(all, nil) {
		return nil
	}
	return fault.E(fault.Unsupported, fault.Got("no data connection to a pserver, in a job with backup trainers"), fault.Want("one to each"),
		fault.Hint("open the data ports of pservers, or leave out backup_trainers"))
}

// forget ends the call of the last step.
func (v *verdicts) forget() {
	v.mu.Lock()
	end := v.end
	v.mu.Unlock()
	if end != nil {
		end()
		v.call.Wait()
	}
}

// askCounted asks server 0 what a round is made of. There is no deadline: the answer comes when the slowest trainer that counts has computed its step, and
// server 0 has a deadline for the members of a round that has begun. again is given a token when it is asked again.
func askCounted(ctx context.Context, c *Comm, identity wire.Identity, round id.Round, again chan<- struct{}) (answer *rpc.CountedResponse, err error) {
	err = wire.Retry(ctx, func(retry id.Retry) (err error) {
		if retry > 0 {
			select {
			case again <- struct{}{}:
			default:
			}
		}
		answer, err = c.Servers[0].Counted(ctx, &rpc.CountedRequest{Id: identity.Of(c.Rank, round, retry)}, grpc.WaitForReady(false))
		return wire.FromStatus(serverName(0), err)
	})
	return answer, err
}

// countsIn reports whether a contribution counts in a round.
func countsIn(answer *rpc.CountedResponse, rank id.Rank, round id.Round) bool {
	return id.Round(answer.Round) == round+1 && slices.ContainsFunc(answer.Declared, func(d *rpc.Declared) bool { return id.Rank(d.Rank) == rank })
}

// lateIn is the error of a step that others have gone on without.
func lateIn(round id.Round) error {
	return fault.E(fault.Stale, fault.Gotf("a contribution to round %d, which others have trained", round), fault.Want("the round that is open"))
}

// await returns what the round is made of. A later round is an error: the trainer is late.
func (v *verdicts) await(ctx context.Context, c *Comm) (*rpc.CountedResponse, error) {
	what := fmt.Sprintf("what counts in round %d", c.round())
	since := time.Now()
	w := c.caller.begin(callTarget{serverName(0), what}, c.Deadline)
	defer w.end()
	ctx, cancel := context.WithDeadline(ctx, since.Add(c.Deadline))
	defer cancel()
	for decided := false; !decided; {
		select {
		case <-v.known:
			decided = true
		case <-v.again:
			if err := v.declare(ctx, c, true); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, waits.TimedOut(serverName(0), waits.Wait{What: what, Since: since, Limit: c.Deadline})
			}
			return nil, waits.GaveUp(ctx, serverName(0), waits.Wait{What: what})
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil && id.Round(v.answer.Round) != c.round()+1 {
		return nil, lateIn(c.round())
	}
	return v.answer, v.err
}

// computed says that nothing of the step is left to compute. From here on only the servers can end it.
func (v *verdicts) computed() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.computing = false
}

// barrier is SendBarrier where all servers have the contribution.
func (v *verdicts) barrier(ctx context.Context, c *Comm) error {
	if err := v.declare(ctx, c, false); err != nil {
		return err
	}
	if _, err := v.await(ctx, c); err != nil {
		return err
	}
	c.links.declare(ctx)
	return nil
}

// declare declares the step to server 0. A standby that has taken over lacks what its server was sent, so each try but the first looks who is the server now, and
// sends it what it does not have. again says that this is no first try. A server that has the declaration ignores it.
func (v *verdicts) declare(ctx context.Context, c *Comm, again bool) error {
	return c.call(ctx, 0, fmt.Sprintf("the declaration of round %d", c.round()), func(ctx context.Context, to rpc.ParameterServerClient, retry id.Retry) error {
		if l := c.links[0]; (again || retry > 0) && l.out.count > 0 {
			l.disconnect(fault.E(fault.Unavailable, fault.At(l.name), fault.Got("a call that has ended")))
			err := l.exchange(ctx, "taking the contribution", func(l *link) error {
				if l.acked {
					return nil
				}
				return syncStep{l}.awaitAck()
			})
			if err != nil {
				return err
			}
		}
		barrier := c.declaration(0)
		barrier.Id = c.identity.Of(c.Rank, c.round(), retry)
		_, err := to.SendBarrier(ctx, barrier, grpc.WaitForReady(false))
		return err
	})
}

// decided is what the round of the last step is made of; nil: that is not known.
func (v *verdicts) decided() *rpc.CountedResponse {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.answer
}

// counts reports whether the contribution of the step is known to count. Then the step is reported, also if the parameters after it have come too late.
func (v *verdicts) counts(c *Comm) bool {
	answer := v.decided()
	return v.on && answer != nil && countsIn(answer, c.Rank, c.round())
}

// settle makes a report of a step one of the rows that count. It returns false where the contribution of this trainer does not count, or nobody knows.
func (v *verdicts) settle(m *rpc.TrainerStep, rank id.Rank, round id.Round) bool {
	if !v.on {
		return true
	}
	answer := v.decided()
	if answer == nil || !countsIn(answer, rank, round) {
		return false
	}
	m.GlobalRows, m.Dropped = 0, answer.Dropped
	for _, d := range answer.Declared {
		m.GlobalRows += d.Rows
	}
	return true
}

// beginTogether is links.begin where versions do not wait for a trainer: it asks again until all servers have sent one version, from which the generation
// of the trainer begins.
func beginTogether(ctx context.Context, c *Comm) error {
	for {
		if err := c.links.begin(ctx); err != nil {
			return err
		}
		for _, l := range c.links {
			if l.expects() {
				c.first = max(c.first, l.has-1)
			}
		}
		behind := false
		for _, l := range c.links {
			if l.expects() && l.has != c.first+1 {
				behind, l.asked = true, false
			}
		}
		if !behind {
			return nil
		}
	}
}
