package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

// step tells the membership of an event and begins to carry out its effects. s.mu is held.
func (s *Server) step(e generation.Event) error {
	if s.ended || !s.ready {
		return nil
	}
	was := s.machine.Now()
	out := s.machine.Step(time.Now(), e)
	switch {
	case out.Refuse != nil:
		return out.Refuse
	case out.Fail != nil:
		s.finish(out.Fail)
		return nil
	case out.End:
		s.closeSteps(max(s.machine.Committed(), s.steps.steps))
		s.spawn(s.end)
		return nil
	}
	if out.Freeze > 0 || out.Persist != nil && !s.cfg.Sync {
		if s.change != nil {
			s.change()
		}
		s.changing, s.change = context.WithCancel(s.ctx)
	}
	ctx := s.changing
	if out.Freeze > 0 {
		s.cfg.Log.Info("generation ends", "generation", s.machine.Generation().Number)
		for i, server := range s.cfg.Servers {
			number := s.machine.Generation().Number
			s.spawn(func() { s.freeze(ctx, out.Freeze, number, i, server) })
		}
	}
	if n := out.Persist; n != nil {
		s.spawn(func() { s.persist(ctx, n) })
	}
	if n := out.Resume; n != nil {
		for i, server := range s.cfg.Servers {
			s.spawn(func() { s.resume(ctx, n, i, server) })
		}
	}
	if n := out.Settle; n != nil {
		s.spawn(func() { s.settle(ctx, n) })
	}
	if out.Begun {
		g := s.machine.Generation()
		s.cfg.Log.Info("generation begins", "generation", g.Number, "members", len(g.Members), "round", g.Round)
		clear(s.members.drained)
		s.closeSteps(g.Round)
	}
	if out.Superseded || was != s.machine.Now() {
		s.broadcast()
	}
	return nil
}

// tell is step for those who do not hold s.mu.
func (s *Server) tell(e generation.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step(e)
}

// effect calls a server until it answers or the change is given up.
func (s *Server) effect(ctx context.Context, change uint64, who string, call func(attempt uint32) (generation.Event, error)) {
	var e generation.Event
	err := wire.Retry(ctx, func(attempt uint32) (err error) {
		e, err = call(attempt)
		err = wire.FromStatus(who, err)
		if errors.Is(err, fault.Canceled) && ctx.Err() == nil { // the end of that server's process: another takes its place
			err = fault.E(fault.Unavailable, fault.At(who), fault.Got("the end of this server"), fault.Want("the next one"), fault.Cause(err))
		}
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return // another change has begun, or the job has ended
	default:
		e = generation.Failed{Change: change, Err: err}
	}
	_ = s.tell(e)
}

// identity is that of a message about a generation.
func (s *Server) identity(number uint64, attempt uint32) *rpc.Identity {
	id := s.cfg.Identity
	id.Generation, id.Fence = number, s.lead.Fence
	return id.Of(0, 0, attempt)
}

func (s *Server) freeze(ctx context.Context, change, number uint64, i int, server rpc.ParameterServerClient) {
	s.effect(ctx, change, serverName(i), func(attempt uint32) (generation.Event, error) {
		answer, err := server.Freeze(ctx, &rpc.FreezeRequest{Id: s.identity(number, attempt)})
		return generation.Frozen{Change: change, Server: i, Answer: answer}, err
	})
}

func (s *Server) resume(ctx context.Context, n *generation.Next, i int, server rpc.ParameterServerClient) {
	m := &rpc.ResumeRequest{Round: n.Generation.Round, Commit: n.Generation.Commit}
	for _, member := range n.Generation.Members {
		m.Members = append(m.Members, &rpc.Member{Rank: member.Rank, Since: member.Since})
	}
	s.effect(ctx, n.Change, serverName(i), func(attempt uint32) (generation.Event, error) {
		_, err := server.Resume(ctx, &rpc.ResumeRequest{Id: s.identity(n.Generation.Number, attempt), Members: m.Members, Round: m.Round, Commit: m.Commit})
		return generation.Resumed{Change: n.Change, Server: i}, err
	})
}

func (s *Server) persist(ctx context.Context, n *generation.Next) {
	s.effect(ctx, n.Change, "etcd", func(uint32) (generation.Event, error) {
		err := s.transact(ctx, func(t *txn) error {
			if err := s.putLeft(t); err != nil {
				return err
			}
			return t.put(generationKey, entryOf(n.Generation))
		})
		return generation.Persisted{Change: n.Change}, err
	})
}

// settle ends what those have under way who are gone, and in sync mode begins the data anew where a task has failed.
func (s *Server) settle(ctx context.Context, n *generation.Next) {
	s.effect(ctx, n.Change, serverName(0), func(uint32) (generation.Event, error) {
		settle := s.recoverTasks
		if s.cfg.Sync {
			settle = s.beginSegment
		}
		err := settle(ctx, n.Generation)
		if err == nil {
			s.fetchHeld(ctx, n.Generation)
			err = s.transact(ctx, func(t *txn) error { return t.put(settledKey, &state.Settled{Generation: n.Generation.Number}) })
		}
		return generation.Settled{Change: n.Change}, err
	})
}

// end ends a job whose members have all left. Servers stay until they hear of it, because until then somebody may ask them how far they are. That the
// members have left is durable first, so that another coordinator asks nobody.
func (s *Server) end() {
	err := wire.Retry(s.ctx, func(uint32) error { return s.transact(s.ctx, s.putLeft) })
	if err != nil {
		s.Fail(err)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.RejoinDeadline)
	defer cancel()
	s.mu.Lock()
	number := s.machine.Generation().Number + 1
	s.mu.Unlock()
	var told []int
	w := &waiting{who: "coordinator", what: "the servers to hear of the end", since: time.Now(), by: func() (names []string) {
		for i := range s.cfg.Servers {
			if !slices.Contains(told, i) {
				names = append(names, serverName(i))
			}
		}
		return names
	}}
	s.locked(func() { s.waits[w] = true })
	var group sync.WaitGroup
	for i, server := range s.cfg.Servers {
		group.Go(func() {
			if err := s.dismiss(ctx, number, i, server); err != nil && s.ctx.Err() == nil {
				s.cfg.Log.Warn("a server has not heard of the end of the job", "server", i, "reason", err.Error())
			}
			s.locked(func() { told = append(told, i) })
		})
	}
	group.Wait()
	s.locked(func() { delete(s.waits, w); s.finish(nil) })
}

// locked changes what s.mu guards.
func (s *Server) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// putLeft makes durable who has left, where the servers have told it.
func (s *Server) putLeft(t *txn) error {
	s.mu.Lock()
	left := s.machine.State().Left
	s.mu.Unlock()
	for _, rank := range left {
		if err := t.put(leftKey+fmt.Sprint(rank), &state.Left{Rank: rank}); err != nil {
			return err
		}
	}
	return nil
}

// dismiss tells one server of a generation without members, unless it is gone.
func (s *Server) dismiss(ctx context.Context, number uint64, i int, server rpc.ParameterServerClient) error {
	return wire.Retry(ctx, func(attempt uint32) error {
		_, err := server.Resume(ctx, &rpc.ResumeRequest{Id: s.identity(number, attempt)}, grpc.WaitForReady(false))
		err = wire.FromStatus(serverName(i), err)
		if fault.KindOf(err) == fault.Unavailable && s.gone(ctx, cluster.Member{Role: job.Role_PSERVER, Index: i}) {
			return nil
		}
		return err
	})
}

// gone reports whether a member is known not to live.
func (s *Server) gone(ctx context.Context, m cluster.Member) bool {
	if s.cfg.Live == nil {
		return false
	}
	live, err := s.cfg.Live(ctx)
	_, lives := live[m]
	return err == nil && !lives
}
